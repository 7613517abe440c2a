package cache

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"drydock/format"

	"github.com/stretchr/testify/require"
)

// allBlocks ends the range of all blocks.
const allBlocks = math.MaxUint32

// newTestMapping returns a mapping over a disk, with a budget of its own.
func newTestMapping(t testing.TB, size int, limit int64, o MappingOptions) (*Mapping, *disk) {
	d := newDisk(size)
	m := NewMapping(NewBudget(BudgetOptions{Limit: limit}), size, d, o)
	t.Cleanup(m.Close)
	return m, d
}

// full returns n bytes with value v.
func full(v byte, n int) []byte { return bytes.Repeat([]byte{v}, n) }

func write(t testing.TB, m *Mapping, p []byte, off int64) {
	t.Helper()
	n, err := m.WriteAt(p, off)
	require.NoError(t, err)
	require.Equal(t, len(p), n)
}

func read(t testing.TB, m *Mapping, off int64, n int) []byte {
	t.Helper()
	p := make([]byte, n)
	require.NoError(t, m.ReadAt(p, off))
	return p
}

// TestAmplification writes 4 KiB at random places of a file of 64 KiB folios, each
// followed by a sync.
func TestAmplification(t *testing.T) {
	for _, c := range []struct {
		whole bool
		want  float64
	}{{false, 1}, {true, 16}} {
		m, d := newTestMapping(t, 4096, 16<<20, MappingOptions{FolioSize: 64 << 10, WholeFolio: c.whole})
		write(t, m, full(1, 4<<20), 0)
		require.NoError(t, d.flush(m))
		before := m.Stats()
		r := rand.New(rand.NewPCG(1, 1))
		for range 200 {
			write(t, m, full(2, 4096), r.Int64N(1024)<<12)
			require.NoError(t, d.flush(m))
		}
		s := m.Stats()
		s.DeviceBytes -= before.DeviceBytes
		s.UserBytes -= before.UserBytes
		require.Equal(t, c.want, s.Amplification(), "whole folios: %v", c.whole)
		require.Zero(t, s.Misses)
	}
}

// TestSynchronousWritesIntoOneFolio is the example of the iomap discussion: 16
// writes of 4 KiB into one page, in order, each written through, make 4 KiB of
// writeback each, not 4, 8, ... 64.
func TestSynchronousWritesIntoOneFolio(t *testing.T) {
	m, d := newTestMapping(t, 4096, 1<<20, MappingOptions{FolioSize: 64 << 10})
	for i := range 16 {
		write(t, m, full(byte(i+1), 4096), int64(i)<<12)
		w := m.Begin(0, allBlocks, 0)
		require.Equal(t, []Run{{format.LBlock(i), 1}}, w.Runs)
		require.EqualValues(t, 4096, w.Bytes())
		require.NoError(t, d.writeOut(w))
	}
	require.EqualValues(t, 64<<10, m.b.Used(), "it was one folio")
}

// TestCopyInsteadOfWaiting writes to blocks that a device does not finish to write.
func TestCopyInsteadOfWaiting(t *testing.T) {
	m, d := newTestMapping(t, 4096, 4<<20, MappingOptions{FolioSize: 64 << 10})
	write(t, m, full(1, 64<<10), 0)
	w := m.Begin(0, allBlocks, 0) // and now the device hangs
	n, err := m.TryWriteAt(full(2, 4096), 8192)
	require.NoError(t, err)
	require.Equal(t, 4096, n)
	write(t, m, full(3, 100), 20000)
	write(t, m, full(4, 12), 8192)
	require.EqualValues(t, 2, m.Stats().Copies, "the second write to block 2 met no writeback")
	require.Equal(t, full(1, 64<<10), slices.Concat(w.Bufs(w.Runs[0])...))
	require.Empty(t, m.Begin(0, allBlocks, 0).Runs, "a block is never twice on its way")
	require.NoError(t, d.writeOut(w))
	require.Equal(t, full(1, 64<<10), d.content(64<<10))
	require.Equal(t, []Run{{2, 1}, {4, 1}}, m.DirtyRuns(0, allBlocks))
	require.NoError(t, d.flush(m))
	want := full(1, 64<<10)
	copy(want[8192:], full(2, 4096))
	copy(want[8192:], full(4, 12))
	copy(want[20000:], full(3, 100))
	require.Equal(t, want, d.content(64<<10))
	require.Equal(t, want, read(t, m, 0, 64<<10))
	require.Zero(t, m.Stats().Waits)
}

