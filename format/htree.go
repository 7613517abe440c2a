package format

import (
	"fmt"
	"sort"
)

// An htree is an index of a directory by the hash of the names. Its root is
// logical block 0, its nodes are further blocks of the directory, and both look
// like directory blocks to software that does not know it: the root as "." and
// a ".." that spans the block, a node as one unused entry. Leaves are plain
// directory blocks.
//
// Source: kernel doc ext4/directory, "Hash Tree Directories".
const (
	dxRootDotDot       = 0x0C // the entry of ".."
	dxRootZero    le32 = 0x18
	dxRootVersion u8   = 0x1C // 0-2, or 6
	dxRootInfoLen u8   = 0x1D // of the information from dxRootZero on: 8
	dxRootLevels  u8   = 0x1E // of nodes between root and leaves
	dxRootFlags   u8   = 0x1F

	// DxRootTable and DxNodeTable are where the index table begins in a root and a node, in bytes.
	DxRootTable = 0x20
	DxNodeTable = 0x08

	dxInfoLen  = 8 // bytes
	dxTailSize = 8 // bytes: le32 zero, le32 checksum
	dotRecLen  = 12

	// An entry of an index table.
	dxEntrySize      = 8   // bytes
	dxHash      le32 = 0x0 // not in the table's first entry, which has here:
	dxLimit     le16 = 0x0 // entries that the table has room for
	dxCount     le16 = 0x2 // entries in use
	dxBlock     le32 = 0x4

	// DxBlockMask are the bits of an index entry's block number; the others are reserved.
	DxBlockMask LBlock = 1<<28 - 1

	// MaxDxLevels is the highest number of levels of nodes between root and leaves: 1, with large_dir 2.
	MaxDxLevels      = 1
	MaxDxLevelsLarge = 2
)

// DxRoot is logical block 0 of an indexed directory.
type DxRoot []byte

// DxNode is a block between the root and the leaves of an htree.
type DxNode []byte

// DxEntries is the table of an htree block, from its first entry to the end of
// the block. Its methods trust Count and Limit: CheckDxRoot or CheckDxNode
// comes first for what was read from a disk.
type DxEntries []byte

// DxRootLimit returns how many entries a root of blockSize bytes holds; csum
// says whether it ends in a checksum (metadata_csum).
func DxRootLimit(blockSize int, csum bool) int {
	return dxLimitFrom(DxRootTable, blockSize, csum)
}

// DxNodeLimit returns how many entries a node of blockSize bytes holds.
func DxNodeLimit(blockSize int, csum bool) int {
	return dxLimitFrom(DxNodeTable, blockSize, csum)
}

func dxLimitFrom(start, blockSize int, csum bool) int {
	if csum {
		blockSize -= dxTailSize
	}
	return (blockSize - start) / dxEntrySize
}

// PutDxRoot makes block an htree root without index entries. ft is the type
// stored with "." and "..": FTDir, or FTUnknown without the filetype feature.
func PutDxRoot(block []byte, self, parent Ino, ft FileType, version uint8, levels int, csum bool) DxRoot {
	clear(block)
	PutDirent(block, 0, dotRecLen, self, ft, []byte("."))
	PutDirent(block, dxRootDotDot, len(block)-dxRootDotDot, parent, ft, []byte(".."))
	dxRootVersion.put(block, version)
	dxRootInfoLen.put(block, dxInfoLen)
	dxRootLevels.put(block, uint8(levels))
	dxLimit.put(block[DxRootTable:], uint16(DxRootLimit(len(block), csum)))
	return DxRoot(block)
}

// PutDxNode makes block an htree node without index entries.
func PutDxNode(block []byte, csum bool) DxNode {
	clear(block)
	PutDirent(block, 0, len(block), 0, FTUnknown, nil)
	dxLimit.put(block[DxNodeTable:], uint16(DxNodeLimit(len(block), csum)))
	return DxNode(block)
}

// HashVersion returns the hash version as stored, without HashUnsigned.
func (r DxRoot) HashVersion() uint8 { return dxRootVersion.get(r) }

// Levels returns the number of levels of nodes between the root and the leaves.
func (r DxRoot) Levels() int { return int(dxRootLevels.get(r)) }

// SetLevels sets the number of levels of nodes between the root and the leaves.
func (r DxRoot) SetLevels(n int) { dxRootLevels.put(r, uint8(n)) }

// InfoLen returns the length field of the root's information, in bytes.
func (r DxRoot) InfoLen() int { return int(dxRootInfoLen.get(r)) }

// Flags returns the root's unused flags.
func (r DxRoot) Flags() uint8 { return dxRootFlags.get(r) }

// Entries returns the root's index table.
func (r DxRoot) Entries() DxEntries { return DxEntries(r[DxRootTable:]) }

// Entries returns the node's index table.
func (n DxNode) Entries() DxEntries { return DxEntries(n[DxNodeTable:]) }

// Limit returns how many entries the table has room for.
func (e DxEntries) Limit() int { return int(dxLimit.get(e)) }

// Count returns how many entries the table holds.
func (e DxEntries) Count() int { return int(dxCount.get(e)) }

// SetCount sets how many entries the table holds.
func (e DxEntries) SetCount(n int) { dxCount.put(e, uint16(n)) }

// Hash returns the lowest hash below entry i. Bit 0 is set if that hash also
// occurs below entry i-1. Entry 0 has no hash of its own: the result is 0.
func (e DxEntries) Hash(i int) uint32 {
	if i == 0 {
		return 0
	}
	return dxHash.get(e[i*dxEntrySize:])
}

// Block returns the logical block that entry i leads to.
func (e DxEntries) Block(i int) LBlock {
	return LBlock(dxBlock.get(e[i*dxEntrySize:])) & DxBlockMask
}

