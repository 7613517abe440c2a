package device

import (
	"bytes"
	"io"
)

// zeros is a source of zeros, small enough to stay in a processor's cache.
var zeros [64 << 10]byte

// zeroUnit is how finely zeros are looked for, in bytes: the block size of
// nearly all hosts.
const zeroUnit = 4096

// IsZero reports whether all bytes of b are zero.
func IsZero(b []byte) bool {
	for len(b) > zeroUnit {
		if !bytes.Equal(b[:zeroUnit], zeros[:zeroUnit]) {
			return false
		}
		b = b[zeroUnit:]
	}
	return bytes.Equal(b, zeros[:len(b)])
}

// copyChunk is how much CopySparse reads at once, in bytes.
const copyChunk = 1 << 20

// CopySparse copies the first n bytes of src to the start of dst, which must
// read as zeros where src does, as a new file or new memory: ranges of zeros are
// not written, and holes of src, if it is a Device, are not even read.
func CopySparse(dst Device, src io.ReaderAt, n int64) error {
	if err := checkRange("write", Name(dst), 0, n, dst.Size()); err != nil {
		return err
	}
	buf := make([]byte, min(copyChunk, n))
	if d, ok := src.(Device); ok {
		for seg, err := range Segments(d, 0, min(n, d.Size())) {
			if err == nil {
				err = copyData(dst, src, seg, buf)
			}
			if err != nil {
				return err
			}
		}
		if n > d.Size() {
			return opError("read", Name(d), d.Size(), n-d.Size(), io.ErrUnexpectedEOF)
		}
		return nil
	}
	return copyData(dst, src, Segment{0, n}, buf)
}

// copyData copies one range without its zeros, by way of buf.
func copyData(dst Device, src io.ReaderAt, seg Segment, buf []byte) error {
	for off := seg.Off; off < seg.End(); {
		p := buf[:min(int64(len(buf)), seg.End()-off)]
		if n, err := src.ReadAt(p, off); n < len(p) {
			return opError("read", "source", off, int64(len(p)), early(err))
		}
		if err := writeNonzero(dst, p, off); err != nil {
			return err
		}
		off += int64(len(p))
	}
	return nil
}

// writeNonzero writes p to off but for the units that are zero.
func writeNonzero(dst Device, p []byte, off int64) error {
	for len(p) > 0 {
		skip := run(p, true)
		data := run(p[skip:], false)
		if data > 0 {
			if _, err := dst.WriteAt(p[skip:skip+data], off+int64(skip)); err != nil {
				return err
			}
		}
		p, off = p[skip+data:], off+int64(skip+data)
	}
	return nil
}

// run is the length of the units at the start of p that all are zero, or that
// all are not.
func run(p []byte, zero bool) int {
	n := 0
	for n < len(p) {
		end := min(n+zeroUnit, len(p))
		if IsZero(p[n:end]) != zero {
			break
		}
		n = end
	}
	return n
}
