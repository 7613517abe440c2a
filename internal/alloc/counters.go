package alloc

import "drydock/format"

// Counters are the numbers that a group descriptor keeps.
type Counters struct {
	FreeBlocks   uint32 // clusters with bigalloc
	FreeInodes   uint32
	Dirs         uint32
	ItableUnused uint32 // inodes behind the last one used
}

// Add adds d's numbers to c; differences work too, since the numbers wrap.
func (c *Counters) Add(d Counters) {
	c.FreeBlocks += d.FreeBlocks
	c.FreeInodes += d.FreeInodes
	c.Dirs += d.Dirs
	c.ItableUnused += d.ItableUnused
}

// CountersOf returns the numbers that lie in a descriptor.
func CountersOf(d format.GroupDesc) Counters {
	return Counters{
		FreeBlocks: d.FreeBlocksCount(), FreeInodes: d.FreeInodesCount(),
		Dirs: d.UsedDirsCount(), ItableUnused: d.ItableUnused(),
	}
}

// Put stores the numbers in a descriptor, whose checksum is then to be sealed
// again. A 32-byte descriptor keeps the low 16 bits of each.
func (c Counters) Put(d format.GroupDesc) {
	d.SetFreeBlocksCount(c.FreeBlocks)
	d.SetFreeInodesCount(c.FreeInodes)
	d.SetUsedDirsCount(c.Dirs)
	d.SetItableUnused(c.ItableUnused)
}

// Count returns the numbers that the bitmaps of a group give: blocks bits of
// the block bitmap and inodes bits of the inode bitmap count. Dirs stays 0.
func Count(blockMap Bitmap, blocks int, inodeMap Bitmap, inodes int) Counters {
	return Counters{
		FreeBlocks:   uint32(blockMap.CountClear(0, blocks)),
		FreeInodes:   uint32(inodeMap.CountClear(0, inodes)),
		ItableUnused: uint32(inodes - inodeMap.LastSet(inodes) - 1),
	}
}

// Totals are the sums over all groups that the superblock keeps.
type Totals struct {
	FreeBlocks uint64 // clusters with bigalloc
	FreeInodes uint64
	Dirs       uint64
}

// Sum returns the totals of all groups.
func Sum(groups []Counters) Totals {
	var t Totals
	for _, c := range groups {
		t.FreeBlocks += uint64(c.FreeBlocks)
		t.FreeInodes += uint64(c.FreeInodes)
		t.Dirs += uint64(c.Dirs)
	}
	return t
}