// TestPartialWrites reads a block before writing to a part of it only if there is
// something to read.
func TestPartialWrites(t *testing.T) {
	for _, o := range []MappingOptions{{}, {FolioSize: 64 << 10}} {
		m, d := newTestMapping(t, 4096, 1<<20, o)
		d.blocks[7] = full(7, 4096)
		write(t, m, full(1, 100), 1000)
		require.Equal(t, append(append(make([]byte, 1000), full(1, 100)...), make([]byte, 2996)...), read(t, m, 0, 4096))
		write(t, m, full(2, 5000), 3*4096+10) // two holes
		write(t, m, full(3, 10), 4)           // uptodate by now
		require.Empty(t, d.fills)
		require.Equal(t, 3, d.probes)
		write(t, m, full(4, 4096), 6*4096+2048) // a hole, and the first half of block 7
		require.Equal(t, []Run{{7, 1}}, d.fills)
		write(t, m, full(5, 4096), 7*4096) // all of it
		require.Len(t, d.fills, 1)
		require.NoError(t, d.flush(m))
		require.Equal(t, []format.LBlock{0, 3, 4, 6, 7}, d.mappedBlocks())
		require.Equal(t, append(make([]byte, 2048), full(4, 2048)...), d.blocks[6])
		require.Equal(t, full(5, 4096), d.blocks[7])
	}
}

// TestReserve asks for the space of blocks that become dirty, once for each run.
func TestReserve(t *testing.T) {
	m, d := newTestMapping(t, 4096, 1<<20, MappingOptions{FolioSize: 64 << 10})
	asked := func() []Run {
		a := d.asked
		d.asked = nil
		return a
	}
	write(t, m, full(1, 64<<10), 0)
	require.Equal(t, []Run{{0, 16}}, asked())
	write(t, m, full(1, 64<<10), 0)
	require.Empty(t, asked(), "dirty already")
	w := m.Begin(2, 4, 0)
	write(t, m, full(1, 64<<10), 0)
	require.Equal(t, []Run{{2, 2}}, asked())
	require.NoError(t, d.writeOut(w))
	w = m.Begin(0, allBlocks, 0)
	w.End(errors.New("no"))
	require.Empty(t, asked(), "they have their space still")
	require.Equal(t, []Run{{0, 16}}, m.DirtyRuns(0, allBlocks))
	write(t, m, full(1, 4096*3), 4096*20)
	write(t, m, full(1, 4096*8), 4096*16)
	require.Equal(t, []Run{{20, 3}, {16, 4}, {23, 1}}, asked())
}

// TestNoSpace takes what there is space for.
func TestNoSpace(t *testing.T) {
	for free := range 20 {
		for _, o := range []MappingOptions{{}, {FolioSize: 16 << 10}} {
			m, d := newTestMapping(t, 4096, 1<<20, o)
			d.free = free
			n, err := m.WriteAt(full(1, 20*4096-100), 50)
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.Equal(t, max(free*4096-50, 0), n)
			if free > 0 {
				write(t, m, full(2, 10), 60)
			}
			require.NoError(t, d.flush(m))
			require.Len(t, d.blocks, free)
		}
	}
}

// TestReadAhead reads with a sequential and a random reader.
func TestReadAhead(t *testing.T) {
	m, d := newTestMapping(t, 4096, 4<<20, MappingOptions{})
	for at := int64(0); at < 1<<20; at += 4096 {
		read(t, m, at, 4096)
	}
	require.Less(t, len(d.fills), 30)
	require.Equal(t, 16, slices.MaxFunc(d.fills, func(a, b Run) int { return a.N - b.N }).N)
	require.EqualValues(t, len(d.fills), m.Stats().Misses)
	require.EqualValues(t, 256-len(d.fills), m.Stats().Hits)

	m, _ = newTestMapping(t, 4096, 4<<20, MappingOptions{})
	r := rand.New(rand.NewPCG(1, 1))
	for _, i := range r.Perm(256) {
		read(t, m, int64(i)<<12, 4096)
	}
	require.Less(t, m.Stats().FillBytes, uint64(1<<20+16*4096), "a block that happens to follow the last one is no stream")

	// Two streams in one file, and pieces that are no whole blocks.
	m, d = newTestMapping(t, 4096, 4<<20, MappingOptions{})
	for at := int64(0); at < 512<<10; at += 1000 {
		read(t, m, at, 1000)
		read(t, m, 1<<20+at, 1000)
	}
	require.Less(t, len(d.fills), 40)
}

