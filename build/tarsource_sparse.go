package build

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"drydock/internal/mkfs"
)

// Sparse members of tar archives. The map of data ranges stands, by the
// version, in the header and blocks after it (old GNU), in extended headers
// (0.0, 0.1) or in front of the data (1.0). Source: GNU tar manual, "Storing
// Sparse Files".

// maxSparse is the largest number of ranges in a member, 64 MiB of memory.
const maxSparse = 1 << 22

var (
	errSparse     = errors.New("damaged map of a sparse file")
	errSparseMany = fmt.Errorf("%w: more than %d ranges", errSparse, maxSparse)
)

// The map in an old GNU header and in the blocks that extend it.
const (
	gsMap      = 386 // 4 entries in the header
	gsMore     = 482 // a block follows
	gsRealSize = 483
	gsxMore    = 504 // 21 entries from byte 0 of an extension
	gsEntry    = 24  // offset and length, 12 bytes each
	gsNumber   = 12
	gsInHeader = 4
	gsInBlock  = 21
)

// sparseMap is a map in the making.
type sparseMap struct {
	ranges []mkfs.Range
	end    uint64 // of the last range, empty ones too
	packed uint64 // bytes of data
	size   uint64 // of the file
}

// add appends a range. They ascend and lie within the file.
func (m *sparseMap) add(off, n int64) error {
	if off < 0 || n < 0 || uint64(off) < m.end || uint64(off)+uint64(n) > m.size {
		return fmt.Errorf("%w: range of %d bytes at %d, after byte %d, in a file of %d", errSparse, n, off, m.end, m.size)
	}
	if len(m.ranges) >= maxSparse {
		return errSparseMany
	}
	m.ranges = addRange(m.ranges, uint64(off), uint64(n))
	m.end = uint64(off) + uint64(n)
	m.packed += uint64(n)
	return nil
}

// addEntries appends entries of an old GNU map up to the first that is empty.
func (m *sparseMap) addEntries(b tarHeader, off, count int) error {
	for i := range count {
		at := off + i*gsEntry
		if b[at] == 0 || b[at+gsNumber] == 0 {
			break
		}
		start, err := b.number("sparse offset", at, gsNumber)
		if err != nil {
			return err
		}
		n, err := b.number("sparse length", at+gsNumber, gsNumber)
		if err != nil {
			return err
		}
		if err := m.add(start, n); err != nil {
			return err
		}
	}
	return nil
}

// gnuSparse reads the map of an old GNU sparse member; the blocks that extend
// the header come next in the archive.
func (r *tarReader) gnuSparse(h tarHeader) (m sparseMap, err error) {
	size, err := h.number("sparse real size", gsRealSize, gsNumber)
	if err != nil || size < 0 {
		return m, errors.Join(errSparse, err)
	}
	m.size = uint64(size)
	if err := m.addEntries(h, gsMap, gsInHeader); err != nil {
		return m, err
	}
	for more := h[gsMore] != 0; more; {
		var block [tarBlock]byte
		if err := r.in.read(block[:]); err != nil {
			return m, err
		}
		if err := m.addEntries(block[:], 0, gsInBlock); err != nil {
			return m, err
		}
		more = block[gsxMore] != 0
	}
	return m, nil
}

// paxSparseMap reads the map of a sparse member of any PAX version. stored is
// how many bytes the member has in the archive; what the map takes of them is
// returned.
func (r *tarReader) paxSparseMap(p *paxSparse, stored int64) (m sparseMap, used int64, err error) {
	if p.size == nil || *p.size < 0 {
		return m, 0, fmt.Errorf("%w: the size of the file is missing", errSparse)
	}
	m.size = uint64(*p.size)
	if p.major == 1 && p.minor == 0 {
		used, err = r.leadingMap(&m, stored)
		return m, used, err
	}
	if len(p.numbers)%2 != 0 {
		return m, 0, fmt.Errorf("%w: an offset without a length", errSparse)
	}
	for pair := range slices.Chunk(p.numbers, 2) {
		if err := m.add(pair[0], pair[1]); err != nil {
			return m, 0, err
		}
	}
	return m, 0, nil
}

