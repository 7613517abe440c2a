package extent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/format"
	"drydock/internal/oracle"
)

// punched makes a file of n blocks in which every third one is unwritten and
// every second one a hole.
func punched(t *testing.T, path string, blockSize, n int) {
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	bs := int64(blockSize)
	_, err = f.Write(bytes.Repeat([]byte("every byte of the file"), int(bs)*n/22+1)[:int(bs)*n])
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	for i := int64(1); i < int64(n); i += 2 {
		require.NoError(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, i*bs, bs))
	}
	for i := int64(0); i < int64(n); i += 6 {
		require.NoError(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE, i*bs, bs))
	}
}

// The kernel makes trees of depth 0 to 3; the map is what debugfs says, and
// all checksums match. Rebuilt by Build in the kernel's own nodes, the image
// is still clean and reads the same.
func TestKernelTrees(t *testing.T) {
	t.Parallel()
	oracle.Need(t, "mke2fs", "debugfs", "e2fsck")
	path := mkimage(t, "128M", "-t", "ext4", "-b", "1024", "-O", "metadata_csum,64bit", "-J", "size=4")
	dir := oracle.Mount(t, path)
	depths := map[string]int{"d0": 6, "d1": 300, "d2": 2000, "d3": 58000}
	for name, n := range depths {
		if name != "d3" {
			punched(t, filepath.Join(dir, name), 1024, n)
			continue
		}
		var blocks []int64
		for i := int64(0); i < int64(n); i += 2 {
			blocks = append(blocks, i)
		}
		sparseFile(t, filepath.Join(dir, name), 1024, blocks)
	}
	contents := map[string][]byte{}
	for name := range depths {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		contents[name] = data
	}
	oracle.Unmount(t, dir)
	oracle.Fsck(t, path)

	m := openImage(t, path)
	for name, n := range depths {
		f := m.file(t, "/"+name)
		h, err := format.ReadExtentHeader(f.inode.IBlock())
		require.NoError(t, err)
		require.EqualValues(t, name[1]-'0', h.Depth)
		checkKernelTree(t, m, f, "/"+name, n/2)
		rebuild(t, m, f, "/"+name)
	}
	oracle.Fsck(t, path)
	for name, n := range depths {
		f := m.file(t, "/"+name)
		checkKernelTree(t, m, f, "/"+name, n/2)
		require.True(t, bytes.Equal(contents[name], m.content(t, f)), name)
	}
}

// checkKernelTree compares a map with what debugfs says of it.
func checkKernelTree(t *testing.T, m *image, f *File, path string, extents int) {
	want, wantNodes := m.kernelExtents(t, path)
	got := collect(t, f)
	require.Len(t, got, extents)
	require.Equal(t, want, got)
	var nodes []format.Block
	for b, err := range f.Nodes() {
		require.NoError(t, err)
		nodes = append(nodes, b)
	}
	require.Equal(t, wantNodes, nodes)
	data, n, err := f.Blocks()
	require.NoError(t, err)
	require.Equal(t, f.inode.BlocksRaw(), (data+n)*uint64(m.geo.BlockSize/512))
	for _, e := range got[:min(len(got), 50)] {
		found, err := f.Lookup(e.LBlock)
		require.NoError(t, err)
		require.Equal(t, e, found)
	}
}

// rebuild packs the tree of a file anew into the first of its own nodes and
// frees the others.
func rebuild(t *testing.T, m *image, f *File, path string) {
	list := collect(t, f)
	_, alloc := m.kernelExtents(t, path)
	root, nodes := Build(m.geo.BlockSize, list, alloc)
	for _, n := range nodes {
		m.sums.SealExtentBlock(f.ino, f.inode.Generation(), n.Bytes)
		m.writeBlock(t, n.Block, n.Bytes)
	}
	n, off := m.inodeAt(t, f.ino)
	copy(n.IBlock(), root[:])
	spare := alloc[len(nodes):]
	n.SetBlocksRaw(n.BlocksRaw() - uint64(len(spare)*m.geo.BlockSize/512))
	m.sums.SealInode(f.ino, n)
	_, err := m.f.WriteAt(n, off)
	require.NoError(t, err)
	var script strings.Builder
	for _, b := range spare {
		fmt.Fprintf(&script, "freeb %d\n", b)
	}
	commands := filepath.Join(t.TempDir(), "free")
	require.NoError(t, os.WriteFile(commands, []byte(script.String()), 0644))
	oracle.Run(t, "debugfs", "-w", "-f", commands, m.path)
}

