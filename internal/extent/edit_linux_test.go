package extent

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/oracle"
	"drydock/journal"
)

// liveFile is a file in an image that an Editor changes through transactions
// of a journal that has no log.
type liveFile struct {
	dev   *device.File
	t     *testing.T
	path  string
	name  string
	ino   format.Ino
	m     *image
	j     *journal.Journal
	tx    *journal.Tx
	r     *rand.Rand
	table format.Block // block of the inode and where in it the inode is
	off   int
	free  []format.Block // blocks to take, from the end
	used  map[format.Block]bool
	frees map[format.Block]bool // freed, but in use in the image
	data  map[format.LBlock]mapped
	inode format.Inode
	e     *Editor
	nodes int
}

func openLive(t *testing.T, path, name string, seed uint64) *liveFile {
	m := openImage(t, path)
	f := m.file(t, name)
	dev, err := device.Open(path, device.Options{})
	require.NoError(t, err)
	j, err := journal.Open(journal.Options{Device: dev, BlockSize: m.geo.BlockSize, Blocks: uint64(m.geo.BlocksCount), Poison: true})
	require.NoError(t, err)
	_, at := m.inodeAt(t, f.ino)
	v := &liveFile{t: t, dev: dev, path: path, name: name, ino: f.ino, m: m, j: j, r: rand.New(rand.NewPCG(seed, 4)),
		table: format.Block(at) / format.Block(m.geo.BlockSize), off: int(at) % m.geo.BlockSize,
		used: map[format.Block]bool{}, frees: map[format.Block]bool{}, data: map[format.LBlock]mapped{}}
	v.free = freeBlocks(t, m)
	v.take(f)
	return v
}

// take adds what the file has already to the model.
func (v *liveFile) take(f *File) {
	for x, err := range f.Map() {
		require.NoError(v.t, err)
		for i := range x.Len {
			v.data[x.LBlock+format.LBlock(i)] = mapped{x.Start + format.Block(i), x.Unwritten}
		}
	}
	_, nodes, err := f.Blocks()
	require.NoError(v.t, err)
	v.nodes = int(nodes)
}

// freeBlocks returns the free blocks of an image, as dumpe2fs lists them.
func freeBlocks(t *testing.T, m *image) (list []format.Block) {
	for _, line := range strings.Split(oracle.Run(t, "dumpe2fs", m.path), "\n") {
		rest, ok := strings.CutPrefix(line, "  Free blocks: ")
		if !ok || rest == "" {
			continue
		}
		for _, r := range strings.Split(rest, ", ") {
			first, last, isRange := strings.Cut(r, "-")
			if !isRange {
				last = first
			}
			for b := number(t, first); b <= number(t, last); b++ {
				list = append(list, format.Block(b))
			}
		}
	}
	return list
}

// begin begins a transaction with an editor of the file.
func (v *liveFile) begin() {
	var err error
	v.tx, err = v.j.Begin()
	require.NoError(v.t, err)
	raw, err := v.tx.Change(v.table)
	require.NoError(v.t, err)
	v.inode = format.Inode(raw[v.off:][:v.m.geo.InodeSize])
	v.e, err = Edit(v.tx, v, &v.m.geo, v.m.sums, v.ino, v.inode)
	if err == ErrBlockMap {
		err = v.e.FromBlockMap()
	}
	require.NoError(v.t, err)
}

// end finishes the inode and commits.
func (v *liveFile) end() {
	v.nodes += v.e.NodeDelta()
	last := uint64(0)
	for l := range v.data {
		last = max(last, uint64(l)+1)
	}
	bs := v.m.geo.BlockSize
	v.inode.SetSize(last * uint64(bs))
	v.inode.SetSectors(v.m.geo.Features, bs, uint64(len(v.data)+v.nodes)*uint64(bs/512))
	v.m.sums.SealInode(v.ino, v.inode)
	_, err := v.tx.Commit()
	require.NoError(v.t, err)
}

// AllocNode takes a block from the end of the free ones.
func (v *liveFile) AllocNode(format.Block) (format.Block, error) {
	b := v.free[len(v.free)-1]
	v.free = v.free[:len(v.free)-1]
	v.use(b)
	return b, nil
}

func (v *liveFile) FreeNode(b format.Block) error {
	v.tx.Forget(b)
	v.release(b)
	return nil
}

func (v *liveFile) use(b format.Block) {
	if v.frees[b] {
		delete(v.frees, b)
		return
	}
	v.used[b] = true
}

func (v *liveFile) release(b format.Block) {
	if v.used[b] {
		delete(v.used, b)
		return
	}
	v.frees[b] = true
}

