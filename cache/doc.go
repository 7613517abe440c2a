// Package cache keeps file data in memory between a file system and its device:
// what was read, and what was written and is not on the device yet.
//
//	 user      ReadAt  WriteAt  TryWriteAt  Queue             Budget: memory for all mappings,
//	             |        |                                   a clock of what can be given up,
//	Mapping   [folio 64 KiB     ] [4K]     [folio 64 KiB]     waiting when all of it is dirty
//	          dirty    ..##...#.. #        ..........              |
//	          uptodate ..####.### #        ##########              | Wake
//	             |        |                                        v
//	Source    Fill     Mapped, Reserve     Begin, Bufs, End  <-- writeback
//
// A Mapping caches one file in folios: memory of 4 KiB to 1 MiB, with a dirty and
// an uptodate bit for each block. A write marks just the blocks it touches, and
// writeback takes just the runs of dirty bits, so that 4 KiB written into a folio
// of 64 KiB cost 4 KiB of writing to the device. A folio is as large as what is
// read or written at once, and along a stream twice as large as the one before, up
// to 64 KiB; MappingOptions.FolioSize fixes the size instead.
//
// # Contract
//
// Reading. ReadAt reads from memory, and from the device through Source.Fill what
// is missing: just the blocks that are asked for, or, for a reader that goes on
// where a read has ended, the whole of a folio. What Fill brings is not kept if it
// was discarded meanwhile.
//
// Writing. A block becomes dirty after Source.Reserve has taken space for it, so
// that lack of space is an error of the write. A write to a part of a block reads
// the rest only if the block is neither in memory nor a hole (Source.Mapped); in a
// hole the rest is zeros. On an error the bytes before are taken, and what was
// acknowledged earlier is as it was. Space can have been reserved in vain by a
// write that ended in an error after that: a block that has space and was never
// written reads as a hole.
//
// Not waiting. TryWriteAt takes what it can without waiting for memory, for the
// device, or for a lock that is held for longer than a copy takes, and says
// ErrWouldWait for the rest. WriteWithin waits for all but memory. A Queue has
// workers for the rest of writes that would have waited.
//
// Writeback. Begin takes runs of dirty blocks; from then on they are clean. Bufs
// gives their memory, which does not change until End: a writer that meets such a
// block gets a copy, of that block and those that it writes with it, and does not
// wait. The copy stays in place of the block; a failed writeback makes it dirty
// again. A block is never on its way twice. After End a block may be given up at
// any time, so that Fill must give its new content by then. Writing to a block, and
// End, can come in any order.
//
// Discard drops blocks whatever state they are in. The caller keeps writes to them
// away meanwhile, and sees to it that a Writeback which has taken them comes to
// nothing: waits for it, or does not put them into the file.
//
// Memory. All memory of folios, with copies and what is on its way, stays within
// BudgetOptions.Limit, always; it is taken from the runtime in pieces of 1 MiB and
// kept. Besides, a folio costs about 150 bytes, and a mapping about 350. When dirty
// data passes Background, Wake is called. When memory is used up, clean folios of
// any mapping go, those that were used once before those that were used again. When
// all is dirty, writers wait until a writeback has ended or something was
// discarded; readers read past the cache.
//
// # Locks
//
// All methods can be called at the same time from many goroutines. Inside, a
// mapping's lock comes before the budget's; no two mappings' locks are held
// together; both are held for memory work only, never while a method of Source or
// Wake runs (but for NoWaiter and Sizer, which say so). A caller may therefore hold
// its own locks around calls, and take them again in Source's methods as far as it
// can do so itself. With one exception: WriteAt and Zero can wait for a writeback,
// of any mapping of the budget. A caller with a lock that writeback needs uses
// WriteWithin and ZeroWithin, and WaitRoom when it has let go of the lock.
//
// # Files
//
//	source.go    what a Mapping is a cache of         mapping.go   options, sizes, Close
//	folio.go     memory for blocks, and their bits    bits.go      bitmaps, by words
//	tree.go      the folio of a block                 place.go     how large a folio, and where
//	write.go     the ways to write                    step.go      one folio's part of a write
//	provide.go   what a step can lack                 carve.go     copies, instead of waiting
//	read.go      ReadAt, reading ahead                zero.go      Zero
//	dirty.go     what is dirty                        discard.go   Discard, eviction
//	writeback.go Begin, Bufs, End                     queue.go     Queue
//	budget.go    the limit, waiting                   clock.go     what is given up
//	frames.go    memory in powers of two              stats.go     counters
package cache
