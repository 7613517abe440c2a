package alloc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"drydock/format"
)

func TestRuns(t *testing.T) {
	var r Runs
	_, ok := r.Peek()
	require.False(t, ok)
	r.Add(10, 5)
	r.Add(15, 5) // goes on
	r.Add(30, 0)
	r.Add(40, 3)
	r.Add(50, 100)
	require.EqualValues(t, 113, r.Free())
	next, ok := r.Peek()
	require.True(t, ok)
	require.Equal(t, Run{10, 10}, next)

	got, ok := r.Take(4)
	require.True(t, ok)
	require.Equal(t, Run{10, 4}, got)
	got, ok = r.TakeWhole(20)
	require.True(t, ok)
	require.Equal(t, Run{50, 20}, got)
	require.Equal(t, format.Block(70), got.End())
	got, ok = r.TakeWhole(3)
	require.True(t, ok)
	require.Equal(t, Run{14, 3}, got)
	got, ok = r.TakeWhole(3)
	require.True(t, ok)
	require.Equal(t, Run{17, 3}, got)
	_, ok = r.TakeWhole(81)
	require.False(t, ok)
	require.False(t, r.TakeAll(84, nil))
	require.EqualValues(t, 83, r.Free())
	var all []Run
	require.True(t, r.TakeAll(83, func(x Run) { all = append(all, x) }))
	require.Equal(t, []Run{{40, 3}, {70, 80}}, all)
	require.Zero(t, r.Free())
	_, ok = r.Take(1)
	require.False(t, ok)
	require.True(t, r.TakeAll(0, nil))
}

// A run in the middle that is used up goes away.
func TestTakeWholeRun(t *testing.T) {
	var r Runs
	r.Add(10, 1)
	r.Add(20, 5)
	r.Add(30, 2)
	_, ok := r.TakeWhole(5)
	require.True(t, ok)
	got, _ := r.Take(9)
	require.Equal(t, Run{10, 1}, got)
	got, _ = r.Take(9)
	require.Equal(t, Run{30, 2}, got)
	_, ok = r.Take(0)
	require.False(t, ok)
}

// No block is handed out twice, none that was not added, and in the end all are.
func TestRunsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Runs
		left := map[format.Block]bool{}
		at := format.Block(0)
		for range rapid.IntRange(0, 10).Draw(t, "runs") {
			at += format.Block(rapid.IntRange(0, 3).Draw(t, "gap"))
			n := rapid.Uint64Max(20).Draw(t, "len")
			r.Add(at, n)
			for range n {
				left[at] = true
				at++
			}
		}
		for range rapid.IntRange(0, 20).Draw(t, "takes") {
			n := rapid.Uint64Range(1, 12).Draw(t, "n")
			takeSome(t, &r, left, rapid.IntRange(0, 2).Draw(t, "kind"), n)
			require.EqualValues(t, len(left), r.Free())
		}
		require.True(t, r.TakeAll(r.Free(), func(x Run) { remove(t, left, x) }))
		require.Empty(t, left)
	})
}

func takeSome(t *rapid.T, r *Runs, left map[format.Block]bool, kind int, n uint64) {
	switch kind {
	case 0:
		if x, ok := r.Take(n); ok {
			require.LessOrEqual(t, x.Len, n)
			remove(t, left, x)
		}
	case 1:
		if x, ok := r.TakeWhole(n); ok {
			require.Equal(t, n, x.Len)
			remove(t, left, x)
		}
	case 2:
		taken := uint64(0)
		last := format.Block(0)
		ok := r.TakeAll(n, func(x Run) {
			require.GreaterOrEqual(t, x.Start, last)
			last = x.End()
			taken += x.Len
			remove(t, left, x)
		})
		require.Equal(t, ok, taken == n)
	}
}

// remove takes the blocks of x out of left; they must be there.
func remove(t *rapid.T, left map[format.Block]bool, x Run) {
	require.Positive(t, x.Len)
	for b := x.Start; b < x.End(); b++ {
		require.True(t, left[b], "block %d", b)
		delete(left, b)
	}
}
