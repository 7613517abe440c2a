package extent

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"drydock/format"
)

// One node more is needed at each of these counts: 84 entries in a node of
// 1 KiB, 4 in the root.
func TestNodesNeeded(t *testing.T) {
	for _, c := range []struct{ n, want int }{
		{0, 0}, {1, 0}, {4, 0}, {5, 1}, {84, 1}, {85, 2}, {4 * 84, 4},
		{4*84 + 1, 5 + 1}, {84 * 84, 84 + 1}, {84*84 + 1, 85 + 2},
		{4 * 84 * 84, 4*84 + 4}, {4*84*84 + 1, 4*84 + 1 + 5 + 1},
		{4 * 84 * 84 * 84, 4*84*84 + 4*84 + 4},
	} {
		require.Equal(t, c.want, NodesNeeded(c.n, 1024), c.n)
	}
	require.Equal(t, 4, NodesNeeded(4*340, 4096))
	require.Equal(t, 6, NodesNeeded(4*340+1, 4096))
}

func TestAppend(t *testing.T) {
	long := Append(nil, format.Extent{LBlock: 10, Len: 70000, Start: 500})
	require.Equal(t, []format.Extent{
		{LBlock: 10, Len: 32768, Start: 500},
		{LBlock: 32778, Len: 32768, Start: 33268},
		{LBlock: 65546, Len: 4464, Start: 66036},
	}, long)
	require.Len(t, long, Pieces(70000, false))
	more := Append(slices.Clone(long), format.Extent{LBlock: 70010, Len: 30000, Start: 70500})
	require.Equal(t, []format.Extent{
		{LBlock: 65546, Len: 32768, Start: 66036},
		{LBlock: 98314, Len: 1696, Start: 98804},
	}, more[2:])
	for _, apart := range []format.Extent{
		{LBlock: 70011, Len: 1, Start: 70500},
		{LBlock: 70010, Len: 1, Start: 70501},
		{LBlock: 70010, Len: 1, Start: 70500, Unwritten: true},
	} {
		require.Len(t, Append(slices.Clone(long), apart), 4)
	}
	require.Equal(t, 2, Pieces(32768, true))
	require.Len(t, Append(nil, format.Extent{Len: 32768, Start: 5, Unwritten: true}), 2)
	require.Equal(t, 0, Pieces(0, false))
	require.Empty(t, Append(nil, format.Extent{}))
}

// Up to four extents lie in the inode; the tree gets deeper only when it must.
func TestBuildDepth(t *testing.T) {
	for _, c := range []struct{ n, depth int }{{0, 0}, {4, 0}, {5, 1}, {336, 1}, {337, 2}, {28224, 2}, {28225, 3}} {
		root, nodes := Build(1024, scattered(c.n), make([]format.Block, NodesNeeded(c.n, 1024)))
		h, err := format.ReadExtentHeader(root[:])
		require.NoError(t, err)
		require.EqualValues(t, c.depth, h.Depth, c.n)
		require.EqualValues(t, 4, h.Max)
		require.Len(t, nodes, NodesNeeded(c.n, 1024))
	}
}

// Nodes come level by level from the top, each level in the order of the file.
func TestBuildOrder(t *testing.T) {
	list := scattered(84*84*2 + 1) // two and a bit full nodes at depth 1
	alloc := make([]format.Block, NodesNeeded(len(list), 1024))
	for i := range alloc {
		alloc[i] = format.Block(900 - i) // any order
	}
	root, nodes := Build(1024, list, alloc)
	for i, n := range nodes {
		require.Equal(t, alloc[i], n.Block)
		h, err := format.ReadExtentHeader(n.Bytes)
		require.NoError(t, err)
		require.EqualValues(t, 84, h.Max)
		full := i != 2 && i != len(nodes)-1 // the last of a level
		require.Equal(t, full, h.Entries == 84, i)
		require.EqualValues(t, min(1, max(0, 3-i)), h.Depth, i)
	}
	require.Equal(t, format.ExtentIndex{LBlock: list[0].LBlock, Child: 900}, format.GetExtentIndex(root[:], 0))
	require.Equal(t, format.ExtentIndex{LBlock: list[84*84].LBlock, Child: 899}, format.GetExtentIndex(root[:], 1))
	require.Equal(t, format.ExtentIndex{LBlock: list[84*85].LBlock, Child: 900 - 3 - 85}, format.GetExtentIndex(nodes[1].Bytes, 1))
	require.Equal(t, list[84*84*2], format.GetExtent(nodes[len(nodes)-1].Bytes, 0))
	require.Panics(t, func() { Build(1024, list, alloc[1:]) })
}

