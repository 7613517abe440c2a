package alloc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

func TestCounters(t *testing.T) {
	blocks, inodes := make(Bitmap, 128), make(Bitmap, 16)
	blocks.SetRange(0, 100)
	blocks.SetRange(1000, 24) // padding
	inodes.SetRange(0, 11)
	inodes.Set(40)
	c := Count(blocks, 1000, inodes, 120)
	require.Equal(t, Counters{FreeBlocks: 900, FreeInodes: 108, ItableUnused: 79}, c)
	require.EqualValues(t, 120, Count(blocks, 1000, make(Bitmap, 16), 120).ItableUnused)

	c.Dirs = 3
	d := format.GroupDesc(make([]byte, 64))
	c.Put(d)
	require.Equal(t, c, CountersOf(d))
	c.Add(Counters{FreeBlocks: ^uint32(0), Dirs: 2, FreeInodes: 1, ItableUnused: 1})
	require.Equal(t, Counters{FreeBlocks: 899, FreeInodes: 109, Dirs: 5, ItableUnused: 80}, c)
	require.Equal(t, Totals{FreeBlocks: 1798, FreeInodes: 218, Dirs: 10}, Sum([]Counters{c, c}))
}
