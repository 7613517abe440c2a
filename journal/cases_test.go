package journal_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/journal"
)

// logOf returns a log in memory and what writes to it, starting at log block
// start with transaction 10.
func logOf(t testing.TB, k logKind, blockSize int, blocks, start uint32) (*journal.Area, *logMaker) {
	area := memLog(t, blockSize, blocks)
	return area, newLogMaker(t, area, k, start, 10)
}

// oneBlock is a transaction that logs one block.
func oneBlock(m *logMaker, tid format.Tid, home format.Block) logTx {
	return logTx{tid: tid, sec: uint64(tid), blocks: []logged{{home, filled(m.f.BlockSize, byte(tid))}}}
}

// K13: with an area for fast commits the log wraps where that begins.
func TestK13WrapBeforeFastCommits(t *testing.T) {
	t.Parallel()
	for start := uint32(1985); start < 2048; start++ {
		area, m := logOf(t, logKind{csum: 3, fast: 1024}, 1024, 3072, start)
		for tid := format.Tid(10); tid < 40; tid++ {
			m.tx(oneBlock(m, tid, format.Block(tid)))
		}
		require.Less(t, m.at, start)
		require.Equal(t, 30, scan(t, area).Transactions, "start %d", start)
	}
}

// K14: a commit block of which only the first sector was written counts, if
// that sector is right, and only then.
func TestK14TornCommit(t *testing.T) {
	t.Parallel()
	for _, k := range sealedKinds {
		area, m := logOf(t, k, 4096, 1024, 1)
		p := m.tx(oneBlock(m, 10, 1))
		m.change(p.commit, func(b []byte) { copy(b[512:], filled(len(b)-512, 0xA5)) })
		r := scan(t, area)
		require.NoError(t, r.Damage)
		require.Equal(t, 1, r.Transactions)
		m.flip(p.commit, 0x33) // in the time
		r = scan(t, area)
		require.ErrorIs(t, r.Damage, format.ErrDamaged)
		require.Equal(t, 0, r.Transactions)
		require.Equal(t, format.Tid(10), r.Failed)
	}
}

// K31: the size of a tag, in every layout, over several descriptors.
func TestK31TagSizes(t *testing.T) {
	t.Parallel()
	for _, k := range allKinds {
		area, m := logOf(t, k, 1024, 1024, 1)
		x := logTx{tid: 10, sec: 1}
		for i := range 300 {
			x.blocks = append(x.blocks, logged{format.Block(i % homeBlocks), filled(1024, byte(i))})
		}
		p := m.tx(x)
		require.Len(t, p.descriptors, (300+m.f.TagsPerDescriptor()-1)/m.f.TagsPerDescriptor())
		got := replayed(t, area)
		require.Len(t, got, homeBlocks)
		for b, v := range got {
			require.Zero(t, (int(v)-int(b))%homeBlocks)
			require.GreaterOrEqual(t, 300-homeBlocks+256, int(v))
		}
	}
}

// E01: the magic is put back where a block began with it, and only there.
func TestE01Escape(t *testing.T) {
	t.Parallel()
	for _, k := range allKinds {
		area, m := logOf(t, k, 1024, 1024, 1)
		x := logTx{tid: 10, blocks: []logged{{1, filled(1024, 1)}, {2, make([]byte, 1024)}}}
		format.UnescapeJournalBlock(x.blocks[0].data)
		m.tx(x)
		r := scan(t, area)
		p := make([]byte, 1024)
		for _, want := range x.blocks {
			ok, err := r.ReadBlock(want.home, p)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, want.data, p)
		}
	}
}

// E03: blocks of up to 64 KiB.
func TestE03LargeBlocks(t *testing.T) {
	t.Parallel()
	for size := 1024; size <= 65536; size *= 2 {
		area, m := logOf(t, logKind{csum: 3, wide: true}, size, 1024, 1020)
		for tid := format.Tid(10); tid < 14; tid++ {
			x := oneBlock(m, tid, format.Block(tid))
			x.revokes = []format.Block{11}
			m.tx(x)
		}
		require.Equal(t, map[format.Block]byte{10: 10, 12: 12, 13: 13}, replayed(t, area))
	}
}

