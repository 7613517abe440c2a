package alloc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMaxTreeModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Uint32Range(0, 9), 1, 70).Draw(t, "values")
		tree := newMaxTree(values)
		for range rapid.IntRange(0, 30).Draw(t, "changes") {
			i := rapid.IntRange(0, len(values)-1).Draw(t, "i")
			values[i] = rapid.Uint32Range(0, 9).Draw(t, "v")
			tree.set(i, values[i])
		}
		largest := uint32(0)
		for i, v := range values {
			require.Equal(t, v, tree.get(i))
			largest = max(largest, v)
		}
		require.Equal(t, largest, tree.max())
		from := rapid.IntRange(0, len(values)).Draw(t, "from")
		end := rapid.IntRange(0, len(values)).Draw(t, "end")
		v := rapid.Uint32Range(1, 10).Draw(t, "least")
		want := -1
		for i := from; i < end && want < 0; i++ {
			if values[i] >= v {
				want = i
			}
		}
		require.Equal(t, want, tree.next(from, end, v))
	})
}
