package cache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drydock/format"
	"drydock/internal/oracle"

	"github.com/stretchr/testify/require"
)

// crew is several goroutines at work on the mappings of one budget. Of each mapping
// a writer owns the bytes at i*stride+[0, stride) for every i that leaves a certain
// rest, so that two writers meet in most blocks, but not in a byte: what each reads
// of its own is what it wrote last.
type crew struct {
	t       *testing.T
	seed    uint64
	b       *Budget
	disks   []*disk
	maps    []*Mapping
	stop    atomic.Bool
	helpers sync.WaitGroup
	wake    chan struct{}
}

const (
	crewWriters = 3
	crewStride  = 700
	crewBytes   = 768 << 10 // of a mapping
)

func newCrew(t *testing.T, seed uint64) *crew {
	r := rand.New(rand.NewPCG(seed, 5))
	c := &crew{t: t, seed: seed, wake: make(chan struct{}, 1)}
	c.b = NewBudget(BudgetOptions{Limit: 1 << 20, Background: 64 << 10, Wake: func() {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}})
	for range 3 {
		size := 1 << (10 + r.IntN(7))
		d := newDisk(size)
		o := MappingOptions{WholeFolio: r.IntN(6) == 0}
		if r.IntN(2) == 0 {
			o.FolioSize = max(size, 4096<<r.IntN(7))
		}
		var src Source = d
		if r.IntN(2) == 0 {
			src = quickDisk{d, func() bool { return rand.IntN(2) == 0 }}
		}
		c.disks = append(c.disks, d)
		c.maps = append(c.maps, NewMapping(c.b, size, src, o))
	}
	return c
}

// write is one writer: it writes and reads what it owns, in all ways.
func (c *crew) write(i int, steps int) {
	m, w := c.maps[i/crewWriters], i%crewWriters
	r := rand.New(rand.NewPCG(c.seed, uint64(i)))
	mine := make([]byte, crewBytes)
	for n := range steps {
		at := (r.IntN(crewBytes/crewStride/crewWriters)*crewWriters + w) * crewStride
		from := at + r.IntN(crewStride)
		to := from + 1 + r.IntN(at+crewStride-from)
		if r.IntN(2) == 0 {
			got := make([]byte, to-from)
			if err := m.ReadAt(got, int64(from)); err != nil || !bytes.Equal(got, mine[from:to]) {
				c.t.Errorf("seed %d, writer %d, step %d: bytes %d to %d differ, %v", c.seed, i, n, from, to, err)
				return
			}
			continue
		}
		p := mine[from:to]
		for k := range p {
			p[k] = byte(r.Uint32())
		}
		if err := c.writeAny(r, m, p, int64(from)); err != nil {
			c.t.Errorf("seed %d, writer %d, step %d: %v", c.seed, i, n, err)
			return
		}
	}
}

func (c *crew) writeAny(r *rand.Rand, m *Mapping, p []byte, off int64) error {
	n := 0
	switch r.IntN(3) {
	case 0:
		n, _ = m.TryWriteAt(p, off)
	case 1:
		var err error
		for n < len(p) {
			var k int
			k, err = m.WriteWithin(p[n:], off+int64(n))
			if n += k; err == ErrNoRoom {
				err = m.WaitRoom()
			}
			if err != nil {
				return err
			}
		}
	}
	_, err := m.WriteAt(p[n:], off+int64(n))
	return err
}

// flush writes back, with failures, now and then and when it is asked.
func (c *crew) flush(seed uint64) {
	defer c.helpers.Done()
	r := rand.New(rand.NewPCG(c.seed, seed))
	for !c.stop.Load() {
		select {
		case <-c.wake:
		case <-time.After(time.Millisecond):
		}
		for i, m := range c.maps {
			c.writeBack(r, m, c.disks[i])
		}
	}
}

