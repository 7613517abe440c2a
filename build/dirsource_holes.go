package build

import (
	"bytes"
	"io"

	"drydock/internal/mkfs"
)

// digBuffer is how much of a file is read at once to look for zeros, in bytes.
// It is a multiple of every block size.
const digBuffer = 256 << 10

// isSparse reports whether ranges leave out some of a file of this size.
func isSparse(ranges []mkfs.Range, size uint64) bool {
	return len(ranges) != 1 || ranges[0] != mkfs.Range{Len: size}
}

// addRange appends a run, which does not lie before the end of the last one,
// and joins it with that where they touch.
func addRange(ranges []mkfs.Range, off, n uint64) []mkfs.Range {
	if n == 0 {
		return ranges
	}
	if i := len(ranges) - 1; i >= 0 && ranges[i].Off+ranges[i].Len == off {
		ranges[i].Len += n
		return ranges
	}
	return append(ranges, mkfs.Range{Off: off, Len: n})
}

// digRanges returns the runs of whole blocks of r, up to size, that are not
// all zeros. Only what lies in the blocks of data is read.
func digRanges(r io.ReaderAt, data []mkfs.Range, size uint64, blockSize int, buf []byte) ([]mkfs.Range, error) {
	var dug []mkfs.Range
	block := uint64(blockSize)
	done := uint64(0)
	for _, d := range data {
		start := max(d.Off/block*block, done)
		end := min((d.Off+d.Len+block-1)/block*block, size)
		for off := start; off < end; off += uint64(len(buf)) {
			b := buf[:min(end-off, uint64(len(buf)))]
			if _, err := r.ReadAt(b, int64(off)); err != nil && err != io.EOF {
				return nil, err
			}
			dug = addBlocks(dug, off, b, blockSize)
		}
		done = max(done, end)
	}
	return dug, nil
}

// addBlocks appends the blocks of b, which begins at off, that are not zero.
func addBlocks(ranges []mkfs.Range, off uint64, b []byte, blockSize int) []mkfs.Range {
	for len(b) > 0 {
		block := b[:min(blockSize, len(b))]
		if !bytes.Equal(block, zeros[:len(block)]) {
			ranges = addRange(ranges, off, uint64(len(block)))
		}
		off += uint64(len(block))
		b = b[len(block):]
	}
	return ranges
}

var zeros [64 << 10]byte // as long as the largest block