// leadingMap reads a map of version 1.0: decimal numbers, a line each, in whole
// blocks before the data: how many ranges, then offset and length of each.
func (r *tarReader) leadingMap(m *sparseMap, stored int64) (used int64, err error) {
	lines := &mapLines{r: r, left: stored}
	count, err := lines.next()
	if err != nil {
		return 0, err
	}
	if count > maxSparse {
		return 0, errSparseMany
	}
	for range count {
		off, err := lines.next()
		if err != nil {
			return 0, err
		}
		n, err := lines.next()
		if err != nil {
			return 0, err
		}
		if err := m.add(off, n); err != nil {
			return 0, err
		}
	}
	return stored - lines.left, nil
}

// mapLines reads lines from the blocks of a member.
type mapLines struct {
	r     *tarReader
	block [tarBlock]byte
	rest  []byte // of block
	left  int64  // bytes of the member that follow
}

// next reads a line with a number.
func (l *mapLines) next() (int64, error) {
	var digits [20]byte
	for n := 0; ; n++ {
		if len(l.rest) == 0 {
			if err := l.fill(); err != nil {
				return 0, err
			}
		}
		c := l.rest[0]
		l.rest = l.rest[1:]
		if c == '\n' && n > 0 {
			v, err := strconv.ParseInt(string(digits[:n]), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%w: a line holds %q", errSparse, digits[:n])
			}
			return v, nil
		}
		if c < '0' || c > '9' || n == len(digits) {
			return 0, fmt.Errorf("%w: a line holds %q", errSparse, append(digits[:n:n], c))
		}
		digits[n] = c
	}
}

func (l *mapLines) fill() error {
	if l.left < tarBlock {
		return fmt.Errorf("%w: it is longer than the member", errSparse)
	}
	l.left -= tarBlock
	l.rest = l.block[:]
	return l.r.in.read(l.rest)
}

// sparseData reads a sparse file whose data ranges lie one after another.
type sparseData struct {
	packed io.ReaderAt
	ranges []mkfs.Range
	starts []uint64 // where each range lies in packed
	size   uint64
}

func newSparseData(packed io.ReaderAt, ranges []mkfs.Range, size uint64) *sparseData {
	d := &sparseData{packed: packed, ranges: ranges, size: size, starts: make([]uint64, len(ranges))}
	var at uint64
	for i, r := range ranges {
		d.starts[i] = at
		at += r.Len
	}
	return d
}

// ReadAt reads data and zeros for holes.
func (d *sparseData) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 || uint64(off) >= d.size {
		return 0, io.EOF
	}
	if left := d.size - uint64(off); uint64(len(p)) > left {
		p, err = p[:left], io.EOF
	}
	i, _ := slices.BinarySearchFunc(d.ranges, uint64(off), func(r mkfs.Range, off uint64) int {
		if r.Off+r.Len <= off {
			return -1
		}
		return 1
	})
	for n < len(p) {
		m, fail := d.piece(p[n:], uint64(off)+uint64(n), i)
		n += m
		if fail != nil {
			return n, fail
		}
		if i < len(d.ranges) && uint64(off)+uint64(n) >= d.ranges[i].Off+d.ranges[i].Len {
			i++
		}
	}
	return n, err
}

// piece reads from off, where range i is the first that does not end before,
// up to the next border of a range.
func (d *sparseData) piece(p []byte, off uint64, i int) (int, error) {
	next := uint64(math.MaxUint64)
	if i < len(d.ranges) {
		next = d.ranges[i].Off
	}
	if off < next {
		p = p[:min(uint64(len(p)), next-off)]
		clear(p)
		return len(p), nil
	}
	in := off - next
	p = p[:min(uint64(len(p)), d.ranges[i].Len-in)]
	n, err := d.packed.ReadAt(p, int64(d.starts[i]+in))
	if n == len(p) {
		return n, nil
	}
	return n, err
}