// A file of ext2 with 1 KiB blocks that reaches into the triple indirect map.
func TestKernelBlockMap(t *testing.T) {
	t.Parallel()
	oracle.Need(t, "mke2fs", "debugfs", "e2fsck")
	for _, kind := range []string{"ext2", "ext3"} {
		path := mkimage(t, "24M", "-t", kind, "-b", "1024", "-I", "128")
		dir := oracle.Mount(t, path)
		blocks := []int64{0, 1, 5, 11, 12, 13, 14, 100, 267, 268, 269, 600, 5000, 65803, 65804, 65805, 131339, 131340, 131341, 1000000, 1000001}
		want := sparseFile(t, filepath.Join(dir, "sparse"), 1024, blocks)
		var long []int64
		for b := range int64(3000) {
			long = append(long, b+7)
		}
		wantLong := sparseFile(t, filepath.Join(dir, "long"), 1024, long)
		oracle.Unmount(t, dir)
		oracle.Fsck(t, path)

		m := openImage(t, path)
		require.Equal(t, want, checkBlockMap(t, m, "/sparse", len(blocks)))
		require.Equal(t, wantLong, checkBlockMap(t, m, "/long", len(long)))
	}
}

// checkBlockMap compares a map with what debugfs says of it and returns the
// content of the blocks that are mapped.
func checkBlockMap(t *testing.T, m *image, path string, blocks int) (content []byte) {
	f := m.file(t, path)
	wantData, wantNodes := m.kernelPointers(t, path)
	require.Len(t, wantData, blocks)
	got := map[format.LBlock]format.Block{}
	block := make([]byte, m.geo.BlockSize)
	for e, err := range f.Map() {
		require.NoError(t, err)
		for i := range e.Len {
			got[e.LBlock+format.LBlock(i)] = e.Start + format.Block(i)
			require.NoError(t, m.ReadBlock(e.Start+format.Block(i), block))
			content = append(content, block...)
		}
	}
	require.Equal(t, wantData, got)
	for l, b := range wantData {
		e, err := f.Lookup(l)
		require.NoError(t, err)
		require.Equal(t, []any{l, b}, []any{e.LBlock, e.Start})
	}
	var nodes []format.Block
	for b, err := range f.Nodes() {
		require.NoError(t, err)
		nodes = append(nodes, b)
	}
	require.ElementsMatch(t, wantNodes, nodes)
	data, n, err := f.Blocks()
	require.NoError(t, err)
	require.Equal(t, f.inode.BlocksRaw(), (data+n)*uint64(m.geo.BlockSize/512))
	return content
}

// kernelPointers are the data and indirect blocks that debugfs lists under BLOCKS.
func (m *image) kernelPointers(t *testing.T, path string) (data map[format.LBlock]format.Block, nodes []format.Block) {
	data = map[format.LBlock]format.Block{}
	item := regexp.MustCompile(`\((?:([A-Z]+)|(\d+)(?:-(\d+))?)\):(\d+)`)
	_, list, found := strings.Cut(oracle.Debugfs(t, m.path, "stat "+path), "BLOCKS:")
	require.True(t, found)
	for _, f := range item.FindAllStringSubmatch(list, -1) {
		start := number(t, f[4])
		if f[1] != "" {
			nodes = append(nodes, format.Block(start))
			continue
		}
		first, last := number(t, f[2]), number(t, f[2])
		if f[3] != "" {
			last = number(t, f[3])
		}
		for l := first; l <= last; l++ {
			data[format.LBlock(l)] = format.Block(start + l - first)
		}
	}
	return data, nodes
}

// The maps of the inodes that mke2fs makes itself: the journal, and the resize
// inode, which has a block map on ext4 too.
func TestReservedInodes(t *testing.T) {
	t.Parallel()
	oracle.Need(t, "mke2fs", "debugfs")
	m := openImage(t, mkimage(t, "64M", "-t", "ext4", "-b", "1024"))
	for _, ino := range []format.Ino{format.RootIno, format.ResizeIno, format.JournalIno} {
		n, _ := m.inodeAt(t, ino)
		data, nodes, err := NewFile(m, m.geo, m.sums, ino, n).Blocks()
		require.NoError(t, err)
		require.Equal(t, n.BlocksRaw(), (data+nodes)*2, "inode %d", ino)
	}
	checkBlockMap(t, m, "<7>", len(m.resizeBlocks(t)))
}

func (m *image) resizeBlocks(t *testing.T) map[format.LBlock]format.Block {
	data, _ := m.kernelPointers(t, "<7>")
	require.NotEmpty(t, data)
	return data
}