// Set writes entry i; the hash of entry 0 is not stored.
func (e DxEntries) Set(i int, hash uint32, block LBlock) {
	if i > 0 {
		dxHash.put(e[i*dxEntrySize:], hash)
	}
	dxBlock.put(e[i*dxEntrySize:], uint32(block))
}

// Insert puts a new entry in front of entry i, at least 1 and at most Count,
// which is less than Limit.
func (e DxEntries) Insert(i int, hash uint32, block LBlock) {
	n := e.Count()
	copy(e[(i+1)*dxEntrySize:(n+1)*dxEntrySize], e[i*dxEntrySize:n*dxEntrySize])
	e.Set(i, hash, block)
	e.SetCount(n + 1)
}

// MoveTo puts the entries from i on into the empty table of a node, and returns
// the lowest hash there, as Hash has it. They must fit.
func (e DxEntries) MoveTo(to DxEntries, i int) (hash uint32) {
	n, hash := e.Count(), e.Hash(i)
	copy(to[dxEntrySize:], e[(i+1)*dxEntrySize:n*dxEntrySize])
	to.Set(0, 0, e.Block(i))
	to.SetCount(n - i)
	first := max(i, 1)
	clear(e[first*dxEntrySize : n*dxEntrySize])
	e.SetCount(first)
	return hash
}

// Find returns the entry below which the first name with hash lies, if any
// does: the last entry whose hash is not higher.
func (e DxEntries) Find(hash uint32) int {
	return sort.Search(e.Count()-1, func(i int) bool { return e.Hash(i+1) > hash })
}

// CheckDxRoot checks what DxRoot's and its table's methods rely on: the block
// is a root with a known hash, at most maxLevels levels, and a table that fits.
// The error is a *DamagedError.
func CheckDxRoot(block []byte, maxLevels int, csum bool) error {
	if len(block) < DxRootTable+dxEntrySize+dxTailSize {
		return badDx("htree root", 0, "%d bytes", len(block))
	}
	r := DxRoot(block)
	switch {
	case !isDxRoot(block):
		return badDx("htree root", 0, "does not begin with \".\" and a \"..\" that spans the block")
	case r.InfoLen() != dxInfoLen:
		return badDx("htree root", int(dxRootInfoLen), "information length %d, want %d", r.InfoLen(), dxInfoLen)
	case r.HashVersion() > HashTea && r.HashVersion() != HashSipHash:
		return badDx("htree root", int(dxRootVersion), "hash version %d, want at most %d", r.HashVersion(), HashTea)
	case r.Flags()&1 != 0:
		return badDx("htree root", int(dxRootFlags), "flags %#x, want 0", r.Flags())
	case r.Levels() > maxLevels:
		return badDx("htree root", int(dxRootLevels), "%d levels, want at most %d", r.Levels(), maxLevels)
	}
	return r.Entries().check("htree root", DxRootTable, DxRootLimit(len(block), csum))
}

// CheckDxNode checks what DxNode's table's methods rely on. The error is a
// *DamagedError.
func CheckDxNode(block []byte, csum bool) error {
	if len(block) < DxNodeTable+dxEntrySize+dxTailSize {
		return badDx("htree node", 0, "%d bytes", len(block))
	}
	if !isDxNode(block) {
		return badDx("htree node", 0, "does not begin with an unused entry that spans the block")
	}
	return DxNode(block).Entries().check("htree node", DxNodeTable, DxNodeLimit(len(block), csum))
}

func (e DxEntries) check(structure string, off, limit int) error {
	if e.Limit() != limit {
		return badDx(structure, off+int(dxLimit), "limit %d, want %d", e.Limit(), limit)
	}
	if e.Count() == 0 || e.Count() > limit {
		return badDx(structure, off+int(dxCount), "count %d, want 1 to %d", e.Count(), limit)
	}
	return nil
}

// CheckOrder checks that the hashes of the table ascend: an entry is higher
// than the one before it, bit 0 included, or as high if both go on with names of
// the hash before. The error is a *DamagedError.
func (e DxEntries) CheckOrder() error {
	for i := 2; i < e.Count(); i++ {
		goesOn := e.Hash(i)&1 == 1 && e.Hash(i) == e.Hash(i-1)
		if e.Hash(i) <= e.Hash(i-1) && !goesOn {
			return badDx("htree table", i*dxEntrySize, "hash %#x after %#x", e.Hash(i), e.Hash(i-1))
		}
	}
	return nil
}

// DxTableOffset returns where the index table of an htree block begins, in
// bytes, and false for a block that is neither root nor node. Its bytes alone
// decide, as they do for the kernel.
func DxTableOffset(block []byte) (off int, ok bool) {
	switch {
	case isDxNode(block):
		return DxNodeTable, true
	case isDxRoot(block) && DxRoot(block).InfoLen() == dxInfoLen:
		return DxRootTable, true
	default:
		return 0, false
	}
}

func isDxNode(block []byte) bool {
	d, err := ReadDirent(block, 0)
	return err == nil && d.RecLen == len(block) && d.Ino == 0 && len(d.Name) == 0
}

func isDxRoot(block []byte) bool {
	return len(block) >= DxRootTable && hasDxDots(block) && dxRootZero.get(block) == 0
}

// hasDxDots reports whether block begins with "." and a ".." that spans the block.
func hasDxDots(block []byte) bool {
	dot, err := ReadDirent(block, 0)
	if err != nil || dot.RecLen != dotRecLen {
		return false
	}
	dotdot, err := ReadDirent(block, dxRootDotDot)
	return err == nil && dotdot.RecLen == len(block)-dxRootDotDot
}

func badDx(structure string, off int, format string, args ...any) error {
	return &DamagedError{Structure: structure, Offset: off, Detail: fmt.Sprintf(format, args...)}
}
