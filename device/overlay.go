package device

import (
	"cmp"
	"iter"
	"slices"
)

// Overlay is a copy-on-write view of another device: it reads as the base with
// all that was written to the overlay, which is kept in memory in pages of 4 KiB.
// The base is never written and must not change.
type Overlay struct {
	base  Device
	size  int64
	store store
}

// NewOverlay returns an overlay that reads as base.
func NewOverlay(base Device) *Overlay {
	o := &Overlay{base: base, size: base.Size()}
	o.store.init(base)
	return o
}

// Path is the base's.
func (o *Overlay) Path() string { return Name(o.base) }

// Size is the length in bytes, the base's.
func (o *Overlay) Size() int64 { return o.size }

// Allocated is the number of bytes of memory that the changes take.
func (o *Overlay) Allocated() int64 { return o.store.count() * pageSize }

// ReadAt implements io.ReaderAt.
func (o *Overlay) ReadAt(p []byte, off int64) (int, error) {
	n, end := readable(o.Path(), off, len(p), o.size)
	if err := o.store.read(p[:n], off); err != nil {
		return 0, opError("read", o.Path(), off, int64(n), err)
	}
	return n, end
}

// WriteAt implements io.WriterAt. It reads the base where a page is written only
// in part.
func (o *Overlay) WriteAt(p []byte, off int64) (int, error) {
	if err := checkRange("write", o.Path(), off, int64(len(p)), o.size); err != nil {
		return 0, err
	}
	if err := o.store.write(p, off, o.size); err != nil {
		return 0, opError("write", o.Path(), off, int64(len(p)), err)
	}
	return len(p), nil
}

// PunchHole implements Puncher.
func (o *Overlay) PunchHole(off, n int64) error {
	if err := checkRange("punch", o.Path(), off, n, o.size); err != nil {
		return err
	}
	return opError("punch", o.Path(), off, n, o.store.zero(off, n, o.size))
}

// Discard implements Discarder; the range reads as zeros.
func (o *Overlay) Discard(off, n int64) error { return o.PunchHole(off, n) }

// Flush implements Device; there is nothing to do.
func (o *Overlay) Flush() error { return nil }

// Segments implements Segmenter.
func (o *Overlay) Segments(off, n int64) iter.Seq2[Segment, error] {
	if err := checkRange("seek", o.Path(), off, n, o.size); err != nil {
		return failed(err)
	}
	pages := o.store.list(off, n)
	list := pageRuns(pages)
	for s, err := range Segments(o.base, off, n) {
		if err != nil {
			return failed(err)
		}
		list = without(list, s, pages)
	}
	slices.SortFunc(list, func(a, b Segment) int { return cmp.Compare(a.Off, b.Off) })
	return each(clip(join(list), off, n))
}

// Changed yields the ranges, to the page, that were written or punched.
func (o *Overlay) Changed() iter.Seq[Segment] {
	var list []Segment
	for _, p := range o.store.list(0, o.size) {
		list = append(list, Segment{p.index * pageSize, pageSize})
	}
	return slices.Values(clip(join(list), 0, o.size))
}

// Clone returns an overlay of the same base with the same changes, as of one
// moment. The two share memory until one of them is written.
func (o *Overlay) Clone() *Overlay {
	c := &Overlay{base: o.base, size: o.size}
	o.store.cloneTo(&c.store)
	return c
}
