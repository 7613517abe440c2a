package cache

import (
	"errors"
	"sync"
	"sync/atomic"
)

// ErrNoRoom is what WriteWithin and ZeroWithin say when the budget's memory is used up by
// data that has to be written back first.
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

// Background returns the number of dirty bytes from which on writeback is asked for.
func (b *Budget) Background() int64 { return b.background }

// Used returns the bytes of folio memory in use: clean, dirty, in writeback, copies.
func (b *Budget) Used() int64 { return b.used.Load() }

// Dirty returns the bytes of all dirty blocks.
func (b *Budget) Dirty() int64 { return b.dirty.Load() }

// Held returns the bytes of folio memory taken from the runtime, in use or free; it never falls.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(b.chunks) * chunkSize
}

// Prepare takes memory from the runtime before it is needed, until n bytes, or
// the limit, are held: the first use of a page costs as much as many writes do.
func (b *Budget) Prepare(n int64) {
	for b.Held() < n && b.grow() {
	}
}

// Fail makes all that waits for memory, now or later, return err: writeback has come to an end.
func (b *Budget) Fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	b.moved.Broadcast()
}

// WaitRoom waits until there is memory for a write that has met ErrNoRoom. The caller holds
// nothing that writeback needs.
func (b *Budget) WaitRoom() error {
	for {
		seen := b.seen()
		if b.reclaim(0, false) {
			return nil
		}
		if err := b.await(seen); err != nil {
			return err
		}
	}
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
	c := newChunk() // takes long: without the lock
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free.give(&c.frames[0], true)
	if b.scratch == nil {
		b.scratch = b.free.take(orderOf(maxBlockSize))
	}
	b.progressed()
	return true
}

// scratchFrame returns the memory for reads past the cache, whose user holds scratchMu. It waits for the
// first chunk if another is making it.
func (b *Budget) scratchFrame() *frame {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.scratch == nil {
		b.moved.Wait()
	}
	return b.scratch
}

// take returns a folio of m with a frame of the order, in the clock, or nil if none is free.
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

// release takes back the memory of a folio that is in no tree and that nobody reads. The folio is
// used again, unless another goroutine has it in the clock's hand; mine says that it is ours.
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

// idle tells that a folio can be evicted from now on.
func (b *Budget) idle(f *folio) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch f.at {
	case outside:
		b.clock.push(f)
	case inHand:
		f.at = inHandIdle
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

// throttle asks for writeback when there is much to write; the caller holds no locks.
func (b *Budget) throttle() {
	if b.dirty.Load() > b.background && !b.woken.Load() && b.woken.CompareAndSwap(false, true) {
		b.wake()
	}
}

// rearm makes throttle ask again: a writeback has begun or ended, or dirty data is gone.
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

// reclaim makes take(order) likely to succeed, by growing or evicting; false if neither
// helps. With try it does not wait for locks. The caller holds no lock of the cache.
func (b *Budget) reclaim(order int, try bool) bool {
	b.mu.Lock()
	n := b.clock.n
	b.mu.Unlock()
	for visits := 0; ; visits++ {
		b.mu.Lock()
		found := b.free.has(order)
		b.mu.Unlock()
		if found || b.grow() {
			return true
		}
		if try && visits > 2*n || !b.evict(try, visits >= n) {
			return false
		}
	}
}

// refill evicts until n bytes, but not more than may be dirty before writeback is asked for, are free: what was
// written back is about what is written until the next time, and the writers should find memory.
func (b *Budget) refill(n int64) {
	b.mu.Lock()
	visits := b.clock.n
	b.mu.Unlock()
	n = min(n, b.background)
	for ; visits > 0 && b.limit-b.used.Load() < n && b.evict(false, false); visits-- {
	}
}

// evict gives up the folio under the clock's hand, unless it is busy, or was used again since
// the hand passed last and force is not set; false if there is no folio.
func (b *Budget) evict(try, force bool) bool {
	f, any := b.hand(force)
	if f == nil {
		return any
	}
	switch f.m.evict(f, try) {
	case locked:
		b.putBack(f, true)
	case busy:
		b.putBack(f, false)
	}
	return true
}

// hand takes the next folio out of the clock and returns it, or nil if it stays in, for a
// second chance. False if there is none.
func (b *Budget) hand(force bool) (*folio, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.clock.first
	if f == nil {
		return nil, false
	}
	b.clock.remove(f)
	if f.ended.And(^usedAgain)&usedAgain != 0 && !force {
		b.clock.push(f)
		return nil, true
	}
	f.at = inHand
	return f, true
}

// putBack ends the stay of a folio in the hand that was not evicted.
func (b *Budget) putBack(f *folio, idle bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	idle = idle || f.at == inHandIdle
	f.at = outside
	if idle && f.frame != nil {
		b.clock.push(f)
	}
}

// clockPlace says where a folio is, seen from the clock. A folio that the hand found busy is outside
// until it is idle.
type clockPlace uint8

const (
	outside clockPlace = iota
	inClock
	inHand     // of one goroutine, which looks at it
	inHandIdle // ... and has to look again, or to put it back
)

// clock is a list of folios; the hand is at the first, and what it passes goes to the end.
type clock struct {
	first, last *folio
	n           int
}

func (l *clock) push(f *folio) {
	f.prev, f.next, f.at = l.last, nil, inClock
	if l.last != nil {
		l.last.next = f
	} else {
		l.first = f
	}
	l.last = f
	l.n++
}

func (l *clock) remove(f *folio) {
	if f.prev != nil {
		f.prev.next = f.next
	} else {
		l.first = f.next
	}
	if f.next != nil {
		f.next.prev = f.prev
	} else {
		l.last = f.prev
	}
	f.prev, f.next, f.at = nil, nil, outside
	l.n--
}
