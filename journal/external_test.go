package journal_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/journal"
)

var fsUUID = [16]byte{0xF5, 1, 2}

// externalDevice makes the device of an external journal in memory.
func externalDevice(t testing.TB, blockSize int, blocks uint32) *device.Mem {
	dev := device.NewMem(int64(blocks) * int64(blockSize))
	sb := make(format.Superblock, format.SuperblockSize)
	sb.SetMagic(format.SuperMagic)
	sb.SetRevLevel(format.RevDynamic)
	sb.SetFeatureIncompat(format.IncompatJournalDev)
	sb.SetFeatureROCompat(format.ROCompatMetadataCsum)
	sb.SetChecksumType(format.ChecksumCRC32C)
	sb.SetUUID(logUUID)
	sb.SetBlocksCount(uint64(blocks))
	for size := 1024; size < blockSize; size *= 2 {
		sb.SetLogBlockSize(sb.LogBlockSize() + 1)
	}
	format.SealSuperblock(sb)
	_, err := dev.WriteAt(sb, format.SuperblockOffset)
	require.NoError(t, err)

	s := make(format.JournalSuperblock, format.JournalSuperblockSize)
	format.PutEmptyJournalSuperblock(s, blockSize, blocks, logUUID)
	super := max(1, 2*1024/blockSize)
	s.SetFirst(uint32(super) + 1)
	s.SetUser(0, fsUUID)
	_, err = dev.WriteAt(s, int64(super*blockSize))
	require.NoError(t, err)
	return dev
}

// A log on a device of its own: the blocks are those of the device, and lie
// behind its two superblocks.
func TestExternalJournal(t *testing.T) {
	t.Parallel()
	for super, size := range map[uint32]int{2: 1024, 1: 4096} {
		dev := externalDevice(t, size, 1100)
		area, err := journal.NewExternalArea(dev, size, fsUUID, logUUID)
		require.NoError(t, err)
		require.Equal(t, super, area.Super)
		m := newLogMaker(t, area, logKind{csum: 3}, 1090, 10) // wraps
		for tid := format.Tid(10); tid < 20; tid++ {
			m.tx(oneBlock(m, tid, format.Block(tid+100))) // which are blocks of the log, too
		}
		r, err := journal.Scan(area, journal.ScanOptions{Blocks: 1000, External: true})
		require.NoError(t, err)
		require.NoError(t, r.Damage)
		require.Equal(t, 10, r.Transactions)
		home := device.NewMem(1000 * int64(size))
		require.NoError(t, r.Replay(home))
		require.NoError(t, r.Finish())
		p := make([]byte, 1)
		for tid := int64(10); tid < 20; tid++ {
			_, err := home.ReadAt(p, (tid+100)*int64(size))
			require.NoError(t, err)
			require.Equal(t, byte(tid), p[0])
		}
		again, err := journal.NewExternalArea(dev, size, fsUUID, logUUID)
		require.NoError(t, err)
		s, err := again.ReadSuperblock()
		require.NoError(t, err)
		require.Equal(t, []any{uint32(0), format.Tid(21)}, []any{s.Start(), s.Sequence()})
	}
}

// What is not the journal of this file system is refused.
func TestExternalJournalRefused(t *testing.T) {
	t.Parallel()
	super := func(change func(sb format.Superblock)) func(dev *device.Mem) {
		return func(dev *device.Mem) {
			sb := make(format.Superblock, format.SuperblockSize)
			_, err := dev.ReadAt(sb, format.SuperblockOffset)
			require.NoError(t, err)
			change(sb)
			_, err = dev.WriteAt(sb, format.SuperblockOffset)
			require.NoError(t, err)
		}
	}
	own := func(change func(s format.JournalSuperblock)) func(dev *device.Mem) {
		return func(dev *device.Mem) {
			s := make(format.JournalSuperblock, 1024)
			_, err := dev.ReadAt(s, 2048)
			require.NoError(t, err)
			change(s)
			_, err = dev.WriteAt(s, 2048)
			require.NoError(t, err)
		}
	}
	for want, spoil := range map[string]func(dev *device.Mem){
		"magic 0x0":              super(func(sb format.Superblock) { sb.SetMagic(0) }),
		"the feature journal_de": super(func(sb format.Superblock) { sb.SetFeatureIncompat(0); format.SealSuperblock(sb) }),
		"is wrong":               super(func(sb format.Superblock) { sb.SetBlocksCount(1) }), // j_corrupt_ext_jnl_sb_csum
		"block size 2048":        super(func(sb format.Superblock) { sb.SetLogBlockSize(1); format.SealSuperblock(sb) }),
		"UUID 00000000":          super(func(sb format.Superblock) { sb.SetUUID([16]byte{}); format.SealSuperblock(sb) }),
		"1100 blocks, want 1024": super(func(sb format.Superblock) { sb.SetBlocksCount(1050); format.SealSuperblock(sb) }),
		"journal area: 0 blocks": super(func(sb format.Superblock) { sb.SetBlocksCount(0); format.SealSuperblock(sb) }),
		"1 blocks, want 1024":    own(func(s format.JournalSuperblock) { s.SetMaxLen(1) }),
		"over its superblock":    own(func(s format.JournalSuperblock) { s.SetFirst(2) }),
		"not serve":              own(func(s format.JournalSuperblock) { s.SetUser(0, logUUID) }), // j_corrupt_ext_jnl_sb_block
		"does not serve":         own(func(s format.JournalSuperblock) { s.SetNrUsers(0) }),
		"of 48 file systems":     own(func(s format.JournalSuperblock) { s.SetNrUsers(48) }),
		"no list of users": own(func(s format.JournalSuperblock) {
			format.PutJournalHeader(s, format.JournalHeader{Type: format.JournalSuperblockV1})
		}),
	} {
		dev := externalDevice(t, 1024, 1100)
		spoil(dev)
		_, err := journal.NewExternalArea(dev, 1024, fsUUID, logUUID)
		require.ErrorContains(t, err, want)
	}
	_, err := journal.NewExternalArea(device.NewMem(1500), 1024, fsUUID, logUUID)
	require.Error(t, err)
}

