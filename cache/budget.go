package cache

import (
	"errors"
	"sync"
	"sync/atomic"
)

// ErrNoRoom is what WriteWithin and ZeroWithin say when the budget's memory is used
// up by data that has to be written back first.
var ErrNoRoom = errors.New("no memory left in the cache before something is written back")

// BudgetOptions says how much memory the mappings of a file system may take.
type BudgetOptions struct {
	Limit      int64  // bytes of folio memory, copies included; never passed. Whole MiB, at least one. 0: 64 MiB
	Background int64  // dirty bytes past which Wake is called. 0: a quarter of Limit
	Wake       func() // asks for writeback; called without locks of the cache. It must not block. nil: nobody is asked
}

// Budget is the memory that the mappings of a file system share.
type Budget struct {
	limit, background int64
	call              func()

	used  atomic.Int64 // bytes of frames in use
	dirty atomic.Int64 // bytes of dirty blocks
	woken atomic.Bool  // Wake was called, and no writeback has begun or ended since

	mu       sync.Mutex
	free     frames
	chunks   int // that exist or are being made
	clock    clock
	spare    *folio    // to be used again, a list
	moved    sync.Cond // progress has changed, or err
	progress uint64    // how often memory became free or a folio idle
	err      error     // of Fail

	scratchMu sync.Mutex // memory for reads when nothing else is free
	scratch   *frame

	mappings mappingList
}

// NewBudget returns a budget with nothing in it.
func NewBudget(o BudgetOptions) *Budget {
	if o.Limit == 0 {
		o.Limit = 64 << 20
	}
	o.Limit = max(o.Limit, chunkSize)
	if o.Background == 0 {
		o.Background = o.Limit / 4
	}
	b := &Budget{limit: o.Limit, background: o.Background, call: o.Wake}
	b.moved.L = &b.mu
	return b
}

// Limit returns the bytes of memory that are never passed.
func (b *Budget) Limit() int64 { return b.limit }

// Background returns the number of dirty bytes from which on writeback is asked
// for.
func (b *Budget) Background() int64 { return b.background }

// Used returns the bytes of folio memory in use: clean, dirty, in writeback,
// copies.
func (b *Budget) Used() int64 { return b.used.Load() }

// Dirty returns the bytes of all dirty blocks.
func (b *Budget) Dirty() int64 { return b.dirty.Load() }

// Held returns the bytes of folio memory taken from the runtime, in use or free; it
// never falls.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(b.chunks) * chunkSize
}

// Prepare takes memory from the runtime before it is needed, until n bytes, or the
// limit, are held: the first use of a page costs as much as many writes do.
func (b *Budget) Prepare(n int64) {
	for b.Held() < n && b.grow() {
	}
}

// Fail makes all that waits for memory, now or later, return err: writeback has
// come to an end.
func (b *Budget) Fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	b.moved.Broadcast()
}

// grow takes a chunk from the runtime, if the limit allows.
func (b *Budget) grow() bool {
	b.mu.Lock()
	ok := int64(b.chunks+1)*chunkSize <= b.limit
	if ok {
		b.chunks++
	}
	b.mu.Unlock()
	if !ok {
		return false
	}
	b.adopt(newChunk()) // takes long: without the lock
	return true
}

// adopt adds a chunk that is counted already.
func (b *Budget) adopt(c *chunk) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free.give(&c.frames[0], true)
	if b.scratch == nil {
		b.scratch = b.free.take(orderOf(maxBlockSize))
	}
	b.progressed()
}

// scratchFrame returns the memory for reads past the cache, whose user holds
// scratchMu. It waits for the first chunk if another is making it.
func (b *Budget) scratchFrame() *frame {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.scratch == nil {
		b.moved.Wait()
	}
	return b.scratch
}

// take returns a folio of m with a frame of the order, in the clock, or nil if none
// is free.
func (b *Budget) take(m *Mapping, unit uint64, units, order int) *folio {
	b.mu.Lock()
	defer b.mu.Unlock()
	frame := b.free.take(order)
	if frame == nil {
		return nil
	}
	f := b.spare
	if f == nil {
		f = &folio{}
	}
	b.spare, f.next = f.next, nil
	f.m, f.unit, f.units, f.frame, f.buf = m, unit, int16(units), frame, frame.bytes()
	b.used.Add(int64(len(f.buf)))
	b.clock.push(f)
	return f
}

// release takes back the memory of a folio that is in no tree and that nobody
// reads. The folio is used again, unless another goroutine has it in the clock's
// hand; mine says that it is ours.
func (b *Budget) release(f *folio, mine bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.at == inClock {
		b.clock.remove(f)
	}
	b.used.Add(-int64(len(f.buf)))
	b.free.give(f.frame, mine)
	if f.frame, f.buf = nil, nil; mine || f.at == outside {
		*f = folio{next: b.spare}
		b.spare = f
	}
	b.progressed()
}

// progressed tells those who wait for memory to look again; the caller holds mu.
func (b *Budget) progressed() {
	b.progress++
	b.moved.Broadcast()
}

// seen returns what to give to await after memory was not found.
func (b *Budget) seen() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.progress
}

// await waits until memory has become free since seen.
func (b *Budget) await(seen uint64) error {
	b.wake()
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.progress == seen && b.err == nil {
		b.moved.Wait()
	}
	return b.err
}

// throttle asks for writeback when there is much to write; the caller holds no
// locks.
func (b *Budget) throttle() {
	if b.dirty.Load() > b.background && !b.woken.Load() && b.woken.CompareAndSwap(false, true) {
		b.wake()
	}
}

// rearm makes throttle ask again: a writeback has begun or ended, or dirty data is
// gone.
func (b *Budget) rearm() {
	if b.woken.Load() {
		b.woken.Store(false)
	}
}

func (b *Budget) wake() {
	if b.call != nil {
		b.call()
	}
}
