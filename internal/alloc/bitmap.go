package alloc

import (
	"encoding/binary"
	"iter"
	"math/bits"
)

// Bitmap is a bitmap as on the disk: bit n is bit n%8, counted from the lowest,
// of byte n/8. Bits outside it must not be named.
type Bitmap []byte

// Test reports whether bit i is set.
func (m Bitmap) Test(i int) bool { return m[i>>3]>>(i&7)&1 != 0 }

// Set sets bit i.
func (m Bitmap) Set(i int) { m[i>>3] |= 1 << (i & 7) }

// Clear clears bit i.
func (m Bitmap) Clear(i int) { m[i>>3] &^= 1 << (i & 7) }

// SetRange sets n bits from bit from on.
func (m Bitmap) SetRange(from, n int) {
	for w := range m.pieces(from, n) {
		if w.whole {
			fill(m[w.at:w.end], 0xFF)
		} else {
			m[w.at] |= w.mask
		}
	}
}

// ClearRange clears n bits from bit from on.
func (m Bitmap) ClearRange(from, n int) {
	for w := range m.pieces(from, n) {
		if w.whole {
			clear(m[w.at:w.end])
		} else {
			m[w.at] &^= w.mask
		}
	}
}

// CountSet returns how many of the n bits from bit from on are set.
func (m Bitmap) CountSet(from, n int) int {
	count := 0
	for w := range m.pieces(from, n) {
		if w.whole {
			count += ones(m[w.at:w.end])
		} else {
			count += bits.OnesCount8(m[w.at] & w.mask)
		}
	}
	return count
}

// CountClear returns how many of the n bits from bit from on are clear.
func (m Bitmap) CountClear(from, n int) int { return n - m.CountSet(from, n) }

// AnySet reports whether one of the n bits from bit from on is set.
func (m Bitmap) AnySet(from, n int) bool { return m.FindSet(from, from+n) < from+n }

// AllSet reports whether all of the n bits from bit from on are set.
func (m Bitmap) AllSet(from, n int) bool { return m.FindClear(from, from+n) >= from+n }

// FindSet returns the first set bit from bit from on, or end if there is none
// before it.
func (m Bitmap) FindSet(from, end int) int { return m.find(from, end, 0) }

// FindClear returns the first clear bit from bit from on, or end if there is
// none before it.
func (m Bitmap) FindClear(from, end int) int { return m.find(from, end, 0xFF) }

// LastSet returns the last set bit before end, or -1.
func (m Bitmap) LastSet(end int) int {
	if end <= 0 {
		return -1
	}
	i := (end - 1) >> 3
	if b := m[i] & (0xFF >> (7 - (end-1)&7)); b != 0 {
		return i<<3 + bits.Len8(b) - 1
	}
	for i--; i >= 0; i-- {
		if m[i] != 0 {
			return i<<3 + bits.Len8(m[i]) - 1
		}
	}
	return -1
}

// NextFree returns the first run of clear bits from bit from on and before
// end; n is 0 if there is none.
func (m Bitmap) NextFree(from, end int) (start, n int) {
	start = m.FindClear(from, end)
	return start, m.FindSet(start, end) - start
}

// Free yields the runs of clear bits from bit from on and before end: where
// each starts and how long it is.
func (m Bitmap) Free(from, end int) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for from < end {
			start, n := m.NextFree(from, end)
			if n == 0 || !yield(start, n) {
				return
			}
			from = start + n
		}
	}
}

// FindClearRun returns the start of the first n clear bits that lie together
// from bit from on and before end, or -1.
func (m Bitmap) FindClearRun(from, end, n int) int {
	for start, got := range m.Free(from, end) {
		if got >= n {
			return start
		}
	}
	return -1
}

// find returns the first bit whose byte differs from skip in it: skip is 0 or
// 0xFF. It looks at eight bytes at a time where it can.
func (m Bitmap) find(from, end int, skip byte) int {
	if from >= end {
		return end
	}
	i := from >> 3
	if b := (m[i] ^ skip) >> (from & 7); b != 0 {
		return min(from+bits.TrailingZeros8(b), end)
	}
	i++
	word := uint64(skip) * 0x0101010101010101
	last := (end + 7) >> 3
	for ; i+8 <= last; i += 8 {
		if w := binary.LittleEndian.Uint64(m[i:]) ^ word; w != 0 {
			return min(i<<3+bits.TrailingZeros64(w), end)
		}
	}
	for ; i < last; i++ {
		if b := m[i] ^ skip; b != 0 {
			return min(i<<3+bits.TrailingZeros8(b), end)
		}
	}
	return end
}

// piece is a part of a range: one byte under a mask, or whole bytes.
type piece struct {
	at, end int
	mask    byte
	whole   bool
}

// pieces cuts a range of bits into a first byte, whole bytes and a last byte.
func (m Bitmap) pieces(from, n int) iter.Seq[piece] {
	return func(yield func(piece) bool) {
		if n <= 0 {
			return
		}
		end := from + n
		first, last := from>>3, end>>3
		head, tail := byte(0xFF)<<(from&7), byte(1)<<(end&7)-1
		if first == last {
			yield(piece{at: first, mask: head & tail})
			return
		}
		if !yield(piece{at: first, mask: head}) || !yield(piece{at: first + 1, end: last, whole: true}) {
			return
		}
		if tail != 0 {
			yield(piece{at: last, mask: tail})
		}
	}
}

// fill sets each byte; doubling copies are as fast as clear.
func fill(b []byte, v byte) {
	if len(b) == 0 {
		return
	}
	b[0] = v
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

func ones(b []byte) int {
	n := 0
	for ; len(b) >= 8; b = b[8:] {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(b))
	}
	for _, x := range b {
		n += bits.OnesCount8(x)
	}
	return n
}
