package extent

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// statusModel knows each block of a small file.
type statusModel [statusSpan]StatusExtent // of one block each; kind 0: unknown

const statusSpan = 600

func (m *statusModel) set(from, n int, kind Kind, start format.Block) {
	for i := range n {
		x := StatusExtent{LBlock: format.LBlock(from + i), Len: 1, Kind: kind}
		if kind.HasBlocks() {
			x.Start = start + format.Block(i)
		}
		m[from+i] = x
	}
}

func (m *statusModel) delayed(from, to int) (n int) {
	for _, x := range m[from:to] {
		if x.Kind == Delayed {
			n++
		}
	}
	return n
}

// ranges returns the model as ranges that are as long as they can be.
func (m *statusModel) ranges() (list []StatusExtent) {
	for _, x := range m {
		switch n := len(list); {
		case x.Kind == 0:
		case n > 0 && list[n-1].joins(x):
			list[n-1].Len++
		default:
			list = append(list, x)
		}
	}
	return list
}

func allRanges(s *Status) (list []StatusExtent) {
	for x := range s.All(0) {
		list = append(list, x)
	}
	return list
}

// checkStatus compares all of s with the model, and s with its own rules.
func checkStatus(t *testing.T, s *Status, m *statusModel) {
	t.Helper()
	want := m.ranges()
	require.Equal(t, want, allRanges(s))
	require.Equal(t, len(want), s.Len())
	require.EqualValues(t, m.delayed(0, statusSpan), s.DelayedBlocks())
	pinned := 0
	for _, c := range s.chunks {
		require.NotEmpty(t, c.list)
		require.LessOrEqual(t, len(c.list), chunkMax)
		require.Equal(t, c.list[0].LBlock, c.first)
		own := 0
		for _, x := range c.list {
			if x.Kind.pinned() {
				own++
			}
		}
		require.Equal(t, own, c.pinned)
		pinned += own
	}
	require.Equal(t, pinned, s.Pinned())
}

// checkStatusAt compares what s says of one block.
func checkStatusAt(t *testing.T, s *Status, m *statusModel, l int) {
	t.Helper()
	x, ok := s.Lookup(format.LBlock(l))
	require.Equal(t, m[l].Kind != 0, ok, "block %d", l)
	if ok {
		require.Equal(t, m[l], x.from(format.LBlock(l)).to(uint64(l)+1))
	}
	next, ok := s.Next(format.LBlock(l), Delayed, InFlight)
	for ; l < statusSpan && !m[l].Kind.pinned(); l++ {
	}
	require.Equal(t, l < statusSpan, ok)
	if ok {
		require.Equal(t, m[l], next.from(format.LBlock(l)).to(uint64(l)+1))
	}
}

func TestStatusAgainstModel(t *testing.T) {
	for seed := range uint64(120) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			var s Status
			var m statusModel
			longest := []int{1, 3, 40, 300}[seed%4] // short ranges make many chunks
			for step := range 400 {
				statusStep(t, r, &s, &m, longest)
				checkStatusAt(t, &s, &m, r.IntN(statusSpan))
				if step%20 == 0 {
					checkStatus(t, &s, &m)
				}
			}
			checkStatus(t, &s, &m)
		})
	}
}

// statusStep does one random change to both.
func statusStep(t *testing.T, r *rand.Rand, s *Status, m *statusModel, longest int) {
	from := r.IntN(statusSpan)
	n := 1 + r.IntN(min(longest, statusSpan-from))
	before := m.delayed(0, statusSpan)
	switch r.IntN(12) {
	case 0:
		want := m.delayed(from, from+n)
		require.EqualValues(t, want, s.Remove(format.LBlock(from), uint64(from+n)))
		m.set(from, n, 0, 0)
		for i := range n {
			m[from+i] = StatusExtent{}
		}
	case 1:
		limit := r.IntN(s.Len() + 1)
		shrinkBoth(t, s, m, limit)
	default:
		kind := Kind(1 + r.IntN(int(InFlight)))
		start := format.Block(1000 + from + r.IntN(2)*5000) // so that neighbours often join
		delta := s.Set(format.LBlock(from), uint32(n), kind, start)
		m.set(from, n, kind, start)
		require.EqualValues(t, m.delayed(0, statusSpan)-before, delta)
	}
}

// shrinkBoth shrinks s and takes over in the model what was forgotten: nothing
// that is pinned, and enough.
func shrinkBoth(t *testing.T, s *Status, m *statusModel, limit int) {
	before := s.Len()
	forgotten := s.Shrink(limit)
	require.Equal(t, before-forgotten, s.Len())
	require.LessOrEqual(t, s.Len(), max(limit, s.Pinned()))
	for l := range m {
		if _, ok := s.Lookup(format.LBlock(l)); !ok {
			require.False(t, m[l].Kind.pinned(), "block %d", l)
			m[l] = StatusExtent{}
		}
	}
}

func TestStatusEnds(t *testing.T) {
	var s Status
	require.Zero(t, s.Remove(5, 5))
	require.Zero(t, s.Set(7, 0, Delayed, 0))
	require.Zero(t, s.Len())
	s.Set(0, format.MaxLBlock, Hole, 99)
	x, ok := s.Lookup(format.MaxLBlock - 1)
	require.True(t, ok)
	require.Equal(t, StatusExtent{Len: format.MaxLBlock, Kind: Hole}, x)
	require.EqualValues(t, 1, s.Set(format.MaxLBlock-1, 1, Delayed, 0))
	require.EqualValues(t, 1, s.Remove(10, 1<<33))
	require.Equal(t, []StatusExtent{{Len: 10, Kind: Hole}}, allRanges(&s))
	require.Equal(t, "in flight", InFlight.String())
	require.Equal(t, "kind 9", Kind(9).String())
}

// Hundreds of thousands of ranges in all orders stay quick: the numbers here
// take minutes if a change moves everything behind it.
func TestStatusMany(t *testing.T) {
	const n = 60000
	for _, order := range []string{"up", "down", "random"} {
		var s Status
		list := rand.New(rand.NewPCG(1, 2)).Perm(n)
		for i := range n {
			l := map[string]int{"up": i, "down": n - 1 - i, "random": list[i]}[order]
			s.Set(format.LBlock(2*l), 1, Delayed, 0)
		}
		require.Equal(t, n, s.Len())
		require.EqualValues(t, n, s.DelayedBlocks())
		for i := range n {
			s.Set(format.LBlock(2*list[i]), 1, Written, format.Block(100+2*i))
		}
		require.Zero(t, s.Pinned())
		s.Shrink(1000)
		require.LessOrEqual(t, s.Len(), 1000)
		require.Greater(t, s.Len(), 1000-chunkMax)
	}
}

func BenchmarkStatusLookup(b *testing.B) {
	var s Status
	for l := range format.LBlock(200000) {
		s.Set(2*l, 1, Written, format.Block(10+5*l))
	}
	for name, step := range map[string]format.LBlock{"same": 0, "next": 1, "far": 77777} {
		b.Run(name, func(b *testing.B) {
			l := format.LBlock(0)
			for b.Loop() {
				s.Lookup(l)
				if l += step; l >= 400000 {
					l -= 400000
				}
			}
		})
	}
}