// sized is a disk that knows where its file ends.
type sized struct {
	*disk
	size int64
}

func (s sized) Size() int64 { return s.size }

// TestReadAheadEnds stops at the end of the file.
func TestReadAheadEnds(t *testing.T) {
	d := newDisk(4096)
	m := NewMapping(NewBudget(BudgetOptions{}), 4096, sized{d, 100_000}, MappingOptions{})
	for at := int64(0); at+1000 <= 100_000; at += 1000 {
		read(t, m, at, 1000)
	}
	last := d.fills[len(d.fills)-1]
	require.EqualValues(t, 25, last.end())
	require.LessOrEqual(t, m.b.Used(), int64(25+7)<<12)
}

// TestBadBlockAhead fails the reader of the bad block, and none that comes near.
func TestBadBlockAhead(t *testing.T) {
	m, d := newTestMapping(t, 4096, 1<<20, MappingOptions{FolioSize: 64 << 10})
	d.failFill = func(l format.LBlock, n int) error {
		if l <= 9 && 9 < l+format.LBlock(n) {
			return syscall.EIO
		}
		return nil
	}
	d.blocks[8] = full(8, 4096)
	for i := range 9 {
		require.Equal(t, d.content(9 << 12)[i<<12:][:4096], read(t, m, int64(i)<<12, 4096))
	}
	require.ErrorIs(t, m.ReadAt(make([]byte, 10), 9<<12), syscall.EIO)
	_, err := m.WriteAt(full(1, 10), 9<<12) // it has nothing there, says Mapped
	require.NoError(t, err)
	d.blocks[30] = full(3, 4096)
	d.failFill = func(format.LBlock, int) error { return syscall.EIO }
	n, err := m.WriteAt(full(1, 4096+10), 29<<12)
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, 4096, n)
	d.failFill = nil
	require.Equal(t, full(3, 4096), read(t, m, 30<<12, 4096))
}

// TestFolioSizes starts small, and grows with what is written in sequence.
func TestFolioSizes(t *testing.T) {
	m, _ := newTestMapping(t, 1024, 4<<20, MappingOptions{})
	write(t, m, full(1, 100), 0)
	require.EqualValues(t, 4096, m.b.Used())
	for at := 100; at < 300_000; at += 100 {
		write(t, m, full(1, 100), int64(at))
	}
	require.EqualValues(t, 64<<10, len(m.tree.get(m.unitAt(290_000)).buf))
	require.Less(t, m.b.Used(), int64(300_000+64<<10))
	used := m.b.Used()
	write(t, m, full(1, 1), 100<<20) // far away: no stream
	require.EqualValues(t, 4096, m.b.Used()-used)
	write(t, m, full(1, 64<<10), 200<<20) // at once
	require.EqualValues(t, 68<<10, m.b.Used()-used)
	for _, size := range []int{4096, 32 << 10, 1 << 20} {
		m, _ = newTestMapping(t, 2048, 4<<20, MappingOptions{FolioSize: size})
		write(t, m, full(1, 1), 3<<20)
		require.EqualValues(t, size, m.b.Used())
	}
}

// TestEviction gives up what is clean, of any mapping, before anybody waits.
func TestEviction(t *testing.T) {
	b := NewBudget(BudgetOptions{Limit: 2 << 20, Background: 512 << 10})
	var maps []*Mapping
	var disks []*disk
	for i := range 8 {
		d := newDisk(4096)
		m := NewMapping(b, 4096, d, MappingOptions{})
		write(t, m, full(byte(i+1), 1<<20), 0)
		require.NoError(t, d.flush(m))
		maps, disks = append(maps, m), append(disks, d)
	}
	require.Zero(t, b.Stats().Waits)
	require.Positive(t, maps[0].Stats().Evictions)
	require.LessOrEqual(t, b.Used(), b.Limit())
	for i, m := range maps {
		require.Equal(t, full(byte(i+1), 1<<20), read(t, m, 0, 1<<20))
		require.Equal(t, full(byte(i+1), 1<<20), disks[i].content(1<<20))
	}
}

