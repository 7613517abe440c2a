package journal_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/journal"
)

// fuzzLog returns the area of a journal whose first blocks are data; the rest is
// zeros. Its superblock is made valid in what would end the scan at once.
func fuzzLog(t testing.TB, data []byte) *journal.Area {
	area := memLog(t, 1024, 1100)
	_, err := area.Device.WriteAt(data[:min(len(data), 64<<10)], homeBlocks*1024)
	require.NoError(t, err)
	s := make(format.JournalSuperblock, 1024)
	require.NoError(t, area.ReadBlock(0, s))
	h := format.JournalHeader{Type: format.JournalSuperblockV2}
	if old, ok := format.ReadJournalHeader(s); ok && old.Type == format.JournalSuperblockV1 {
		h.Type = old.Type
	}
	format.PutJournalHeader(s, h)
	s.SetBlockSize(1024)
	s.SetMaxLen(1100)
	s.SetFirst(1)
	s.SetChecksumType(format.JournalCrc32c)
	s.SetStart(s.Start() % 1024)
	require.NoError(t, area.WriteSuperblock(s))
	return area
}

// FuzzScan: whatever lies in the log, recovery ends, says the same twice, writes
// inside the file system only, and leaves a log that is empty.
func FuzzScan(f *testing.F) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 10))
		area := memLog(f, 1024, 1100)
		l := newRandomLog(r, homeBlocks)
		l.start = 1 + uint32(r.IntN(4))
		l.txs = l.txs[:min(3, len(l.txs))]
		for i := range l.txs {
			l.txs[i].blocks = l.txs[i].blocks[:min(3, len(l.txs[i].blocks))]
			l.txs[i].revokes = l.txs[i].revokes[:min(5, len(l.txs[i].revokes))]
		}
		l.write(f, area, func(b format.Block) format.Block { return b }, 5)
		data := content(f, area.Device)[homeBlocks*1024:]
		f.Add(bytes.TrimRight(data, "\x00"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		area := fuzzLog(t, data)
		r, err := journal.Scan(area, journal.ScanOptions{Blocks: homeBlocks, InodeSize: 256})
		if err != nil {
			return
		}
		again, err := journal.Scan(area, journal.ScanOptions{Blocks: homeBlocks, InodeSize: 256})
		require.NoError(t, err)
		require.Equal(t, []any{r.End, r.Len(), r.Transactions, r.FastRecords}, []any{again.End, again.Len(), again.Transactions, again.FastRecords})
		require.LessOrEqual(t, r.Len(), homeBlocks)
		require.LessOrEqual(t, r.Transactions, 1100)
		n := 0
		for rec, err := range r.FastCommits() {
			require.NoError(t, err)
			require.NotEmpty(t, rec.Raw)
			n++
		}
		require.Equal(t, r.FastRecords, n)
		if r.Dirty {
			requireFresh(t, area, r.NextTid(), "fuzz")
		}
		home := device.NewMem(homeBlocks * 1024)
		require.NoError(t, r.Replay(home))
		p, q := make([]byte, 1024), make([]byte, 1024)
		for b := range r.Blocks() {
			ok, err := r.ReadBlock(b, p)
			require.NoError(t, err)
			require.True(t, ok)
			_, err = home.ReadAt(q, int64(b)*1024)
			require.NoError(t, err)
			require.Equal(t, p, q)
		}
		require.NoError(t, r.Finish())
		r, err = journal.Scan(area, journal.ScanOptions{})
		require.NoError(t, err)
		require.False(t, r.Dirty)
		require.Zero(t, r.Len())
	})
}

// FuzzFastCommits: whatever lies in the area for fast commits, they end, and are
// whole.
func FuzzFastCommits(f *testing.F) {
	for n := range 4 {
		area, fast := fastLog(f)
		first := fast.block
		fast.head(11, 0)
		for range n {
			fast.unlink(1, 200)
			fast.add(record(format.FCDelRange, le32s(12, 3, 4)))
			fast.add(record(format.FCAddRange, le32s(12, 1, 2, 3)))
			fast.add(record(format.FCInode, make([]byte, 132+n)))
			fast.tail(11)
		}
		data := content(f, area.Device)[(homeBlocks+first)*1024:]
		f.Add(data[:(fast.block-first)*1024])
	}
	area, fast := fastLog(f)
	first, end := fast.m.s.FastCommitArea()
	f.Fuzz(func(t *testing.T, data []byte) {
		dev := area.Device.(*device.Mem).Clone()
		_, err := dev.WriteAt(data[:min(len(data), int(end-first)*1024)], int64(homeBlocks+first)*1024)
		require.NoError(t, err)
		r, err := journal.Scan(on(t, dev, area), journal.ScanOptions{InodeSize: 256})
		if err != nil {
			require.ErrorIs(t, err, format.ErrUnsupported)
			return
		}
		n := 0
		for rec, err := range r.FastCommits() {
			require.NoError(t, err)
			require.NotEqual(t, "TAG_0", rec.Name())
			n++
		}
		require.Equal(t, r.FastRecords, n)
		require.False(t, r.NextTid().Before(12))
	})
}
