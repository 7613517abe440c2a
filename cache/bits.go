package cache

import "math/bits"

// bitmap is a bit a block, in words, lowest bit first. Ranges are [lo, hi).
type bitmap []uint64

// mask returns the bits of word w that lie in [lo, hi).
func mask(w, lo, hi int) uint64 {
	m := ^uint64(0)
	if lo > w<<6 {
		m <<= uint(lo - w<<6)
	}
	if over := (w+1)<<6 - hi; over > 0 {
		m &= ^uint64(0) >> uint(over)
	}
	return m
}

func (b bitmap) get(i int) bool { return b[i>>6]>>(uint(i)&63)&1 != 0 }

func (b bitmap) set(lo, hi int) {
	for w := lo >> 6; w<<6 < hi; w++ {
		b[w] |= mask(w, lo, hi)
	}
}

func (b bitmap) clear(lo, hi int) {
	for w := lo >> 6; w<<6 < hi; w++ {
		b[w] &^= mask(w, lo, hi)
	}
}

// next returns the first bit in [lo, hi) that is set, or hi.
func (b bitmap) next(lo, hi int) int { return b.find(lo, hi, 0) }

// nextClear returns the first bit in [lo, hi) that is clear, or hi.
func (b bitmap) nextClear(lo, hi int) int { return b.find(lo, hi, ^uint64(0)) }

// find returns the first bit in [lo, hi) that differs from the same bit of flip.
func (b bitmap) find(lo, hi int, flip uint64) int {
	for w := lo >> 6; w<<6 < hi; w++ {
		if found := (b[w] ^ flip) & mask(w, lo, hi); found != 0 {
			return w<<6 + bits.TrailingZeros64(found)
		}
	}
	return hi
}

func (b bitmap) any(lo, hi int) bool { return b.next(lo, hi) < hi }
func (b bitmap) all(lo, hi int) bool { return b.nextClear(lo, hi) >= hi }

// count returns how many bits in [lo, hi) are set.
func (b bitmap) count(lo, hi int) int {
	n := 0
	for w := lo >> 6; w<<6 < hi; w++ {
		n += bits.OnesCount64(b[w] & mask(w, lo, hi))
	}
	return n
}

// move copies the bits [lo, hi) to place at of another bitmap and clears them here.
func (b bitmap) move(lo, hi int, to bitmap, at int) {
	for i := b.next(lo, hi); i < hi; {
		end := b.nextClear(i, hi)
		to.set(i-lo+at, end-lo+at)
		i = b.next(end, hi)
	}
	b.clear(lo, hi)
}

// floorPower returns the largest power of two up to n, which is positive.
func floorPower(n int) int { return 1 << (bits.Len(uint(n)) - 1) }

// trailingZeros returns how often 2 divides u; 64 for 0.
func trailingZeros(u uint64) int { return bits.TrailingZeros64(u) }
