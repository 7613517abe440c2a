package alloc_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/mkfs"
)

// TestConcurrent has many goroutines pick, reserve and release while one marks,
// frees and syncs: nobody gets what another has.
func TestConcurrent(t *testing.T) {
	f := open(t, formatted(t, 30<<20, mkfs.Options{BlockSize: 1024, Inodes: 100}), alloc.Options{Memory: 1})
	free, _, _, _ := f.a.Totals()
	seed := newRand(t).Uint64()
	owned := make([]atomic.Int32, f.geo.BlocksCount)
	own := func(r alloc.Run, was, is int32) {
		for i := range format.Block(r.N) {
			if !owned[r.Start+i].CompareAndSwap(was, is) {
				t.Errorf("block %d was not %d", r.Start+i, was)
			}
		}
	}
	toMark := make(chan alloc.Run, 100)
	var pickers sync.WaitGroup
	for id := range 4 {
		pickers.Go(func() {
			pick(t, f, rand.New(rand.NewPCG(seed, uint64(id))), own, toMark)
		})
	}
	go func() {
		pickers.Wait()
		close(toMark)
	}()
	var marked []alloc.Run
	rng := rand.New(rand.NewPCG(seed, 99))
	for r := range toMark {
		tx := f.begin()
		require.NoError(t, f.a.Mark(tx, r.Start, r.N))
		if rng.IntN(5) == 0 {
			tx.Abort()
			own(r, 1, 0)
			f.a.Release(r.Start, r.N, false)
			continue
		}
		if marked = append(marked, r); rng.IntN(2) == 0 {
			i := rng.IntN(len(marked))
			require.NoError(t, f.a.Free(tx, marked[i].Start, marked[i].N))
			// Whoever gets it next gets it after the sync below, or a later one.
			own(marked[i], 1, 0)
			marked[i] = marked[len(marked)-1]
			marked = marked[:len(marked)-1]
		}
		_, err := tx.Commit()
		require.NoError(t, err)
		if rng.IntN(10) == 0 {
			f.sync()
		}
	}
	f.sync()
	for _, r := range marked {
		free -= uint64(r.N)
	}
	now, reserved, pending, _ := f.a.Totals()
	require.Equal(t, [3]uint64{free, 0, 0}, [3]uint64{now, reserved, pending})
	f.used()
}

// pick picks for a while; half of it is handed on to be marked.
func pick(t *testing.T, f *fileSystem, rng *rand.Rand, own func(r alloc.Run, was, is int32), toMark chan<- alloc.Run) {
	var w alloc.Window
	defer f.a.Drop(&w)
	for range 400 {
		want := uint32(1 + rng.IntN(200))
		if err := f.a.Reserve(uint64(want)); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Error(err)
			}
			continue
		}
		goal := format.Block(rng.IntN(int(f.geo.BlocksCount)))
		var r alloc.Run
		var err error
		if rng.IntN(2) == 0 {
			r.Start, r.N, err = f.a.Find(goal, want, true)
		} else {
			r.Start, r.N, err = f.a.FindIn(&w, goal, want, 0, true)
		}
		if err != nil {
			t.Errorf("a reservation was not kept: %v", err)
			return
		}
		f.a.Unreserve(uint64(want - r.N))
		own(r, 0, 1)
		if rng.IntN(2) == 0 {
			toMark <- r
			continue
		}
		own(r, 1, 0)
		f.a.Release(r.Start, r.N, false)
	}
}
