package extent

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"drydock/format"
)

func TestNoMap(t *testing.T) {
	iblock := make([]byte, 60)
	for i := range iblock {
		iblock[i] = 0xFF
	}
	for _, c := range []struct {
		name  string
		mode  uint16
		flags uint32
	}{
		{"inline data", format.ModeRegular, format.InodeInlineData},
		{"inline data and extents", format.ModeRegular, format.InodeInlineData | format.InodeExtents},
		{"device", format.ModeBlock, 0},
		{"fifo", format.ModeFifo, 0},
		{"socket", format.ModeSocket, format.InodeExtents},
		{"short symlink", format.ModeSymlink, 0},
	} {
		n := testInode(c.flags, iblock)
		n.SetMode(c.mode)
		n.SetSize(59)
		f := NewFile(newMemory(), testGeometry(1024), testSums, testIno, n)
		require.Empty(t, collect(t, f), c.name)
		e, err := f.Lookup(7)
		require.NoError(t, err, c.name)
		require.Equal(t, format.Extent{LBlock: 7, Len: 1<<32 - 8}, e, c.name)
	}
}

func TestLookupBehindEnd(t *testing.T) {
	f := built(newMemory(), 1024, scattered(5))
	_, err := f.Lookup(1<<32 - 1)
	require.ErrorContains(t, err, "inode 12: file block 4294967295")
	e, err := f.Lookup(1<<32 - 2)
	require.NoError(t, err)
	require.Equal(t, format.Extent{LBlock: 1<<32 - 2, Len: 1}, e)
}

// A tree is damaged in one place; the error names the node.
func TestTreeDamage(t *testing.T) {
	const first, second, leaf = 5000, 5001, 5002 // two nodes at depth 1, then leaves
	for _, c := range []struct {
		name   string
		change func(f *File, m *memory)
		want   string
	}{
		{"checksum", func(f *File, m *memory) { m.blocks[leaf][1021] ^= 1 }, "inode 12: extent node in block 5002: checksum does not match"},
		{"missing", func(f *File, m *memory) { delete(m.blocks, leaf+1) }, "inode 12: block 5003 of the map: block 5003: no such block"},
		{"depth", func(f *File, m *memory) { m.blocks[second][6] = 0 }, "inode 12: extent node in block 5001 at 0x6: depth 0, want 1"},
		{"loop", func(f *File, m *memory) {
			format.PutExtentIndex(m.blocks[first], 0, format.ExtentIndex{LBlock: 3, Child: first})
		}, "checksum does not match"},
		{"root depth", func(f *File, m *memory) { f.inode.IBlock()[6] = 3 }, "inode 12: extent node in block 5000 at 0x6: depth 1, want 2"},
		{"root magic", func(f *File, m *memory) { f.inode.IBlock()[0] = 0 }, "inode 12: extent root at 0x0: magic 0xf300, want 0xf30a"},
		{"wrong first block", func(f *File, m *memory) {
			format.PutExtentIndex(f.inode.IBlock(), 0, format.ExtentIndex{LBlock: 2, Child: first})
		}, "inode 12: extent node in block 5000 at 0xc: first file block 3, its index says 2"},
	} {
		m := newMemory()
		f := built(m, 1024, scattered(84*85))
		c.change(f, m)
		err := firstError(f)
		require.ErrorContains(t, err, c.want, c.name)
		if c.name != "missing" {
			require.ErrorIs(t, err, format.ErrDamaged, c.name)
		}
		_, _, err = f.Blocks()
		require.Error(t, err, c.name)
		var last error
		for _, err := range f.Nodes() {
			last = err
		}
		require.Error(t, last, c.name)
	}
}

// Without checksums a loop of nodes still ends: depth falls at each step.
func TestTreeLoop(t *testing.T) {
	m := newMemory()
	f := built(m, 1024, scattered(84*85))
	f.sums = format.Checksums{}
	format.PutExtentIndex(m.blocks[5000], 0, format.ExtentIndex{LBlock: 3, Child: 5000})
	require.ErrorContains(t, firstError(f), "extent node in block 5000 at 0x6: depth 1, want 0")
	_, err := f.Lookup(3)
	require.ErrorContains(t, err, "extent node in block 5000 at 0x6: depth 1, want 0")
}

