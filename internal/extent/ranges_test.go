package extent

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// rangesBench compares trees of long extents with a Status, which knows ranges
// but no trees, entries or limits of length.
type rangesBench struct {
	*bench
	want Status
}

const rangesSpan = 1 << 20

func (m *rangesBench) step() {
	from := format.LBlock(m.r.IntN(rangesSpan))
	n := uint32(1 + m.r.IntN(1<<m.r.IntN(19)))
	to := min(from+format.LBlock(n), rangesSpan)
	switch k := m.r.IntN(10); {
	case k < 6:
		m.fill(from, to)
	case k < 8:
		m.convertRange(from, to)
	default:
		m.removeRange(from, to)
	}
}

// fill maps the first hole of [from, to). A file block has one of two places,
// so that most neighbours go together.
func (m *rangesBench) fill(from, to format.LBlock) {
	for from < to {
		x, ok := m.want.Lookup(from)
		if !ok {
			break
		}
		from = format.LBlock(x.End())
	}
	if next, ok := m.want.Next(from); ok {
		to = min(to, next.LBlock)
	}
	if from >= to {
		return
	}
	x := format.Extent{LBlock: from, Len: uint32(to - from), Start: 10 + format.Block(from), Unwritten: m.r.IntN(3) == 0}
	if m.r.IntN(8) == 0 {
		x.Start += rangesSpan
	}
	require.NoError(m.t, m.e.Insert(x))
	m.want.Set(from, x.Len, kindOf(x.Unwritten), x.Start)
}

func kindOf(unwritten bool) Kind {
	if unwritten {
		return Unwritten
	}
	return Written
}

func (m *rangesBench) convertRange(from, to format.LBlock) {
	unwritten := m.r.IntN(2) == 0
	require.NoError(m.t, m.e.Convert(from, to, unwritten))
	for l := from; l < to; {
		x, ok := m.want.Next(l)
		if !ok || x.LBlock >= to {
			break
		}
		x = x.from(max(l, x.LBlock))
		x = x.to(min(x.End(), uint64(to)))
		m.want.Set(x.LBlock, x.Len, kindOf(unwritten), x.Start)
		l = format.LBlock(x.End())
	}
}

func (m *rangesBench) removeRange(from, to format.LBlock) {
	n := uint64(0)
	next, done, err := m.e.Remove(from, to, 0, func(_ format.Block, k uint32) error { n += uint64(k); return nil })
	require.NoError(m.t, err)
	require.True(m.t, done)
	require.Equal(m.t, from, next)
	want := uint64(0)
	for x := range m.want.All(from) {
		if first, end := max(x.LBlock, from), min(x.End(), uint64(to)); uint64(first) < end {
			want += end - uint64(first)
		}
	}
	require.Equal(m.t, want, n)
	m.want.Remove(from, uint64(to))
}

// check compares both.
func (m *rangesBench) check() {
	m.t.Helper()
	var got Status
	f := NewFile(m.tx.memory, m.g, testSums, testIno, m.inode)
	for x, err := range f.Map() {
		require.NoError(m.t, err)
		_, mapped := got.Lookup(x.LBlock)
		require.False(m.t, mapped)
		got.Set(x.LBlock, x.Len, kindOf(x.Unwritten), x.Start)
	}
	require.Equal(m.t, allRanges(&m.want), allRanges(&got))
	m.checkNodes(f)
}

func TestLongExtents(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := rangesBench{bench: newBench(t, 1024, seed)}
			for i := range 200 {
				m.step()
				if i%10 == 0 {
					m.check()
				}
			}
			m.check()
		})
	}
}

// Runs beyond the longest entry, and next to each other, give few entries.
func TestLongestExtents(t *testing.T) {
	for _, unwritten := range []bool{false, true} {
		m := newBench(t, 4096, 1)
		at := func(l format.LBlock, n uint32) format.Extent {
			return format.Extent{LBlock: l, Len: n, Start: 100 + format.Block(l), Unwritten: unwritten}
		}
		for _, x := range []format.Extent{at(50, 10), at(60+70000, 10), at(60, 70000), at(0, 50)} {
			require.NoError(t, m.e.Insert(x))
		}
		m.isOneRun(70070, unwritten)
		require.NoError(t, m.e.Convert(0, 70070, !unwritten))
		m.isOneRun(70070, !unwritten)
		require.Zero(t, m.depth())
	}
}

// isOneRun makes sure that the file is n blocks from block 100 on, in at most
// four extents.
func (m *bench) isOneRun(n uint32, unwritten bool) {
	list := collect(m.t, NewFile(m.tx.memory, m.g, testSums, testIno, m.inode))
	require.LessOrEqual(m.t, len(list), format.ExtentRootMax)
	next := format.LBlock(0)
	for _, x := range list {
		require.Equal(m.t, format.Extent{LBlock: next, Len: x.Len, Start: 100 + format.Block(next), Unwritten: unwritten}, x)
		next += format.LBlock(x.Len)
	}
	require.EqualValues(m.t, n, next)
}

// A file of 100,000 blocks written in pieces in one direction has as few
// extents as it can have, nearly.
func TestOneDirection(t *testing.T) {
	const n, piece = 100000, 100
	for _, down := range []bool{false, true} {
		m := newBench(t, 4096, 1)
		for l := format.LBlock(0); l < n; l += piece {
			at := l
			if down {
				at = n - piece - l
			}
			require.NoError(t, m.e.Insert(format.Extent{LBlock: at, Len: piece, Start: 10 + format.Block(at)}))
		}
		require.Len(t, collect(t, NewFile(m.tx.memory, m.g, testSums, testIno, m.inode)), 4)
	}
}

func TestLargestFile(t *testing.T) {
	m := newBench(t, 4096, 1)
	require.NoError(t, m.e.Insert(format.Extent{LBlock: 0, Len: 1<<32 - 1, Start: 5, Unwritten: true}))
	require.EqualValues(t, 2, m.depth())
	_, done, err := m.e.Remove(7, format.MaxLBlock, 0, func(format.Block, uint32) error { return nil })
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, []format.Extent{{Len: 7, Start: 5, Unwritten: true}}, collect(t, NewFile(m.tx.memory, m.g, testSums, testIno, m.inode)))
	require.Empty(t, m.tx.nodes)
}
