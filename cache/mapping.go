package cache

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"syscall"

	"drydock/format"
)

// ErrClosed is the error of using a Mapping or a Queue after Close.
var ErrClosed = errors.New("closed")

// Source is what a Mapping is a cache of: one file's blocks. Its methods are called without
// locks of the cache, at the same time from many goroutines, each time from within a call of
// a method of the Mapping.
type Source interface {
	// Fill reads the content of whole blocks from l on into p. Holes, unwritten and
	// delayed blocks, and what is beyond the end of the file, are zeros.
	Fill(l format.LBlock, p []byte) error
	// Mapped tells whether block l has written content on the device, so that
	// a write to a part of it has to read it first.
	Mapped(l format.LBlock) (bool, error)
	// Reserve takes space for the blocks [l, l+n), which are about to become dirty; for
	// blocks that have space it does nothing. ENOSPC comes from here only.
	Reserve(l format.LBlock, n int) error
}

// NoWaiter is a Source that can also be asked for what it knows in memory: its Mapped and Reserve may
// have to wait, say for an extent that has to be read, and TryWriteAt must not. A Source that
// is none is taken to answer at once.
//
// Both are called with the mapping's lock held: they wait for nothing, not even for a lock that
// another may hold while it calls the mapping, and call nothing of the cache. That makes a write that
// needs space cheaper too, so that the other writes ask here first.
type NoWaiter interface {
	// TryMapped is Mapped, if that is known.
	TryMapped(l format.LBlock) (mapped, known bool)
	// TryReserve is Reserve. With an error, or if it is not done, no space was taken.
	TryReserve(l format.LBlock, n int) (done bool, err error)
}

// Sizer is a Source that knows how long its file is, in bytes: reading ahead stops at the end.
// Size is called with a lock of the cache held; it waits for nothing.
type Sizer interface {
	Size() int64
}

// Limits of block and folio sizes, in bytes.
const (
	minBlockSize = 1 << 10
	maxBlockSize = 1 << 16
	minFolioSize = 1 << pageShift
	maxFolioSize = chunkSize
	streamFolio  = 1 << 16 // the largest that is chosen without being asked for
)

// MappingOptions says how a Mapping works; the zero value is right.
type MappingOptions struct {
	// Bytes of a folio: a power of two from 4 KiB (or a block, if that is larger) to 1 MiB.
	// 0: as large as a write or read needs, up to 64 KiB, and growing along streams.
	FolioSize int
	// One dirty block makes its whole folio dirty. To compare with in bench.
	WholeFolio bool
}

// Run is a run of blocks.
type Run struct {
	First format.LBlock // the first block
	N     int           // how many
}

// end returns the first block behind r.
func (r Run) end() format.LBlock { return r.First + format.LBlock(r.N) }

// Mapping caches one file.
type Mapping struct {
	b     *Budget
	src   Source
	quick NoWaiter // src, if it is one

	shift    uint8 // log2 of the block size
	unitBits uint8 // log2 of the blocks in a unit
	whole    bool
	fixed    uint16 // units in every folio; 0: chosen

	mu       sync.RWMutex // guards what follows, and the folios
	closed   bool
	tree     tree
	inflight []*Writeback
	drops    uint64 // how often something in memory was given up or discarded
	dirty    int64  // blocks
	counts   Stats  // but for what is counted without the lock:

	hits, punts, waits atomic.Uint64

	next, prev *Mapping // of the budget
}

// NewMapping returns an empty cache of what src holds, in blocks of blockSize bytes (1 to 64 KiB).
// It panics if a size is not one of those that are allowed.
func NewMapping(b *Budget, blockSize int, src Source, o MappingOptions) *Mapping {
	unit := max(blockSize, minFolioSize)
	if !inSizes(blockSize, minBlockSize, maxBlockSize) || o.FolioSize != 0 && !inSizes(o.FolioSize, unit, maxFolioSize) {
		panic(fmt.Sprintf("cache: blocks of %d bytes in folios of %d", blockSize, o.FolioSize))
	}
	if o.WholeFolio && o.FolioSize == 0 {
		o.FolioSize = streamFolio
	}
	m := &Mapping{b: b, src: src, whole: o.WholeFolio, fixed: uint16(o.FolioSize / unit)}
	m.shift = uint8(bits.TrailingZeros(uint(blockSize)))
	m.unitBits = uint8(bits.TrailingZeros(uint(unit / blockSize)))
	m.quick, _ = src.(NoWaiter)
	b.mappings.add(m)
	return m
}

// inSizes tells whether n is a power of two from low to high.
func inSizes(n, low, high int) bool { return n >= low && n <= high && n&(n-1) == 0 }

// Discard drops the whole blocks [from, to), dirty or not, as truncating and punching holes
// do. What is in writeback stays with the writeback, whose failure makes it dirty no more.
//
// The caller keeps writes to the range away until it has given up the space of
// the blocks, and waits for the writeback's End before the same place is written again.
func (m *Mapping) Discard(from, to format.LBlock) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.discard(from, to)
}

