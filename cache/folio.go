package cache

import (
	"math"
	"sync/atomic"

	"drydock/format"
)

// What a folio knows of each of its blocks. One bitmap each; the mapping's lock
// guards them.
const (
	dirty    = iota // the device does not hold what the memory holds
	uptodate        // the memory holds what the file holds
	inFlight        // a Writeback is taking that to the device; if it fails, dirty again
	frozen          // this memory is being read by a Writeback: it must not change
	kinds
)

// folio is memory for blocks of one mapping, aligned to its size. Usually all its
// units lead to it in the tree; a unit that was rewritten while this memory was
// being written back has a folio of its own by now (see carve), and the bits of its
// blocks are clear here, but for frozen.
//
// A folio without a unit in the tree is gone; its memory is given back when no
// Writeback reads it any more.
//
// A random write meets a folio that is in no cache of the processor: the fields are
// in the order in which it looks at them, and take 128 bytes.
type folio struct {
	buf   []byte
	unit  uint64 // the first
	units int16  // a power of two
	owned int16  // units that lead here
	io    int16  // pieces of Writebacks that read buf

	at clockPlace // under the budget's lock, as next and prev

	fill *fill // blocks that are being read from the device, or nil

	// The offset in the file where the last read or write of this folio ended:
	// where the next one starts if the user goes on in sequence. 0: there was none.
	// With usedAgain when there was more than one since the clock's hand passed.
	ended atomic.Int64

	words [kinds]uint64 // the bitmaps, if a word is enough for each
	more  *bitmap       // ... else, one after the other

	m          *Mapping
	frame      *frame
	next, prev *folio
}

// usedAgain is the bit of folio.ended that gives a second chance: being used once,
// as by a stream, is not enough.
const usedAgain = math.MinInt64

// fill is a read from the device into blocks of a folio.
type fill struct {
	lo, hi int // blocks of the folio
	done   chan struct{}
	stale  bool // some of them were discarded meanwhile
}

// bits returns the bitmap of one kind.
func (f *folio) bits(kind int) bitmap {
	if f.more == nil {
		return f.words[kind : kind+1 : kind+1]
	}
	n := len(*f.more) / kinds
	return (*f.more)[kind*n : (kind+1)*n]
}

// blocks returns how many blocks fit.
func (f *folio) blocks() int { return len(f.buf) >> f.m.shift }

// first returns the number of the first block.
func (f *folio) first() format.LBlock { return format.LBlock(f.unit << f.m.unitBits) }

// start and end are byte offsets in the file.
func (f *folio) start() int64 { return int64(f.unit) << (f.m.unitBits + f.m.shift) }
func (f *folio) end() int64   { return f.start() + int64(len(f.buf)) }

// block returns the memory of blocks [lo, hi).
func (f *folio) block(lo, hi int) []byte { return f.buf[lo<<f.m.shift : hi<<f.m.shift] }

// index returns the position in f of block l, for a block before f 0, and behind f
// the end.
func (f *folio) index(l format.LBlock) int {
	switch first := f.first(); {
	case l <= first:
		return 0
	case int64(l-first) >= int64(f.blocks()):
		return f.blocks()
	default:
		return int(l - first)
	}
}

// idle tells whether the folio can be given up without losing or disturbing
// anything.
func (f *folio) idle() bool {
	n := f.blocks()
	return f.io == 0 && f.fill == nil && !f.bits(dirty).any(0, n) && !f.bits(inFlight).any(0, n)
}

// filling tells whether one of the blocks [lo, hi) is being read from the device.
func (f *folio) filling(lo, hi int) bool {
	return f.fill != nil && f.fill.lo < hi && lo < f.fill.hi
}

// touch notes that a read or write ended at byte offset end of the file.
func (f *folio) touch(end int64) {
	old := f.ended.Load()
	if old != 0 {
		end |= usedAgain
	}
	if old != end {
		f.ended.Store(end)
	}
}

// lastEnd returns where the last read or write ended, or 0.
func (f *folio) lastEnd() int64 { return f.ended.Load() &^ usedAgain }
