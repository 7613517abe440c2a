package extent

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/oracle"
)

// image is an ext4 image that other programs made.
type image struct {
	path string
	f    *os.File
	sb   format.Superblock
	geo  format.Geometry
	sums format.Checksums
}

// openImage opens an image; write allows changes.
func openImage(t *testing.T, path string) *image {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	sb := format.Superblock(make([]byte, format.SuperblockSize))
	_, err = f.ReadAt(sb, format.SuperblockOffset)
	require.NoError(t, err)
	geo, err := format.GeometryOf(sb)
	require.NoError(t, err)
	return &image{path: path, f: f, sb: sb, geo: geo, sums: format.ChecksumsOf(sb)}
}

func (m *image) ReadBlock(b format.Block, p []byte) error {
	_, err := m.f.ReadAt(p, int64(b)*int64(m.geo.BlockSize))
	return err
}

func (m *image) writeBlock(t *testing.T, b format.Block, p []byte) {
	_, err := m.f.WriteAt(p, int64(b)*int64(m.geo.BlockSize))
	require.NoError(t, err)
}

// inodeAt returns an inode, whose checksum is right, and its offset in the image.
func (m *image) inodeAt(t *testing.T, ino format.Ino) (format.Inode, int64) {
	group, index := m.geo.InodeLocation(ino)
	perBlock := m.geo.DescsPerBlock()
	block := make([]byte, m.geo.BlockSize)
	require.NoError(t, m.ReadBlock(m.geo.DescBlock(int(group)/perBlock), block))
	desc := format.GroupDesc(block[int(group)%perBlock*m.geo.DescSize:][:m.geo.DescSize])
	off := int64(desc.InodeTable())*int64(m.geo.BlockSize) + int64(index)*int64(m.geo.InodeSize)
	n := format.Inode(make([]byte, m.geo.InodeSize))
	_, err := m.f.ReadAt(n, off)
	require.NoError(t, err)
	require.True(t, m.sums.VerifyInode(ino, n), "checksum of inode %d", ino)
	return n, off
}

// file returns the map of the file that path names in the image.
func (m *image) file(t *testing.T, path string) *File {
	match := regexp.MustCompile(`Inode: (\d+)`).FindStringSubmatch(oracle.Debugfs(t, m.path, "stat "+path))
	require.NotNil(t, match, path)
	ino, err := strconv.Atoi(match[1])
	require.NoError(t, err)
	n, _ := m.inodeAt(t, format.Ino(ino))
	return NewFile(m, m.geo, m.sums, format.Ino(ino), n)
}

// content reads the whole file through its map.
func (m *image) content(t *testing.T, f *File) []byte {
	bs := uint64(m.geo.BlockSize)
	data := make([]byte, (f.inode.Size()+bs-1)/bs*bs)
	for e, err := range f.Map() {
		require.NoError(t, err)
		if e.Unwritten {
			continue
		}
		_, err := m.f.ReadAt(data[uint64(e.LBlock)*bs:e.End()*bs], int64(e.Start)*int64(bs))
		require.NoError(t, err)
	}
	return data[:f.inode.Size()]
}

// kernelExtents are the extents and nodes that debugfs finds in a tree.
func (m *image) kernelExtents(t *testing.T, path string) (list []format.Extent, nodes []format.Block) {
	line := regexp.MustCompile(`^ *(\d+)/ *(\d+) +\d+/ *\d+ +(\d+) - +(\d+) +(\d+)(?: - +(\d+))? +(\d+)(.*)$`)
	for _, text := range strings.Split(oracle.Debugfs(t, m.path, "dump_extents "+path), "\n") {
		f := line.FindStringSubmatch(text)
		if f == nil {
			continue
		}
		if f[1] != f[2] {
			nodes = append(nodes, format.Block(number(t, f[5])))
			continue
		}
		list = append(list, format.Extent{
			LBlock: format.LBlock(number(t, f[3])), Len: uint32(number(t, f[7])),
			Start: format.Block(number(t, f[5])), Unwritten: strings.Contains(f[8], "Uninit"),
		})
	}
	return list, nodes
}

func number(t *testing.T, s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	require.NoError(t, err)
	return n
}

// mkimage makes an image with mke2fs and returns its path.
func mkimage(t *testing.T, size string, args ...string) string {
	path := t.TempDir() + "/fs.img"
	oracle.Run(t, "mke2fs", append(append([]string{"-q", "-F"}, args...), path, size)...)
	return path
}

// sparseFile writes one block of content at each of blocks and returns its bytes.
func sparseFile(t *testing.T, path string, blockSize int, blocks []int64) []byte {
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	var want bytes.Buffer
	for _, b := range blocks {
		data := bytes.Repeat([]byte(fmt.Sprintf("block %010d\n", b)), blockSize/17+1)[:blockSize]
		_, err := f.WriteAt(data, b*int64(blockSize))
		require.NoError(t, err)
		want.Write(data)
	}
	require.NoError(t, f.Sync())
	return want.Bytes()
}
