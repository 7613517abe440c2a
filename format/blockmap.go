package format

// The map of ext2 and ext3 (kernel doc: ext4/ifork, "Direct/Indirect Block
// Addressing"): i_block holds 12 pointers to data blocks, then one to a block
// of pointers (indirect), one to a block of pointers to such blocks (double
// indirect) and one with three levels. A pointer is le32; 0 is a hole, of all
// that would lie below it.
const (
	// BlockMapDirect is the number of pointers to data in i_block.
	BlockMapDirect = 12
	// BlockMapSlots is the number of pointers in i_block.
	BlockMapSlots = 15
	// BlockMapLevels is the largest number of indirect blocks on a path.
	BlockMapLevels = 3

	blockPointerLen = 4
)

// BlockPointer returns pointer i of i_block or of an indirect block; 0: a hole.
func BlockPointer(b []byte, i int) Block { return Block(le32(i * blockPointerLen).get(b)) }

// PutBlockPointer writes pointer i, a 32-bit block number.
func PutBlockPointer(b []byte, i int, n Block) { le32(i*blockPointerLen).put(b, uint32(n)) }

// BlockPointers returns the number of pointers in an indirect block.
func BlockPointers(blockSize int) int { return blockSize / blockPointerLen }

// BlockMapSpan returns how many file blocks lie below a pointer that is levels
// indirect blocks away from the data: 1 at level 0.
func BlockMapSpan(levels, blockSize int) uint64 {
	span := uint64(1)
	for range levels {
		span *= uint64(BlockPointers(blockSize))
	}
	return span
}

// BlockMapLevelsOf returns how many indirect blocks lie between slot i of
// i_block and the data: 0 for the first twelve, then 1, 2, 3.
func BlockMapLevelsOf(slot int) int { return max(0, slot-BlockMapDirect+1) }

// BlockMapEnd returns one past the last file block that a map can hold, at
// most MaxLBlock.
func BlockMapEnd(blockSize int) uint64 {
	end := uint64(BlockMapDirect)
	for l := 1; l <= BlockMapLevels; l++ {
		end += BlockMapSpan(l, blockSize)
	}
	return min(end, MaxLBlock)
}

// BlockPath leads from i_block to one file block: Index[0] is the slot in
// i_block, Index[1] to Index[Levels] the pointers in the indirect blocks.
type BlockPath struct {
	Levels int
	Index  [1 + BlockMapLevels]int
}

// BlockPathOf returns the path to file block l; false if the map cannot reach it.
func BlockPathOf(l LBlock, blockSize int) (p BlockPath, ok bool) {
	rest := uint64(l)
	if rest >= BlockMapEnd(blockSize) {
		return p, false
	}
	for slot := range BlockMapSlots {
		p.Levels = BlockMapLevelsOf(slot)
		span := BlockMapSpan(p.Levels, blockSize)
		if rest < span {
			p.Index[0] = slot
			break
		}
		rest -= span
	}
	for i := 1; i <= p.Levels; i++ {
		span := BlockMapSpan(p.Levels-i, blockSize)
		p.Index[i] = int(rest / span)
		rest %= span
	}
	return p, true
}
