package alloc_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/mkfs"
	"drydock/journal"
)

// TestSmallFilesFollow: the first blocks of small files of one directory lie one
// behind the other, and fill what was freed before they go on.
func TestSmallFilesFollow(t *testing.T) {
	f := open(t, formatted(t, 300<<20, mkfs.Options{NoJournal: true}), alloc.Options{})
	var runs []alloc.Run
	file := func(i int) alloc.Run {
		start, n, err := f.a.Find(f.a.GoalFor(format.Ino(12+i)), 2, false)
		require.NoError(t, err)
		return alloc.Run{Start: start, N: n}
	}
	for i := range 1000 {
		runs = append(runs, file(i))
		require.Equal(t, alloc.Run{Start: runs[0].Start + format.Block(2*i), N: 2}, runs[i])
		require.Equal(t, runs[i].Start+2, f.a.GoalFor(12), "the next search begins there")
	}
	f.update(func(tx *journal.Tx) { require.NoError(t, f.a.MarkMany(tx, runs)) })
	f.update(func(tx *journal.Tx) {
		require.NoError(t, f.a.Free(tx, runs[100].Start, 2))
		require.NoError(t, f.a.Free(tx, runs[500].Start, 2))
	})
	require.Equal(t, runs[999].Start+2, file(1000).Start, "not durable")
	f.sync()
	require.Equal(t, runs[100].Start, file(1001).Start)
	require.Equal(t, runs[500].Start, file(1002).Start)
	require.Equal(t, runs[999].Start+4, file(1003).Start)
}

// TestGroupFillsInOrder: files that do not fit in their group any more go to the
// next one.
func TestGroupFillsInOrder(t *testing.T) {
	f := open(t, formatted(t, 300<<20, mkfs.Options{NoJournal: true}), alloc.Options{})
	last := format.Group(0)
	for {
		start, _, err := f.a.Find(f.a.GoalFor(12), 7, false)
		if err != nil {
			break
		}
		if g := f.geo.GroupOf(start); g != last {
			require.Equal(t, last+1, g)
			last = g
		}
		if free, _, _, _ := f.a.Totals(); free < 100 {
			break
		}
	}
	require.Equal(t, format.Group(f.geo.Groups()-1), last)
}

// TestSameCallsSameBlocks: nothing but the calls decides what is picked.
func TestSameCallsSameBlocks(t *testing.T) {
	dev := formatted(t, 100<<20, mkfs.Options{BlockSize: 1024})
	seed := newRand(t).Uint64()
	run := func() (got []alloc.Run) {
		f := open(t, dev.Clone(), alloc.Options{Memory: 1})
		rng := rand.New(rand.NewPCG(seed, 1))
		windows := make([]alloc.Window, 5)
		for range 300 {
			f.update(func(tx *journal.Tx) {
				w := &windows[rng.IntN(5)]
				start, n, err := f.a.FindIn(w, format.Block(rng.IntN(100000)), uint32(1+rng.IntN(200)), 0, false)
				require.NoError(t, err)
				require.NoError(t, f.a.Mark(tx, start, n))
				ino, err := f.a.NewInode(tx, format.RootIno, rng.IntN(2) == 0)
				require.NoError(t, err)
				got = append(got, alloc.Run{Start: start, N: n}, alloc.Run{N: uint32(ino)})
				if rng.IntN(3) == 0 {
					require.NoError(t, f.a.Free(tx, start, n))
				}
			})
			if rng.IntN(20) == 0 {
				f.sync()
			}
		}
		return got
	}
	require.Equal(t, run(), run())
}

// TestLongestRun: where no run is long enough the longest is taken, though only
// four bitmaps fit in memory and the counts tell nothing.
func TestLongestRun(t *testing.T) {
	dev := formatted(t, 160<<20, mkfs.Options{BlockSize: 1024, NoJournal: true, Inodes: 20 * 16})
	f := open(t, dev, alloc.Options{})
	rng := newRand(t)
	for g := range format.Group(f.geo.Groups()) {
		f.leaveRuns(rng, g)
	}
	f.close()
	f = open(t, dev, alloc.Options{Memory: 1})
	m := newModel(f, rng)
	for m.count[blockFree] > 0 {
		longest := m.longest()
		start, n, err := f.a.Find(format.Block(rng.IntN(len(m.state))), 500, false)
		require.NoError(t, err)
		r := alloc.Run{Start: start, N: n}
		require.EqualValues(t, longest, n)
		require.True(t, m.all(r, blockFree))
		m.set(r, blockPicked)
	}
}

// leaveRuns takes all of a group but short runs at its end.
func (f *fileSystem) leaveRuns(rng *rand.Rand, g format.Group) {
	first, n := f.geo.GroupFirst(g), int(f.geo.GroupBlocks(g))
	f.update(func(tx *journal.Tx) {
		require.NoError(f.t, f.a.Claim(tx, first, uint32(n)))
		for range 10 {
			run := 1 + rng.IntN(30)
			n -= run
			require.NoError(f.t, f.a.Free(tx, first+format.Block(n), uint32(run)))
			n--
		}
	})
}
