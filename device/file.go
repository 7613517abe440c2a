package device

import (
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// File is an image file or, on Linux, a block device.
type File struct {
	f        *os.File
	raw      syscall.RawConn
	path     string
	size     atomic.Int64
	sector   int64 // block device: its logical sector in bytes; file: 0
	readOnly bool
	broken   sticky
}

// sticky keeps the first error of making writes durable. The kernel reports
// such an error once and then forgets which data were lost; a later success
// would say nothing about them.
type sticky struct {
	mu  sync.Mutex
	err error
}

// keep returns the first error that it ever got.
func (s *sticky) keep(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	return s.err
}

// newFile makes a File of an open file. It closes f when it fails.
func newFile(f *os.File, path string, size int64, readOnly bool) (*File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, pathError("open", path, err)
	}
	d := &File{f: f, raw: raw, path: path, readOnly: readOnly}
	d.size.Store(size)
	return d, nil
}

// Path is the path that the file was opened by.
func (d *File) Path() string { return d.path }

// Size is the length in bytes.
func (d *File) Size() int64 { return d.size.Load() }

// ReadOnly reports whether the file was opened for reading.
func (d *File) ReadOnly() bool { return d.readOnly }

// IsBlock reports whether it is a block device.
func (d *File) IsBlock() bool { return d.sector != 0 }

// SectorSize is the logical sector size of a block device in bytes; 0 for an
// image file, which has none.
func (d *File) SectorSize() int { return int(d.sector) }

// Close ends the use of the file and gives up its lock. It makes nothing durable.
func (d *File) Close() error {
	unlockFile(d.f)
	return pathError("close", d.path, d.f.Close())
}

// ReadAt implements io.ReaderAt. A file that others made shorter fails with
// io.ErrUnexpectedEOF.
func (d *File) ReadAt(p []byte, off int64) (int, error) {
	want, end := readable(d.path, off, len(p), d.Size())
	if want == 0 {
		return 0, end
	}
	n, err := d.f.ReadAt(p[:want], off)
	if n < want {
		return n, opError("read", d.path, off, int64(want), early(err))
	}
	return n, end
}

// WriteAt implements io.WriterAt.
func (d *File) WriteAt(p []byte, off int64) (int, error) {
	if err := d.writable("write", off, int64(len(p))); err != nil {
		return 0, err
	}
	n, err := d.f.WriteAt(p, off)
	return n, opError("write", d.path, off, int64(len(p)), err)
}

// WritevAt implements VectorWriter.
func (d *File) WritevAt(bufs [][]byte, off int64) (int, error) {
	total := totalLen(bufs)
	if err := d.writable("write", off, total); err != nil {
		return 0, err
	}
	n, err := sysWritev(d.raw, bufs, off, false)
	return n, opError("write", d.path, off, total, err)
}

// WriteFUA implements FUAWriter.
func (d *File) WriteFUA(p []byte, off int64) (int, error) {
	if err := d.writable("write", off, int64(len(p))); err != nil {
		return 0, err
	}
	n, err := sysWritev(d.raw, [][]byte{p}, off, true)
	if err != nil && !isUnsupported(err) {
		d.broken.keep(opError("write", d.path, off, int64(len(p)), err))
	}
	return n, opError("write", d.path, off, int64(len(p)), err)
}

// Flush implements Device. Once it has failed it keeps failing.
func (d *File) Flush() error {
	if d.readOnly {
		return nil
	}
	return d.broken.keep(pathError("flush", d.path, sysDataSync(d.f, d.raw)))
}

// PunchHole implements Puncher. On a block device the parts of sectors at both
// ends are written.
func (d *File) PunchHole(off, n int64) error {
	if err := d.writable("punch", off, n); err != nil || n == 0 {
		return err
	}
	return opError("punch", d.path, off, n, sysPunch(d, off, n))
}

