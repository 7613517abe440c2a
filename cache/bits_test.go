package cache

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBitmap compares with a slice of bools.
func TestBitmap(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + r.IntN(200)
		b, plain := make(bitmap, (n+63)/64), make([]bool, n)
		for range 30 {
			lo := r.IntN(n + 1)
			hi := lo + r.IntN(n+1-lo)
			set := r.IntN(2) == 0
			if set {
				b.set(lo, hi)
			} else {
				b.clear(lo, hi)
			}
			for i := lo; i < hi; i++ {
				plain[i] = set
			}
			compareBits(t, seed, b, plain, r.IntN(n+1))
		}
		other, at := make(bitmap, len(b)), r.IntN(n)
		b.move(at, n, other, 0)
		require.False(t, b.any(at, n), "seed %d", seed)
		compareBits(t, seed, other, append(plain[at:], make([]bool, at)...), 0)
	}
}

// compareBits compares all questions that can be asked about [lo, n).
func compareBits(t *testing.T, seed uint64, b bitmap, plain []bool, lo int) {
	n := len(plain)
	next, nextClear, count := n, n, 0
	for i := n - 1; i >= lo; i-- {
		if b.get(i) != plain[i] {
			t.Fatalf("seed %d: bit %d", seed, i)
		}
		if plain[i] {
			next = i
			count++
		} else {
			nextClear = i
		}
	}
	require.Equal(t, next, b.next(lo, n), "seed %d", seed)
	require.Equal(t, nextClear, b.nextClear(lo, n), "seed %d", seed)
	require.Equal(t, count, b.count(lo, n), "seed %d", seed)
	require.Equal(t, count > 0, b.any(lo, n), "seed %d", seed)
	require.Equal(t, count == n-lo, b.all(lo, n), "seed %d", seed)
}
