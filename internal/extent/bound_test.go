package extent

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// packed returns a bench whose tree of n single blocks is packed full, with
// room between all of them: block i is file block (i+1)*gap.
func packed(t *testing.T, blockSize, n int, gap format.LBlock) *bench {
	m := newBench(t, blockSize, 1)
	list := make([]format.Extent, n)
	for i := range list {
		list[i] = format.Extent{LBlock: format.LBlock(i+1) * gap, Len: 1, Start: format.Block(10 + 2*i)}
		m.add(list[i])
	}
	alloc := make([]format.Block, NodesNeeded(n, blockSize))
	for i := range alloc {
		alloc[i], _ = m.tx.AllocNode(0)
	}
	root, nodes := Build(blockSize, list, alloc)
	for _, x := range nodes {
		testSums.SealExtentBlock(testIno, m.inode.Generation(), x.Bytes)
	}
	m.tx.memory.put(nodes)
	copy(m.inode.IBlock(), root[:])
	m.delta = len(alloc)
	return m
}

// orders are ways to add single blocks to a packed tree of n, each of which
// asks for many nodes; they return the file block of insert k.
var orders = map[string]func(n, k int, gap format.LBlock) format.LBlock{
	"one to each leaf": func(n, k int, gap format.LBlock) format.LBlock {
		leaves := max(1, n/84)
		return format.LBlock(k%leaves*84+42)*gap + 1 + format.LBlock(k/leaves)*2
	},
	"into one place, up": func(n, k int, gap format.LBlock) format.LBlock {
		return format.LBlock(n/2)*gap + 1 + 2*format.LBlock(k)
	},
	"into one place, down": func(n, k int, gap format.LBlock) format.LBlock {
		return format.LBlock(n/2+1)*gap - 1 - 2*format.LBlock(k)
	},
	"at both ends": func(n, k int, gap format.LBlock) format.LBlock {
		if k%2 == 0 {
			return gap - 1 - format.LBlock(k)
		}
		return format.LBlock(n+1)*gap + 2*format.LBlock(k)
	},
	"behind each leaf": func(n, k int, gap format.LBlock) format.LBlock {
		leaves := max(1, n/84)
		return format.LBlock(k%leaves*84+84)*gap + 1 + format.LBlock(k/leaves)*2
	},
	"before each leaf": func(n, k int, gap format.LBlock) format.LBlock {
		leaves := max(1, n/84)
		return format.LBlock(k%leaves*84+1)*gap - 1 - format.LBlock(k/leaves)*2
	},
	"at the end, then in the middle of what came": func(n, k int, gap format.LBlock) format.LBlock {
		if k < 500 {
			return format.LBlock(n+1)*gap + 100*format.LBlock(k)
		}
		return format.LBlock(n+1)*gap + 1 + 100*format.LBlock((k*37)%500) + 2*format.LBlock((k-500)/500)
	},
}

// Whatever the order, no tree takes more nodes than NodesFor says, however far
// the inserts have come.
func TestNodesFor(t *testing.T) {
	t.Parallel()
	const gap = 20000
	for name, order := range orders {
		for _, n := range []int{0, 3, 4, 84, 336, 337, 7056, 30000} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				t.Parallel()
				m := packed(t, 1024, n, gap)
				root := slices.Clone(m.inode.IBlock())
				for k := range 1200 {
					l := order(n, k, gap)
					m.insert(format.Extent{LBlock: l, Len: 1, Start: format.Block(1000000 + 2*k)})
					bound := NodesForTree(root, uint64(n), uint64(k+1), 1024)
					require.LessOrEqual(t, m.e.NodeDelta(), bound, "%d inserted", k+1)
					require.LessOrEqual(t, bound, NodesFor(n, uint64(k+1), 1024))
				}
				m.check()
			})
		}
	}
}

// The bound is of some use: a tree can come near it.
func TestNodesForIsNear(t *testing.T) {
	t.Parallel()
	const n, gap = 30000, 20000
	m := packed(t, 1024, n, gap)
	bound := NodesForTree(m.inode.IBlock(), n, n/84, 1024)
	for k := range n / 84 {
		l := orders["one to each leaf"](n, k, gap)
		m.insert(format.Extent{LBlock: l, Len: 1, Start: format.Block(1000000 + 2*k)})
	}
	require.Less(t, bound, 4*m.e.NodeDelta())
}

// A reservation that was made once is enough to the end, also when it is
// lowered as the comment at NodesFor allows.
func TestNodesForReservation(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		m := newBench(t, 1024, seed)
		const total = 2000
		perm := m.r.Perm(total)
		reserved := NodesFor(0, total, 1024)
		for i, l := range perm {
			before := m.e.NodeDelta()
			m.insert(format.Extent{LBlock: format.LBlock(2 * l), Len: 1, Start: format.Block(10 + 2*l)})
			reserved -= m.e.NodeDelta() - before
			require.GreaterOrEqual(t, reserved, 0)
			reserved = min(reserved, NodesFor(i+1, uint64(total-i-1), 1024))
		}
		require.Zero(t, reserved)
	}
}

// Convert adds two extents at most, three where a long written one does not
// fit into one that is unwritten.
func TestNodesForConvert(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		m := newBench(t, 1024, seed)
		m.insert(format.Extent{LBlock: 0, Len: modelSpan, Start: 10, Unwritten: seed%2 == 0})
		for k := range 900 {
			l := format.LBlock(m.r.IntN(modelSpan))
			m.convert(l, l+1, seed%2 != 0)
			require.LessOrEqual(t, m.e.NodeDelta(), NodesFor(1, uint64(2*k+2), 1024))
		}
		m.check()
	}
}

func TestNodesForSmall(t *testing.T) {
	require.Equal(t, 0, NodesFor(0, 4, 4096))
	require.Equal(t, 0, NodesFor(3, 1, 4096))
	require.Equal(t, 1, NodesFor(4, 1, 4096))
	require.Equal(t, 1, NodesFor(40, 300, 4096))
	require.Equal(t, 0, NodesFor(-1, 0, 4096))
	require.Greater(t, NodesFor(0, 1<<32, 4096), 1<<32/340)
}

func TestMaxExtents(t *testing.T) {
	m := packed(t, 1024, 3000, 10)
	require.EqualValues(t, 84*84, MaxExtents(m.inode.IBlock(), 1024, 1<<40))
	require.EqualValues(t, 3000, MaxExtents(m.inode.IBlock(), 1024, 3000))
	require.EqualValues(t, 7, MaxExtents(make([]byte, 60), 1024, 7))
	m = newBench(t, 1024, 1)
	require.Zero(t, MaxExtents(m.inode.IBlock(), 1024, 9))
}
