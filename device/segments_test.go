package device

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawSegments draws an ascending list of segments that do not overlap, and marks
// its bytes.
func drawSegments(t *rapid.T, limit int64) (list []Segment, marks []bool) {
	marks = make([]bool, limit)
	for pos := int64(0); ; {
		s := Segment{pos + rapid.Int64Range(0, 9000).Draw(t, "gap"), rapid.Int64Range(1, 9000).Draw(t, "length")}
		if pos = s.End(); pos > limit {
			return list, marks
		}
		list = append(list, s)
		for i := s.Off; i < s.End(); i++ {
			marks[i] = true
		}
	}
}

func marksOf(list []Segment, limit int64) []bool {
	marks := make([]bool, limit)
	for _, s := range list {
		for i := s.Off; i < s.End(); i++ {
			marks[i] = true
		}
	}
	return marks
}

func TestJoinAndClip(t *testing.T) {
	const limit = 60_000
	rapid.Check(t, func(t *rapid.T) {
		list, marks := drawSegments(t, limit)
		joined := join(slices.Clone(list))
		require.True(t, slices.Equal(marks, marksOf(joined, limit)))
		for i := 1; i < len(joined); i++ {
			require.Less(t, joined[i-1].End(), joined[i].Off)
		}
		off := rapid.Int64Range(0, limit).Draw(t, "off")
		n := rapid.Int64Range(0, limit-off).Draw(t, "n")
		clear(marks[:off])
		clear(marks[off+n:])
		require.True(t, slices.Equal(marks, marksOf(clip(joined, off, n), limit)))
	})
}

func TestWithout(t *testing.T) {
	const limit = 60_000
	rapid.Check(t, func(t *rapid.T) {
		list, marks := drawSegments(t, limit)
		pages := rapid.SliceOfNDistinct(rapid.Int64Range(0, limit/pageSize-1), 0, 8, rapid.ID).Draw(t, "pages")
		slices.Sort(pages)
		var own []pageAt
		for _, p := range pages {
			own = append(own, pageAt{index: p})
			clear(marks[p*pageSize : (p+1)*pageSize])
		}
		var rest []Segment
		for _, s := range list {
			rest = without(rest, s, own)
		}
		require.True(t, slices.Equal(marks, marksOf(rest, limit)))
		require.True(t, slices.IsSortedFunc(rest, func(a, b Segment) int { return cmp.Compare(a.Off, b.Off) }))
	})
}
