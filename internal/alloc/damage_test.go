package alloc_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/mkfs"
	"drydock/journal"
)

// threeGroups is a file system of 1K blocks with three full groups and a short
// one, whose bitmaps are all written and whose metadata lies in the groups.
func threeGroups(t testing.TB) *device.Mem {
	t.Helper()
	features, err := mkfs.Profile("default")
	require.NoError(t, err)
	features.Incompat &^= format.IncompatFlexBg
	dev := formatted(t, 27<<20, mkfs.Options{BlockSize: 1024, Inodes: 400, Features: features, NoJournal: true})
	f := open(t, dev, alloc.Options{})
	f.update(func(tx *journal.Tx) {
		for g := range format.Group(f.geo.Groups()) {
			_, err := f.a.AllocBlock(tx, f.geo.GroupFirst(g)+4000)
			require.NoError(t, err)
			_, err = f.a.NewInode(tx, f.geo.GroupFirstIno(g), false)
			require.NoError(t, err)
		}
	})
	f.close()
	return dev
}

// TestBadGroups damages group 1 in many ways. Nothing is taken from it, what is
// freed in it stays in use, and it is told once.
func TestBadGroups(t *testing.T) {
	type damage func(f *fileSystem)
	inBlock := func(get func(format.GroupDesc) format.Block, at int) damage {
		return func(f *fileSystem) {
			_, err := f.dev.WriteAt([]byte{0x5A}, int64(get(f.desc(1)))*1024+int64(at))
			require.NoError(f.t, err)
		}
	}
	inDesc := func(change func(f *fileSystem, d format.GroupDesc)) damage {
		return func(f *fileSystem) {
			f.changeDesc(1, func(d format.GroupDesc) { change(f, d) })
			f.sync()
		}
	}
	for _, c := range []struct {
		name           string
		damage         damage
		blocks, inodes bool // which are out of use
		text           string
	}{
		{"checksum of the block bitmap", inBlock(format.GroupDesc.BlockBitmap, 700), true, false,
			"block bitmap of group 1 in block 8450: wrong checksum"},
		{"checksum of the inode bitmap", inBlock(format.GroupDesc.InodeBitmap, 5), false, true,
			"inode bitmap of group 1 in block 8451: wrong checksum"},
		{"count of free blocks", inDesc(func(f *fileSystem, d format.GroupDesc) { d.SetFreeBlocksCount(d.FreeBlocksCount() - 1) }), true, false,
			"block bitmap of group 1 in block 8450: 7906 free blocks, but the descriptor counts 7905"},
		{"count of free inodes", inDesc(func(f *fileSystem, d format.GroupDesc) { d.SetFreeInodesCount(d.FreeInodesCount() + 1) }), false, true,
			"inode bitmap of group 1 in block 8451: 103 free inodes, but the descriptor counts 104"},
		{"unused inodes", inDesc(func(f *fileSystem, d format.GroupDesc) { d.SetItableUnused(f.geo.InodesPerGroup) }), false, true,
			"inode bitmap of group 1 in block 8451: inode 105 is in use, but the descriptor counts it as never used"},
		{"uninit flags that are wrong", inDesc(func(f *fileSystem, d format.GroupDesc) { d.SetFlags(format.BgBlockUninit | format.BgInodeUninit) }), true, true, ""},
		{"checksum of the descriptor", func(f *fileSystem) {
			_, err := f.dev.WriteAt([]byte{0x5A}, int64(f.geo.DescBlock(0))*1024+64+0x1e)
			require.NoError(f.t, err)
		}, true, true, "descriptor of group 1 in block 2 at 0x40: wrong checksum"},
		{"block bitmap outside", inDesc(func(f *fileSystem, d format.GroupDesc) { d.SetBlockBitmap(f.geo.BlocksCount) }), true, true,
			"descriptor of group 1 in block 2 at 0x40: block bitmap in block 27648, want 1 to 27647"},
		{"inode bitmap outside", inDesc(func(f *fileSystem, d format.GroupDesc) { d.SetInodeBitmap(0) }), true, true, ""},
		{"inode table outside", inDesc(func(f *fileSystem, d format.GroupDesc) { d.SetInodeTable(f.geo.BlocksCount - 3) }), true, true, ""},
		{"block bitmap in block 2^40", inDesc(func(f *fileSystem, d format.GroupDesc) { d.SetBlockBitmap(1 << 40) }), true, true, ""},
		{"too many free blocks", inDesc(func(f *fileSystem, d format.GroupDesc) { d.SetFreeBlocksCount(8193) }), true, true, ""},
		{"too many free inodes", inDesc(func(f *fileSystem, d format.GroupDesc) { d.SetFreeInodesCount(105) }), true, true, ""},
		{"too many unused inodes", inDesc(func(f *fileSystem, d format.GroupDesc) { d.SetItableUnused(1 << 20) }), true, true, ""},
		{"both bitmaps in one block", inDesc(func(f *fileSystem, d format.GroupDesc) { d.SetInodeBitmap(d.BlockBitmap()) }), true, true,
			"descriptor of group 1 in block 2 at 0x40: bitmaps or inode table lie on other metadata"},
		{"bitmap on the superblock", inDesc(func(f *fileSystem, d format.GroupDesc) { d.SetBlockBitmap(1) }), true, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dev := threeGroups(t)
			c.damage(open(t, dev, alloc.Options{}))
			f := open(t, dev, alloc.Options{})
			f.checkWithoutGroup1(c.blocks, c.inodes)
			require.NotEmpty(t, f.warn)
			require.ErrorIs(t, f.warn[0], format.ErrDamaged)
			if c.text != "" {
				require.Len(t, f.warn, 1, "%v", f.warn)
				require.EqualError(t, f.warn[0], c.text)
			}
		})
	}
}

