package device

import (
	"iter"
	"os"
)

// Window is a part of another device, such as a partition. Whatever is asked of
// it, nothing outside of the part is touched. It offers what the lower device
// offers, and does not close it.
type Window struct {
	dev   Device
	start int64
	size  int64
}

// NewWindow returns the size bytes at start of dev.
func NewWindow(dev Device, start, size int64) (*Window, error) {
	if err := checkRange("open window", Name(dev), start, size, dev.Size()); err != nil {
		return nil, err
	}
	return &Window{dev, start, size}, nil
}

// Path is the lower device's.
func (w *Window) Path() string { return Name(w.dev) }

// ReadOnly reports whether the lower device refuses writes.
func (w *Window) ReadOnly() bool { return ReadOnly(w.dev) }

// Size is the length in bytes.
func (w *Window) Size() int64 { return w.size }

// Start is the offset of the window in the lower device, in bytes.
func (w *Window) Start() int64 { return w.start }

// ReadAt implements io.ReaderAt.
func (w *Window) ReadAt(p []byte, off int64) (int, error) {
	want, end := readable(w.Path(), off, len(p), w.size)
	if want == 0 {
		return 0, end
	}
	n, err := w.dev.ReadAt(p[:want], w.start+off)
	if n < want {
		return n, opError("read", w.Path(), w.start+off, int64(want), early(err))
	}
	return n, end
}

// WriteAt implements io.WriterAt.
func (w *Window) WriteAt(p []byte, off int64) (int, error) {
	if err := w.check("write", off, int64(len(p))); err != nil {
		return 0, err
	}
	return w.dev.WriteAt(p, w.start+off)
}

// Flush flushes all of the lower device.
func (w *Window) Flush() error { return w.dev.Flush() }

// WritevAt implements VectorWriter.
func (w *Window) WritevAt(bufs [][]byte, off int64) (int, error) {
	if err := w.check("write", off, totalLen(bufs)); err != nil {
		return 0, err
	}
	return Writev(w.dev, bufs, w.start+off)
}

// WriteFUA implements FUAWriter.
func (w *Window) WriteFUA(p []byte, off int64) (int, error) {
	if err := w.check("write", off, int64(len(p))); err != nil {
		return 0, err
	}
	return WriteFUA(w.dev, p, w.start+off)
}

// PunchHole implements Puncher.
func (w *Window) PunchHole(off, n int64) error {
	if err := w.check("punch", off, n); err != nil {
		return err
	}
	return punch(w.dev, w.start+off, n)
}

// Discard implements Discarder.
func (w *Window) Discard(off, n int64) error {
	if err := w.check("discard", off, n); err != nil {
		return err
	}
	return discard(w.dev, w.start+off, n)
}

// CloneRange implements RangeCloner.
func (w *Window) CloneRange(dstOff int64, src *os.File, srcOff, n int64) error {
	if err := w.check("clone", dstOff, n); err != nil {
		return err
	}
	return cloneRange(w.dev, w.start+dstOff, src, srcOff, n)
}

// CopyRange implements RangeCopier.
func (w *Window) CopyRange(dstOff int64, src *os.File, srcOff, n int64) (int64, error) {
	if err := w.check("copy", dstOff, n); err != nil {
		return 0, err
	}
	return copyRange(w.dev, w.start+dstOff, src, srcOff, n)
}

// Segments implements Segmenter.
func (w *Window) Segments(off, n int64) iter.Seq2[Segment, error] {
	if err := w.check("seek", off, n); err != nil {
		return failed(err)
	}
	return func(yield func(Segment, error) bool) {
		for s, err := range Segments(w.dev, w.start+off, n) {
			if !yield(Segment{s.Off - w.start, s.Len}, err) {
				return
			}
		}
	}
}

// check fails unless n bytes at off lie in the window.
func (w *Window) check(op string, off, n int64) error {
	return checkRange(op, w.Path()+" (window)", off, n, w.size)
}