// Discard implements Discarder. Of a file, the range then reads as zeros; of a
// block device, parts of sectors stay.
func (d *File) Discard(off, n int64) error {
	if err := d.writable("discard", off, n); err != nil || n == 0 {
		return err
	}
	return opError("discard", d.path, off, n, sysDiscard(d, off, n))
}

// CloneRange implements RangeCloner. Errors that mean "not these two files" or
// "not this range" are errors.ErrUnsupported too, and nothing has changed.
func (d *File) CloneRange(dstOff int64, src *os.File, srcOff, n int64) error {
	if err := d.sourced("clone", dstOff, src, srcOff, n); err != nil || n == 0 {
		return err
	}
	return opError("clone", d.path, dstOff, n, sysClone(d.raw, dstOff, src, srcOff, n))
}

// CopyRange implements RangeCopier.
func (d *File) CopyRange(dstOff int64, src *os.File, srcOff, n int64) (int64, error) {
	if err := d.sourced("copy", dstOff, src, srcOff, n); err != nil || n == 0 {
		return 0, err
	}
	done, err := sysCopyRange(d.raw, dstOff, src, srcOff, n)
	return done, opError("copy", d.path, dstOff, n, err)
}

// Segments implements Segmenter: the host file's own holes are left out.
func (d *File) Segments(off, n int64) iter.Seq2[Segment, error] {
	if err := checkRange("seek", d.path, off, n, d.Size()); err != nil {
		return failed(err)
	}
	if d.IsBlock() {
		return each(clip([]Segment{{off, n}}, off, n))
	}
	return FileSegments(d.f, off, n)
}

// FileSegments yields the ranges with data among n bytes of a host file at off,
// in ascending order; see Segmenter. What lies past the file's end has none. All
// of the file is data where the host does not tell holes. It moves the file's
// read position.
func FileSegments(f *os.File, off, n int64) iter.Seq2[Segment, error] {
	return func(yield func(Segment, error) bool) {
		for pos, end := off, off+n; pos < end; {
			s, err := nextData(f, pos, end)
			if err != nil {
				yield(Segment{}, opError("seek", f.Name(), pos, end-pos, err))
				return
			}
			if s.Len <= 0 || !yield(s, nil) {
				return
			}
			pos = s.End()
		}
	}
}

// Truncate implements Truncater for files.
func (d *File) Truncate(size int64) error {
	switch {
	case d.IsBlock():
		return pathError("truncate", d.path, unsupported(errors.New("a block device has its size")))
	case d.readOnly:
		return pathError("truncate", d.path, ErrReadOnly)
	}
	if err := d.f.Truncate(size); err != nil {
		return pathError("truncate", d.path, err)
	}
	d.size.Store(size)
	return nil
}

// writable fails unless a range may be changed.
func (d *File) writable(op string, off, n int64) error {
	if d.readOnly {
		return opError(op, d.path, off, n, ErrReadOnly)
	}
	return checkRange(op, d.path, off, n, d.Size())
}

// sourced is writable for a range that comes from another file.
func (d *File) sourced(op string, dstOff int64, src *os.File, srcOff, n int64) error {
	if err := d.writable(op, dstOff, n); err != nil {
		return err
	}
	return checkSource(op, src, srcOff, n)
}

// writeZeros writes zeros to part of the file.
func (d *File) writeZeros(off, n int64) error {
	return split(off, n, int64(len(zeros)), func(at, _, n int64) error {
		_, err := d.f.WriteAt(zeros[:n], at)
		return err
	})
}

// allData is what nextData says of a file whose host does not tell holes.
func allData(f *os.File, pos, end int64) (Segment, error) {
	info, err := f.Stat()
	if err != nil {
		return Segment{}, err
	}
	if info.Mode()&fs.ModeDevice == 0 {
		end = min(end, info.Size())
	}
	return Segment{pos, end - pos}, nil
}

var _ interface {
	Device
	VectorWriter
	FUAWriter
	Puncher
	Discarder
	RangeCloner
	RangeCopier
	Segmenter
	Truncater
	io.Closer
} = (*File)(nil)
