package mkfs

import (
	"math"

	"drydock/format"
)

// journalSize is the size of the journal of file systems of from to to-1
// blocks.
type journalSize struct {
	blocks   uint64
	from, to uint64
}

// usualJournal is mke2fs's table.
var usualJournal = []journalSize{
	{0, 0, noJournalBelow},
	{1024, noJournalBelow, 32768},
	{4096, 32768, 256 << 10},
	{8192, 256 << 10, 512 << 10},
	{16384, 512 << 10, 4 << 20},
	{32768, 4 << 20, 8 << 20},
	{65536, 8 << 20, 16 << 20},
	{131072, 16 << 20, 32 << 20},
	{262144, 32 << 20, math.MaxUint64},
}

// journalSizes lists the sizes that the journal may have in file systems of n
// groups, the smallest file systems first.
func (p *Plan) journalSizes(n uint64) []journalSize {
	if p.Options.Features.Compat&format.CompatHasJournal == 0 || p.Options.JournalBlocks != 0 {
		return []journalSize{{uint64(p.Options.JournalBlocks), 0, math.MaxUint64}}
	}
	first := uint64(firstDataBlock(p.Options.BlockSize))
	per := blocksPerGroup(p.Options.BlockSize)
	least, most := first+(n-1)*per, first+n*per
	var sizes []journalSize
	for _, j := range usualJournal {
		if j.from <= most && j.to > least {
			sizes = append(sizes, j)
		}
	}
	return sizes
}

// journalFor is the size of the journal of a file system of so many blocks.
func (p *Plan) journalFor(blocks uint64) uint64 {
	if p.Options.Features.Compat&format.CompatHasJournal == 0 || p.Options.JournalBlocks != 0 {
		return uint64(p.Options.JournalBlocks)
	}
	for _, j := range usualJournal {
		if blocks < j.to {
			return j.blocks
		}
	}
	return 0
}
