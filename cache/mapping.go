package cache

import (
	"errors"

	"drydock/format"
)

// ErrWouldWait is what TryWriteAt says when it can go on only by waiting:
// for memory, a lock, or a read of the device.
var ErrWouldWait = errors.New("the write would have to wait")

// ErrClosed is the error of using a Mapping or a Queue after Close.
var ErrClosed = errors.New("closed")

var errStub = errors.New("no such operation so far")

// Source is what a Mapping is a cache of: one file's blocks. Its methods are called at
// the same time from many goroutines.
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

// MappingOptions says how a Mapping works; the zero value is right.
type MappingOptions struct {
	FolioSize  int  // bytes of a folio: a power of two from the block size, at least 4 KiB, to 1 MiB; 0: chosen
	WholeFolio bool // one dirty block makes the whole folio dirty; to compare with in bench
}

// Run is a run of blocks.
type Run struct {
	First format.LBlock // the first block
	N     int           // how many
}

// Mapping caches one file.
type Mapping struct {
	b *Budget
}

// NewMapping returns an empty cache of what src holds, in blocks of blockSize bytes.
func NewMapping(b *Budget, blockSize int, src Source, o MappingOptions) *Mapping {
	return &Mapping{b: b}
}

// Discard drops the whole blocks [from, to), dirty or not, as truncating and punching
// holes do. What is in writeback stays with the writeback.
func (m *Mapping) Discard(from, to format.LBlock) {}

// DirtyRuns returns the runs of dirty blocks in [from, to), ascending; what is in
// writeback is not dirty unless written again.
func (m *Mapping) DirtyRuns(from, to format.LBlock) []Run { return nil }

// Dirty returns the bytes of dirty blocks.
func (m *Mapping) Dirty() int64 { return 0 }

// Close drops all blocks, dirty or not, and gives the memory back.
func (m *Mapping) Close() {}

// Stats returns the counters of this mapping.
func (m *Mapping) Stats() Stats { return Stats{} }