// E05: block numbers of more than 32 bits, in tags and in revoke records.
func TestE05HighBlocks(t *testing.T) {
	t.Parallel()
	const high = format.Block(1)<<32 + 5
	for _, k := range allKinds {
		if !k.wide {
			continue
		}
		area, m := logOf(t, k, 1024, 1024, 1)
		m.tx(logTx{tid: 10, sec: 1, blocks: []logged{{high, filled(1024, 1)}, {5, filled(1024, 2)}, {high + 1, filled(1024, 3)}, {6, filled(1024, 4)}}})
		m.tx(logTx{tid: 11, sec: 2, revokes: []format.Block{high + 1}})
		home := device.NewMem(int64(high+10) * 1024)
		r, err := journal.Scan(area, journal.ScanOptions{Blocks: uint64(high + 10), External: true})
		require.NoError(t, err)
		require.NoError(t, r.Damage)
		require.NoError(t, r.Replay(home))
		for at, want := range map[format.Block]byte{high: 1, 5: 2, high + 1: 0, 6: 4} {
			p := make([]byte, 1)
			_, err := home.ReadAt(p, int64(at)*1024)
			require.NoError(t, err)
			require.Equal(t, want, p[0], "block %d", at)
		}
	}
}

// E07: the tags of csum v2 have the low 16 bits of the checksum, which are
// compared.
func TestE07ShortChecksums(t *testing.T) {
	t.Parallel()
	for _, k := range []logKind{{csum: 2}, {csum: 2, wide: true}} {
		area, m := logOf(t, k, 1024, 1024, 1)
		p := m.tx(logTx{tid: 10, blocks: []logged{{1, filled(1024, 1)}, {2, filled(1024, 2)}}})
		require.Greater(t, m.f.TagSum(10, filled(1024, 1)), uint32(0))
		require.Equal(t, map[format.Block]byte{1: 1, 2: 2}, replayed(t, area))
		m.putSuper() // dirty again
		m.flip(p.data[1], 1000)
		r := scan(t, area)
		require.ErrorIs(t, r.Damage, format.ErrDamaged)
		require.Equal(t, []journal.Skipped{{Home: 2, Tid: 10, Log: p.data[1], Reason: "its checksum is wrong"}}, r.Skipped)
	}
}

// E09: a count in a revoke block that exceeds the block is damage, and nothing
// is replayed; unless the transaction is not replayed anyway.
func TestE09RevokeCount(t *testing.T) {
	t.Parallel()
	for _, k := range revokingKinds {
		for _, committed := range []bool{true, false} {
			area, m := logOf(t, k, 1024, 1024, 1)
			m.tx(oneBlock(m, 10, 1))
			x := oneBlock(m, 11, 2)
			x.revokes, x.noCommit = []format.Block{7}, !committed
			p := m.tx(x)
			m.change(p.revokes[0], func(b []byte) {
				b[0xe], b[0xf] = 0xff, 0xff
				m.f.SealTail(b)
			})
			r := scan(t, area)
			require.Equal(t, committed, r.Damage != nil)
			if !committed {
				require.Equal(t, map[format.Block]byte{1: 10}, replayed(t, area))
				continue
			}
			require.ErrorIs(t, r.Damage, format.ErrDamaged)
			require.ErrorContains(t, r.Damage, "65535 bytes in use")
			require.Equal(t, []any{0, 0, r.First}, []any{r.Len(), r.Transactions, r.End})
		}
	}
}