// TestRefill makes room after a writeback, as much as was written but not more than Background.
func TestRefill(t *testing.T) {
	b := NewBudget(BudgetOptions{Limit: 4 << 20, Background: 1 << 20})
	d := newDisk(4096)
	m := NewMapping(b, 4096, d, MappingOptions{})
	free := func() int64 { return b.Limit() - b.Used() }
	for _, n := range []int{256 << 10, 3 << 20} {
		read(t, m, 100<<20, 4<<20) // uses up all
		require.Less(t, free(), int64(128<<10))
		write(t, m, full(1, n), 0)
		require.NoError(t, d.flush(m))
		require.InDelta(t, min(n, 1<<20), free(), 64<<10)
	}
}

// evictAll gives up all that can be given up.
func (b *Budget) evictAll() {
	for b.evict(false, true) {
	}
}

// TestEvictableAgain sends the clock's hand over folios that are busy, which it leaves out
// from then on: when they are idle, they are back.
func TestEvictableAgain(t *testing.T) {
	m, d := newTestMapping(t, 4096, 1<<20, MappingOptions{FolioSize: 64 << 10})
	d.blocks[40] = full(4, 4096)
	write(t, m, full(1, 64<<10), 0)
	w := m.Begin(0, allBlocks, 0)
	write(t, m, full(2, 10), 100) // a copy of block 0
	require.EqualValues(t, 68<<10, m.b.Used())
	m.b.evictAll()
	require.EqualValues(t, 68<<10, m.b.Used())
	again := m.Begin(0, allBlocks, 0)
	require.Empty(t, again.Runs)
	m.Discard(0, 1) // block 0 is clean, and on its way for nothing
	require.NoError(t, d.writeOut(w))
	m.b.evictAll()
	require.Zero(t, m.b.Used())

	write(t, m, full(1, 64<<10), 0)
	w = m.Begin(0, allBlocks, 0)
	_, err := m.TryWriteAt(full(3, 4096), 0)
	require.NoError(t, err)
	m.b.evictAll()
	require.NoError(t, d.writeOut(w)) // the copy is dirty, the rest idle
	m.b.evictAll()
	require.EqualValues(t, 4096, m.b.Used())
	require.NoError(t, d.flush(m))
	m.b.evictAll()
	require.Zero(t, m.b.Used())

	small, e := newTestMapping(t, 1024, 1<<20, MappingOptions{FolioSize: 16 << 10})
	write(t, small, full(1, 16<<10), 0)
	w = small.Begin(0, allBlocks, 0)
	write(t, small, full(2, 1024), 0) // a copy of blocks 0 to 3,
	small.Discard(0, 1)               // in which nothing is dirty any more
	small.b.evictAll()
	require.NoError(t, e.writeOut(w))
	small.b.evictAll()
	require.Zero(t, small.b.Used())

	write(t, m, full(1, 64<<10), 0)
	require.NoError(t, d.flush(m))
	write(t, m, full(2, 1), 0)
	m.b.evictAll()
	m.Discard(0, 1) // what was dirty
	m.b.evictAll()
	require.Zero(t, m.b.Used())

	write(t, m, full(1, 4096), 0)
	require.NoError(t, d.flush(m))
	d.failFill = func(format.LBlock, int) error { m.b.evictAll(); return syscall.EIO }
	require.ErrorIs(t, m.ReadAt(make([]byte, 10), 4096), syscall.EIO)
	d.failFill = nil
	m.b.evictAll()
	require.Zero(t, m.b.Used())

	read(t, m, 40<<12, 1)
	f, _ := m.b.hand(true)
	m.b.idle(f) // while another looks at it, and finds it busy a moment too early
	m.b.putBack(f, false)
	m.b.evictAll()
	require.Zero(t, m.b.Used())
}

