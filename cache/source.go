package cache

import "drydock/format"

// Source is what a Mapping is a cache of: one file's blocks. Its methods are called
// without locks of the cache, at the same time from many goroutines, each time from
// within a call of a method of the Mapping.
type Source interface {
	// Fill reads the content of whole blocks from l on into p. Holes, unwritten and
	// delayed blocks, and what is beyond the end of the file, are zeros.
	Fill(l format.LBlock, p []byte) error
	// Mapped tells whether block l has written content on the device, so that a
	// write to a part of it has to read it first.
	Mapped(l format.LBlock) (bool, error)
	// Reserve takes space for the blocks [l, l+n), which are about to become dirty;
	// for blocks that have space it does nothing. ENOSPC comes from here only.
	Reserve(l format.LBlock, n int) error
}

// NoWaiter is a Source that can also be asked for what it knows in memory: its
// Mapped and Reserve may have to wait, say for an extent that has to be read, and
// TryWriteAt must not. A Source that is none is taken to answer at once.
//
// Both are called with the mapping's lock held: they wait for nothing, not even for
// a lock that another may hold while it calls the mapping, and call nothing of the
// cache. That makes a write that needs space cheaper too, so that the other writes
// ask here first.
type NoWaiter interface {
	// TryMapped is Mapped, if that is known.
	TryMapped(l format.LBlock) (mapped, known bool)
	// TryReserve is Reserve. With an error, or if it is not done, no space was
	// taken.
	TryReserve(l format.LBlock, n int) (done bool, err error)
}

// Sizer is a Source that knows how long its file is, in bytes: reading ahead stops
// at the end. Size is called with a lock of the cache held; it waits for nothing.
type Sizer interface {
	Size() int64
}
