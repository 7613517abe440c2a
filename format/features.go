package format

import (
	"fmt"
	"math/bits"
	"strings"
)

// Compat is s_feature_compat: a system that does not know a bit may still read
// and write (but must not repair).
type Compat uint32

// Incompat is s_feature_incompat: a system that does not know a bit must refuse.
type Incompat uint32

// ROCompat is s_feature_ro_compat: a system that does not know a bit may only read.
type ROCompat uint32

// Compatible features. Source: kernel doc: ext4/super.rst.
const (
	CompatDirPrealloc   Compat = 0x1
	CompatImagicInodes  Compat = 0x2
	CompatHasJournal    Compat = 0x4
	CompatExtAttr       Compat = 0x8
	CompatResizeInode   Compat = 0x10
	CompatDirIndex      Compat = 0x20
	CompatLazyBG        Compat = 0x40
	CompatExcludeInode  Compat = 0x80
	CompatExcludeBitmap Compat = 0x100
	CompatSparseSuper2  Compat = 0x200
	CompatFastCommit    Compat = 0x400
	CompatStableInodes  Compat = 0x800
	CompatOrphanFile    Compat = 0x1000
)

// Incompatible features. Source: kernel doc: ext4/super.rst.
const (
	IncompatCompression Incompat = 0x1
	IncompatFiletype    Incompat = 0x2
	IncompatRecover     Incompat = 0x4
	IncompatJournalDev  Incompat = 0x8
	IncompatMetaBg      Incompat = 0x10
	IncompatExtents     Incompat = 0x40
	Incompat64Bit       Incompat = 0x80
	IncompatMMP         Incompat = 0x100
	IncompatFlexBg      Incompat = 0x200
	IncompatEAInode     Incompat = 0x400
	IncompatDirData     Incompat = 0x1000
	IncompatCsumSeed    Incompat = 0x2000
	IncompatLargeDir    Incompat = 0x4000
	IncompatInlineData  Incompat = 0x8000
	IncompatEncrypt     Incompat = 0x10000
	IncompatCasefold    Incompat = 0x20000
)

// Read-only compatible features. Source: kernel doc: ext4/super.rst.
const (
	ROCompatSparseSuper   ROCompat = 0x1
	ROCompatLargeFile     ROCompat = 0x2
	ROCompatBtreeDir      ROCompat = 0x4
	ROCompatHugeFile      ROCompat = 0x8
	ROCompatGDTCsum       ROCompat = 0x10 // uninit_bg
	ROCompatDirNlink      ROCompat = 0x20
	ROCompatExtraIsize    ROCompat = 0x40
	ROCompatHasSnapshot   ROCompat = 0x80
	ROCompatQuota         ROCompat = 0x100
	ROCompatBigalloc      ROCompat = 0x200
	ROCompatMetadataCsum  ROCompat = 0x400
	ROCompatReplica       ROCompat = 0x800
	ROCompatReadonly      ROCompat = 0x1000
	ROCompatProject       ROCompat = 0x2000
	ROCompatSharedBlocks  ROCompat = 0x4000
	ROCompatVerity        ROCompat = 0x8000
	ROCompatOrphanPresent ROCompat = 0x10000
)

// compatNames, incompatNames and roCompatNames hold the name of each bit, by
// bit number; "" is a bit without a meaning.
var (
	compatNames = [32]string{
		0: "dir_prealloc", 1: "imagic_inodes", 2: "has_journal", 3: "ext_attr", 4: "resize_inode",
		5: "dir_index", 6: "lazy_bg", 8: "snapshot_bitmap", 9: "sparse_super2", 10: "fast_commit",
		11: "stable_inodes", 12: "orphan_file",
	}
	incompatNames = [32]string{
		0: "compression", 1: "filetype", 2: "needs_recovery", 3: "journal_dev", 4: "meta_bg",
		6: "extent", 7: "64bit", 8: "mmp", 9: "flex_bg", 10: "ea_inode", 12: "dirdata",
		13: "metadata_csum_seed", 14: "large_dir", 15: "inline_data", 16: "encrypt", 17: "casefold",
	}
	roCompatNames = [32]string{
		0: "sparse_super", 1: "large_file", 3: "huge_file", 4: "uninit_bg", 5: "dir_nlink",
		6: "extra_isize", 7: "snapshot", 8: "quota", 9: "bigalloc", 10: "metadata_csum",
		11: "replica", 12: "read-only", 13: "project", 14: "shared_blocks", 15: "verity",
		16: "orphan_present",
	}
)