// TestCopyFailed evicts a copy no earlier than the writeback of what it copied has ended well.
func TestCopyFailed(t *testing.T) {
	m, _ := newTestMapping(t, 1024, 1<<20, MappingOptions{FolioSize: 16 << 10})
	write(t, m, full(1, 16<<10), 0)
	w := m.Begin(0, allBlocks, 0)
	write(t, m, full(2, 1024), 0) // takes blocks 1 to 3 with it
	second := m.Begin(0, allBlocks, 0)
	require.Empty(t, second.Runs)
	m.b.evictAll()
	w.End(errors.New("no"))
	require.Equal(t, []Run{{0, 16}}, m.DirtyRuns(0, allBlocks))
	require.Equal(t, append(full(2, 1024), full(1, 15<<10)...), read(t, m, 0, 16<<10))
}

// TestFirstMemory reads while another goroutine is getting the first memory from the runtime.
func TestFirstMemory(t *testing.T) {
	m, d := newTestMapping(t, 4096, 1<<20, MappingOptions{})
	d.blocks[0] = full(1, 4096)
	m.b.chunks++
	done := make(chan error)
	go func() { done <- m.ReadAt(make([]byte, 10), 0) }()
	time.Sleep(time.Millisecond)
	m.b.adopt(newChunk())
	require.NoError(t, <-done)
}

// TestSecondChance keeps what is used again and again from being pushed out by a
// stream.
func TestSecondChance(t *testing.T) {
	b := NewBudget(BudgetOptions{Limit: 2 << 20})
	d, stream := newDisk(4096), newDisk(4096)
	m, s := NewMapping(b, 4096, d, MappingOptions{}), NewMapping(b, 4096, stream, MappingOptions{})
	for at := int64(0); at < 32<<20; at += 64 << 10 {
		read(t, m, 0, 256<<10)
		read(t, s, at, 64<<10)
	}
	require.LessOrEqual(t, m.Stats().FillBytes, uint64(512<<10))
}

// TestWaitsForMemory has a device a hundred times slower than the writer: the
// writer waits, the memory stays below the limit, and no byte is lost.
func TestWaitsForMemory(t *testing.T) {
	const limit, total = 2 << 20, 12 << 20
	wake := make(chan struct{}, 1)
	b := NewBudget(BudgetOptions{Limit: limit, Wake: func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}})
	d := newDisk(4096)
	m := NewMapping(b, 4096, d, MappingOptions{})
	var peak atomic.Int64
	var working sync.Mutex
	step := func() bool {
		working.Lock()
		defer working.Unlock()
		w := m.Begin(0, allBlocks, 256<<10)
		time.Sleep(2 * time.Millisecond)
		peak.Store(max(peak.Load(), b.Used()))
		if err := d.writeOut(w); err != nil {
			t.Error(err)
		}
		return len(w.Runs) > 0
	}
	go func() {
		for range wake {
			for step() {
			}
		}
	}()
	before := heapInUse()
	for at := 0; at < total; at += 4096 {
		write(t, m, full(byte(at>>12)|1, 4096), int64(at))
		require.LessOrEqual(t, b.Used(), int64(limit))
	}
	working.Lock() // what is thrown away while the heap is measured would count
	grown := heapInUse() - before - int64(len(d.blocks))<<12
	working.Unlock()
	require.LessOrEqual(t, peak.Load(), int64(limit))
	require.LessOrEqual(t, b.Held(), int64(limit))
	require.Less(t, grown, int64(limit+limit/2))
	require.Positive(t, m.Stats().Waits)
	close(wake)
	require.Eventually(t, func() bool { return d.flush(m) == nil && m.Dirty() == 0 }, 10*time.Second, time.Millisecond)
	for at := 0; at < total; at += 4096 {
		require.Equal(t, full(byte(at>>12)|1, 4096), read(t, m, int64(at), 4096))
	}
}

