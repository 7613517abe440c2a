package device

import (
	"iter"
	"sync/atomic"
)

// Mem is a sparse device in memory: only pages of 4 KiB that were written take
// any. Nothing of it outlives the program, so Flush has nothing to do.
type Mem struct {
	size  atomic.Int64
	store store
}

// NewMem returns size bytes of zeros.
func NewMem(size int64) *Mem {
	m := new(Mem)
	m.size.Store(size)
	m.store.init(nil)
	return m
}

// Path says what the device is.
func (m *Mem) Path() string { return "memory" }

// Size is the length in bytes.
func (m *Mem) Size() int64 { return m.size.Load() }

// Allocated is the number of bytes of memory that the content takes.
func (m *Mem) Allocated() int64 { return m.store.count() * pageSize }

// ReadAt implements io.ReaderAt.
func (m *Mem) ReadAt(p []byte, off int64) (int, error) {
	n, end := readable(m.Path(), off, len(p), m.Size())
	if err := m.store.read(p[:n], off); err != nil {
		return 0, opError("read", m.Path(), off, int64(n), err)
	}
	return n, end
}

// WriteAt implements io.WriterAt.
func (m *Mem) WriteAt(p []byte, off int64) (int, error) {
	if err := checkRange("write", m.Path(), off, int64(len(p)), m.Size()); err != nil {
		return 0, err
	}
	return len(p), m.store.write(p, off, m.Size())
}

// PunchHole implements Puncher. Whole pages give their memory back.
func (m *Mem) PunchHole(off, n int64) error {
	if err := checkRange("punch", m.Path(), off, n, m.Size()); err != nil {
		return err
	}
	return m.store.zero(off, n, m.Size())
}

// Discard implements Discarder; the range reads as zeros.
func (m *Mem) Discard(off, n int64) error { return m.PunchHole(off, n) }

// Flush implements Device.
func (m *Mem) Flush() error { return nil }

// Truncate implements Truncater.
func (m *Mem) Truncate(size int64) error {
	if size < 0 {
		return opError("truncate", m.Path(), size, 0, ErrOutOfRange)
	}
	m.size.Store(size)
	m.store.cut(size)
	return nil
}

// Segments implements Segmenter, to the page.
func (m *Mem) Segments(off, n int64) iter.Seq2[Segment, error] {
	if err := checkRange("seek", m.Path(), off, n, m.Size()); err != nil {
		return failed(err)
	}
	return each(clip(join(pageRuns(m.store.list(off, n))), off, n))
}

// Clone returns a device with the same content, as of one moment. The two share
// memory until one of them is written.
func (m *Mem) Clone() *Mem {
	c := new(Mem)
	m.store.cloneTo(&c.store)
	c.size.Store(m.Size())
	return c
}
