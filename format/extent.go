package format

import "fmt"

// Extent is a run of file blocks that lie together on the disk (kernel doc:
// ext4/dynamic, "Extent Tree", struct ext4_extent).
type Extent struct {
	LBlock    LBlock // first file block
	Len       uint32 // blocks, 1 to MaxExtentLen (MaxUnwrittenLen if unwritten)
	Start     Block  // first block on the disk, 48 bits; 0 in a hole
	Unwritten bool   // allocated, but reads as zeros
}

// End returns the first file block after the extent; it does not wrap at 2^32.
func (e Extent) End() uint64 { return uint64(e.LBlock) + uint64(e.Len) }

// ExtentIndex leads from an interior node to a child, whose first file block
// is LBlock (struct ext4_extent_idx).
type ExtentIndex struct {
	LBlock LBlock
	Child  Block // 48 bits
}

// ExtentHeader is the head of every node (struct ext4_extent_header).
type ExtentHeader struct {
	Entries    uint16 // used entries
	Max        uint16 // entries that the node has room for
	Depth      uint16 // levels below this node; 0: the entries are extents
	Generation uint32 // unused by Linux
}

const (
	// ExtentMagic is eh_magic.
	ExtentMagic = 0xF30A
	// ExtentRootMax is the number of entries in the root, the 60 bytes of i_block.
	ExtentRootMax = 4
	// MaxExtentLen is the longest written extent, in blocks.
	MaxExtentLen = 32768
	// MaxUnwrittenLen is the longest unwritten extent, in blocks.
	MaxUnwrittenLen = 32767
	// MaxExtentDepth is the largest depth of a root.
	MaxExtentDepth = 5
	// MaxLBlock is one past the last file block that can be mapped.
	MaxLBlock = 1<<32 - 1
)

const (
	extentHeaderLen = 12
	extentEntryLen  = 12
	extentTailLen   = 4
)

// struct ext4_extent_header
const (
	ehMagic      le16 = 0x0
	ehEntries    le16 = 0x2
	ehMax        le16 = 0x4
	ehDepth      le16 = 0x6
	ehGeneration le32 = 0x8
)

// struct ext4_extent
const (
	eeBlock   le32 = 0x0
	eeLen     le16 = 0x4 // above MaxExtentLen: unwritten, length + MaxExtentLen
	eeStartHi le16 = 0x6
	eeStartLo le32 = 0x8
)

// struct ext4_extent_idx
const (
	eiBlock  le32 = 0x0
	eiLeafLo le32 = 0x4
	eiLeafHi le16 = 0x8
	eiUnused le16 = 0xA
)

// ExtentBlockMax returns the entries that a node of one block has room for.
// The remainder holds the 4-byte checksum at every block size.
func ExtentBlockMax(blockSize int) int {
	return (blockSize - extentHeaderLen) / extentEntryLen
}

// ExtentTailOffset returns where in a node of max entries the checksum lies:
// right after the last entry, which is not always the end of the block.
func ExtentTailOffset(max int) int { return extentHeaderLen + max*extentEntryLen }

// ReadExtentHeader returns the head of a node. The error says that b holds no
// node; CheckExtentNode does the full check.
func ReadExtentHeader(b []byte) (ExtentHeader, error) { return readExtentHeader(b, 0) }

// readExtentHeader is ReadExtentHeader of the node in block at.
func readExtentHeader(b []byte, at Block) (ExtentHeader, error) {
	if len(b) < extentHeaderLen {
		return ExtentHeader{}, extentDamage(at, 0, "%d bytes, want at least %d", len(b), extentHeaderLen)
	}
	if m := ehMagic.get(b); m != ExtentMagic {
		return ExtentHeader{}, extentDamage(at, int(ehMagic), "magic %#x, want %#x", m, ExtentMagic)
	}
	return ExtentHeader{
		Entries: ehEntries.get(b), Max: ehMax.get(b),
		Depth: ehDepth.get(b), Generation: ehGeneration.get(b),
	}, nil
}

