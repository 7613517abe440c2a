package mkfs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"drydock/format"
	"drydock/internal/oracle"
	"github.com/stretchr/testify/require"
)

// writeImage plans and writes an image; file data stays a hole.
func writeImage(t *testing.T, c *Content, o Options) (*Plan, string) {
	t.Helper()
	p, err := New(c, o)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "fs.img")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(p.Bytes()))
	require.NoError(t, p.Write(context.Background(), fileDevice{f, p.Bytes()}, WriteOptions{UUID: [16]byte{1, 2, 3}, Workers: 2}))
	require.NoError(t, f.Close())
	return p, path
}

// fileDevice is the least that Write needs.
type fileDevice struct {
	*os.File
	size int64
}

func (d fileDevice) Size() int64  { return d.size }
func (d fileDevice) Flush() error { return d.Sync() }

func emptyContent() *Content {
	return &Content{Nodes: []Node{{Mode: format.ModeDir | 0o755, Links: 1, Mtime: format.Time{Sec: 1e9}}}}
}

// randomContent makes a tree of about n nodes of all types.
func randomContent(r *rand.Rand, n int) *Content {
	c := emptyContent()
	children := [][]Entry{nil} // of each node
	dirs := []uint32{0}
	c.Xattrs = [][]format.Xattr{
		{{Index: 1, Name: "small", Value: []byte("x")}},
		{{Index: 1, Name: "large", Value: make([]byte, 700)}},
	}
	for i := range n {
		node := Node{Mtime: format.Time{Sec: int64(r.Uint32()), Nsec: 5}, Links: 1, UID: r.Uint32(), GID: r.Uint32()}
		kinds := []uint16{format.ModeDir, format.ModeRegular, format.ModeRegular, format.ModeRegular, format.ModeSymlink, format.ModeFifo, format.ModeSocket, format.ModeChar, format.ModeBlock}
		node.Mode = kinds[r.IntN(len(kinds))] | uint16(r.IntN(0o10000))
		if r.IntN(8) == 0 {
			node.Xattrs = uint32(1 + r.IntN(2))
		}
		switch node.Mode & format.ModeType {
		case format.ModeRegular:
			node.Size = uint64(r.IntN(1 << r.IntN(22)))
			if r.IntN(10) == 0 {
				node.Sparse = true
				node.First = uint32(len(c.Ranges))
				for off := uint64(0); off+20000 < node.Size; off += 20000 {
					c.Ranges = append(c.Ranges, Range{off + uint64(r.IntN(5000)), uint64(1 + r.IntN(9000))})
				}
				node.Count = uint32(len(c.Ranges)) - node.First
			}
		case format.ModeSymlink:
			node.First = uint32(c.Names.Add(string(slices.Repeat([]byte("a"), 1+r.IntN(200)))))
		case format.ModeChar, format.ModeBlock:
			node.First, node.Count = uint32(r.IntN(4096)), uint32(r.IntN(1<<20))
		}
		id := uint32(len(c.Nodes))
		c.Nodes = append(c.Nodes, node)
		children = append(children, nil)
		dir := dirs[r.IntN(len(dirs))]
		if r.IntN(3) == 0 {
			dir = 0
		}
		name := c.Names.Add(fmt.Sprintf("%0*d", 1+r.IntN(80), i))
		children[dir] = append(children[dir], Entry{name, id})
		if node.Mode&format.ModeType == format.ModeDir {
			dirs = append(dirs, id)
		}
	}
	for i, list := range children {
		if c.isDir(uint32(i)) {
			slices.SortFunc(list, func(a, b Entry) int {
				return slices.Compare(c.Names.Get(a.Name), c.Names.Get(b.Name))
			})
			c.Nodes[i].First, c.Nodes[i].Count = uint32(len(c.Entries)), uint32(len(list))
			c.Entries = append(c.Entries, list...)
		}
	}
	return c
}

func TestEmptyMatrix(t *testing.T) {
	oracle.Need(t, "e2fsck")
	for _, profile := range Profiles() {
		for _, bs := range []int{1024, 2048, 4096, 65536} {
			for _, bytes := range []uint64{0, 8 << 20, 2 << 30} {
				t.Run(fmt.Sprintf("%s/%d/%d", profile, bs, bytes), func(t *testing.T) {
					f, err := Profile(profile)
					require.NoError(t, err)
					_, img := writeImage(t, emptyContent(), Options{BlockSize: bs, Features: f, Blocks: bytes / uint64(bs)})
					oracle.Fsck(t, img)
				})
			}
		}
	}
}

func TestRandomTrees(t *testing.T) {
	oracle.Need(t, "e2fsck")
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			c := randomContent(r, 1<<r.IntN(12))
			f, err := Profile(Profiles()[r.IntN(len(Profiles()))])
			require.NoError(t, err)
			bs := 1024 << r.IntN(4)
			o := Options{BlockSize: bs, InodeSize: 256 << r.IntN(2), Features: f, FreeBlocks: uint64(r.IntN(2) * 100), FreeInodes: uint64(r.IntN(2) * 99)}
			p, img := writeImage(t, c, o)
			oracle.Fsck(t, img)
			o.Blocks = uint64(p.Geometry().BlocksCount) - 1
			_, err = New(c, o)
			var small *SizeError
			require.ErrorAs(t, err, &small)
			require.Equal(t, o.Blocks+1, small.NeedBlocks)
			o.Blocks++
			_, img = writeImage(t, c, o)
			oracle.Fsck(t, img)
		})
	}
}
