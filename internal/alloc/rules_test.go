package alloc_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/mkfs"
	"drydock/journal"
)

// TestPaddingIsSet: bits behind the last block and the last inode that another
// program has left clear are set with the next change.
func TestPaddingIsSet(t *testing.T) {
	dev := threeGroups(t)
	f := open(t, dev, alloc.Options{})
	last := format.Group(f.geo.Groups() - 1)
	n, inodes := int(f.geo.GroupBlocks(last)), int(f.geo.InodesPerGroup)
	f.update(func(tx *journal.Tx) {
		for _, c := range []struct {
			b format.Block
			n int
		}{{f.desc(last).BlockBitmap(), n}, {f.desc(last).InodeBitmap(), inodes}} {
			p, err := tx.Change(c.b)
			require.NoError(t, err)
			alloc.Bitmap(p).ClearRange(c.n, 8*len(p)-c.n)
		}
	})
	f.changeDesc(last, func(d format.GroupDesc) {
		f.sums.SealBlockBitmap(d, f.bitmap(d.BlockBitmap())[:f.geo.BlockBitmapBytes()])
	})
	f.sync()
	f = open(t, dev, alloc.Options{})
	f.update(func(tx *journal.Tx) {
		b, err := f.a.AllocBlock(tx, f.geo.GroupFirst(last)+5)
		require.NoError(t, err)
		require.Equal(t, last, f.geo.GroupOf(b))
		_, err = f.a.NewInode(tx, f.geo.GroupFirstIno(last), false)
		require.NoError(t, err)
	})
	m := f.bitmap(f.desc(last).BlockBitmap())
	require.True(t, m.AllSet(n, 8*len(m)-n))
	require.True(t, f.sums.VerifyBlockBitmap(f.desc(last), m[:f.geo.BlockBitmapBytes()]))
	m = f.bitmap(f.desc(last).InodeBitmap())
	require.True(t, m.AllSet(inodes, 8*len(m)-inodes))
	require.Empty(t, f.warn)
}

// TestMetadataIsNotFreed: whatever a damaged extent names, metadata of fixed
// place stays in use.
func TestMetadataIsNotFreed(t *testing.T) {
	f := open(t, formatted(t, 60<<20, mkfs.Options{BlockSize: 1024}), alloc.Options{})
	meta := make([]bool, f.geo.BlocksCount)
	for g := range format.Group(f.geo.Groups()) {
		f.markUninit(g, meta)
	}
	tx := f.begin()
	defer tx.Abort()
	for b, is := range meta {
		if !is {
			continue
		}
		for _, r := range []alloc.Run{{Start: format.Block(b), N: 1}, {Start: format.Block(max(b, 4) - 3), N: 4}} {
			err := tx.Try(func() error { return f.a.Free(tx, r.Start, r.N) })
			require.ErrorContains(t, err, "hold metadata of the file system")
			require.ErrorIs(t, err, format.ErrDamaged)
		}
	}
}

// TestFreshTableIsNotRead: blocks of the inode table that come into use are not
// read, as they hold nothing.
func TestFreshTableIsNotRead(t *testing.T) {
	dev := formatted(t, 200<<20, mkfs.Options{Inodes: 2000})
	littered := dev.Clone()
	open(t, littered, alloc.Options{}).litter()
	for _, dev := range []*device.Mem{dev, littered} {
		fault := device.NewFault(dev, nil)
		f := open(t, fault, alloc.Options{})
		table := f.desc(1).InodeTable()
		f.update(func(tx *journal.Tx) {
			fault.SetRule(device.FailRange(device.OpRead, int64(table)*4096, int64(f.geo.InodeTableBlocks())*4096, errors.New("read")))
			for i := range 100 {
				ino, err := f.a.NewInode(tx, f.geo.GroupFirstIno(1), false)
				require.NoError(t, err)
				require.Equal(t, f.geo.GroupFirstIno(1)+format.Ino(i), ino)
				_, err = tx.Get(table + format.Block(i/f.geo.InodesPerBlock()))
				require.NoError(t, err)
			}
		})
	}
}

// TestReadErrors: a bitmap that cannot be read costs its group, descriptors that
// cannot be read are an error of New.
func TestReadErrors(t *testing.T) {
	broken := errors.New("broken")
	fault := device.NewFault(threeGroups(t), nil)
	f := open(t, fault, alloc.Options{})
	fault.SetRule(device.FailRange(device.OpRead, int64(f.desc(1).BlockBitmap())*1024, 2048, broken))
	f.checkWithoutGroup1(true, true)
	require.Len(t, f.warn, 2)
	require.ErrorIs(t, f.warn[0], broken)
	require.ErrorIs(t, f.warn[1], broken)

	j, err := journal.Open(journal.Options{Device: fault, BlockSize: 1024, Blocks: uint64(f.geo.BlocksCount)})
	require.NoError(t, err)
	fault.SetRule(device.FailRange(device.OpRead, int64(f.geo.DescBlock(0))*1024, 1024, broken))
	_, err = alloc.New(alloc.Options{Geometry: &f.geo, Checksums: f.sums, Super: make(format.Superblock, 1024), Journal: j})
	require.ErrorIs(t, err, broken)
}

// TestMarkWantsPicked: blocks that nobody picked, or that are used, are not
// marked.
func TestMarkWantsPicked(t *testing.T) {
	f := open(t, formatted(t, 60<<20, mkfs.Options{BlockSize: 1024}), alloc.Options{})
	start, n, err := f.a.Find(20000, 10, false)
	require.NoError(t, err)
	tx := f.begin()
	defer tx.Abort()
	for _, r := range []alloc.Run{{start, n + 1}, {start - 1, 2}, {40000, 1}, {f.geo.BlocksCount, 1}, {start, 0}} {
		require.Error(t, tx.Try(func() error { return f.a.Mark(tx, r.Start, r.N) }))
	}
	require.NoError(t, f.a.Mark(tx, start, n))
	err = tx.Try(func() error { return f.a.Mark(tx, start, n) })
	require.ErrorIs(t, err, format.ErrDamaged)
	require.ErrorContains(t, err, "block 20000 is in use already")
}

// TestMapsGo: bitmaps that were needed all at once go when they are idle.
func TestMapsGo(t *testing.T) {
	f := open(t, formatted(t, 100<<20, mkfs.Options{BlockSize: 1024}), alloc.Options{Memory: 1})
	var runs []alloc.Run
	for g := range format.Group(f.geo.Groups()) {
		start, n, err := f.a.Find(f.geo.GroupFirst(g), 10, false)
		require.NoError(t, err)
		runs = append(runs, alloc.Run{Start: start, N: n})
	}
	require.NoError(t, f.a.Verify(f.used()))
	for _, r := range runs {
		f.a.Release(r.Start, r.N, false)
		require.NoError(t, f.a.Verify(f.used()))
	}
}
