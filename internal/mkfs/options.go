package mkfs

import (
	"fmt"

	"drydock/format"
)

// Limits that mke2fs keeps and e2fsck checks.
const (
	defaultBlockSize  = 4096
	defaultInodeSize  = 256
	extraIsize        = 32 // up to and including i_projid
	maxGroupBlocks    = 1<<16 - 8
	minJournalBlocks  = 1024
	maxJournalBlocks  = 10_240_000
	defaultFlexLog    = 4
	defaultInodeRatio = 16384      // bytes for each inode
	bigInodeRatio     = 32768      // from 4 TiB
	hugeInodeRatio    = 65536      // from 16 TiB
	growthFactor      = 1024       // reserved descriptors allow for this growth
	maxGrowthBlocks   = 1<<32 - 1  // and at most to this size
	maxLinks          = 65000      // EXT4_LINK_MAX
	lostFoundBytes    = 16384      // lost+found is at least this large
	maxTarget         = 4095       // bytes of a symlink target
	fastTarget        = 60         // shorter targets lie in the inode
	noJournalBelow    = 2048       // blocks
	maxOrphanBlocks   = 32         // blocks of the orphan file
	orphanRatio       = 4096       // file system blocks for each orphan file block
	hashSigned        = 1          // s_flags
	maxMountCountNone = 0xFFFF     // never forced by mount count
	mountOptXattrACL  = 0x4 | 0x8  // user_xattr, acl
	errorsContinue    = 1          // s_errors
	maxReserved       = 50         // percent
	maxFreePercent    = 99         // percent
	maxBlocks32       = 1<<32 - 1  // blocks without 64bit
	maxInodes         = 1<<32 - 16 // inodes of a file system
)

// Options says what kind of file system to make. The zero value is the
// default profile at its smallest size.
type Options struct {
	BlockSize int             // bytes, 1024 to 65536; 0: 4096
	InodeSize int             // bytes, 128 to the block size; 0: 256
	Features  format.Features // zero: DefaultFeatures

	Blocks      uint64  // size in blocks; 0: the smallest that holds the content and what is to stay free
	FreeBlocks  uint64  // blocks to stay free
	FreePercent float64 // or so much of the whole
	FreeInodes  uint64  // inodes to stay free
	Inodes      uint64  // total inodes; 0: as many as are needed, or the usual ratio where Blocks is given

	JournalBlocks uint32  // 0: the usual size for the size of the file system
	NoJournal     bool    // drops has_journal
	Reserved      float64 // percent of the blocks kept for root

	Label    string // at most 16 bytes
	HashSeed [16]byte
	Time     format.Time // creation time of the file system and what mkfs adds to it

	NoLostFound bool
}

// DefaultFeatures is the default profile (DESIGN.md section 1).
func DefaultFeatures() format.Features {
	return format.Features{
		Compat: format.CompatHasJournal | format.CompatExtAttr | format.CompatResizeInode | format.CompatDirIndex,
		Incompat: format.IncompatFiletype | format.IncompatExtents | format.Incompat64Bit |
			format.IncompatFlexBg,
		ROCompat: format.ROCompatSparseSuper | format.ROCompatLargeFile | format.ROCompatHugeFile |
			format.ROCompatDirNlink | format.ROCompatExtraIsize | format.ROCompatMetadataCsum,
	}
}

// writable is every feature that a new file system may have.
func writable() format.Features {
	f := DefaultFeatures()
	f.Compat |= format.CompatSparseSuper2 | format.CompatOrphanFile
	f.Incompat |= format.IncompatMetaBg | format.IncompatCsumSeed | format.IncompatLargeDir
	f.ROCompat |= format.ROCompatGDTCsum
	return f
}

// required is what every new file system has: files are mapped by extents and
// entries carry their type.
func required() format.Features {
	return format.Features{Incompat: format.IncompatExtents | format.IncompatFiletype}
}

// Profiles lists the named feature sets, the default one first.
func Profiles() []string { return []string{"default", "compat", "minimal", "modern", "meta_bg"} }

// Profile returns a named feature set: default; compat, which old kernels,
// boot loaders and e2fsprogs 1.42 read (no 64bit, uninit_bg in place of
// metadata_csum); minimal, which leaves out all that a read-only or throw-away
// image can do without (no journal, no room to grow); modern, which adds
// metadata_csum_seed and orphan_file (Linux 5.15, e2fsprogs 1.47); meta_bg,
// which grows without reserved descriptors.
func Profile(name string) (format.Features, error) {
	f := DefaultFeatures()
	switch name {
	case "", "default":
	case "compat":
		f.Incompat &^= format.Incompat64Bit
		f.ROCompat = f.ROCompat&^format.ROCompatMetadataCsum | format.ROCompatGDTCsum
	case "minimal":
		f.Compat &^= format.CompatHasJournal | format.CompatResizeInode
	case "modern":
		f.Compat |= format.CompatOrphanFile
		f.Incompat |= format.IncompatCsumSeed
	case "meta_bg":
		f.Compat &^= format.CompatResizeInode
		f.Incompat |= format.IncompatMetaBg
	default:
		return f, fmt.Errorf("profile %q: want one of %v", name, Profiles())
	}
	return f, nil
}

// Check reports the first value that is out of range.
func (o Options) Check() error {
	_, err := o.normal()
	return err
}