// E13: a journal file with a hole, or one that is too short, is no journal.
func TestE13BadAreas(t *testing.T) {
	t.Parallel()
	dev := device.NewMem(4096 * 1024)
	for want, extents := range map[string][]format.Extent{
		"hole at log block 100":                     {{Len: 100, Start: 50}, {LBlock: 101, Len: 2000, Start: 200}},
		"hole at log block 0":                       {{LBlock: 1, Len: 2000, Start: 200}},
		"2000 blocks at log block 99, want some":    {{Len: 100, Start: 50}, {LBlock: 99, Len: 2000, Start: 200}},
		"0 blocks at log block 100":                 {{Len: 100, Start: 50}, {LBlock: 100, Start: 200}},
		"log block 100 was never written":           {{Len: 100, Start: 50}, {LBlock: 100, Len: 2000, Start: 200, Unwritten: true}},
		"device ends at block 4096":                 {{Len: 100, Start: 50}, {LBlock: 100, Len: 4000, Start: 97}},
		"1 blocks, device ends at block 4096":       {{Len: 1, Start: 1 << 40}},
		"in the log twice, at 100 and 0":            {{Len: 100, Start: 50}, {LBlock: 100, Len: 11, Start: 40}},
		"journal area in block 50: in the log":      {{Len: 100, Start: 50}, {LBlock: 100, Len: 11, Start: 50}},
		"journal area: 0 blocks":                    nil,
		"journal area in block 7: hole at log bloc": {{LBlock: 5, Len: 5, Start: 7}},
	} {
		_, err := journal.NewArea(dev, 1024, extents)
		require.ErrorIs(t, err, format.ErrDamaged, want)
		require.ErrorContains(t, err, want)
	}
	for _, size := range []int{0, 512, 1000, 3072, 131072, -1024} {
		_, err := journal.NewArea(dev, size, []format.Extent{{Len: 1, Start: 1}})
		require.ErrorIs(t, err, format.ErrDamaged)
	}

	area, _ := logOf(t, logKind{}, 1024, 2048, 1)
	short, err := journal.NewArea(area.Device, 1024, []format.Extent{{Len: 2047, Start: homeBlocks}})
	require.NoError(t, err)
	_, err = journal.Scan(short, journal.ScanOptions{})
	require.ErrorIs(t, err, format.ErrDamaged)
	require.ErrorContains(t, err, "2048 blocks, want 1024 to 2047")
}

// E25: a log full of revoke records is read once, and they take no memory.
func TestE25ManyRevokes(t *testing.T) { // by itself, since it counts memory
	area, m := logOf(t, logKind{csum: 3}, 4096, 4096, 1)
	x := oneBlock(m, 10, 9)
	m.tx(x)
	x = logTx{tid: 11, sec: 20}
	for i := range 1000 * m.f.RevokesPerBlock() {
		x.revokes = append(x.revokes, format.Block(i*64)) // all in few chains of a small table
	}
	x.revokes = append(x.revokes, 9)
	m.tx(x)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := scan(t, area)
	runtime.ReadMemStats(&after)
	require.Equal(t, 2, r.Transactions)
	require.Zero(t, r.Len())
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(x.revokes))) // less than a byte a record
}

// E29, O05: what was not committed is the normal end of a log. Nobody looks at
// what its descriptor announces, be it that it cannot be read at all.
func TestE29UncommittedTail(t *testing.T) {
	t.Parallel()
	for _, k := range allKinds {
		if k.csum == 1 {
			continue // its checksum covers what follows a descriptor
		}
		area, m := logOf(t, k, 1024, 1024, 1)
		m.tx(oneBlock(m, 10, 1))
		x := oneBlock(m, 11, 2)
		x.noCommit = true
		p := m.tx(x)
		bad := errors.New("bad sector")
		fault := device.NewFault(area.Device, device.FailRange(device.OpRead, int64(homeBlocks+p.data[0])*1024, 1024, bad))
		worn, err := journal.NewArea(fault, 1024, area.Extents)
		require.NoError(t, err)
		r := scan(t, worn)
		require.NoError(t, r.Damage)
		home := device.NewMem(homeBlocks * 1024)
		require.NoError(t, r.Replay(home))
		require.NoError(t, r.Finish())
		require.Equal(t, 1, r.Len())
	}
}