// checkWithoutGroup1 takes all blocks and inodes that there are.
func (f *fileSystem) checkWithoutGroup1(blocks, inodes bool) {
	t := f.t
	group1 := 0
	var got []format.Ino
	f.update(func(tx *journal.Tx) {
		for {
			start, n, err := f.a.Find(f.geo.GroupFirst(1)+9, 1000, false)
			if err != nil {
				break
			}
			if f.geo.GroupOf(start) == 1 {
				group1++
			}
			require.NoError(t, f.a.Mark(tx, start, n))
		}
		require.Equal(t, blocks, group1 == 0)
		free, _, _, _ := f.a.Totals()
		require.Zero(t, free)
		for {
			ino, err := f.a.NewInode(tx, f.geo.GroupFirstIno(1), len(got)%2 == 0)
			if err != nil {
				break
			}
			g, _ := f.geo.InodeLocation(ino)
			require.False(t, inodes && g == 1)
			got = append(got, ino)
		}
	})
	want := int(f.geo.InodesCount) - 10 - int(f.geo.Groups()) - 1
	if inodes {
		want -= int(f.geo.InodesPerGroup) - 1
	}
	require.Len(t, got, want)
	f.update(func(tx *journal.Tx) {
		if blocks {
			require.NoError(t, f.a.Free(tx, f.geo.GroupFirst(1)+4000, 1), "stays in use")
		}
		if inodes {
			require.NoError(t, f.a.FreeInode(tx, f.geo.GroupFirstIno(1), false), "stays in use")
		}
	})
	_, _, pending, _ := f.a.Totals()
	require.Zero(t, pending)
}