// random does one random operation on the first span blocks of the file. Data
// takes free blocks near its place in the file, nodes those at the end.
func (v *liveFile) random(span int) {
	from := format.LBlock(v.r.IntN(span))
	to := min(from+format.LBlock(1+v.r.IntN(20)), format.LBlock(span))
	switch k := v.r.IntN(10); {
	case k < 7:
		for from < to {
			from += format.LBlock(v.fill(from, to))
		}
	case k < 8:
		unwritten := v.r.IntN(2) == 0
		require.NoError(v.t, v.e.Convert(from, to, unwritten))
		for l := from; l < to; l++ {
			if x, ok := v.data[l]; ok {
				v.data[l] = mapped{x.b, unwritten}
			}
		}
	default:
		v.remove(from, to)
	}
}

// fill maps the run of free blocks at from, as far as to, and returns how many.
func (v *liveFile) fill(from, to format.LBlock) uint32 {
	x := format.Extent{LBlock: from, Unwritten: v.r.IntN(5) == 0}
	for l := from; l < to; l++ {
		b := v.free[l]
		_, mapped := v.data[l]
		if mapped || v.used[b] || x.Len > 0 && b != x.Start+format.Block(x.Len) {
			break
		}
		if x.Len == 0 {
			x.Start = b
		}
		x.Len++
	}
	if x.Len == 0 {
		return 1
	}
	require.NoError(v.t, v.e.Insert(x))
	for i := range x.Len {
		v.data[from+format.LBlock(i)] = mapped{x.Start + format.Block(i), x.Unwritten}
		v.use(x.Start + format.Block(i))
	}
	return x.Len
}

func (v *liveFile) remove(from, to format.LBlock) {
	v.t.Helper()
	_, done, err := v.e.Remove(from, to, 0, func(start format.Block, n uint32) error {
		for i := range n {
			v.release(start + format.Block(i))
		}
		return nil
	})
	require.NoError(v.t, err)
	require.True(v.t, done)
	maps.DeleteFunc(v.data, func(l format.LBlock, _ mapped) bool { return l >= from && l < to })
}

// finish writes data and bitmaps, so that the image is whole again.
func (v *liveFile) finish() {
	for _, x := range v.data {
		v.m.writeBlock(v.t, x.b, v.content(x.b))
	}
	require.NoError(v.t, v.j.Close())
	require.NoError(v.t, v.dev.Close())
	var script strings.Builder
	for b := range v.used {
		fmt.Fprintf(&script, "setb %d\n", b)
	}
	for b := range v.frees {
		fmt.Fprintf(&script, "freeb %d\n", b)
	}
	commands := filepath.Join(v.t.TempDir(), "blocks")
	require.NoError(v.t, os.WriteFile(commands, []byte(script.String()), 0644))
	oracle.Run(v.t, "debugfs", "-w", "-f", commands, v.path)
	v.count()
}

// count sets the counters of free blocks, which debugfs leaves alone.
func (v *liveFile) count() {
	delta := map[format.Group]int{}
	for b := range v.used {
		delta[v.m.geo.GroupOf(b)]--
	}
	for b := range v.frees {
		delta[v.m.geo.GroupOf(b)]++
	}
	total := 0
	for g, n := range delta {
		total += n
		at := int64(v.m.geo.DescBlock(int(g)/v.m.geo.DescsPerBlock()))*int64(v.m.geo.BlockSize) + int64(int(g)%v.m.geo.DescsPerBlock()*v.m.geo.DescSize)
		desc := format.GroupDesc(make([]byte, v.m.geo.DescSize))
		_, err := v.m.f.ReadAt(desc, at)
		require.NoError(v.t, err)
		desc.SetFreeBlocksCount(uint32(int(desc.FreeBlocksCount()) + n))
		v.m.sums.SealGroupDesc(g, desc)
		_, err = v.m.f.WriteAt(desc, at)
		require.NoError(v.t, err)
	}
	sb := format.Superblock(make([]byte, format.SuperblockSize))
	_, err := v.m.f.ReadAt(sb, format.SuperblockOffset)
	require.NoError(v.t, err)
	sb.SetFreeBlocksCount(uint64(int(sb.FreeBlocksCount()) + total))
	format.SealSuperblock(sb)
	_, err = v.m.f.WriteAt(sb, format.SuperblockOffset)
	require.NoError(v.t, err)
}

// content is what block b holds.
func (v *liveFile) content(b format.Block) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("block %9d\n", b)), v.m.geo.BlockSize/16)
}