// O01, B082: after a recovery the log begins again at its first block, in front
// of what an earlier life has left. Nothing of that is ever replayed, wherever
// the new log ends, also when the old one was damaged in its middle.
func TestO01NothingComesBack(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200 / slowdown) {
		r := rand.New(rand.NewPCG(seed, 5))
		area := scatteredLog(t, r, 1024)
		l := newRandomLog(r, homeBlocks)
		l.start = 1
		l.write(t, area, func(b format.Block) format.Block { return b }, 4)
		old := scan(t, area)
		require.NoError(t, old.Replay(device.NewMem(homeBlocks*1024)))
		require.NoError(t, old.Finish())
		s, err := area.ReadSuperblock()
		require.NoError(t, err)
		require.False(t, s.Sequence().Before(old.End+1), "seed %d", seed)

		m := newLogMaker(t, area, l.kind, 1, s.Sequence())
		m.tags = 4
		want, tid := map[format.Block]byte{}, s.Sequence()
		for range 1 + r.IntN(6) {
			x := logTx{tid: tid, sec: 1 << 62}
			for range r.IntN(20) {
				x.blocks = append(x.blocks, logged{format.Block(r.IntN(homeBlocks)), filled(1024, byte(r.Uint32()))})
				want[x.blocks[len(x.blocks)-1].home] = x.blocks[len(x.blocks)-1].data[0]
			}
			m.tx(x)
			tid++
			got := scan(t, area)
			require.Equal(t, tid, got.End, "seed %d", seed)
			require.NoError(t, got.Damage, "seed %d", seed)
		}
		require.Equal(t, want, replayed(t, area), "seed %d", seed)
	}
}

// Transaction 0 is like any other: that its commit block is bad is noticed, which
// Linux and e2fsck miss, for whom 0 stands for none.
func TestTransactionZeroIsBad(t *testing.T) {
	t.Parallel()
	for _, k := range append(sealedKinds, logKind{csum: 1}, logKind{csum: 1, async: true}) {
		area := memLog(t, 1024, 1024)
		m := newLogMaker(t, area, k, 1, 1<<32-1)
		var p placed
		for tid := format.Tid(1<<32 - 1); tid != 3; tid++ {
			x := oneBlock(m, tid, format.Block(tid)%homeBlocks)
			x.sec = 100
			at := m.tx(x)
			if tid == 0 {
				p = at
			}
		}
		m.flip(p.commit, 0x11)
		r := scan(t, area)
		require.ErrorIs(t, r.Damage, format.ErrDamaged)
		require.True(t, r.HasFailed)
		require.Equal(t, []any{format.Tid(0), format.Tid(0), 1}, []any{r.Failed, r.End, r.Transactions})
		require.Equal(t, format.Tid(3), r.NextTid())
	}
}

// The log does not go on with a number near which any block of it lies, be that
// so far ahead that it counts as older.
func TestNextTidFindsAGap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stale []format.Tid
		want  format.Tid
	}{
		{nil, 12},
		{[]format.Tid{5, 8, 9}, 12},
		{[]format.Tid{12}, 13},
		{[]format.Tid{12 + 1023}, 12 + 1024},
		{[]format.Tid{12 + 1024}, 12},
		{[]format.Tid{500, 1400, 2300, 12 + 1<<31}, 2301},
		{[]format.Tid{13, 1<<31 + 5}, 14},
		{[]format.Tid{1 << 31, 1<<31 + 11, 1<<31 + 12, 12, 700}, 701},
	} {
		area, m := logOf(t, logKind{csum: 3}, 1024, 1024, 1)
		m.tx(oneBlock(m, 10, 1))
		for i, tid := range c.stale {
			b := m.block()
			format.PutJournalHeader(b, format.JournalHeader{Type: format.JournalRevoke, Sequence: tid})
			require.NoError(t, area.WriteBlocks(uint32(100+i), [][]byte{b}))
		}
		require.Equal(t, c.want, scan(t, area).NextTid(), "%v", c.stale)
	}
	area, m := logOf(t, logKind{csum: 3}, 1024, 1024, 1)
	m.tx(oneBlock(m, 10, 1))
	fault := device.NewFault(area.Device, device.FailRange(device.OpRead, (homeBlocks+1000)*1024, 1024, device.ErrInUse))
	require.Equal(t, format.Tid(12+1024), scan(t, on(t, fault, area)).NextTid(), "of a log that cannot be read whole")
}