// featureAliases are second names that other tools take for a feature.
var featureAliases = map[string]string{
	"extents": "extent", "uninit_groups": "uninit_bg",
}

// Features is the set of all three kinds of feature bits. It is comparable.
type Features struct {
	Compat   Compat
	Incompat Incompat
	ROCompat ROCompat
}

// Has reports whether every bit of g is set in f.
func (f Features) Has(g Features) bool { return g.Without(f) == Features{} }

// HasCompat reports whether every bit of c is set.
func (f Features) HasCompat(c Compat) bool { return f.Compat&c == c }

// HasIncompat reports whether every bit of c is set.
func (f Features) HasIncompat(c Incompat) bool { return f.Incompat&c == c }

// HasROCompat reports whether every bit of c is set.
func (f Features) HasROCompat(c ROCompat) bool { return f.ROCompat&c == c }

// With is f with the bits of g set.
func (f Features) With(g Features) Features {
	return Features{f.Compat | g.Compat, f.Incompat | g.Incompat, f.ROCompat | g.ROCompat}
}

// Without is f with the bits of g cleared.
func (f Features) Without(g Features) Features {
	return Features{f.Compat &^ g.Compat, f.Incompat &^ g.Incompat, f.ROCompat &^ g.ROCompat}
}

// Common is the set of bits that f and g share.
func (f Features) Common(g Features) Features {
	return Features{f.Compat & g.Compat, f.Incompat & g.Incompat, f.ROCompat & g.ROCompat}
}

// Unknown is the set of bits of f that have no name here.
func (f Features) Unknown() Features {
	return f.Without(Features{
		Compat(namedBits(compatNames)), Incompat(namedBits(incompatNames)), ROCompat(namedBits(roCompatNames)),
	})
}

// namedBits is the mask of the bits that have a name.
func namedBits(names [32]string) (mask uint32) {
	for i, name := range names {
		if name != "" {
			mask |= 1 << i
		}
	}
	return mask
}

// Names lists the features in the order compat, incompat, ro_compat, each by
// bit, by the names of e2fsprogs. A bit without a name is FEATURE_C5,
// FEATURE_I17 or FEATURE_R20.
func (f Features) Names() []string {
	var list []string
	list = appendNames(list, uint32(f.Compat), compatNames, 'C')
	list = appendNames(list, uint32(f.Incompat), incompatNames, 'I')
	return appendNames(list, uint32(f.ROCompat), roCompatNames, 'R')
}

// appendNames appends the name of each bit that is set in mask.
func appendNames(list []string, mask uint32, names [32]string, kind byte) []string {
	for ; mask != 0; mask &= mask - 1 {
		bit := bits.TrailingZeros32(mask)
		name := names[bit]
		if name == "" {
			name = fmt.Sprintf("FEATURE_%c%d", kind, bit)
		}
		list = append(list, name)
	}
	return list
}

// String is the names with blanks between them.
func (f Features) String() string { return strings.Join(f.Names(), " ") }

// FeatureByName is the feature of that name, as Names gives it (FEATURE_I17
// too) or by an alias. The error says that there is no such name.
func FeatureByName(name string) (Features, error) {
	if alias, ok := featureAliases[name]; ok {
		name = alias
	}
	for bit := range 32 {
		for _, f := range [...]Features{{Compat: 1 << bit}, {Incompat: 1 << bit}, {ROCompat: 1 << bit}} {
			if f.Names()[0] == name {
				return f, nil
			}
		}
	}
	return Features{}, fmt.Errorf("unknown feature %q", name)
}

// Apply changes f by a list such as "+orphan_file,-resize_inode,^has_journal":
// a name alone or with + adds a feature, - or ^ removes it, "none" removes all
// so far. The error names the word that is not a feature; f is then unchanged.
func (f Features) Apply(spec string) (Features, error) {
	result := f
	for _, word := range strings.FieldsFunc(spec, func(r rune) bool { return r == ',' || r == ' ' }) {
		if word == "none" {
			result = Features{}
			continue
		}
		name := strings.TrimLeft(word, "+-^")
		bit, err := FeatureByName(name)
		if err != nil || len(word)-len(name) > 1 {
			return f, fmt.Errorf("feature list %q: unknown feature %q", spec, word)
		}
		if word[0] == '-' || word[0] == '^' {
			result = result.Without(bit)
		} else {
			result = result.With(bit)
		}
	}
	return result, nil
}