func (m *Mapping) discard(from, to format.LBlock) {
	m.drops++
	for _, w := range m.inflight {
		w.gone = append(w.gone, blockRange{from, to})
	}
	u, ok := m.tree.nextPresent(m.unitOf(from))
	for ok && u<<m.unitBits < uint64(to) {
		f := m.tree.get(u)
		after := m.span(f, u)
		lo, hi := m.within(f, u, after, from, to)
		m.discardIn(f, lo, hi)
		u, ok = m.tree.nextPresent(after)
	}
	m.b.rearm()
}

// discardIn drops the blocks [lo, hi) of f.
func (m *Mapping) discardIn(f *folio, lo, hi int) {
	m.clean(f, lo, hi)
	f.bits(uptodate).clear(lo, hi)
	f.bits(inFlight).clear(lo, hi)
	if f.filling(lo, hi) {
		f.fill.stale = true
	}
	m.removeEmpty(f)
}

// removeEmpty takes out a folio that holds nothing and waits for nothing.
func (m *Mapping) removeEmpty(f *folio) {
	if f.fill == nil && !f.bits(uptodate).any(0, f.blocks()) {
		m.remove(f, false)
	}
}

// remove takes f, which is in the clock's hand if inHand says so, out of the tree. Its memory is free when
// no Writeback reads it.
func (m *Mapping) remove(f *folio, inHand bool) {
	m.tree.drop(f)
	if f.io == 0 {
		m.b.release(f, inHand)
	}
}

// What became of a folio that was to be evicted.
type eviction uint8

const (
	evicted eviction = iota // its memory is free
	busy                    // it is in use, or gone already
	locked                  // the lock could not be had without waiting
)

// evict gives up f, which is in the clock's hand, if it is idle.
func (m *Mapping) evict(f *folio, try bool) eviction {
	if !try {
		m.mu.Lock()
	} else if !m.mu.TryLock() {
		return locked
	}
	defer m.mu.Unlock()
	if f.owned == 0 || !f.idle() {
		return busy
	}
	m.remove(f, true)
	m.drops++
	m.counts.Evictions++
	return evicted
}

// DirtyRuns returns the runs of dirty blocks in [from, to), ascending. What is in
// writeback is dirty only if it was written again.
func (m *Mapping) DirtyRuns(from, to format.LBlock) []Run {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var runs []Run
	m.eachDirty(from, to, func(f *folio, lo, hi int) bool {
		runs = join(runs, Run{f.first() + format.LBlock(lo), hi - lo})
		return true
	})
	return runs
}

// join appends r to runs, or to the last of them where it goes on.
func join(runs []Run, r Run) []Run {
	if n := len(runs); n > 0 && runs[n-1].end() == r.First {
		runs[n-1].N += r.N
		return runs
	}
	return append(runs, r)
}

// eachDirty calls fn for the runs of dirty blocks in [from, to), ascending, each in one folio, until
// fn returns false. fn may make the blocks clean.
func (m *Mapping) eachDirty(from, to format.LBlock, fn func(f *folio, lo, hi int) bool) {
	u, ok := m.tree.nextDirty(m.unitOf(from))
	for ok && u<<m.unitBits < uint64(to) {
		f := m.tree.get(u)
		after := m.span(f, u)
		lo, hi := m.within(f, u, after, from, to)
		for lo = f.bits(dirty).next(lo, hi); lo < hi; {
			end := f.bits(dirty).nextClear(lo, hi)
			if !fn(f, lo, end) {
				return
			}
			lo = f.bits(dirty).next(end, hi)
		}
		u, ok = m.tree.nextDirty(after)
	}
}

// soil makes the blocks [lo, hi) of f dirty; their units lead to f.
func (m *Mapping) soil(f *folio, lo, hi int) {
	d := f.bits(dirty)
	n := hi - lo - d.count(lo, hi)
	if n == 0 {
		return
	}
	d.set(lo, hi)
	u, units := m.unitsOf(f, lo, hi)
	m.tree.mark(u, units)
	m.dirty += int64(n)
	m.b.dirty.Add(int64(n) << m.shift)
}

// clean makes the blocks [lo, hi) of f clean; their units lead to f.
func (m *Mapping) clean(f *folio, lo, hi int) {
	d := f.bits(dirty)
	n := d.count(lo, hi)
	if n == 0 {
		return
	}
	d.clear(lo, hi)
	m.dirty -= int64(n)
	m.b.dirty.Add(-int64(n) << m.shift)
	u, units := m.unitsOf(f, lo, hi)
	for ; units > 0; u, units = u+1, units-1 {
		at := int(u-f.unit) << m.unitBits
		if !d.any(at, at+1<<m.unitBits) {
			m.tree.unmark(u, 1)
		}
	}
}