// B113, O02: what lies in the area of a journal that says to be empty is never
// replayed.
func TestB113EmptyOverOldData(t *testing.T) {
	t.Parallel()
	area, m := logOf(t, logKind{csum: 3}, 1024, 1024, 1)
	for tid := format.Tid(1); tid < 30; tid++ {
		m.tx(oneBlock(m, tid, 1))
	}
	m.s.SetStart(0)
	m.putSuper()
	r := scan(t, area)
	require.False(t, r.Dirty)
	require.Zero(t, r.Len())
	require.NoError(t, r.Finish()) // nothing to do
}

// O03: the journal superblock has a right checksum after recovery, and nothing
// else in it has changed. K29: s_errno is kept until the caller says otherwise.
func TestO03SuperblockChecksum(t *testing.T) {
	t.Parallel()
	for _, k := range allKinds {
		area, m := logOf(t, k, 1024, 1024, 1)
		m.s.SetErrno(-5)
		m.s.SetHead(77)
		m.putSuper()
		m.tx(oneBlock(m, 10, 1))
		r := scan(t, area)
		require.NoError(t, r.Replay(device.NewMem(homeBlocks*1024)))
		require.NoError(t, r.Finish())
		want := format.JournalSuperblock(append([]byte(nil), m.s[:1024]...))
		want.SetStart(0)
		want.SetSequence(12)
		want.Seal()
		got, err := area.ReadSuperblock()
		require.NoError(t, err)
		require.Equal(t, want, got)

		r = scan(t, area)
		require.False(t, r.Dirty)
		require.Equal(t, int32(-5), r.Errno)
		r.Errno = 0
		require.NoError(t, r.Finish())
		want.SetErrno(0)
		want.Seal()
		got, err = area.ReadSuperblock()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// O07, K01: the log is emptied only after what it holds is durable at home.
// K10: nor is it when a write or the flush has failed.
func TestO07OrderOfRecovery(t *testing.T) {
	t.Parallel()
	area, m := logOf(t, logKind{csum: 3}, 1024, 1024, 1)
	for tid := format.Tid(10); tid < 20; tid++ {
		m.tx(oneBlock(m, tid, format.Block(tid*3)))
	}
	require.ErrorContains(t, scan(t, area).Finish(), "not been replayed")
	home := device.NewMem(homeBlocks * 1024)
	for n := 1; n <= 11; n++ { // ten writes and a flush
		r := scan(t, area)
		require.True(t, r.Dirty)
		broken := errors.New("broken")
		require.ErrorIs(t, r.Replay(device.NewFault(home, device.FailNth(device.OpChange, n, broken))), broken)
		require.Error(t, r.Finish())
	}

	rec := device.NewRecorder(area.Device)
	own, err := journal.NewArea(rec, 1024, area.Extents)
	require.NoError(t, err)
	r := scan(t, own)
	require.NoError(t, r.Replay(rec))
	require.NoError(t, r.Finish())
	events := rec.Trace().Events
	require.Len(t, events, 12)
	for i, e := range events {
		require.Equal(t, i == 10, e.Kind == device.EventFlush, "event %d", i)
		require.Equal(t, i == 11, e.FUA, "event %d", i)
		require.Equal(t, i == 11, e.Off >= homeBlocks*1024, "event %d", i)
	}
}

// A tag beyond the end of the file system, or into the log, is refused; the rest
// of the log is not.
func TestTagOutside(t *testing.T) {
	t.Parallel()
	for _, home := range []format.Block{homeBlocks, homeBlocks + 1, homeBlocks + 1023, homeBlocks + 1024, 1 << 31} {
		area, m := logOf(t, logKind{csum: 3}, 1024, 1024, 1)
		p := m.tx(logTx{tid: 10, blocks: []logged{{1, filled(1024, 1)}, {home, filled(1024, 2)}, {3, filled(1024, 3)}}})
		for _, o := range []journal.ScanOptions{{Blocks: homeBlocks}, {Blocks: homeBlocks, External: true}, {Blocks: homeBlocks + 1024}} {
			r, err := journal.Scan(area, o)
			require.NoError(t, err)
			require.ErrorIs(t, r.Damage, format.ErrDamaged)
			require.Len(t, r.Skipped, 1)
			require.Equal(t, p.data[1], r.Skipped[0].Log)
			require.Equal(t, 2, r.Len())
		}
	}
	area, m := logOf(t, logKind{csum: 3}, 1024, 1024, 1)
	m.tx(logTx{tid: 10, sec: 1, blocks: []logged{{1 << 30, filled(1024, 2)}}})
	m.tx(logTx{tid: 11, sec: 2, revokes: []format.Block{1 << 30}})
	require.NoError(t, scan(t, area).Damage, "it is revoked")
}

// The log is verified again when it is read for the replay: what has changed since
// Scan is not written home.
func TestLogChangedSinceScan(t *testing.T) {
	t.Parallel()
	area, m := logOf(t, logKind{csum: 3}, 1024, 1024, 1)
	p := m.tx(oneBlock(m, 10, 1))
	r := scan(t, area)
	m.flip(p.data[0], 500)
	_, err := r.ReadBlock(1, m.block())
	require.ErrorIs(t, err, format.ErrDamaged)
	home := device.NewMem(homeBlocks * 1024)
	require.ErrorIs(t, r.Replay(home), format.ErrDamaged)
	require.Equal(t, make([]byte, homeBlocks*1024), content(t, home))
	require.Error(t, r.Finish())
}

// A descriptor whose blocks would go once around the log and into itself ends
// the log; one block less, and it is a transaction.
func TestDescriptorFillsLog(t *testing.T) {
	t.Parallel()
	for spare := range 2 {
		area, m := logOf(t, logKind{}, 16384, 1024, 7)
		x := logTx{tid: 10}
		for i := range 1022 - spare {
			x.blocks = append(x.blocks, logged{format.Block(i % homeBlocks), filled(16384, byte(i))})
		}
		x.noCommit = spare == 0
		m.tx(x)
		require.Equal(t, spare, scan(t, area).Transactions)
	}
}

// A log that goes round without a commit block ends; of a log as long as its
// area all is replayed.
func TestFullLog(t *testing.T) {
	t.Parallel()
	for _, k := range allKinds {
		area, m := logOf(t, k, 1024, 1024, 500)
		for i := range format.Tid(341) { // of three blocks each
			m.tx(oneBlock(m, 10+i, format.Block(i%homeBlocks)))
		}
		require.Equal(t, uint32(500), m.at)
		require.Equal(t, 341, scan(t, area).Transactions)
		require.Len(t, replayed(t, area), homeBlocks)

		area, m = logOf(t, k, 1024, 1024, 500)
		for i := range 512 { // descriptors of one transaction, all around
			x := oneBlock(m, 10, format.Block(i%homeBlocks))
			x.noCommit = true
			m.tx(x)
		}
		require.Zero(t, scan(t, area).Transactions)
	}
}