// What is built is read back the same, at every count around the limits.
func TestBuildAndMap(t *testing.T) {
	for _, n := range []int{0, 1, 4, 5, 84, 85, 336, 337, 7056, 7057, 28225} {
		m := newMemory()
		f := built(m, 1024, scattered(n))
		got := collect(t, f)
		require.Len(t, got, n)
		if n > 0 {
			require.Equal(t, scattered(n), got)
		}
		checkBlocks(t, f, scattered(n), NodesNeeded(n, 1024))
	}
}

// checkBlocks compares the counts and the nodes of a built map.
func checkBlocks(t require.TestingT, f *File, list []format.Extent, nodes int) {
	data, gotNodes, err := f.Blocks()
	require.NoError(t, err)
	want := uint64(0)
	for _, e := range list {
		want += uint64(e.Len)
	}
	require.Equal(t, want, data)
	require.EqualValues(t, nodes, gotNodes)
	seen := map[format.Block]bool{}
	for b, err := range f.Nodes() {
		require.NoError(t, err)
		require.False(t, seen[b])
		seen[b] = true
	}
	require.Len(t, seen, nodes)
}

// drawExtents draws a list of sorted extents.
func drawExtents(t *rapid.T, most int) []format.Extent {
	n := rapid.IntRange(0, most).Draw(t, "extents")
	gap := rapid.Uint32Max(100).Draw(t, "gap")
	seed := rapid.Uint32().Draw(t, "seed")
	list := make([]format.Extent, n)
	next := uint64(0)
	for i := range list {
		seed = seed*1664525 + 1013904223
		next += uint64(seed>>16) % uint64(gap+1)
		list[i] = format.Extent{LBlock: format.LBlock(next), Len: seed>>24 + 1, Start: format.Block(seed)<<8 + 1, Unwritten: seed&64 != 0}
		next = list[i].End()
	}
	return list
}

// Map, MapFrom and Lookup agree with the list that the tree was built from.
func TestTreeModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{1024, 2048, 4096}).Draw(t, "size")
		list := drawExtents(t, 2000)
		f := built(newMemory(), size, list)
		checkBlocks(t, f, list, NodesNeeded(len(list), size))
		end := uint64(10)
		if len(list) > 0 {
			end = list[len(list)-1].End() + 10
		}
		for range 20 {
			l := format.LBlock(rapid.Uint64Max(end).Draw(t, "lblock"))
			checkFrom(t, f, list, l)
			checkLookup(t, f, list, l)
		}
	})
}

func checkFrom(t *rapid.T, f *File, list []format.Extent, l format.LBlock) {
	want := slices.DeleteFunc(slices.Clone(list), func(e format.Extent) bool { return e.End() <= uint64(l) })
	i := 0
	for e, err := range f.MapFrom(l) {
		require.NoError(t, err)
		require.Equal(t, want[i], e)
		if i++; i == 3 {
			return // leaving early is fine
		}
	}
	require.Len(t, want, i)
}

func checkLookup(t *rapid.T, f *File, list []format.Extent, l format.LBlock) {
	got, err := f.Lookup(l)
	require.NoError(t, err)
	i := slices.IndexFunc(list, func(e format.Extent) bool { return e.End() > uint64(l) })
	switch {
	case i >= 0 && list[i].LBlock <= l:
		require.Equal(t, list[i], got)
	default:
		require.Zero(t, got.Start)
		require.Equal(t, l, got.LBlock)
		require.Positive(t, got.Len)
		if i >= 0 {
			require.LessOrEqual(t, got.End(), uint64(list[i].LBlock))
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	list := scattered(20000)
	alloc := make([]format.Block, NodesNeeded(len(list), 4096))
	for b.Loop() {
		Build(4096, list, alloc)
	}
}

func BenchmarkLookup(b *testing.B) {
	f := built(newMemory(), 4096, scattered(20000))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Lookup(50000); err != nil {
			b.Fatal(err)
		}
	}
}
