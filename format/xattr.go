package format

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Xattr is one extended attribute with its value in the form that lies on the
// disk (kernel doc: ext4/dynamic, "Extended Attributes").
type Xattr struct {
	Index uint8  // namespace, XattrUser and so on
	Name  string // without the namespace's prefix, at most 255 bytes
	Value []byte // nil if the value lies in an inode of its own

	// ValueInum is the inode that holds the value (feature ea_inode), ValueSize
	// the value's bytes there. Both are 0 otherwise; they are not encoded.
	ValueInum Ino
	ValueSize uint32
}

// Namespaces: e_name_index.
const (
	XattrUser       = 1
	XattrACLAccess  = 2 // the name is empty
	XattrACLDefault = 3 // the name is empty
	XattrTrusted    = 4
	XattrLustre     = 5
	XattrSecurity   = 6
	XattrSystem     = 7 // "data" holds inline data
	XattrRichACL    = 8 // the name is empty
	XattrEncryption = 9
	XattrHurd       = 10
)

const (
	// XattrMagic is h_magic, at the start of an xattr block and of the area in an inode.
	XattrMagic = 0xEA020000
	// XattrHeaderSize is the size of the header of an xattr block, in bytes.
	XattrHeaderSize = 32
	// MaxXattrRefs is the largest number of inodes that share one block.
	MaxXattrRefs = 1024
	// MaxXattrName is the longest name without prefix, in bytes.
	MaxXattrName = 255
	// MaxXattrValueSize is the largest value that Linux takes, in bytes.
	MaxXattrValueSize = 65536
)

const (
	xattrEntryLen    = 16 // without the name
	xattrInodeHeader = 4  // the magic
	xattrEndLen      = 4  // four zero bytes after the last entry
	xattrPad         = 4  // names and values begin at multiples of it
)

// struct ext4_xattr_header
const (
	xhMagic    le32 = 0x00
	xhRefcount le32 = 0x04
	xhBlocks   le32 = 0x08
	xhHash     le32 = 0x0C
	xhChecksum le32 = 0x10
)

// struct ext4_xattr_entry
const (
	xeNameLen   u8   = 0x0
	xeNameIndex u8   = 0x1
	xeValueOffs le16 = 0x2 // from the first entry (inode) or from the block's start
	xeValueInum le32 = 0x4
	xeValueSize le32 = 0x8
	xeHash      le32 = 0xC
)

// xattrPrefixes holds what stands before the name in a namespace. A prefix
// without a dot at its end is the whole name.
var xattrPrefixes = [...]string{
	XattrUser:       "user.",
	XattrACLAccess:  "system.posix_acl_access",
	XattrACLDefault: "system.posix_acl_default",
	XattrTrusted:    "trusted.",
	XattrLustre:     "lustre.",
	XattrSecurity:   "security.",
	XattrSystem:     "system.",
	XattrRichACL:    "system.richacl",
	XattrEncryption: "encryption.",
	XattrHurd:       "gnu.",
}

// xattrSearch is the order in which prefixes are tried: the whole names
// before "system.". Lustre and encryption are no namespaces that a user can
// name.
var xattrSearch = [...]uint8{
	XattrACLAccess, XattrACLDefault, XattrRichACL,
	XattrUser, XattrSecurity, XattrTrusted, XattrSystem, XattrHurd,
}

// SplitXattrName returns namespace and short name of a name such as
// "user.mime_type". It is false for an unknown namespace, a name that is empty
// after its prefix or longer than 255 bytes, and one with a zero byte.
func SplitXattrName(full string) (index uint8, name string, ok bool) {
	for _, i := range xattrSearch {
		p := xattrPrefixes[i]
		rest, found := strings.CutPrefix(full, p)
		if !found || xattrWhole(p) != (rest == "") {
			continue
		}
		return i, rest, len(rest) <= MaxXattrName && strings.IndexByte(rest, 0) < 0
	}
	return 0, "", false
}