// TestMetadataIsMarked: a bitmap with metadata marked as free is not trusted,
// though checksum and count agree with it.
func TestMetadataIsMarked(t *testing.T) {
	dev := threeGroups(t)
	f := open(t, dev, alloc.Options{})
	f.update(func(tx *journal.Tx) {
		m, err := tx.Change(f.desc(1).BlockBitmap())
		require.NoError(t, err)
		alloc.Bitmap(m).Clear(int(f.desc(1).InodeTable() - f.geo.GroupFirst(1)))
	})
	f.changeDesc(1, func(d format.GroupDesc) {
		m := f.bitmap(d.BlockBitmap())
		d.SetFreeBlocksCount(d.FreeBlocksCount() + 1)
		f.sums.SealBlockBitmap(d, m[:f.geo.BlockBitmapBytes()])
	})
	f.sync()
	f = open(t, dev, alloc.Options{})
	f.checkWithoutGroup1(true, false)
	require.Len(t, f.warn, 1)
	require.EqualError(t, f.warn[0], "block bitmap of group 1 in block 8450: blocks of metadata are not in use")
}

// TestHostile throws random bytes at descriptors and bitmaps. Errors are fine;
// panics, endless loops and blocks of metadata handed out are not.
func TestHostile(t *testing.T) {
	rng := newRand(t)
	base := threeGroups(t)
	for range 300 {
		dev := base.Clone()
		f := open(t, dev, alloc.Options{})
		for range 1 + rng.IntN(3) {
			g := format.Group(rng.IntN(int(f.geo.Groups())))
			switch rng.IntN(3) {
			case 0:
				f.changeDesc(g, func(d format.GroupDesc) { d[rng.IntN(len(d))] ^= byte(1 << rng.IntN(8)) })
			case 1:
				b := f.desc(g).BlockBitmap()
				if rng.IntN(2) == 0 {
					b = f.desc(g).InodeBitmap()
				}
				if !f.geo.ValidBlock(b) {
					continue
				}
				f.update(func(tx *journal.Tx) {
					p, err := tx.Change(b)
					require.NoError(t, err)
					p[rng.IntN(len(p))] ^= byte(1 << rng.IntN(8))
				})
				f.changeDesc(g, func(d format.GroupDesc) {
					f.sums.SealBlockBitmap(d, f.bitmap(b)[:f.geo.BlockBitmapBytes()])
				})
			case 2:
				h := format.Group(rng.IntN(int(f.geo.Groups())))
				from := f.desc(h)
				f.changeDesc(g, func(d format.GroupDesc) { copy(d[4*rng.IntN(3):], from[:4*rng.IntN(4)]) })
			}
		}
		f.sync()
		f = open(t, dev, alloc.Options{Memory: 1})
		o := &owner{fileSystem: f, rng: rng, inodes: map[format.Ino]bool{}}
		for range 30 {
			o.roughly()
		}
	}
}

// roughly changes a few things and takes any error of damage.
func (o *owner) roughly() {
	tx := o.begin()
	defer tx.Abort()
	for range 5 {
		start, n, err := o.a.Find(format.Block(o.rng.IntN(int(o.geo.BlocksCount))), uint32(1+o.rng.IntN(3000)), false)
		if err == nil {
			tx.OnAbort(func() { o.a.Release(start, n, false) })
			require.False(o.t, o.isBase(start, n), "blocks %d+%d", start, n)
			err = o.a.Mark(tx, start, n)
		}
		if err == nil {
			_, err = o.a.NewInode(tx, format.Ino(o.rng.IntN(400)), o.rng.IntN(2) == 0)
		}
		if err == nil {
			_ = tx.Try(func() error { // what is free already, or metadata
				return o.a.Free(tx, format.Block(o.rng.IntN(int(o.geo.BlocksCount))), uint32(1+o.rng.IntN(100)))
			})
		}
		if err == nil {
			_ = tx.Try(func() error { return o.a.FreeInode(tx, format.Ino(o.rng.IntN(500)), false) })
		}
		if err != nil {
			return
		}
	}
	_, err := tx.Commit()
	require.NoError(o.t, err)
}

