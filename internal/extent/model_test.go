package extent

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/oracle"
)

// modelSpan is the size of the file in blocks; each file block has a place on
// the disk of its own, of three, so that some neighbours can be one extent and
// no block is used twice.
const modelSpan = 4000

func (m *bench) place(l format.LBlock) format.Block {
	return 10 + format.Block(l) + format.Block(m.r.IntN(3))*modelSpan
}

// randomHole returns a run of file blocks that is not mapped, at most n long.
func (m *bench) randomHole(n int) (from format.LBlock, length uint32) {
	from = format.LBlock(m.r.IntN(modelSpan))
	for length < uint32(n) && from+format.LBlock(length) < modelSpan {
		if _, ok := m.model[from+format.LBlock(length)]; ok {
			break
		}
		length++
	}
	return from, length
}

// step does one random operation with runs of up to longest blocks.
func (m *bench) step(longest int) {
	from := format.LBlock(m.r.IntN(modelSpan))
	to := min(from+format.LBlock(1+m.r.IntN(longest)), modelSpan)
	switch k := m.r.IntN(20); {
	case k < 13:
		l, n := m.randomHole(1 + m.r.IntN(longest))
		m.insert(format.Extent{LBlock: l, Len: n, Start: m.place(l), Unwritten: m.r.IntN(4) == 0})
	case k < 16:
		m.convert(from, to, m.r.IntN(2) == 0)
	case k < 19:
		m.remove(from, to, m.r.IntN(4), m.r.IntN(5))
	default:
		m.edit()
	}
}

func TestEditorAgainstModel(t *testing.T) {
	t.Parallel()
	seeds := uint64(16)
	if oracle.IsLong() {
		seeds = 2000
	}
	for _, blockSize := range []int{1024, 2048, 4096, 65536} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%d/%d", blockSize, seed), func(t *testing.T) {
				m := newBench(t, blockSize, seed)
				longest := []int{1, 4, 60, 1500}[seed%4]
				if seed%8 < 4 {
					m.fragment()
				}
				for i := range 300 {
					m.step(longest)
					if i%8 == 0 {
						m.check()
						m.checkLookup()
					}
				}
				m.emptyOut()
			})
		}
	}
}

// fragment maps every second block, in any order, so that trees are deep.
func (m *bench) fragment() {
	for _, i := range m.r.Perm(modelSpan / 2) {
		l := format.LBlock(2 * i)
		m.insert(format.Extent{LBlock: l, Len: 1, Start: m.place(l), Unwritten: i%50 == 0})
	}
	m.check()
}

// checkLookup compares the lookup of a random block with the model.
func (m *bench) checkLookup() {
	l := format.LBlock(m.r.IntN(modelSpan))
	got, err := m.e.Lookup(l)
	require.NoError(m.t, err)
	want, err := NewFile(m.tx.memory, m.g, testSums, testIno, m.inode).Lookup(l)
	require.NoError(m.t, err)
	if got.Start == 0 && want.Start == 0 { // how much of a hole is known may differ
		got.Len, want.Len = 1, 1
	}
	require.Equal(m.t, want, got)
}

// emptyOut removes everything in small steps.
func (m *bench) emptyOut() {
	m.remove(0, format.MaxLBlock, 1+m.r.IntN(3), 0)
	m.check()
	require.Zero(m.t, m.depth())
	require.Empty(m.t, m.tx.nodes)
}

// Alternating single blocks make deep trees quickly.
func TestEditorDeepTrees(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]func(m *bench, i, n int) int{
		"up":     func(_ *bench, i, n int) int { return i },
		"down":   func(_ *bench, i, n int) int { return n - 1 - i },
		"random": nil,
		"inward": func(_ *bench, i, n int) int { return []int{i / 2, n - 1 - i/2}[i%2] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 40000
			m := newBench(t, 1024, 1)
			perm := m.r.Perm(n)
			for i := range n {
				l := perm[i]
				if order != nil {
					l = order(m, i, n)
				}
				m.insert(format.Extent{LBlock: format.LBlock(2 * l), Len: 1, Start: format.Block(10 + 2*l)})
			}
			m.check()
			require.Equal(t, 3, m.depth())
			m.checkFill(name == "up" || name == "down")
			m.remove(100, 2*n-100, 7, 0)
			m.check()
			require.Equal(t, 1, m.depth())
			m.emptyOut()
		})
	}
}

// checkFill makes sure that nodes are at least half full, or full if the file
// was written in one direction, but for those at the ends.
func (m *bench) checkFill(full bool) {
	for d := range m.depth() {
		low := 0
		want := m.e.room() / 2
		if full {
			want = m.e.room() - 1
		}
		for _, n := range m.counts(d) {
			if n < want {
				low++
			}
		}
		require.LessOrEqual(m.t, low, 4, "depth %d: %v", d, m.counts(d))
	}
}
