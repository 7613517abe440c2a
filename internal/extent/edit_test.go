package extent

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

func TestEditKinds(t *testing.T) {
	g := testGeometry(1024)
	n := testInode(0, make([]byte, 60))
	e, err := edit(newFakeTx(t, 1024), nil, &g, testSums, testIno, n)
	require.ErrorIs(t, err, ErrBlockMap)
	require.NotNil(t, e)
	n = testInode(format.InodeInlineData, make([]byte, 60))
	_, err = edit(newFakeTx(t, 1024), nil, &g, testSums, testIno, n)
	require.ErrorIs(t, err, format.ErrUnsupported)
}

func TestInsertOverMapped(t *testing.T) {
	m := newBench(t, 1024, 1)
	for l := format.LBlock(10); l < 5000; l += 10 {
		m.insert(format.Extent{LBlock: l, Len: 5, Start: format.Block(100 + 2*l)})
	}
	for _, l := range []format.LBlock{10, 14, 4994, 2500, 833, 840 - 1} {
		for _, n := range []uint32{1, 7, 4000} {
			_, mapped := m.model[l]
			_, next := m.model[l+format.LBlock(n)-1]
			if !mapped && !next {
				continue
			}
			err := m.e.Insert(format.Extent{LBlock: l, Len: n, Start: 90000})
			require.ErrorIs(t, err, format.ErrDamaged, "%d+%d", l, n)
			require.ErrorContains(t, err, "are mapped already")
		}
	}
	m.check()
}

func TestEditorArguments(t *testing.T) {
	m := newBench(t, 1024, 1)
	m.g.BlocksCount = 1000
	m.edit()
	for _, x := range []format.Extent{{Len: 1, Start: 1000}, {Len: 1, Start: 0}, {Len: 2, Start: 999}, {Len: 1001, Start: 5}, {Len: 1, Start: 1 << 50}} {
		require.ErrorIs(t, m.e.Insert(x), format.ErrDamaged, "%+v", x)
	}
	require.ErrorContains(t, m.e.Insert(format.Extent{LBlock: format.MaxLBlock - 1, Len: 2, Start: 5}), "none can be mapped there")
	require.ErrorContains(t, m.e.Convert(7, 6, false), "none can be mapped there")
	_, _, err := m.e.Remove(7, 6, 0, nil)
	require.ErrorContains(t, err, "none can be mapped there")
	_, err = m.e.Lookup(format.MaxLBlock)
	require.ErrorContains(t, err, "none can be mapped there")
	require.NoError(t, m.e.Insert(format.Extent{LBlock: 3, Start: 5}))
	m.check()
}

// An allocator without a block to give and a callback that fails end what was
// asked for with their own errors.
func TestEditorPassesErrors(t *testing.T) {
	m := newBench(t, 1024, 1)
	m.tx.left = 0
	for l := range format.LBlock(4) {
		m.insert(format.Extent{LBlock: 2 * l, Len: 1, Start: format.Block(10 + 2*l)})
	}
	require.ErrorIs(t, m.e.Insert(format.Extent{LBlock: 100, Len: 1, Start: 500}), errNoSpace)
	m.check()
	failed := errors.New("failed")
	_, done, err := m.e.Remove(0, 100, 0, func(format.Block, uint32) error { return failed })
	require.ErrorIs(t, err, failed)
	require.False(t, done)
}

// The generation of a node stays, and one with less room than its block has,
// as resized or foreign trees may have, gets all of it.
func TestNodeHeaders(t *testing.T) {
	m := packed(t, 1024, 84*3, 10)
	b := m.tx.memory.blocks[firstNode+2]
	h, err := format.ReadExtentHeader(b)
	require.NoError(t, err)
	h.Generation, h.Entries, h.Max = 77, 80, 80
	format.PutExtentHeader(b, h)
	testSums.SealExtentBlock(testIno, m.inode.Generation(), b)
	for i := 81; i <= 84; i++ {
		delete(m.model, format.LBlock(84+i)*10)
	}
	m.check()
	m.insert(format.Extent{LBlock: 1001, Len: 1, Start: 90000})
	require.Zero(t, m.e.NodeDelta())
	h, err = format.ReadExtentHeader(m.tx.memory.blocks[firstNode+2])
	require.NoError(t, err)
	require.Equal(t, format.ExtentHeader{Entries: 81, Max: 84, Generation: 77}, h)
	m.check()
}

