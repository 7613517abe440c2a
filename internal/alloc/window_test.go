package alloc_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/mkfs"
)

// writer is a file that is written piece by piece.
type writer struct {
	w       alloc.Window
	ino     format.Ino
	goal    format.Block
	extents []alloc.Run
}

// write picks n blocks as a writeback does.
func (w *writer) write(t testing.TB, f *fileSystem, n, expect int) {
	t.Helper()
	if w.goal == 0 {
		w.goal = f.a.GoalFor(w.ino)
	}
	for n > 0 {
		start, got, err := f.a.FindIn(&w.w, w.goal, uint32(n), uint32(expect), false)
		require.NoError(t, err)
		if last := len(w.extents) - 1; last >= 0 && w.extents[last].Start+format.Block(w.extents[last].N) == start {
			w.extents[last].N += got
		} else {
			w.extents = append(w.extents, alloc.Run{Start: start, N: got})
		}
		w.goal = start + format.Block(got)
		n -= int(got)
	}
}

// TestTenWriters has ten files grow in turn: each gets one extent.
func TestTenWriters(t *testing.T) {
	for _, c := range []struct {
		name                   string
		blockSize              int
		piece, pieces, expects int // blocks; expects: of the whole file, 0: nobody knows
	}{
		{"direct writes of 2 MiB to 16 MiB", 4096, 512, 8, 0},
		{"the same, size known", 4096, 512, 8, 4096},
		{"writeback of 1 MiB to 8 MiB", 4096, 256, 8, 0},
		{"small pieces, size known", 4096, 1, 500, 500},
		{"1K blocks", 1024, 300, 7, 0},
		{"64K blocks", 65536, 32, 8, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := open(t, formatted(t, 2<<30, mkfs.Options{BlockSize: c.blockSize, Inodes: 1000}), alloc.Options{})
			writers := make([]writer, 10)
			for i := range writers {
				writers[i].ino = format.Ino(20 + i)
			}
			for round := range c.pieces {
				for i := range writers {
					writers[i].write(t, f, c.piece, max(0, c.expects-round*c.piece))
				}
			}
			for i := range writers {
				require.Len(t, writers[i].extents, 1, "%v", writers[i].extents)
				f.a.Drop(&writers[i].w)
			}
			free, _, _, _ := f.a.Totals()
			require.EqualValues(t, f.a.Sums().FreeBlocks, int(free)+10*c.piece*c.pieces)
		})
	}
}

// TestGrowingWriters: where nobody knows the size and pieces are small, a file
// still gets few extents.
func TestGrowingWriters(t *testing.T) {
	f := open(t, formatted(t, 2<<30, mkfs.Options{Inodes: 1000}), alloc.Options{})
	writers := make([]writer, 10)
	for range 4000 {
		for i := range writers {
			writers[i].write(t, f, 1, 0)
		}
	}
	for i := range writers {
		require.LessOrEqual(t, len(writers[i].extents), 12)
	}
}

// TestWindowsYield: windows are nobody's blocks. All that is free can be had.
func TestWindowsYield(t *testing.T) {
	f := open(t, formatted(t, 64<<20, mkfs.Options{NoJournal: true}), alloc.Options{})
	writers := make([]writer, 8)
	for i := range writers {
		writers[i].write(t, f, 100, 2000)
	}
	free, _, _, _ := f.a.Totals()
	require.NoError(t, f.a.Reserve(free))
	got := uint64(0)
	for got < free {
		_, n, err := f.a.Find(0, 1<<20, true)
		require.NoError(t, err)
		got += uint64(n)
	}
	_, _, err := f.a.Find(0, 1, true)
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, _, err = f.a.FindIn(&writers[0].w, writers[0].goal, 1, 0, false)
	require.ErrorIs(t, err, syscall.ENOSPC)
}

// TestManyWindows: there is a limit to how many windows are kept.
func TestManyWindows(t *testing.T) {
	f := open(t, formatted(t, 4<<30, mkfs.Options{NoJournal: true, Inodes: 5000}), alloc.Options{Memory: 64 << 10})
	writers := make([]writer, 300)
	for round := range 3 {
		for i := range writers {
			writers[i].ino = format.Ino(20 + 16*i)
			writers[i].write(t, f, 10, 100-10*round)
			n, most := f.a.Windows()
			require.LessOrEqual(t, n, most)
		}
	}
	for i := range writers {
		require.LessOrEqual(t, len(writers[i].extents), 3)
	}
	taken, _, _, _ := f.a.Totals()
	require.EqualValues(t, 300*30, f.a.Sums().FreeBlocks-taken)
}

// TestWindowFollowsGoal: a write into the middle of the window goes there, one
// to a free place elsewhere leaves the window alone.
func TestWindowFollowsGoal(t *testing.T) {
	f := open(t, formatted(t, 256<<20, mkfs.Options{NoJournal: true}), alloc.Options{})
	var w alloc.Window
	start, n, err := f.a.FindIn(&w, 10000, 10, 100, false)
	require.NoError(t, err)
	require.Equal(t, alloc.Run{Start: 10000, N: 10}, alloc.Run{Start: start, N: n})
	for _, c := range []struct{ goal, want, start, n int }{
		{10050, 10, 10050, 10}, // and the blocks before are given up
		{10020, 5, 10020, 5},
		{20000, 7, 20000, 7},
		{10060, 10, 10060, 10},
		{0, 10, 10070, 10}, // block 0 is used: the window's are next
		{10080, 1000, 10080, 20},
		{10100, 1000, 10100, 1000},
	} {
		start, n, err := f.a.FindIn(&w, format.Block(c.goal), uint32(c.want), 1, false)
		require.NoError(t, err)
		require.Equal(t, alloc.Run{Start: format.Block(c.start), N: uint32(c.n)}, alloc.Run{Start: start, N: n})
	}
}