// TestFullOfDirtyData is what happens at the limit when nobody writes back.
func TestFullOfDirtyData(t *testing.T) {
	calls := 0
	b := NewBudget(BudgetOptions{Limit: 1 << 20, Background: 256 << 10, Wake: func() { calls++ }})
	d := newDisk(4096)
	d.blocks[5000] = full(5, 4096)
	m := NewMapping(b, 4096, d, MappingOptions{})
	n, err := m.TryWriteAt(full(1, 2<<20), 0)
	require.ErrorIs(t, err, ErrWouldWait)
	require.Equal(t, 1<<20-64<<10, n, "all but the scratch memory")
	require.Equal(t, 1, calls, "asked once, when background was passed")
	require.EqualValues(t, 1, m.Stats().Punts)
	k, err := m.WriteWithin(full(1, 100), int64(n))
	require.ErrorIs(t, err, ErrNoRoom)
	require.Zero(t, k)
	write(t, m, full(2, n), 0) // what is there can be written again

	p := make([]byte, 3*4096)
	require.NoError(t, m.ReadAt(p, 4999<<12+10), "a read past the cache")
	require.Equal(t, full(5, 4096), p[4086:4086+4096])
	require.EqualValues(t, n, b.Used())

	done := make(chan error)
	go func() {
		_, err := m.WriteAt(full(3, 4096), 1<<20)
		done <- err
	}()
	require.Eventually(t, func() bool { return m.Stats().Waits > 0 }, 10*time.Second, time.Millisecond)
	require.NoError(t, d.writeOut(m.Begin(0, 16, 0)))
	require.NoError(t, <-done)
	_, err = m.TryWriteAt(full(3, 1<<20), 3<<20)
	require.ErrorIs(t, err, ErrWouldWait)

	go func() {
		_, err := m.WriteAt(full(3, 4096), 2<<20)
		done <- err
	}()
	require.Eventually(t, func() bool { return m.Stats().Waits > 1 }, 10*time.Second, time.Millisecond)
	b.Fail(syscall.EROFS)
	require.ErrorIs(t, <-done, syscall.EROFS)
	require.ErrorIs(t, m.WaitRoom(), syscall.EROFS)
	b.Fail(nil)
	go func() { done <- m.WaitRoom() }()
	m.Discard(16, 32)
	require.NoError(t, <-done)
}

// TestTryDoesNotWait meets all that it could wait for.
func TestTryDoesNotWait(t *testing.T) {
	d := newDisk(4096)
	known := false
	b := NewBudget(BudgetOptions{Limit: 1 << 20})
	m := NewMapping(b, 4096, quickDisk{d, func() bool { return known }}, MappingOptions{FolioSize: 16 << 10})
	punted := func(p []byte, off int64) {
		t.Helper()
		n, err := m.TryWriteAt(p, off)
		require.ErrorIs(t, err, ErrWouldWait)
		require.Zero(t, n)
	}
	punted(full(1, 4096), 0) // whether there is space is not known in memory
	require.Empty(t, d.asked)
	punted(full(1, 10), 0) // nor whether the block has data
	require.Zero(t, d.probes)
	known = true
	d.blocks[0] = full(9, 4096)
	punted(full(1, 10), 0) // it has, and would have to be read
	require.Empty(t, d.fills)

	m.mu.Lock()
	punted(full(1, 4096), 4096)
	m.mu.Unlock()
	m.mu.RLock()
	punted(full(1, 4096), 4096)
	m.mu.RUnlock()

	reading, goOn := make(chan bool), make(chan bool)
	d.failFill = func(format.LBlock, int) error { reading <- true; <-goOn; return nil }
	go m.ReadAt(make([]byte, 10), 0)
	<-reading
	punted(full(1, 4096), 0) // the device is bringing that block
	n, err := m.TryWriteAt(full(1, 4096), 4096)
	require.NoError(t, err, "not that one, although it is in the same folio")
	require.Equal(t, 4096, n)
	goOn <- true
	require.EqualValues(t, 6, m.Stats().Punts)
}

// prober is a disk that lets something happen just after it has said that a block
// is not mapped.
type prober struct {
	*disk
	after func()
}

func (p *prober) Mapped(l format.LBlock) (bool, error) {
	mapped, err := p.disk.Mapped(l)
	if after := p.after; after != nil {
		p.after = nil
		after()
	}
	return mapped, err
}

// TestHoleNoLonger has another write a block, write it back and evict it, between
// the question whether the block is mapped and the write that asked.
func TestHoleNoLonger(t *testing.T) {
	p := &prober{disk: newDisk(4096)}
	m := NewMapping(NewBudget(BudgetOptions{Limit: 1 << 20}), 4096, p, MappingOptions{})
	p.after = func() {
		write(t, m, full(1, 4096), 0)
		require.NoError(t, p.flush(m))
		m.b.evictAll()
		require.Nil(t, m.tree.get(0))
	}
	write(t, m, full(2, 10), 0)
	require.Equal(t, append(full(2, 10), full(1, 4086)...), read(t, m, 0, 4096))
}

