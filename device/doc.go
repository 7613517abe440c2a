// Package device is a block store with a durability contract. All that Drydock
// reads and writes of an image goes through a [Device]: an image file or a block
// device ([Open], [Create], [CreateTemp]), memory ([Mem]), a part of another
// device ([Window]), any storage of go-diskfs ([FromStorage]); and, laid over
// another device, writes kept apart in memory ([Overlay]), failures on demand
// ([Fault]) and a recording of all that happens ([Recorder]).
//
// # Contract
//
//	submitted ----> completed -------> durable
//	WriteAt is      WriteAt has        a Flush that was called after the
//	called          returned nil:      completion has returned nil; or the
//	                every read sees    write was one with FUA; or by chance,
//	                it                 at any time after the submission
//
// A crash keeps all that is durable. Of the other submitted writes it keeps any
// subset: a sector of 512 bytes is old or new as a whole, nothing larger is. When
// several writes that are not durable meet in a sector, it holds the value of any
// one of them, or the last durable one. Writes that run at the same time and
// overlap leave each sector as one of them wrote it.
//
// FUA makes that one write durable and says nothing of others. Flush concerns
// writes that were completed before it was called; a write that is still running
// may or may not be covered. A write that failed may have changed any part of its
// range. Once a Flush has failed, what it should have covered may be lost for
// good; image files and block devices therefore fail every later Flush too.
//
// # Ranges
//
// Offsets and lengths are bytes, of any alignment. A read that passes the end
// returns what there is and io.EOF, as io.ReaderAt has it. A change that does not
// lie inside the device changes nothing and fails with [ErrOutOfRange]. Bytes never
// written read as zeros on a new file and in memory, and take no space.
//
// # What a device may offer beyond
//
// The optional interfaces ([VectorWriter], [Puncher], [Discarder], [RangeCloner],
// [RangeCopier], [Segmenter], [FUAWriter], [Truncater], io.Closer) are found by
// type assertion. Having the method is no promise: on hosts, file systems or lower
// devices that lack the operation it fails with an error that is
// errors.ErrUnsupported, and nothing has changed. The functions [Writev],
// [WriteFUA], [Zero], [Discard], [Segments] and the type [Copier] use what there is
// and do it in another way where there is none.
//
// # Concurrency
//
// All methods of all devices may be called at the same time from many goroutines,
// but for Close, Truncate, Commit and Abort, which end or change what the others use.
//
// # Exclusion
//
// Opening takes a lock: flock on files and O_EXCL on block devices, shared when
// read-only. What another program has open this way is refused with [ErrInUse];
// what the kernel has mounted, be it through a loop device, with a [*MountedError].
package device