// PutExtentHeader writes h and the magic to the first 12 bytes of b.
func PutExtentHeader(b []byte, h ExtentHeader) {
	ehMagic.put(b, ExtentMagic)
	ehEntries.put(b, h.Entries)
	ehMax.put(b, h.Max)
	ehDepth.put(b, h.Depth)
	ehGeneration.put(b, h.Generation)
}

// extentEntry returns the 12 bytes of entry i.
func extentEntry(node []byte, i int) []byte {
	off := extentHeaderLen + i*extentEntryLen
	return node[off : off+extentEntryLen : off+extentEntryLen]
}

// GetExtent returns entry i of a leaf. The entry must lie in the node.
func GetExtent(node []byte, i int) Extent {
	e := extentEntry(node, i)
	x := Extent{
		LBlock: LBlock(eeBlock.get(e)),
		Len:    uint32(eeLen.get(e)),
		Start:  Block(eeStartHi.get(e))<<32 | Block(eeStartLo.get(e)),
	}
	if x.Len > MaxExtentLen {
		x.Len -= MaxExtentLen
		x.Unwritten = true
	}
	return x
}

// PutExtent writes x as entry i of a leaf; x.Len must be in range.
func PutExtent(node []byte, i int, x Extent) {
	e := extentEntry(node, i)
	n := x.Len
	if x.Unwritten {
		n += MaxExtentLen
	}
	eeBlock.put(e, uint32(x.LBlock))
	eeLen.put(e, uint16(n))
	eeStartHi.put(e, uint16(x.Start>>32))
	eeStartLo.put(e, uint32(x.Start))
}

// GetExtentIndex returns entry i of an interior node. The entry must lie in
// the node.
func GetExtentIndex(node []byte, i int) ExtentIndex {
	e := extentEntry(node, i)
	return ExtentIndex{
		LBlock: LBlock(eiBlock.get(e)),
		Child:  Block(eiLeafHi.get(e))<<32 | Block(eiLeafLo.get(e)),
	}
}

// PutExtentIndex writes x as entry i of an interior node.
func PutExtentIndex(node []byte, i int, x ExtentIndex) {
	e := extentEntry(node, i)
	eiBlock.put(e, uint32(x.LBlock))
	eiLeafLo.put(e, uint32(x.Child))
	eiLeafHi.put(e, uint16(x.Child>>32))
	eiUnused.put(e, 0)
}

// ExtentBounds is what is known of a node before it is read.
type ExtentBounds struct {
	Block Block  // where the node lies, for messages; 0: the root in the inode
	Depth int    // the depth it must have; -1: any up to MaxExtentDepth
	First LBlock // where its first entry must begin, unless it is the root
	End   uint64 // its entries end at or before this file block
	Min   Block  // the first block of the file system that an entry may name
	Max   Block  // one past the last
}

// RootBounds returns the bounds of a root in a file system whose usable blocks
// are min to max-1.
func RootBounds(min, max Block) ExtentBounds {
	return ExtentBounds{Depth: -1, End: MaxLBlock, Min: min, Max: max}
}

// Child returns the bounds of the node below entry i of node, which has depth
// bd.Depth and passed CheckExtentNode.
func (bd ExtentBounds) Child(node []byte, h ExtentHeader, i int) ExtentBounds {
	x := GetExtentIndex(node, i)
	c := ExtentBounds{Block: x.Child, Depth: int(h.Depth) - 1, First: x.LBlock, End: bd.End, Min: bd.Min, Max: bd.Max}
	if i+1 < int(h.Entries) {
		c.End = uint64(GetExtentIndex(node, i+1).LBlock)
	}
	return c
}