// unitsOf returns the units of the blocks [lo, hi) of f: the first, and how many.
func (m *Mapping) unitsOf(f *folio, lo, hi int) (uint64, int) {
	first, last := lo>>m.unitBits, (hi-1)>>m.unitBits
	return f.unit + uint64(first), last - first + 1
}

// span returns the end of the units from u on that all lead to f.
func (m *Mapping) span(f *folio, u uint64) uint64 {
	end := f.unit + uint64(f.units)
	if f.owned == f.units {
		return end
	}
	for u++; u < end && m.tree.get(u) == f; u++ {
	}
	return u
}

// within returns the blocks of f that are in its units [u, after) and in [from, to).
func (m *Mapping) within(f *folio, u, after uint64, from, to format.LBlock) (lo, hi int) {
	lo = max(int(u-f.unit)<<m.unitBits, f.index(from))
	return lo, min(int(after-f.unit)<<m.unitBits, f.index(to))
}

// unitOf returns the unit of block l.
func (m *Mapping) unitOf(l format.LBlock) uint64 { return uint64(l) >> m.unitBits }

// unitAt returns the unit of byte off.
func (m *Mapping) unitAt(off int64) uint64 { return uint64(off) >> (m.shift + m.unitBits) }

// place makes a folio for unit u, which has none, of up to want units, or as the options
// say, and of up to limit units if that is not 0. When there is no memory for it, it returns nil
// and the order that was missing. The caller holds mu.
func (m *Mapping) place(u uint64, want, limit int) (*folio, int) {
	n := m.fit(u, want, limit)
	f, order := m.newFolio(u&^uint64(n-1), n)
	if f != nil {
		m.tree.put(f, f.unit, n)
	}
	return f, order
}

// newFolio returns a folio for the units [u, u+n), not in the tree yet, or nil and the order of the frame that it
// would take.
func (m *Mapping) newFolio(u uint64, n int) (*folio, int) {
	order := m.orderOf(n)
	f := m.b.take(m, u, n, order)
	if blocks := n << m.unitBits; f != nil && blocks > 64 {
		more := make(bitmap, kinds*blocks/64)
		f.more = &more
	}
	return f, order
}

// orderOf returns the order of the frame for n units.
func (m *Mapping) orderOf(n int) int { return orderOf(n << (m.shift + m.unitBits)) }

// unitsIn returns how many units a frame of the order has room for.
func (m *Mapping) unitsIn(order int) int { return 1 << (order + pageShift) >> (m.shift + m.unitBits) }

// fit returns how many units a new folio for unit u gets: a power of two, and none that
// has a folio.
func (m *Mapping) fit(u uint64, want, limit int) int {
	n := int(m.fixed)
	if n == 0 {
		n = min(want, streamFolio>>(m.shift+m.unitBits))
		if u != 0 {
			n = min(n, 1<<min(trailingZeros(u), maxOrder))
		}
	}
	if limit > 0 {
		n = min(n, limit)
	}
	n = floorPower(n)
	for n > 1 && m.tree.occupied(u&^uint64(n-1), n) {
		n >>= 1
	}
	return n
}

// ahead returns how many units a new folio for unit u should have when n are
// needed and the user goes on in sequence: twice as many as the folio before.
func (m *Mapping) ahead(u uint64, n int) int {
	if u == 0 {
		return n
	}
	if before := m.tree.get(u - 1); before != nil {
		return max(n, 2*int(before.units))
	}
	return n
}

// follows tells whether a read or write at off goes on where one ended. f is the
// folio there, or nil.
func (m *Mapping) follows(f *folio, off int64) bool {
	if off == 0 {
		return false
	}
	if f == nil || off == f.start() {
		f = m.tree.get(m.unitAt(off - 1))
	}
	return f != nil && f.lastEnd() == off
}

// usable returns how many blocks of f can be part of the file.
func (m *Mapping) usable(f *folio) int {
	n := min(int64(f.blocks()), math.MaxUint32-int64(f.first()))
	if s, ok := m.src.(Sizer); ok {
		n = min(n, (s.Size()-f.start()+1<<m.shift-1)>>m.shift)
	}
	return int(max(n, 0))
}

// check says whether n bytes at off can be part of a file.
func (m *Mapping) check(n, off int64) error {
	switch {
	case off < 0 || n < 0:
		return syscall.EINVAL
	case n > 0 && (off > math.MaxInt64-n || (off+n-1)>>m.shift >= math.MaxUint32):
		return syscall.EFBIG
	}
	return nil
}

// Dirty returns the bytes of dirty blocks.
func (m *Mapping) Dirty() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.dirty << m.shift
}

// BlockSize returns the bytes of a block.
func (m *Mapping) BlockSize() int { return 1 << m.shift }

// Close drops all blocks, dirty or not, and gives the memory back.
func (m *Mapping) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.closed = true
	m.discard(0, math.MaxUint32)
	m.b.mappings.remove(m, m.stats())
}