// normal fills in the defaults and checks every value.
func (o Options) normal() (Options, error) {
	if o.BlockSize == 0 {
		o.BlockSize = defaultBlockSize
	}
	if o.InodeSize == 0 {
		o.InodeSize = min(defaultInodeSize, o.BlockSize)
	}
	if o.Features == (format.Features{}) {
		o.Features = DefaultFeatures()
	}
	if o.NoJournal {
		o.Features.Compat &^= format.CompatHasJournal
	}
	for _, check := range []func(Options) error{checkSizes, checkFeatures, checkAmounts} {
		if err := check(o); err != nil {
			return o, err
		}
	}
	return o, nil
}

func checkSizes(o Options) error {
	if !powerOfTwo(o.BlockSize) || o.BlockSize < 1024 || o.BlockSize > 65536 {
		return fmt.Errorf("block size %d: want a power of two from 1024 to 65536", o.BlockSize)
	}
	if !powerOfTwo(o.InodeSize) || o.InodeSize < 128 || o.InodeSize > o.BlockSize {
		return fmt.Errorf("inode size %d: want a power of two from 128 to the block size %d", o.InodeSize, o.BlockSize)
	}
	if len(o.Label) > 16 {
		return fmt.Errorf("label %q: has %d bytes, at most 16 fit", o.Label, len(o.Label))
	}
	if o.Blocks > 1<<48 {
		return fmt.Errorf("size of %d blocks: ext4 has at most %d", o.Blocks, uint64(1)<<48)
	}
	if o.Blocks > maxBlocks32 && !o.Features.Has(format.Features{Incompat: format.Incompat64Bit}) {
		return fmt.Errorf("size of %d blocks: at most %d without the feature 64bit", o.Blocks, uint64(maxBlocks32))
	}
	return nil
}

func checkFeatures(o Options) error {
	f := o.Features
	if extra := f.Without(writable()); extra != (format.Features{}) {
		return fmt.Errorf("feature %v: new file systems cannot have it: %w", extra.Names(), format.ErrUnsupported)
	}
	if missing := required().Without(f); missing != (format.Features{}) {
		return fmt.Errorf("feature %v: new file systems cannot do without it: %w", missing.Names(), format.ErrUnsupported)
	}
	return checkFeaturePairs(o)
}

// checkFeaturePairs refuses features that exclude or need each other.
func checkFeaturePairs(o Options) error {
	f := o.Features
	switch {
	case f.Incompat&format.IncompatMetaBg != 0 && f.Compat&format.CompatResizeInode != 0:
		return fmt.Errorf("features meta_bg and resize_inode exclude each other")
	case f.ROCompat&format.ROCompatMetadataCsum != 0 && f.ROCompat&format.ROCompatGDTCsum != 0:
		return fmt.Errorf("features metadata_csum and uninit_bg exclude each other")
	case f.Incompat&format.IncompatCsumSeed != 0 && f.ROCompat&format.ROCompatMetadataCsum == 0:
		return fmt.Errorf("feature metadata_csum_seed needs metadata_csum")
	case f.Compat&format.CompatResizeInode != 0 && f.ROCompat&format.ROCompatSparseSuper == 0 && f.Compat&format.CompatSparseSuper2 == 0:
		return fmt.Errorf("feature resize_inode needs sparse_super")
	case f.Compat&format.CompatSparseSuper2 != 0 && f.Compat&format.CompatResizeInode != 0:
		return fmt.Errorf("features sparse_super2 and resize_inode exclude each other")
	case f.ROCompat&format.ROCompatExtraIsize != 0 && o.InodeSize == format.GoodOldInodeSize:
		return fmt.Errorf("feature extra_isize needs inodes of at least 256 bytes")
	case f.Compat&format.CompatOrphanFile != 0 && f.Compat&format.CompatHasJournal == 0:
		return fmt.Errorf("feature orphan_file needs has_journal")
	}
	return nil
}

func checkAmounts(o Options) error {
	j := o.JournalBlocks
	switch {
	case j != 0 && o.Features.Compat&format.CompatHasJournal == 0:
		return fmt.Errorf("journal of %d blocks: the feature has_journal is off", j)
	case j != 0 && (j < minJournalBlocks || j > maxJournalBlocks):
		return fmt.Errorf("journal of %d blocks: want %d to %d", j, minJournalBlocks, maxJournalBlocks)
	case !(o.Reserved >= 0 && o.Reserved <= maxReserved):
		return fmt.Errorf("reserved blocks %g%%: want 0 to %d", o.Reserved, maxReserved)
	case !(o.FreePercent >= 0 && o.FreePercent <= maxFreePercent):
		return fmt.Errorf("free space %g%%: want 0 to %d", o.FreePercent, maxFreePercent)
	case o.FreeBlocks > 1<<48:
		return fmt.Errorf("free space of %d blocks: ext4 has at most %d", o.FreeBlocks, uint64(1)<<48)
	case o.FreeInodes > maxInodes || o.Inodes > maxInodes:
		return fmt.Errorf("%d inodes: ext4 has at most %d", max(o.FreeInodes, o.Inodes), uint64(maxInodes))
	}
	return nil
}

func powerOfTwo(n int) bool { return n > 0 && n&(n-1) == 0 }