// A node without entries that many indexes share cannot make a walk long.
func TestManyNodes(t *testing.T) {
	m := newMemory()
	empty := make([]byte, 1024)
	format.PutExtentHeader(empty, format.ExtentHeader{Max: 84})
	index := make([]byte, 1024)
	format.PutExtentHeader(index, format.ExtentHeader{Entries: 84, Max: 84, Depth: 1})
	for i := range 84 {
		format.PutExtentIndex(index, i, format.ExtentIndex{LBlock: format.LBlock(i), Child: 20})
	}
	m.blocks[20], m.blocks[21] = empty, index
	root := make([]byte, 60)
	format.PutExtentHeader(root, format.ExtentHeader{Entries: 1, Max: 4, Depth: 2})
	format.PutExtentIndex(root, 0, format.ExtentIndex{Child: 21})
	g := testGeometry(1024)
	g.BlocksCount = 50
	f := NewFile(m, g, format.Checksums{}, testIno, testInode(format.InodeExtents, root))
	require.ErrorContains(t, firstError(f), "more nodes than the file system has blocks")
	require.Equal(t, 50, m.reads)
}

// An ext2 map whose indirect block is its own child ends too.
func TestPointerLoop(t *testing.T) {
	m := newMemory()
	self := make([]byte, 1024)
	for i := range 256 {
		format.PutBlockPointer(self, i, 20)
	}
	m.blocks[20] = self
	iblock := make([]byte, 60)
	format.PutBlockPointer(iblock, 14, 20)
	g := testGeometry(1024)
	g.BlocksCount = 5000
	f := NewFile(m, g, testSums, testIno, testInode(0, iblock))
	require.ErrorContains(t, firstError(f), "more nodes than the file system has blocks")
	require.Equal(t, 5000, m.reads)
}

func TestPointerDamage(t *testing.T) {
	m := newMemory()
	iblock := make([]byte, 60)
	format.PutBlockPointer(iblock, 3, 700)
	g := testGeometry(1024)
	g.BlocksCount, g.FirstDataBlock = 700, 1
	f := NewFile(m, g, testSums, testIno, testInode(0, iblock))
	require.EqualError(t, firstError(f), "inode 12: block map at 0xc: pointer 3 to block 700, want 2 to 699")
	_, err := f.Lookup(3)
	require.EqualError(t, err, "inode 12: block map at 0xc: pointer 3 to block 700, want 2 to 699")

	format.PutBlockPointer(f.inode.IBlock(), 3, 0)
	format.PutBlockPointer(f.inode.IBlock(), 12, 20)
	m.blocks[20] = make([]byte, 1024)
	format.PutBlockPointer(m.blocks[20], 9, 1)
	require.EqualError(t, firstError(f), "inode 12: indirect block in block 20 at 0x24: pointer 9 to block 1, want 2 to 699")
	_, err = f.Lookup(21)
	require.EqualError(t, err, "inode 12: indirect block in block 20 at 0x24: pointer 9 to block 1, want 2 to 699")
	delete(m.blocks, 20)
	_, err = f.Lookup(21)
	require.ErrorIs(t, err, errNoBlock)
}

// pointerMap makes an ext2 map in m that maps each file block of blocks.
type pointerMap struct {
	m      *memory
	iblock []byte
	next   format.Block // of indirect blocks
}

func (p *pointerMap) set(l format.LBlock, to format.Block, size int) {
	path, ok := format.BlockPathOf(l, size)
	if !ok {
		panic(l)
	}
	b := p.iblock
	for level := range path.Levels {
		child := format.BlockPointer(b, path.Index[level])
		if child == 0 {
			child = p.next
			p.next++
			p.m.blocks[child] = make([]byte, size)
			format.PutBlockPointer(b, path.Index[level], child)
		}
		b = p.m.blocks[child]
	}
	format.PutBlockPointer(b, path.Index[path.Levels], to)
}