// xattrWhole reports whether a prefix is a whole name.
func xattrWhole(prefix string) bool { return !strings.HasSuffix(prefix, ".") }

// FullName returns the name with its prefix, as getfattr shows it. Namespaces
// that have no prefix in Linux are shown by their number.
func (x Xattr) FullName() string {
	if int(x.Index) < len(xattrPrefixes) && x.Index > 0 {
		return xattrPrefixes[x.Index] + x.Name
	}
	return fmt.Sprintf("index%d.%s", x.Index, x.Name)
}

// CompareXattrs orders attributes as they lie in a block: by namespace, length
// of the name, name.
func CompareXattrs(a, b Xattr) int {
	return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
}

// XattrSize returns the bytes that x takes in a block or an inode: its entry
// and its value, each padded.
func XattrSize(x Xattr) int { return xattrEntrySize(len(x.Name)) + xattrPadded(len(x.Value)) }

// XattrEntrySize returns the bytes of an entry with a name of n bytes.
func xattrEntrySize(n int) int { return xattrPadded(xattrEntryLen + n) }

func xattrPadded(n int) int { return (n + xattrPad - 1) &^ (xattrPad - 1) }

// InodeXattrSpace returns the bytes for entries and values in an inode.
func InodeXattrSpace(inodeSize, extraIsize int) int {
	return max(0, inodeSize-GoodOldInodeSize-extraIsize-xattrInodeHeader-xattrEndLen)
}

// BlockXattrSpace returns the bytes for entries and values in a block.
func BlockXattrSpace(blockSize int) int { return blockSize - XattrHeaderSize - xattrEndLen }

// XattrEntryHash returns e_hash of an attribute in a block: over the bytes of
// the name, then over the value as little-endian words, the last one padded
// with zeros.
func XattrEntryHash(name string, value []byte) uint32 {
	return xattrValueHash(xattrNameHash(name), value)
}

// XattrEntryHashSigned is XattrEntryHash with bytes of the name above 127
// taken as negative, as kernels for x86 wrote it for years.
func XattrEntryHashSigned(name string, value []byte) uint32 {
	var h uint32
	for i := range len(name) {
		h = h<<5 ^ h>>27 ^ uint32(int32(int8(name[i])))
	}
	return xattrValueHash(h, value)
}

func xattrNameHash(name string) uint32 {
	var h uint32
	for i := range len(name) {
		h = h<<5 ^ h>>27 ^ uint32(name[i])
	}
	return h
}

func xattrValueHash(h uint32, value []byte) uint32 {
	for len(value) >= 4 {
		h = h<<16 ^ h>>16 ^ le32(0).get(value)
		value = value[4:]
	}
	if len(value) > 0 {
		var last [4]byte
		copy(last[:], value)
		h = h<<16 ^ h>>16 ^ le32(0).get(last[:])
	}
	return h
}

// XattrBlock is a view over a block of extended attributes.
type XattrBlock []byte

// Refcount is the number of inodes that share the block.
func (b XattrBlock) Refcount() uint32 { return xhRefcount.get(b) }

// SetRefcount sets the number of inodes that share the block.
func (b XattrBlock) SetRefcount(n uint32) { xhRefcount.put(b, n) }

// Hash is h_hash, the fold of the entries' hashes; 0: not to be shared.
func (b XattrBlock) Hash() uint32 { return xhHash.get(b) }

// Checksum is h_checksum, see Checksums.SealXattrBlock.
func (b XattrBlock) Checksum() uint32 { return xhChecksum.get(b) }

// SetChecksum sets h_checksum.
func (b XattrBlock) SetChecksum(c uint32) { xhChecksum.put(b, c) }

// xattrArea is where entries and values lie: a block or the end of an inode.
type xattrArea struct {
	name  string // for messages
	b     []byte
	first int // offset of the first entry in b
	base  int // offset in b that e_value_offs counts from
	hash  bool
}

