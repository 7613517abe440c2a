package extent

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// memory is a file system in memory: blocks that were not put read as an error.
type memory struct {
	blocks map[format.Block][]byte
	reads  int
}

func (m *memory) ReadBlock(b format.Block, p []byte) error {
	m.reads++
	data, ok := m.blocks[b]
	if !ok {
		return fmt.Errorf("block %d: %w", b, errNoBlock)
	}
	copy(p, data)
	return nil
}

var errNoBlock = errors.New("no such block")

func (m *memory) put(nodes []Node) {
	for _, n := range nodes {
		m.blocks[n.Block] = n.Bytes
	}
}

func newMemory() *memory { return &memory{blocks: map[format.Block][]byte{}} }

// testIno is the inode of all maps in memory.
const testIno = 12

// testInode is a regular file with these flags and this i_block.
func testInode(flags uint32, iblock []byte) format.Inode {
	n := format.Inode(make([]byte, 256))
	n.SetMode(format.ModeRegular | 0644)
	n.SetFlags(flags)
	n.SetGeneration(0x01020304)
	copy(n.IBlock(), iblock)
	return n
}

var testSums = format.Checksums{Meta: true, Seed: 7}

// testGeometry has 2^40 blocks.
func testGeometry(blockSize int) format.Geometry {
	return format.Geometry{BlockSize: blockSize, BlocksCount: 1 << 40}
}

// collect returns all extents of a map.
func collect(t testing.TB, f *File) []format.Extent {
	t.Helper()
	var list []format.Extent
	for e, err := range f.Map() {
		require.NoError(t, err)
		list = append(list, e)
	}
	return list
}

// firstError returns the error that ends the map.
func firstError(f *File) error {
	for _, err := range f.Map() {
		if err != nil {
			return err
		}
	}
	return nil
}

// built builds the tree of extents into m, sealed, and returns its file.
func built(m *memory, blockSize int, list []format.Extent) *File {
	alloc := make([]format.Block, NodesNeeded(len(list), blockSize))
	for i := range alloc {
		alloc[i] = format.Block(5000 + i)
	}
	root, nodes := Build(blockSize, list, alloc)
	n := testInode(format.InodeExtents, root[:])
	for _, x := range nodes {
		testSums.SealExtentBlock(testIno, n.Generation(), x.Bytes)
	}
	m.put(nodes)
	return NewFile(m, testGeometry(blockSize), testSums, testIno, n)
}

// scattered returns n extents with holes between them, none of which can be merged.
func scattered(n int) []format.Extent {
	list := make([]format.Extent, n)
	l := format.LBlock(3)
	for i := range list {
		list[i] = format.Extent{LBlock: l, Len: uint32(i%7) + 1, Start: format.Block(100000 + 20*i), Unwritten: i%5 == 4}
		l += format.LBlock(i%7+1) + format.LBlock(i%3)
	}
	return list
}