// Map, MapFrom and Lookup of an ext2 map agree with what was put into it.
func TestPointerModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory()
		p := &pointerMap{m: m, iblock: make([]byte, 60), next: 1 << 20}
		var list []format.Extent
		next := uint64(0)
		for range rapid.IntRange(0, 20).Draw(t, "runs") {
			next += rapid.SampledFrom([]uint64{0, 1, 5, 250, 256, 65536, 70000, 1 << 20}).Draw(t, "gap")
			e := format.Extent{LBlock: format.LBlock(next), Len: rapid.Uint32Range(1, 300).Draw(t, "len"), Start: format.Block(1000 * (len(list) + 1))}
			if e.End() > format.BlockMapEnd(1024) {
				break
			}
			for i := range e.Len {
				p.set(e.LBlock+format.LBlock(i), e.Start+format.Block(i), 1024)
			}
			list = append(list, e)
			next = e.End()
		}
		f := NewFile(m, testGeometry(1024), testSums, testIno, testInode(0, p.iblock))
		checkBlocks(t, f, list, len(m.blocks))
		checkPointers(t, f, list, next)
	})
}

func checkPointers(t *rapid.T, f *File, list []format.Extent, end uint64) {
	var got []format.Extent
	for e, err := range f.Map() {
		require.NoError(t, err)
		got = append(got, e)
	}
	require.Equal(t, list, got)
	for range 20 {
		l := format.LBlock(rapid.Uint64Max(end+3).Draw(t, "l"))
		want, found := format.Extent{}, false
		for _, e := range list {
			if e.LBlock <= l && uint64(l) < e.End() {
				want, found = e, true
			}
		}
		e, err := f.Lookup(l)
		require.NoError(t, err)
		require.Equal(t, l, e.LBlock)
		if !found {
			require.Zero(t, e.Start)
			checkHole(t, list, e)
			continue
		}
		require.Equal(t, want.Start+format.Block(l-want.LBlock), e.Start)
		require.LessOrEqual(t, e.End(), want.End())
		for e, err := range f.MapFrom(l) {
			require.NoError(t, err)
			require.Greater(t, e.End(), uint64(l))
			break
		}
	}
}

// checkHole makes sure that nothing is mapped in a hole.
func checkHole(t *rapid.T, list []format.Extent, hole format.Extent) {
	require.Positive(t, hole.Len)
	for _, e := range list {
		require.True(t, e.End() <= uint64(hole.LBlock) || hole.End() <= uint64(e.LBlock), "%+v in the hole %+v", e, hole)
	}
}

// The walk may be interrupted by lookups of the same file.
func TestLookupInsideMap(t *testing.T) {
	list := scattered(2000)
	f := built(newMemory(), 1024, list)
	i := 0
	for e, err := range f.Map() {
		require.NoError(t, err)
		require.Equal(t, list[i], e)
		got, err := f.Lookup(list[len(list)-1-i].LBlock)
		require.NoError(t, err)
		require.Equal(t, list[len(list)-1-i], got)
		i++
	}
	require.Len(t, list, i)
}

// FuzzMap reads maps of random bytes: the inode's i_block and one block that
// every pointer leads to.
func FuzzMap(f *testing.F) {
	root, nodes := Build(1024, scattered(50), []format.Block{5})
	f.Add(true, root[:], nodes[0].Bytes)
	f.Add(false, root[:], nodes[0].Bytes)
	f.Fuzz(func(t *testing.T, tree bool, iblock, block []byte) {
		m := &sameBlock{block: block}
		flags := uint32(0)
		if tree {
			flags = format.InodeExtents
		}
		g := testGeometry(1024)
		g.BlocksCount = 200
		f := NewFile(m, g, format.Checksums{}, testIno, testInode(flags, iblock))
		next := uint64(0)
		for e, err := range f.Map() {
			if err != nil {
				require.ErrorIs(t, err, format.ErrDamaged)
				break
			}
			require.GreaterOrEqual(t, uint64(e.LBlock), next)
			next = e.End()
		}
		for _, l := range []format.LBlock{0, 12, 300, 70000, 1 << 25} {
			if e, err := f.Lookup(l); err == nil {
				require.Positive(t, e.Len)
				require.LessOrEqual(t, e.LBlock, l)
				require.Greater(t, e.End(), uint64(l))
			}
		}
	})
}

// sameBlock reads the same at every block.
type sameBlock struct{ block []byte }

func (s *sameBlock) ReadBlock(_ format.Block, p []byte) error {
	clear(p)
	copy(p, s.block)
	return nil
}