func xattrBlockArea(b []byte) xattrArea {
	return xattrArea{name: "xattr block", b: b, first: XattrHeaderSize, hash: true}
}

func xattrInodeArea(b []byte) xattrArea {
	return xattrArea{name: "inode xattrs", b: b, first: xattrInodeHeader, base: xattrInodeHeader}
}

// EncodeInodeXattrs writes attrs, sorted, to dst: the bytes of an inode from
// 128+i_extra_isize to its end. Without attributes dst is zeros and holds no
// magic. Hashes are 0, as Linux leaves them there. The error says by how much
// the space is too small.
func EncodeInodeXattrs(dst []byte, attrs []Xattr) error {
	clear(dst)
	if len(attrs) == 0 {
		return nil
	}
	if len(dst) < xattrInodeHeader+xattrEndLen {
		return fmt.Errorf("%d bytes at the end of the inode: no room for extended attributes", len(dst))
	}
	xhMagic.put(dst, XattrMagic)
	_, err := xattrInodeArea(dst).encode(attrs)
	return err
}

// EncodeXattrBlock writes attrs, sorted, and a header with refcount to block.
// The checksum is left 0: see Checksums.SealXattrBlock. The error says by how
// much the block is too small.
func EncodeXattrBlock(block []byte, attrs []Xattr, refcount uint32) error {
	clear(block)
	xhMagic.put(block, XattrMagic)
	xhRefcount.put(block, refcount)
	xhBlocks.put(block, 1)
	hash, err := xattrBlockArea(block).encode(attrs)
	xhHash.put(block, hash)
	return err
}

// encode writes entries upwards and values downwards, both in the order of
// the block, and returns the fold of the hashes. The area holds zeros.
func (a xattrArea) encode(attrs []Xattr) (hash uint32, err error) {
	if !slices.IsSortedFunc(attrs, CompareXattrs) {
		attrs = slices.SortedFunc(slices.Values(attrs), CompareXattrs)
	}
	if err := a.fits(attrs); err != nil {
		return 0, err
	}
	off, end := a.first, len(a.b)
	var fold xattrFold
	for _, x := range attrs {
		e := a.b[off:]
		off += xattrEntrySize(len(x.Name))
		xeNameLen.put(e, uint8(len(x.Name)))
		xeNameIndex.put(e, x.Index)
		copy(e[xattrEntryLen:], x.Name)
		if len(x.Value) > 0 {
			end -= xattrPadded(len(x.Value))
			copy(a.b[end:], x.Value)
			xeValueOffs.put(e, uint16(end-a.base))
			xeValueSize.put(e, uint32(len(x.Value)))
		}
		if a.hash {
			h := XattrEntryHash(x.Name, x.Value)
			xeHash.put(e, h)
			fold.add(h)
		}
	}
	return fold.sum(), nil
}

func (a xattrArea) fits(attrs []Xattr) error {
	room := len(a.b) - a.first - xattrEndLen
	need := 0
	for _, x := range attrs {
		if len(x.Name) > MaxXattrName {
			return fmt.Errorf("extended attribute %.40s...: name of %d bytes, want at most %d", x.FullName(), len(x.Name), MaxXattrName)
		}
		need += XattrSize(x)
		if need > room {
			return fmt.Errorf("%s: no room for extended attribute %s (%d bytes): %d bytes of %d needed", a.name, x.FullName(), len(x.Value), need, room)
		}
	}
	return nil
}

// xattrFold computes h_hash: 0 if any entry's hash is 0.
type xattrFold struct {
	hash uint32
	zero bool
}

func (f *xattrFold) add(h uint32) {
	f.hash = f.hash<<16 ^ f.hash>>16 ^ h
	f.zero = f.zero || h == 0
}

func (f *xattrFold) sum() uint32 {
	if f.zero {
		return 0
	}
	return f.hash
}
