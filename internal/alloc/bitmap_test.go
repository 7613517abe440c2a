package alloc

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestBitOrder(t *testing.T) {
	m := make(Bitmap, 3)
	m.Set(0)
	m.Set(9)
	m.Set(23)
	require.Equal(t, Bitmap{0x01, 0x02, 0x80}, m)
	require.True(t, m.Test(9))
	m.Clear(9)
	require.False(t, m.Test(9))
	m.SetRange(3, 14)
	require.Equal(t, Bitmap{0xF9, 0xFF, 0x81}, m)
}

// bools is the plain model of a bitmap.
type bools []bool

func (b bools) set(from, n int, v bool) {
	for i := range n {
		b[from+i] = v
	}
}

func (b bools) count(from, n int) (set int) {
	for _, v := range b[from : from+n] {
		if v {
			set++
		}
	}
	return set
}

func (b bools) find(from, end int, v bool) int {
	for ; from < end; from++ {
		if b[from] == v {
			return from
		}
	}
	return end
}

func (b bools) last(end int) int {
	for i := end - 1; i >= 0; i-- {
		if b[i] {
			return i
		}
	}
	return -1
}

func TestBitmapModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 60).Draw(t, "bytes")
		m, model := make(Bitmap, size), make(bools, 8*size)
		for range rapid.IntRange(0, 20).Draw(t, "changes") {
			from := rapid.IntRange(0, 8*size-1).Draw(t, "from")
			n := rapid.IntRange(0, 8*size-from).Draw(t, "n")
			v := rapid.Bool().Draw(t, "v")
			model.set(from, n, v)
			if v {
				m.SetRange(from, n)
			} else {
				m.ClearRange(from, n)
			}
		}
		from := rapid.IntRange(0, 8*size).Draw(t, "from")
		end := rapid.IntRange(from, 8*size).Draw(t, "end")
		n := end - from
		for i, v := range model {
			require.Equal(t, v, m.Test(i))
		}
		require.Equal(t, model.count(from, n), m.CountSet(from, n))
		require.Equal(t, n-model.count(from, n), m.CountClear(from, n))
		require.Equal(t, model.find(from, end, true), m.FindSet(from, end))
		require.Equal(t, model.find(from, end, false), m.FindClear(from, end))
		require.Equal(t, model.count(from, n) > 0, m.AnySet(from, n))
		require.Equal(t, model.count(from, n) == n, m.AllSet(from, n))
		require.Equal(t, model.last(end), m.LastSet(end))
		checkFree(t, m, model, from, end)
	})
}

// checkFree compares the free runs with the model.
func checkFree(t *rapid.T, m Bitmap, model bools, from, end int) {
	at, total, longest := from, 0, 0
	for start, n := range m.Free(from, end) {
		require.Positive(t, n)
		require.Equal(t, start, model.find(at, end, false))
		require.Equal(t, start+n, model.find(start, end, true))
		at = start + n
		total += n
		longest = max(longest, n)
	}
	require.Equal(t, m.CountClear(from, end-from), total)
	require.Equal(t, -1, m.FindClearRun(from, end, longest+1))
	if longest > 0 {
		i := m.FindClearRun(from, end, longest)
		require.Zero(t, model.count(i, longest))
		require.GreaterOrEqual(t, i, from)
	}
}

func TestFreeStops(t *testing.T) {
	n := 0
	for range (Bitmap{0x55}).Free(0, 8) {
		n++
		break
	}
	require.Equal(t, 1, n)
}

func BenchmarkSetRange(b *testing.B) {
	m := make(Bitmap, 4096)
	for b.Loop() {
		m.SetRange(5, 30000)
		m.ClearRange(5, 30000)
	}
}

func BenchmarkSetShort(b *testing.B) {
	m := make(Bitmap, 4096)
	b.ReportAllocs()
	for b.Loop() {
		for i := 0; i < 32768; i += 4 {
			m.SetRange(i, 3)
		}
	}
}

func BenchmarkCount(b *testing.B) {
	m := make(Bitmap, 4096)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range m {
		m[i] = byte(rng.Uint32())
	}
	for b.Loop() {
		m.CountClear(3, 32760)
	}
}

func BenchmarkFree(b *testing.B) {
	m := make(Bitmap, 4096)
	m.SetRange(0, 30000)
	for b.Loop() {
		for range m.Free(0, 32768) {
		}
	}
}
