package mkfs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"drydock/format"
	"drydock/internal/oracle"
	"github.com/stretchr/testify/require"
)

// add puts nodes into the root, under numbered names.
func (c *Content) add(nodes ...Node) {
	var list []Entry
	for _, n := range nodes {
		list = append(list, Entry{c.Names.Add(fmt.Sprintf("%07d", len(c.Nodes))), uint32(len(c.Nodes))})
		c.Nodes = append(c.Nodes, n)
	}
	list = append(slices.Clone(c.entries(0)), list...)
	c.Nodes[0].First, c.Nodes[0].Count = uint32(len(c.Entries)), uint32(len(list))
	c.Entries = append(c.Entries, list...)
}

// TestLargeFiles has files that groups and flex groups cut into more extents
// than an inode holds, so that they need nodes, and sparse ones with two
// levels of nodes.
func TestLargeFiles(t *testing.T) {
	oracle.Need(t, "e2fsck")
	for _, bs := range []int{1024, 2048, 4096} {
		t.Run(fmt.Sprint(bs), func(t *testing.T) {
			c := emptyContent()
			size := uint64(bs) << 19
			c.add(Node{Mode: format.ModeRegular | 0o644, Links: 1, Size: size},
				Node{Mode: format.ModeRegular | 0o644, Links: 1, Size: 3},
				Node{Mode: format.ModeRegular | 0o644, Links: 1, Size: size, Sparse: true, Count: 30000},
				Node{Mode: format.ModeRegular | 0o644, Links: 1, Size: 1<<40 + 5, Sparse: true},
				Node{Mode: format.ModeRegular | 0o644, Links: 1, Size: size - 1})
			for i := range uint64(30000) {
				c.Ranges = append(c.Ranges, Range{i * 3 * uint64(bs), uint64(bs)})
			}
			for _, f := range []format.Features{{}, {Compat: format.CompatSparseSuper2}} {
				features := DefaultFeatures().With(f)
				if f.Compat != 0 {
					features.Compat &^= format.CompatResizeInode
				}
				_, img := writeImage(t, c, Options{BlockSize: bs, Features: features})
				oracle.Fsck(t, img)
			}
		})
	}
}

// TestManySubdirectories goes past the number that a link count can hold
// (B028, B077).
func TestManySubdirectories(t *testing.T) {
	oracle.Need(t, "e2fsck")
	for _, n := range []int{64997, 64998, 70000} {
		c := emptyContent()
		nodes := make([]Node, n)
		for i := range nodes {
			nodes[i] = Node{Mode: format.ModeDir | 0o700, Links: 1}
		}
		c.add(nodes...)
		_, img := writeImage(t, c, Options{BlockSize: 1024, NoLostFound: true})
		oracle.Fsck(t, img)
		features := DefaultFeatures()
		features.ROCompat &^= format.ROCompatDirNlink
		_, err := New(c, Options{BlockSize: 1024, NoLostFound: true, Features: features})
		if n > 64998 {
			require.ErrorContains(t, err, "64998")
		} else {
			require.NoError(t, err)
		}
	}
}

// TestInodesOnly has more inodes than the groups that the blocks need can
// count, and inode tables larger than a group.
func TestInodesOnly(t *testing.T) {
	oracle.Need(t, "e2fsck")
	for _, o := range []Options{{BlockSize: 1024, InodeSize: 1024}, {BlockSize: 1024}, {BlockSize: 4096, InodeSize: 4096}, {BlockSize: 65536}} {
		c := emptyContent()
		nodes := make([]Node, 40000)
		for i := range nodes {
			nodes[i] = Node{Mode: format.ModeFifo | 0o600, Links: 1}
		}
		c.add(nodes...)
		p, img := writeImage(t, c, o)
		oracle.Fsck(t, img)
		g := p.Geometry()
		require.Less(t, p.Summary().FreeInodes, uint64(g.Groups())*uint64(max(8, g.InodesPerBlock())))
	}
}