// whole is the content of the file as it should read.
func (v *liveFile) whole() []byte {
	bs := v.m.geo.BlockSize
	out := make([]byte, v.inodeSize())
	for l, x := range v.data {
		if !x.unwritten {
			copy(out[int(l)*bs:], v.content(x.b))
		}
	}
	return out
}

func (v *liveFile) inodeSize() uint64 {
	n, _ := v.m.inodeAt(v.t, v.ino)
	return n.Size()
}

// judge asks e2fsck, which may not even find anything to optimise where narrow
// is set, and compares map and content.
func (v *liveFile) judge(narrow bool) {
	oracle.Fsck(v.t, v.path)
	if narrow {
		out, err := exec.Command("e2fsck", "-fn", v.path).CombinedOutput()
		require.NoError(v.t, err)
		require.NotContains(v.t, string(out), "could be")
	}
	m := openImage(v.t, v.path)
	f := m.file(v.t, v.name)
	got := map[format.LBlock]mapped{}
	for _, x := range collect(v.t, f) {
		for i := range x.Len {
			got[x.LBlock+format.LBlock(i)] = mapped{x.Start + format.Block(i), x.Unwritten}
		}
	}
	require.Equal(v.t, v.data, got)
	want, _ := m.kernelExtents(v.t, v.name)
	require.Equal(v.t, want, collect(v.t, f))
}

// Trees that the editor makes are clean for e2fsck, and the kernel reads them.
func TestKernelReadsEdits(t *testing.T) {
	t.Parallel()
	oracle.Need(t, "mke2fs", "debugfs", "e2fsck", "dumpe2fs")
	for _, c := range []struct {
		blockSize string
		features  string
		size      string
	}{
		{"1024", "metadata_csum,64bit", "8M"}, {"2048", "^metadata_csum,^64bit,uninit_bg", "32M"},
		{"4096", "metadata_csum,metadata_csum_seed", "64M"}, {"65536", "metadata_csum,64bit", "700M"},
	} {
		t.Run(c.blockSize, func(t *testing.T) {
			path := mkimage(t, c.size, "-t", "ext4", "-b", c.blockSize, "-O", c.features+",^has_journal")
			empty := filepath.Join(t.TempDir(), "empty")
			require.NoError(t, os.WriteFile(empty, nil, 0644))
			oracle.Run(t, "debugfs", "-w", "-R", "write "+empty+" f", path)
			v := openLive(t, path, "/f", 1)
			for range 6 {
				v.begin()
				for range 150 {
					v.random(min(8000, len(v.free)*3/4))
				}
				v.end()
			}
			v.finish()
			v.judge(false)
			if c.blockSize != "65536" {
				dir := oracle.Mount(t, path)
				got, err := os.ReadFile(filepath.Join(dir, "f"))
				require.NoError(t, err)
				require.True(t, bytes.Equal(v.whole(), got))
				oracle.Unmount(t, dir)
			}
			v.emptyParts()
		})
	}
}

// emptyParts removes most of the file, then all; nothing is left to optimise.
func (v *liveFile) emptyParts() {
	w := openLive(v.t, v.path, v.name, 2)
	w.begin()
	w.remove(100, format.MaxLBlock)
	w.end()
	w.finish()
	w.judge(true)
	w = openLive(v.t, v.path, v.name, 3)
	w.begin()
	w.remove(0, format.MaxLBlock)
	w.end()
	w.finish()
	w.judge(true)
}

// A file of ext3 becomes one with extents; its data stays where it is.
func TestKernelReadsFormerBlockMap(t *testing.T) {
	t.Parallel()
	oracle.Need(t, "mke2fs", "debugfs", "e2fsck", "dumpe2fs", "tune2fs")
	path := mkimage(t, "8M", "-t", "ext3", "-b", "1024", "-O", "^has_journal")
	dir := oracle.Mount(t, path)
	var blocks []int64
	for i := int64(0); i < 3000; i += 1 + i%7/6 {
		blocks = append(blocks, i+i/100*300)
	}
	sparseFile(t, filepath.Join(dir, "f"), 1024, blocks)
	want, err := os.ReadFile(filepath.Join(dir, "f"))
	require.NoError(t, err)
	oracle.Unmount(t, dir)
	oracle.Run(t, "tune2fs", "-O", "extent", path)

	v := openLive(t, path, "/f", 1)
	require.Greater(t, v.nodes, 10)
	nodes := v.nodes
	v.begin()
	v.end()
	require.Less(t, v.nodes, nodes)
	written := v.data
	v.data = map[format.LBlock]mapped{} // so that the data stays as it is
	v.finish()
	v.data = written
	v.judge(true)
	dir = oracle.Mount(t, path, "ro")
	got, err := os.ReadFile(filepath.Join(dir, "f"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
}