// CheckExtentNode checks a node (60 bytes of i_block or one block) against
// bd and against itself: magic, depth, counts, order, no overlap, lengths, and
// every block number. Depth falls by one from parent to child, so that a walk
// that checks each node ends. The checksum is not looked at.
func CheckExtentNode(node []byte, bd ExtentBounds) error {
	h, err := readExtentHeader(node, bd.Block)
	if err != nil {
		return err
	}
	if err := checkExtentHeader(node, h, bd); err != nil {
		return err
	}
	if h.Depth == 0 {
		return checkExtentLeaf(node, h, bd)
	}
	return checkExtentIndex(node, h, bd)
}

func checkExtentHeader(node []byte, h ExtentHeader, bd ExtentBounds) error {
	room := ExtentBlockMax(len(node))
	switch {
	case h.Depth > MaxExtentDepth:
		return extentDamage(bd.Block, int(ehDepth), "depth %d, want at most %d", h.Depth, MaxExtentDepth)
	case bd.Depth >= 0 && int(h.Depth) != bd.Depth:
		return extentDamage(bd.Block, int(ehDepth), "depth %d, want %d", h.Depth, bd.Depth)
	case h.Max == 0 || int(h.Max) > room:
		return extentDamage(bd.Block, int(ehMax), "room for %d entries, want 1 to %d", h.Max, room)
	case h.Entries > h.Max:
		return extentDamage(bd.Block, int(ehEntries), "%d entries, room for %d", h.Entries, h.Max)
	case h.Entries == 0 && h.Depth > 0:
		return extentDamage(bd.Block, int(ehEntries), "no entries at depth %d", h.Depth)
	}
	return nil
}

func checkExtentLeaf(node []byte, h ExtentHeader, bd ExtentBounds) error {
	next := uint64(bd.First)
	for i := range int(h.Entries) {
		x := GetExtent(node, i)
		off := extentHeaderLen + i*extentEntryLen
		switch {
		case i == 0 && bd.Block != 0 && x.LBlock != bd.First:
			return extentDamage(bd.Block, off, "first file block %d, its index says %d", x.LBlock, bd.First)
		case uint64(x.LBlock) < next:
			return extentDamage(bd.Block, off, "file block %d, want at least %d", x.LBlock, next)
		case x.Len == 0:
			return extentDamage(bd.Block, off+int(eeLen), "length 0")
		case x.End() > bd.End:
			return extentDamage(bd.Block, off+int(eeLen), "file blocks %d to %d, want below %d", x.LBlock, x.End()-1, bd.End)
		case x.Start < bd.Min || x.Start >= bd.Max || Block(x.Len) > bd.Max-x.Start:
			return extentDamage(bd.Block, off+int(eeStartHi), "blocks %d+%d, want %d to %d", x.Start, x.Len, bd.Min, bd.Max-1)
		}
		next = x.End()
	}
	return nil
}

func checkExtentIndex(node []byte, h ExtentHeader, bd ExtentBounds) error {
	next := uint64(bd.First)
	for i := range int(h.Entries) {
		x := GetExtentIndex(node, i)
		off := extentHeaderLen + i*extentEntryLen
		switch {
		case i == 0 && bd.Block != 0 && x.LBlock != bd.First:
			return extentDamage(bd.Block, off, "first file block %d, its index says %d", x.LBlock, bd.First)
		case uint64(x.LBlock) < next:
			return extentDamage(bd.Block, off, "file block %d, want at least %d", x.LBlock, next)
		case uint64(x.LBlock) >= bd.End:
			return extentDamage(bd.Block, off, "file block %d, want below %d", x.LBlock, bd.End)
		case x.Child < bd.Min || x.Child >= bd.Max:
			return extentDamage(bd.Block, off+int(eiLeafLo), "child %d, want %d to %d", x.Child, bd.Min, bd.Max-1)
		}
		next = uint64(x.LBlock) + 1
	}
	return nil
}

// extentDamage makes the error of a damaged node in block b (0: the inode).
func extentDamage(b Block, off int, detail string, args ...any) error {
	s := "extent node"
	if b == 0 {
		s = "extent root"
	}
	return &DamagedError{Structure: s, Block: b, Offset: off, Detail: fmt.Sprintf(detail, args...)}
}