// TestFree checks that what shall stay free is free, and little more.
func TestFree(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		c := randomContent(r, 1<<r.IntN(8))
		o := Options{BlockSize: 1024 << r.IntN(3), NoJournal: r.IntN(2) == 0}
		before, err := New(c, o)
		require.NoError(t, err)
		o.FreeBlocks, o.FreePercent, o.FreeInodes = uint64(r.IntN(1<<r.IntN(18))), float64(r.IntN(95)), uint64(r.IntN(5000))
		p, err := New(c, o)
		require.NoError(t, err, "seed %d", seed)
		s := p.Summary()
		require.GreaterOrEqual(t, s.FreeBlocks, o.FreeBlocks, "seed %d", seed)
		require.GreaterOrEqual(t, float64(s.FreeBlocks)/float64(s.Blocks)*100, o.FreePercent, "seed %d", seed)
		require.GreaterOrEqual(t, s.FreeInodes, o.FreeInodes, "seed %d", seed)
		require.GreaterOrEqual(t, s.Blocks, before.Summary().Blocks, "seed %d", seed)
		o.Blocks = s.Blocks
		fixed, err := New(c, o)
		require.NoError(t, err, "seed %d", seed)
		require.GreaterOrEqual(t, fixed.Summary().FreeBlocks, o.FreeBlocks, "seed %d", seed)
		o.Blocks--
		_, err = New(c, o)
		var small *SizeError
		require.ErrorAs(t, err, &small, "seed %d", seed)
		require.Equal(t, s.Blocks, small.NeedBlocks, "seed %d", seed)
	}
}

// TestEveryGivenSize plans and writes a small tree into every size around
// group borders, where a last group may be too short for its own metadata.
func TestEveryGivenSize(t *testing.T) {
	oracle.Need(t, "e2fsck")
	c := randomContent(rand.New(rand.NewPCG(1, 3)), 50)
	for _, profile := range Profiles() {
		features, err := Profile(profile)
		require.NoError(t, err)
		for _, border := range []uint64{3 * 8192, 16 * 8192, 17 * 8192} {
			for _, d := range []int{-1, 0, 1, 2, 3, 10, 50, 100, 260, 261, 262, 263, 300, 600} {
				o := Options{BlockSize: 1024, Features: features, Blocks: uint64(int(border) + d)}
				p, img := writeImage(t, c, o)
				oracle.Fsck(t, img)
				require.LessOrEqual(t, p.Summary().Blocks, o.Blocks)
				require.Greater(t, p.Summary().Blocks+2000, o.Blocks)
			}
		}
	}
}

// TestLimits names what ext4 cannot hold (B025, B032, B163).
func TestLimits(t *testing.T) {
	long := func(n int) (*Content, uint32) {
		c := emptyContent()
		target := uint32(c.Names.Add(string(slices.Repeat([]byte("t"), n))))
		c.add(Node{Mode: format.ModeSymlink | 0o777, Links: 1, First: target})
		return c, target
	}
	for _, x := range []struct{ bs, ok int }{{1024, 1023}, {2048, 2047}, {4096, 4095}, {65536, 4095}} {
		c, _ := long(x.ok)
		_, err := New(c, Options{BlockSize: x.bs})
		require.NoError(t, err)
		c, _ = long(x.ok + 1)
		_, err = New(c, Options{BlockSize: x.bs})
		require.ErrorContains(t, err, fmt.Sprintf("0000001: symlink target of %d bytes: at most %d", x.ok+1, x.ok))
	}
	c := emptyContent()
	c.add(Node{Mode: format.ModeRegular, Links: 1, Size: (1<<32-1)*4096 + 1, Sparse: true})
	_, err := New(c, Options{})
	require.ErrorContains(t, err, "0000001: size of")
	c = emptyContent()
	c.add(Node{Mode: format.ModeRegular, Links: 65001})
	_, err = New(c, Options{})
	require.ErrorContains(t, err, "65001 hard links")
	for _, blocks := range []uint64{0, 10000} {
		_, err = New(emptyContent(), Options{Blocks: blocks, Inodes: 10})
		var small *SizeError
		require.ErrorAs(t, err, &small)
		require.EqualValues(t, 11, small.NeedInodes)
		require.EqualValues(t, 10, small.HaveInodes)
	}
}