// isBase reports whether a run touches superblocks or descriptors.
func (o *owner) isBase(start format.Block, n uint32) bool {
	for g := range format.Group(o.geo.Groups()) {
		first := o.geo.GroupFirst(g)
		if start < first+format.Block(o.geo.BaseMeta(g)) && start+format.Block(n) > first {
			return true
		}
	}
	return false
}

// TestMostGroupsBad: one good group among a hundred bad ones is found.
func TestMostGroupsBad(t *testing.T) {
	dev := formatted(t, 900<<20, mkfs.Options{BlockSize: 1024, NoJournal: true, Inodes: 1000})
	f := open(t, dev, alloc.Options{})
	last := format.Group(f.geo.Groups() - 1)
	require.Greater(t, last, format.Group(100))
	for g := range last {
		f.changeDesc(g, func(d format.GroupDesc) { d.SetFreeBlocksCount(d.FreeBlocksCount() - 1) })
	}
	f.sync()
	f = open(t, dev, alloc.Options{})
	start, n, err := f.a.Find(0, 100, false)
	require.NoError(t, err)
	require.Equal(t, last, f.geo.GroupOf(start))
	require.EqualValues(t, 100, n)
	require.Len(t, f.warn, int(last))
	free, _, _, _ := f.a.Totals()
	require.EqualValues(t, f.desc(last).FreeBlocksCount()-100, free)
}

// TestUninitFills: a file system most of whose groups were never written can be
// filled to its last block (Esdex/Arcanum#140).
func TestUninitFills(t *testing.T) {
	f := open(t, formatted(t, 260<<20, mkfs.Options{BlockSize: 1024}), alloc.Options{})
	uninit := 0
	for g := range format.Group(f.geo.Groups()) {
		uninit += int(f.desc(g).Flags() & format.BgBlockUninit / format.BgBlockUninit)
	}
	require.Greater(t, uninit, int(f.geo.Groups())/2)
	free := f.a.Sums().FreeBlocks
	f.update(func(tx *journal.Tx) {
		for free > 0 {
			start, n, err := f.a.Find(0, 1<<20, false)
			require.NoError(t, err)
			require.NoError(t, f.a.Mark(tx, start, n))
			free -= uint64(n)
		}
		_, err := f.a.AllocBlock(tx, 0)
		require.Error(t, err)
	})
	for b, used := range f.used() {
		require.True(t, used || b == 0, "block %d", b)
	}
	require.Zero(t, f.a.Sums().FreeBlocks)
}

// TestFreeAcrossGroups frees a range that crosses the border of two groups
// (yuoo655/ext4_rs#6).
func TestFreeAcrossGroups(t *testing.T) {
	f := open(t, formatted(t, 100<<20, mkfs.Options{BlockSize: 1024, NoJournal: true}), alloc.Options{})
	border := f.geo.GroupFirst(11)
	before := [2]uint32{f.desc(10).FreeBlocksCount(), f.desc(11).FreeBlocksCount()}
	f.update(func(tx *journal.Tx) {
		require.NoError(t, f.a.Claim(tx, border-100, 300))
	})
	require.Equal(t, before[0]-100, f.desc(10).FreeBlocksCount())
	f.update(func(tx *journal.Tx) {
		require.NoError(t, f.a.Free(tx, border-50, 120))
	})
	require.Equal(t, [2]uint32{before[0] - 50, before[1] - 130}, [2]uint32{f.desc(10).FreeBlocksCount(), f.desc(11).FreeBlocksCount()})
	used := f.used()
	for i := format.Block(0); i < 300; i++ {
		require.Equal(t, i < 50 || i >= 170, used[border-100+i])
	}
}

func TestBigallocIsRefused(t *testing.T) {
	dev := threeGroups(t)
	sb := superblock(t, dev)
	geo, err := format.GeometryOf(sb)
	require.NoError(t, err)
	geo.Features.ROCompat |= format.ROCompatBigalloc
	_, err = alloc.New(alloc.Options{Geometry: &geo, Super: sb})
	require.ErrorIs(t, err, format.ErrUnsupported)
}