// An extent that ends where the next leaf begins goes there if the two are one,
// and the keys above follow, to the root.
func TestInsertBeforeLeaf(t *testing.T) {
	for _, n := range []int{84 * 3, 84 * 84 * 2} { // depth 1 and 2
		m := packed(t, 1024, n, 10)
		leaves := m.counts(0)
		for k := 84; k < n; k += 84 {
			first := format.LBlock(k+1) * 10
			m.insert(format.Extent{LBlock: first - 3, Len: 3, Start: m.model[first].b - 3})
		}
		m.check()
		require.Zero(t, m.e.NodeDelta())
		require.Equal(t, leaves, m.counts(0))
		first := format.LBlock(84+1)*10 - 4
		m.insert(format.Extent{LBlock: first, Len: 1, Start: 900000}) // no part of it
		require.Positive(t, m.e.NodeDelta())
		m.check()
	}
}

// A leaf without entries, which Linux takes, is used and freed like others.
func TestEmptyLeaf(t *testing.T) {
	for _, leaf := range []int{1, 2, 3} { // first, middle, last
		empty := func() *bench {
			m := packed(t, 1024, 84*3, 10)
			b := m.tx.memory.blocks[firstNode+format.Block(leaf)]
			putHeader(b, 0, 84, 0)
			testSums.SealExtentBlock(testIno, m.inode.Generation(), b)
			for i := range 84 {
				delete(m.model, format.LBlock((leaf-1)*84+i+1)*10)
			}
			return m
		}
		first := format.LBlock((leaf-1)*84+1) * 10
		m := empty()
		m.check()
		require.NoError(t, m.e.Convert(0, 9000, true))
		require.NoError(t, m.e.Convert(0, 9000, false))
		m.insert(format.Extent{LBlock: first + 3, Len: 1, Start: 90000})
		m.check()
		m = empty()
		m.remove(first+100, first+200, 0, 0)
		m.check()
		m = empty()
		m.emptyOut()
	}
}

// Removing from sparse trees leaves none that e2fsck would call too deep or
// too wide: nodes with half their room unused on average.
func TestRemoveNarrows(t *testing.T) {
	t.Parallel()
	for seed := range 4 {
		m := packed(t, 1024, 20000, 2)
		m.r = rand.New(rand.NewPCG(uint64(seed), 3))
		for range 300 {
			l := format.LBlock(m.r.IntN(40000))
			m.remove(l, l+format.LBlock(m.r.IntN(150)+seed), 0, 0)
		}
		m.check()
		for d := range m.depth() {
			total, nodes := 0, len(m.counts(d))
			for _, n := range m.counts(d) {
				total += n
			}
			require.LessOrEqual(t, nodes, 2*total/84+4, "depth %d", d)
			require.Greater(t, total, format.ExtentRootMax, "depth %d", d)
		}
	}
}

func TestGoal(t *testing.T) {
	m := newBench(t, 1024, 1)
	m.g.FirstDataBlock, m.g.BlocksPerGroup = 1, 8192
	m.edit()
	goals := &goalNodes{fakeTx: m.tx}
	m.e.nodes = goals
	for l := range format.LBlock(86) {
		m.insert(format.Extent{LBlock: 2 * l, Len: 1, Start: format.Block(3*8192 + 500 + 2*l)})
	}
	require.Equal(t, []format.Block{3*8192 + 1, firstNode + 1}, goals.goals)
}

// goalNodes notes what it was asked for.
type goalNodes struct {
	*fakeTx
	goals []format.Block
}

func (g *goalNodes) AllocNode(goal format.Block) (format.Block, error) {
	g.goals = append(g.goals, goal)
	return g.fakeTx.AllocNode(goal)
}
