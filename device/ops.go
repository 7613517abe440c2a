package device

import (
	"errors"
	"iter"
)

// Writev writes bufs one after the other from off on, in one operation if the
// device can.
func Writev(d Device, bufs [][]byte, off int64) (n int, err error) {
	if v, ok := d.(VectorWriter); ok {
		if n, err = v.WritevAt(bufs, off); !isUnsupported(err) {
			return n, err
		}
	}
	if err := checkRange("write", Name(d), off, totalLen(bufs), d.Size()); err != nil {
		return 0, err
	}
	n = 0
	for _, b := range bufs {
		m, err := d.WriteAt(b, off+int64(n))
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// WriteFUA writes and makes the write durable, with a Flush if the device has no
// other way.
func WriteFUA(d Device, p []byte, off int64) (n int, err error) {
	if f, ok := d.(FUAWriter); ok {
		if n, err = f.WriteFUA(p, off); !isUnsupported(err) {
			return n, err
		}
	}
	if n, err = d.WriteAt(p, off); err != nil {
		return n, err
	}
	return n, d.Flush()
}

// Zero makes n bytes from off on read as zeros: a hole if the device can, else
// zeros are written.
func Zero(d Device, off, n int64) error {
	if err := punch(d, off, n); !isUnsupported(err) {
		return err
	}
	if err := checkRange("write", Name(d), off, n, d.Size()); err != nil {
		return err
	}
	for n > 0 {
		chunk := min(n, int64(len(zeros)))
		if _, err := d.WriteAt(zeros[:chunk], off); err != nil {
			return err
		}
		off, n = off+chunk, n-chunk
	}
	return nil
}

// Discard tells the device that n bytes from off on are not needed any more. It
// does nothing where the device does not want to know.
func Discard(d Device, off, n int64) error {
	if err := discard(d, off, n); !isUnsupported(err) {
		return err
	}
	return checkRange("discard", Name(d), off, n, d.Size())
}

// Segments yields the ranges with data among the n bytes from off on; all of
// them for a device that does not know better. See Segmenter.
func Segments(d Device, off, n int64) iter.Seq2[Segment, error] {
	if s, ok := d.(Segmenter); ok {
		return s.Segments(off, n)
	}
	return func(yield func(Segment, error) bool) {
		if err := checkRange("seek", Name(d), off, n, d.Size()); err != nil {
			yield(Segment{}, err)
		} else if n > 0 {
			yield(Segment{off, n}, nil)
		}
	}
}

// punch is PunchHole for any device.
func punch(d Device, off, n int64) error {
	if p, ok := d.(Puncher); ok {
		return p.PunchHole(off, n)
	}
	return opError("punch", Name(d), off, n, errors.ErrUnsupported)
}

// discard is Discard for any device.
func discard(d Device, off, n int64) error {
	if p, ok := d.(Discarder); ok {
		return p.Discard(off, n)
	}
	return opError("discard", Name(d), off, n, errors.ErrUnsupported)
}

// totalLen is the number of bytes in bufs.
func totalLen(bufs [][]byte) int64 {
	var n int64
	for _, b := range bufs {
		n += int64(len(b))
	}
	return n
}
