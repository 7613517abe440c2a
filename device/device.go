package device

import (
	"io"
	"iter"
	"os"
)

// SectorSize is the unit, in bytes, that a crash leaves old or new as a whole.
const SectorSize = 512

// Device is a fixed range of bytes that outlives the program. See the package
// comment for what each method promises.
type Device interface {
	io.ReaderAt
	io.WriterAt

	// Size is the length in bytes.
	Size() int64

	// Flush makes every write durable that was completed before the call.
	Flush() error
}

// VectorWriter writes several buffers to one range.
type VectorWriter interface {
	// WritevAt writes bufs one after the other from off on and returns the
	// number of bytes written. It does not change or keep bufs.
	WritevAt(bufs [][]byte, off int64) (n int, err error)
}

// FUAWriter writes with "force unit access".
type FUAWriter interface {
	// WriteFUA is WriteAt, and the write is durable when it returns nil.
	WriteFUA(p []byte, off int64) (n int, err error)
}

// Puncher frees the space of a range.
type Puncher interface {
	// PunchHole makes n bytes from off on read as zeros, in the durability
	// sense a write like any other, and frees their space as far as it can.
	PunchHole(off, n int64) error
}

// Discarder is told what is not needed any more.
type Discarder interface {
	// Discard leaves n bytes from off on with no particular content.
	Discard(off, n int64) error
}

// RangeCloner shares blocks of a file of the same host file system (reflink).
type RangeCloner interface {
	// CloneRange makes n bytes at dstOff share those of src at srcOff. All
	// three must be multiples of the host's block size.
	CloneRange(dstOff int64, src *os.File, srcOff, n int64) error
}

// RangeCopier copies from a file inside the host's kernel.
type RangeCopier interface {
	// CopyRange copies n bytes of src at srcOff to dstOff and returns how many
	// were copied. It fails with io.ErrUnexpectedEOF when src ends early.
	CopyRange(dstOff int64, src *os.File, srcOff, n int64) (copied int64, err error)
}

// Segmenter knows where there are data.
type Segmenter interface {
	// Segments yields, in ascending order, ranges inside the n bytes from off
	// on; what lies between them reads as zeros. A range may hold zeros too.
	// After an error, the iteration ends.
	Segments(off, n int64) iter.Seq2[Segment, error]
}

// Truncater changes its size. What is added reads as zeros.
type Truncater interface {
	Truncate(size int64) error
}

// Segment is a range of bytes.
type Segment struct {
	Off, Len int64
}

// End is the offset of the first byte after the segment.
func (s Segment) End() int64 { return s.Off + s.Len }