func (c *crew) writeBack(r *rand.Rand, m *Mapping, d *disk) {
	w := m.Begin(0, 1<<30, int64(r.IntN(256<<10)))
	if r.IntN(5) == 0 {
		time.Sleep(time.Duration(r.IntN(300)) * time.Microsecond)
		w.End(fmt.Errorf("no luck"))
		return
	}
	for _, run := range w.Runs {
		held := bytes.Join(w.Bufs(run), nil)
		time.Sleep(time.Duration(r.IntN(100)) * time.Microsecond)
		if !bytes.Equal(held, bytes.Join(w.Bufs(run), nil)) {
			c.t.Errorf("seed %d: memory changed during writeback", c.seed)
		}
		if err := d.store(run, w.Bufs(run), nil); err != nil {
			c.t.Error(err)
		}
	}
	w.End(nil)
}

// browse reads all over the place, and counts.
func (c *crew) browse(seed uint64) {
	defer c.helpers.Done()
	r := rand.New(rand.NewPCG(c.seed, seed))
	p := make([]byte, 64<<10)
	for !c.stop.Load() {
		m := c.maps[r.IntN(len(c.maps))]
		if err := m.ReadAt(p[:1+r.IntN(len(p))], r.Int64N(crewBytes)); err != nil {
			c.t.Error(err)
		}
		m.DirtyRuns(format.LBlock(r.IntN(100)), 1<<30)
		c.b.Stats()
		if used := c.b.Used(); used > c.b.Limit() {
			c.t.Errorf("seed %d: %d bytes in use", c.seed, used)
		}
	}
}

// cut discards what it alone owns: the blocks behind those of the writers.
func (c *crew) cut(seed uint64) {
	defer c.helpers.Done()
	r := rand.New(rand.NewPCG(c.seed, seed))
	for !c.stop.Load() {
		i := r.IntN(len(c.maps))
		m, d := c.maps[i], c.disks[i]
		first := format.LBlock(crewBytes/d.size + 1)
		from := first + format.LBlock(r.IntN(20))
		p := bytes.Repeat([]byte{1}, d.size+r.IntN(3*d.size))
		if _, err := m.TryWriteAt(p, int64(from)*int64(d.size)); err != nil && err != ErrWouldWait {
			c.t.Error(err)
		}
		m.Discard(first, first+30)
		// The space stays reserved: a writeback that has begun may still bring its
		// blocks.
		if err := m.ReadAt(p[:d.size], int64(from)*int64(d.size)); err != nil {
			c.t.Error(err)
		}
	}
}

func (c *crew) run(steps int) {
	c.helpers.Add(5)
	go c.flush(100)
	go c.flush(101)
	go c.browse(102)
	go c.browse(103)
	go c.cut(104)
	var writers sync.WaitGroup
	for i := range crewWriters * len(c.maps) {
		writers.Go(func() { c.write(i, steps) })
	}
	writers.Wait()
	c.stop.Store(true)
	c.helpers.Wait()
}

// TestConcurrent has many goroutines write, read, write back, discard and evict at
// once. Under the race detector it is the proof that nothing is touched without its
// lock.
func TestConcurrent(t *testing.T) {
	seeds, steps := uint64(6), 400
	if underRace {
		seeds = 3
	}
	if oracle.IsLong() {
		seeds, steps = 100, 3000
	}
	for seed := range seeds {
		c := newCrew(t, seed)
		c.run(steps)
		if t.Failed() {
			return
		}
		c.finally()
	}
}

// finally checks that memory and device hold the same, and that nothing is left
// behind.
func (c *crew) finally() {
	for i, m := range c.maps {
		got := make([]byte, crewBytes)
		require.NoError(c.t, m.ReadAt(got, 0))
		require.NoError(c.t, c.disks[i].flush(m))
		require.True(c.t, bytes.Equal(got, c.disks[i].content(crewBytes)), "seed %d: the device differs", c.seed)
		m.Close()
	}
	require.LessOrEqual(c.t, c.b.Held(), c.b.Limit())
	c.b.checkEmpty(c.t)
}
