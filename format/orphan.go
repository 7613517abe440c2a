package format

import (
	"fmt"
	"iter"
)

const (
	// OrphanMagic is ob_magic in the tail of a block of the orphan file.
	OrphanMagic = 0x0B10CA04

	orphanSlotLen = 4
)

// struct ext4_orphan_block_tail, counted from the last 8 bytes of the block.
const (
	obMagic    le32 = 0x0
	obChecksum le32 = 0x4
)

// OrphanBlock is a view over one block of the orphan file (kernel doc:
// ext4/orphan): le32 inode numbers, 0 in free slots, and a tail with magic and
// checksum.
type OrphanBlock []byte

// Slots returns the number of slots.
func (b OrphanBlock) Slots() int { return (len(b) - orphanTailLen) / orphanSlotLen }

// Slot returns the inode number in slot i; 0: free.
func (b OrphanBlock) Slot(i int) Ino { return Ino(le32(i * orphanSlotLen).get(b)) }

// SetSlot stores an inode number, or 0, in slot i.
func (b OrphanBlock) SetSlot(i int, ino Ino) { le32(i*orphanSlotLen).put(b, uint32(ino)) }

// Orphans yields slot and inode number of each slot in use.
func (b OrphanBlock) Orphans() iter.Seq2[int, Ino] {
	return func(yield func(int, Ino) bool) {
		for i := range b.Slots() {
			if ino := b.Slot(i); ino != 0 && !yield(i, ino) {
				return
			}
		}
	}
}

// Checksum is the checksum in the tail, see Checksums.SealOrphanBlock.
func (b OrphanBlock) Checksum() uint32 { return obChecksum.get(b.tail()) }

func (b OrphanBlock) tail() []byte { return b[len(b)-orphanTailLen:] }

// PutOrphanBlock makes b an empty block of the orphan file, unsealed.
func PutOrphanBlock(b []byte) {
	clear(b)
	obMagic.put(OrphanBlock(b).tail(), OrphanMagic)
}

// CheckOrphanBlock checks size and magic of b, which lies in block n. What the
// slots name is for the caller to judge.
func CheckOrphanBlock(b []byte, n Block) error {
	if len(b) < orphanTailLen {
		return orphanDamage(n, 0, "%d bytes, want more than %d", len(b), orphanTailLen)
	}
	if m := obMagic.get(OrphanBlock(b).tail()); m != OrphanMagic {
		return orphanDamage(n, len(b)-orphanTailLen, "magic %#x, want %#x", m, OrphanMagic)
	}
	return nil
}

func orphanDamage(n Block, off int, detail string, args ...any) error {
	return &DamagedError{Structure: "orphan file block", Block: n, Offset: off, Detail: fmt.Sprintf(detail, args...)}
}