// areaOf is a log of 2,000 blocks in three pieces.
func areaOf(t testing.TB, dev device.Device) *journal.Area {
	a, err := journal.NewArea(dev, 1024, []format.Extent{{Len: 10, Start: 3000}, {LBlock: 10, Len: 1, Start: 64}, {LBlock: 11, Len: 1989, Start: 500}})
	require.NoError(t, err)
	return a
}

// Blocks go where the extents say, in one write for each piece, and never past
// the end.
func TestAreaBlocks(t *testing.T) {
	t.Parallel()
	rec := device.NewRecorder(device.NewMem(4096 * 1024))
	a := areaOf(t, rec)
	require.Equal(t, uint32(2000), a.Blocks())
	bufs := [][]byte{append(filled(1024, 1), filled(1024, 2)...), filled(1024, 3), append(append(filled(1024, 4), filled(1024, 5)...), filled(1024, 6)...)}
	require.NoError(t, a.WriteBlocks(8, bufs))
	require.NoError(t, a.WriteBlockFUA(1999, filled(1024, 9)))
	var places []int64
	for _, e := range rec.Trace().Events {
		places = append(places, e.Off/1024, e.Len/1024)
	}
	require.Equal(t, []int64{3008, 2, 64, 1, 500, 3, 2488, 1}, places)
	p := make([]byte, 1024)
	for i, n := range []uint32{8, 9, 10, 11, 12, 13} {
		require.NoError(t, a.ReadBlock(n, p))
		require.Equal(t, filled(1024, byte(i+1)), p)
	}
	require.ErrorContains(t, a.ReadBlock(2000, p), "past the end")
	require.ErrorContains(t, a.WriteBlocks(1999, [][]byte{p, p}), "past the end")
	require.ErrorContains(t, a.WriteBlockFUA(2000, p), "past the end")
	require.ErrorContains(t, a.WriteBlocks(1<<32-1, [][]byte{p}), "past the end")
	require.Len(t, rec.Trace().Events, 4)
}

// A journal that claims 2^32 blocks is no journal of a small device, and takes
// no memory to find out.
func TestHugeClaims(t *testing.T) {
	t.Parallel()
	dev := device.NewMem(2 << 20)
	var extents []format.Extent
	for l := uint64(0); l < 1<<32-1; l += 1 << 25 {
		extents = append(extents, format.Extent{LBlock: format.LBlock(l), Len: 1 << 25})
	}
	_, err := journal.NewArea(dev, 1024, extents)
	require.ErrorIs(t, err, format.ErrDamaged)

	area, m := logOf(t, logKind{}, 1024, 1024, 1)
	m.s.SetMaxLen(1<<32 - 1)
	m.putSuper()
	_, err = journal.Scan(area, journal.ScanOptions{})
	require.ErrorIs(t, err, format.ErrDamaged)

	sparse := device.NewMem(1 << 43) // as long as it says, and empty
	big, err := journal.NewArea(sparse, 1024, []format.Extent{{Len: 1<<32 - 1, Start: 64}})
	require.NoError(t, err)
	m = newLogMaker(t, big, logKind{csum: 3}, 1<<32-3, 10)
	m.tx(oneBlock(m, 10, 1)) // wraps
	require.Equal(t, uint32(2), m.at)
	r := scan(t, big)
	require.Equal(t, 1, r.Transactions)
	require.Equal(t, 1, r.Len())
	require.NoError(t, r.Replay(device.NewMem(1<<20)))
	require.NoError(t, r.Finish())
	require.Equal(t, format.Tid(12+1<<30), r.NextTid())
}

// fileOf is a path in a folder of the test's own.
func fileOf(t testing.TB, name string) string { return filepath.Join(t.TempDir(), name) }
