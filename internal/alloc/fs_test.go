package alloc_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/mkfs"
	"drydock/journal"
)

// newRand returns a generator and prints the seed that repeats it.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// fileSystem is an open allocator and what lies below it.
type fileSystem struct {
	t    testing.TB
	dev  device.Device
	geo  format.Geometry
	sums format.Checksums
	j    *journal.Journal
	a    *alloc.Allocator
	warn []error
}

// open opens the allocator of the file system on dev, without a log.
func open(t testing.TB, dev device.Device, o alloc.Options) *fileSystem {
	t.Helper()
	sb := superblock(t, dev)
	geo, err := format.GeometryOf(sb)
	require.NoError(t, err)
	f := &fileSystem{t: t, dev: dev, geo: geo, sums: format.ChecksumsOf(sb)}
	_, bench := t.(*testing.B)
	f.j, err = journal.Open(journal.Options{Device: dev, BlockSize: geo.BlockSize, Blocks: uint64(geo.BlocksCount), Poison: !bench})
	require.NoError(t, err)
	o.Geometry, o.Checksums, o.Super, o.Journal = &f.geo, f.sums, sb, f.j
	o.Warn = func(err error) { f.warn = append(f.warn, err) }
	f.a, err = alloc.New(o)
	require.NoError(t, err)
	return f
}

func superblock(t testing.TB, dev device.Device) format.Superblock {
	t.Helper()
	sb := make(format.Superblock, format.SuperblockSize)
	_, err := dev.ReadAt(sb, format.SuperblockOffset)
	require.NoError(t, err)
	return sb
}

// formatted returns a file system made by this project, in memory.
func formatted(t testing.TB, size int64, o mkfs.Options) *device.Mem {
	t.Helper()
	dev := device.NewMem(size)
	o.BlockSize = cmp.Or(o.BlockSize, 4096)
	o.Blocks = uint64(size) / uint64(o.BlockSize)
	root := mkfs.Node{Mode: format.ModeDir | 0o755, Links: 1}
	p, err := mkfs.New(&mkfs.Content{Nodes: []mkfs.Node{root}}, o)
	require.NoError(t, err)
	require.NoError(t, p.Write(context.Background(), dev, mkfs.WriteOptions{}))
	return dev
}

// begin begins a Tx.
func (f *fileSystem) begin() *journal.Tx {
	f.t.Helper()
	tx, err := f.j.Begin()
	require.NoError(f.t, err)
	return tx
}

// update runs fn in a Tx of its own.
func (f *fileSystem) update(fn func(tx *journal.Tx)) {
	f.t.Helper()
	tx := f.begin()
	fn(tx)
	_, err := tx.Commit()
	require.NoError(f.t, err)
}

// sync makes all durable.
func (f *fileSystem) sync() {
	f.t.Helper()
	require.NoError(f.t, f.j.SyncAll())
}

// close writes everything home, and the superblock with its sums.
func (f *fileSystem) close() {
	f.t.Helper()
	sums := f.a.Sums()
	require.NoError(f.t, f.j.Close())
	sb := superblock(f.t, f.dev)
	sb.SetFreeBlocksCount(sums.FreeBlocks)
	sb.SetFreeInodesCount(uint32(sums.FreeInodes))
	format.SealSuperblock(sb)
	_, err := f.dev.WriteAt(sb, format.SuperblockOffset)
	require.NoError(f.t, err)
}

// desc returns a copy of a group's descriptor as it is now.
func (f *fileSystem) desc(g format.Group) format.GroupDesc {
	f.t.Helper()
	per := f.geo.DescsPerBlock()
	buf := make([]byte, f.geo.BlockSize)
	require.NoError(f.t, f.j.ReadBlock(f.geo.DescBlock(int(g)/per), buf))
	return buf[int(g)%per*f.geo.DescSize:][:f.geo.DescSize]
}

// changeDesc changes a group's descriptor behind the allocator's back.
func (f *fileSystem) changeDesc(g format.Group, change func(d format.GroupDesc)) {
	f.t.Helper()
	f.update(func(tx *journal.Tx) {
		per := f.geo.DescsPerBlock()
		p, err := tx.Change(f.geo.DescBlock(int(g) / per))
		require.NoError(f.t, err)
		d := format.GroupDesc(p[int(g)%per*f.geo.DescSize:][:f.geo.DescSize])
		change(d)
		f.sums.SealGroupDesc(g, d)
	})
}

// bitmap returns a copy of a bitmap block as it is now.
func (f *fileSystem) bitmap(b format.Block) alloc.Bitmap {
	f.t.Helper()
	buf := make([]byte, f.geo.BlockSize)
	require.NoError(f.t, f.j.ReadBlock(b, buf))
	return buf
}

// lazy reports whether the uninit flags have a meaning.
func (f *fileSystem) lazy() bool { return f.sums.Meta || f.sums.GDT }

// used returns what the block bitmaps say, and checks them: checksums, counts and
// padding of every group that has a bitmap.
func (f *fileSystem) used() []bool {
	f.t.Helper()
	used := make([]bool, f.geo.BlocksCount)
	for g := range format.Group(f.geo.Groups()) {
		d, n, first := f.desc(g), int(f.geo.GroupBlocks(g)), f.geo.GroupFirst(g)
		require.True(f.t, f.sums.VerifyGroupDesc(g, d), "group %d", g)
		if f.lazy() && d.Flags()&format.BgBlockUninit != 0 {
			f.markUninit(g, used)
			continue
		}
		m := f.bitmap(d.BlockBitmap())
		require.True(f.t, f.sums.VerifyBlockBitmap(d, m[:f.geo.BlockBitmapBytes()]), "group %d", g)
		require.EqualValues(f.t, m.CountClear(0, n), d.FreeBlocksCount(), "group %d", g)
		require.True(f.t, m.AllSet(n, 8*len(m)-n), "group %d", g)
		for i := range n {
			used[int(first)+i] = m.Test(i)
		}
	}
	return used
}

// markUninit works out the bitmap of a group that has none.
func (f *fileSystem) markUninit(g format.Group, used []bool) {
	first, n := f.geo.GroupFirst(g), format.Block(f.geo.GroupBlocks(g))
	set := func(b format.Block, k int) {
		for i := range format.Block(k) {
			if b+i >= first && b+i < first+n {
				used[b+i] = true
			}
		}
	}
	set(first, f.geo.BaseMeta(g))
	for h := range format.Group(f.geo.Groups()) {
		d := f.desc(h)
		set(d.BlockBitmap(), 1)
		set(d.InodeBitmap(), 1)
		set(d.InodeTable(), f.geo.InodeTableBlocks())
	}
}

var errUndo = errors.New("undo")
