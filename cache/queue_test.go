package cache

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// gate is a Writer whose writes wait until they are let through, if they start with
// a 1.
type gate struct {
	open    chan int // how many bytes a write may take
	busy    atomic.Int64
	most    atomic.Int64
	mu      sync.Mutex
	written []int64
}

func (g *gate) TryWriteAt(p []byte, off int64) (int, error) {
	if p[0] == 1 {
		return min(2, len(p)), ErrWouldWait
	}
	g.note(off)
	return len(p), nil
}

func (g *gate) WriteAt(p []byte, off int64) (int, error) {
	g.most.Store(max(g.most.Load(), g.busy.Add(1)))
	defer g.busy.Add(-1)
	n := <-g.open
	g.note(off)
	if n < len(p) {
		return n, errors.New("full")
	}
	return len(p), nil
}

func (g *gate) note(off int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.written = append(g.written, off)
}

func slow(n int) []byte { return full(1, n) }
func fast(n int) []byte { return full(2, n) }

// TestQueue follows writes through a queue: those that need not wait end before
// those that do, and the rest of a write that was taken in part goes to a worker.
func TestQueue(t *testing.T) {
	g := &gate{open: make(chan int)}
	q := NewQueue(g, QueueOptions{Workers: 2, Depth: 4})
	_, ok := q.Wait()
	require.False(t, ok, "nothing to wait for")
	require.NoError(t, q.Submit(100, slow(10), 1))
	require.NoError(t, q.Submit(200, fast(10), 2))
	c, ok := q.Wait()
	require.True(t, ok)
	require.Equal(t, Completion{Tag: 2, N: 10}, c)
	_, ok = q.Poll()
	require.False(t, ok)
	g.open <- 100
	c, _ = q.Wait()
	require.Equal(t, Completion{Tag: 1, N: 10}, c)
	require.Equal(t, []int64{200, 102}, g.written, "two bytes had been taken")
	require.NoError(t, q.Submit(300, slow(10), 3))
	g.open <- 3
	c, _ = q.Wait()
	require.Equal(t, Completion{Tag: 3, N: 5, Err: c.Err}, c)
	require.EqualError(t, c.Err, "full")
	require.Equal(t, QueueStats{Submitted: 3, Punts: 2}, q.Stats())
	require.NoError(t, q.Close())
	require.ErrorIs(t, q.Submit(0, fast(1), 4), ErrClosed)
}

// TestQueueIsBounded refuses more than Depth writes that are on their way or
// completed and not taken, and has not more than Workers at work.
func TestQueueIsBounded(t *testing.T) {
	g := &gate{open: make(chan int)}
	q := NewQueue(g, QueueOptions{Workers: 2, Depth: 5})
	for tag := range uint64(3) {
		require.NoError(t, q.Submit(0, slow(10), tag))
	}
	for tag := range uint64(2) {
		require.NoError(t, q.Submit(0, fast(10), 10+tag))
	}
	require.ErrorIs(t, q.Submit(0, fast(10), 20), ErrQueueFull)
	_, ok := q.Poll()
	require.True(t, ok)
	require.NoError(t, q.Submit(0, slow(10), 21))
	require.ErrorIs(t, q.Submit(0, slow(10), 22), ErrQueueFull)

	require.Eventually(t, func() bool { return g.busy.Load() == 2 }, 10*time.Second, time.Millisecond)

	closed := make(chan bool)
	go func() { q.Close(); close(closed) }()
	for range 4 {
		select {
		case <-closed:
			t.Fatal("closed before the writes had ended")
		case g.open <- 10:
		}
	}
	<-closed
	var tags []uint64
	for c, ok := q.Wait(); ok; c, ok = q.Wait() {
		tags = append(tags, c.Tag)
	}
	slices.Sort(tags)
	require.Equal(t, []uint64{0, 1, 2, 11, 21}, tags)
	require.LessOrEqual(t, g.most.Load(), int64(2))
	require.Zero(t, q.workers)
}

// TestQueueOverMapping writes at random through a queue into a mapping with little
// memory and a slow device, and loses nothing.
func TestQueueOverMapping(t *testing.T) {
	const blocks = 2048
	wake := make(chan struct{}, 1)
	b := NewBudget(BudgetOptions{Limit: 1 << 20, Wake: func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}})
	d := newDisk(4096)
	m := NewMapping(b, 4096, d, MappingOptions{})
	var flusher sync.WaitGroup
	flusher.Go(func() {
		for range wake {
			time.Sleep(time.Millisecond)
			if err := d.flush(m); err != nil {
				t.Error(err)
			}
		}
	})
	q := NewQueue(m, QueueOptions{Depth: 16})
	r := rand.New(rand.NewPCG(1, 1))
	perm, ended := r.Perm(blocks), 0
	take := func(c Completion, ok bool) {
		if ok {
			require.NoError(t, c.Err)
			require.Equal(t, 4096, c.N)
			ended++
		}
	}
	for i, l := range perm {
		p := full(byte(l)|1, 4096)
		for q.Submit(int64(l)<<12, p, uint64(i)) == ErrQueueFull {
			take(q.Wait())
		}
		take(q.Poll())
	}
	require.NoError(t, q.Close())
	for ended < blocks {
		c, ok := q.Wait()
		require.True(t, ok, "%d of %d completions", ended, blocks)
		take(c, ok)
	}
	require.Positive(t, q.Stats().Punts)
	b.call = nil
	close(wake)
	flusher.Wait()
	require.NoError(t, d.flush(m))
	for l := range blocks {
		require.Equal(t, full(byte(l)|1, 4096), read(t, m, int64(l)<<12, 4096))
	}
	m.Close()
	b.checkEmpty(t)
}