// TestDiscardDuringFill must not keep what was read before.
func TestDiscardDuringFill(t *testing.T) {
	m, d := newTestMapping(t, 4096, 1<<20, MappingOptions{FolioSize: 16 << 10})
	d.blocks[1] = full(9, 4096)
	reading, goOn := make(chan bool), make(chan bool)
	first := true
	d.failFill = func(format.LBlock, int) error {
		if first {
			first = false
			reading <- true
			<-goOn
		}
		return nil
	}
	done := make(chan []byte)
	go func() {
		p := make([]byte, 4096)
		m.ReadAt(p, 4096)
		done <- p
	}()
	<-reading
	m.Discard(1, 2)
	d.release(1, 2)
	goOn <- true
	require.Equal(t, make([]byte, 4096), <-done)
	require.Equal(t, make([]byte, 4096), read(t, m, 4096, 4096))
}

// TestWritebackOfDiscarded lets what is on its way go on, and forgets it if it
// fails.
func TestWritebackOfDiscarded(t *testing.T) {
	m, d := newTestMapping(t, 1024, 1<<20, MappingOptions{FolioSize: 16 << 10})
	write(t, m, full(1, 14<<10), 2048)
	w := m.Begin(0, allBlocks, 0)
	m.Discard(2, 6)
	held := func() []byte { return slices.Concat(w.Bufs(w.Runs[0])...) }
	require.Equal(t, full(1, 14<<10), held())
	require.Equal(t, append(make([]byte, 6<<10), full(1, 10<<10)...), read(t, m, 0, 16<<10))
	require.Equal(t, full(1, 14<<10), held(), "reading again must not change what is written")
	write(t, m, full(2, 1024), 4096) // reborn
	require.Equal(t, full(1, 14<<10), held())
	second := m.Begin(0, allBlocks, 0)
	require.Equal(t, []Run{{4, 1}}, second.Runs)
	w.End(errors.New("no"))
	require.Equal(t, []Run{{6, 10}}, m.DirtyRuns(0, allBlocks))
	second.End(errors.New("neither"))
	require.Equal(t, []Run{{4, 1}, {6, 10}}, m.DirtyRuns(0, allBlocks))
	second.End(nil) // does nothing
	require.NoError(t, d.flush(m))
}

// TestBegin checks limits, joined runs and their buffers.
func TestBegin(t *testing.T) {
	m, d := newTestMapping(t, 4096, 4<<20, MappingOptions{FolioSize: 16 << 10})
	write(t, m, full(1, 40<<10), 8<<10) // blocks 2 to 11, in three folios
	write(t, m, full(2, 4<<10), 80<<10)
	w := m.Begin(3, allBlocks, 5*4096+100)
	require.Equal(t, []Run{{3, 5}}, w.Runs)
	require.Equal(t, full(1, 20<<10), slices.Concat(w.Bufs(w.Runs[0])...))
	require.Len(t, w.Bufs(w.Runs[0]), 2)
	require.Equal(t, full(1, 8<<10), slices.Concat(w.Bufs(Run{6, 2})...))
	require.Equal(t, []Run{{2, 1}, {8, 4}, {20, 1}}, m.DirtyRuns(0, allBlocks))
	require.EqualValues(t, 6<<12, m.Dirty())
	w.End(nil, Run{4, 2})
	require.Equal(t, []Run{{2, 1}, {4, 2}, {8, 4}, {20, 1}}, m.DirtyRuns(0, allBlocks))
	one := m.Begin(0, allBlocks, 1)
	require.Equal(t, []Run{{2, 1}}, one.Runs, "at least a block")
	require.NoError(t, d.writeOut(one))
	require.Empty(t, m.Begin(12, 20, 0).Runs)
	require.NoError(t, d.flush(m))
	require.Zero(t, m.Dirty())
	require.Zero(t, m.b.Dirty())
}

