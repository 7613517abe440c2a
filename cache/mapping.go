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
	// Bytes of a folio: a power of two from 4 KiB (or a block, if that is larger)
	// to 1 MiB. 0: as large as a write or read needs, up to 64 KiB, and growing
	// along streams.
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

// NewMapping returns an empty cache of what src holds, in blocks of blockSize bytes
// (1 to 64 KiB). It panics if a size is not one of those that are allowed.
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

// within returns the blocks of f that are in its units [u, after) and in [from,
// to).
func (m *Mapping) within(f *folio, u, after uint64, from, to format.LBlock) (lo, hi int) {
	lo = max(int(u-f.unit)<<m.unitBits, f.index(from))
	return lo, min(int(after-f.unit)<<m.unitBits, f.index(to))
}

// unitOf returns the unit of block l.
func (m *Mapping) unitOf(l format.LBlock) uint64 { return uint64(l) >> m.unitBits }

// unitAt returns the unit of byte off.
func (m *Mapping) unitAt(off int64) uint64 { return uint64(off) >> (m.shift + m.unitBits) }

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