// TestZero dirties only what may hold something.
func TestZero(t *testing.T) {
	m, d := newTestMapping(t, 4096, 1<<20, MappingOptions{})
	d.blocks[2] = full(2, 4096)
	write(t, m, full(1, 4096), 0)
	require.NoError(t, m.Zero(100, 4*4096))
	require.Equal(t, []Run{{0, 1}, {2, 1}}, m.DirtyRuns(0, allBlocks))
	require.Equal(t, append(full(1, 100), make([]byte, 4*4096)...), read(t, m, 0, 4*4096+100))
	require.Equal(t, []Run{{0, 1}}, d.asked[:1])
	require.Len(t, d.blocks, 1)
	require.NoError(t, d.flush(m))
	require.NoError(t, m.Zero(200, 3*4096))
	require.Empty(t, m.DirtyRuns(0, allBlocks), "they are zeros")
	require.ErrorIs(t, m.Zero(-1, 10), syscall.EINVAL)
}

// TestLimitsOfFiles refuses what no file can have.
func TestLimitsOfFiles(t *testing.T) {
	m, _ := newTestMapping(t, 1024, 1<<20, MappingOptions{FolioSize: 1 << 20})
	_, err := m.WriteAt(full(1, 1), -1)
	require.ErrorIs(t, err, syscall.EINVAL)
	last := int64(math.MaxUint32) << 10
	_, err = m.WriteAt(full(1, 1), last)
	require.ErrorIs(t, err, syscall.EFBIG)
	_, err = m.TryWriteAt(full(1, 2), math.MaxInt64)
	require.ErrorIs(t, err, syscall.EFBIG)
	require.ErrorIs(t, m.ReadAt(make([]byte, 2), last-1), syscall.EFBIG)
	write(t, m, full(7, 1024), last-1024)
	require.Equal(t, []Run{{math.MaxUint32 - 1, 1}}, m.DirtyRuns(0, allBlocks))
	require.Equal(t, full(7, 1024), read(t, m, last-1024, 1024))
	m.Discard(math.MaxUint32-1, math.MaxUint32)
	require.Zero(t, m.Dirty())
	for _, bad := range []func(){
		func() { NewMapping(m.b, 512, newDisk(512), MappingOptions{}) },
		func() { NewMapping(m.b, 4096, newDisk(4096), MappingOptions{FolioSize: 12 << 10}) },
		func() { NewMapping(m.b, 16384, newDisk(16384), MappingOptions{FolioSize: 8 << 10}) },
	} {
		require.Panics(t, bad)
	}
}

// TestClosed gives everything back, and takes nothing any more.
func TestClosed(t *testing.T) {
	m, d := newTestMapping(t, 4096, 1<<20, MappingOptions{})
	write(t, m, full(1, 100<<10), 0)
	w := m.Begin(0, 2, 0)
	m.Close()
	m.Close()
	require.Equal(t, full(1, 8<<10), slices.Concat(w.Bufs(w.Runs[0])...))
	require.NoError(t, d.writeOut(w))
	_, err := m.WriteAt(full(1, 1), 0)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, m.ReadAt(make([]byte, 1), 0), ErrClosed)
	require.EqualValues(t, 100<<10, m.b.Stats().UserBytes, "the sums stay")
	m.b.checkEmpty(t)
}

// TestManyMappings opens many tiny files: each costs a small folio while it has
// data in memory, and little else.
func TestManyMappings(t *testing.T) {
	const files = 20000
	b := NewBudget(BudgetOptions{Limit: 16 << 20})
	b.Prepare(b.Limit())
	maps := make([]*Mapping, files)
	before := heapInUse()
	for i := range maps {
		maps[i] = NewMapping(b, 4096, quickSource{}, MappingOptions{})
		write(t, maps[i], full(1, 100), 0)
		maps[i].Begin(0, allBlocks, 0).End(nil)
	}
	each := (heapInUse() - before) / files
	t.Logf("%d bytes a mapping", each)
	require.Less(t, each, int64(800))
	require.LessOrEqual(t, b.Used(), b.Limit())
	require.EqualValues(t, files*100, b.Stats().UserBytes)
	for _, m := range maps {
		m.Close()
	}
	b.checkEmpty(t)
}

func ExampleMapping() {
	m := NewMapping(NewBudget(BudgetOptions{}), 4096, nullSource{}, MappingOptions{})
	m.WriteAt([]byte("hello"), 3*4096+10)
	w := m.Begin(0, allBlocks, 0)
	for _, r := range w.Runs {
		fmt.Printf("%d block from %d, %d buffer\n", r.N, r.First, len(w.Bufs(r)))
	}
	w.End(nil)
	// Output: 1 block from 3, 1 buffer
}
