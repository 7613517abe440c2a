package journal_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/oracle"
	"drydock/journal"
)

// journaled is what the spare blocks of an image should hold; freed ones are not in it.
type journaled map[format.Block][]byte

// writeRandomly journals changes of an image's spare blocks, more than the log can
// hold, and returns what was synced last. Then it leaves the log as it is, or
// closes it.
func writeRandomly(t testing.TB, dev device.Device, r *rand.Rand, clean bool) journaled {
	sb := imageSuper(t, dev)
	f := sb.Features()
	j, err := journal.Open(journal.Options{
		Device: dev, BlockSize: sb.BlockSize(), Blocks: sb.BlocksCount(), Area: imageArea(t, dev),
		Wide: f.HasIncompat(format.Incompat64Bit), Csum: f.HasROCompat(format.ROCompatMetadataCsum), Poison: true,
		BeforeLog: func() error { setRecover(t, dev, true); return dev.Flush() },
		Now:       func() (uint64, uint32) { return 1700000000, 1 },
	})
	require.NoError(t, err)
	now := journaled{}
	for range 20 + r.IntN(40) {
		changeRandomly(t, j, r, now, sb.BlockSize())
		if r.IntN(3) == 0 {
			require.NoError(t, j.SyncAll())
		}
	}
	require.NoError(t, j.SyncAll())
	if clean {
		require.NoError(t, j.Close())
		setRecover(t, dev, false)
		require.NoError(t, dev.Flush())
	}
	return now
}

// changeRandomly does one Tx, which is in now afterwards.
func changeRandomly(t testing.TB, j *journal.Journal, r *rand.Rand, now journaled, size int) {
	tx, err := j.Begin()
	require.NoError(t, err)
	for range r.IntN(min(60, j.MaxTx())) {
		b := spareBlocks + format.Block(r.IntN(90))
		if _, ok := now[b]; ok && r.IntN(4) == 0 {
			tx.Forget(b)
			delete(now, b)
			continue
		}
		p, err := tx.New(b)
		require.NoError(t, err)
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		if r.IntN(4) == 0 {
			format.PutJournalHeader(p, format.JournalHeader{Type: 1 + r.Uint32N(5), Sequence: j.Running() + format.Tid(r.IntN(3))})
		}
		now[b] = bytes.Clone(p)
	}
	_, err = tx.Commit()
	require.NoError(t, err)
}

func (w journaled) check(t testing.TB, path, what string) {
	dev := loadImage(t, path)
	size := imageSuper(t, dev).BlockSize()
	p := make([]byte, size)
	for b, want := range w {
		_, err := dev.ReadAt(p, int64(b)*int64(size))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, p), "%s: block %d", what, b)
	}
}

// e2fsck and Linux replay the logs that we write to what was synced, and find
// nothing to do in those that we close.
func TestLogsAreReplayedByOthers(t *testing.T) {
	t.Parallel()
	bases := [][]string{
		{"-b", "1024", "-J", "size=1"},
		{"-b", "4096", "-J", "size=4", "-O", "64bit,metadata_csum"},
		{"-b", "1024", "-J", "size=1", "-O", "^64bit,^metadata_csum"},
		{"-b", "4096", "-J", "size=4", "-O", "^64bit,metadata_csum"},
	}
	seeds := uint64(2)
	if oracle.IsLong() {
		seeds = 50
	}
	for i, args := range bases {
		base := mkImage(t, map[string]string{"1024": "9M", "4096": "40M"}[args[1]], args...)
		for seed := range seeds {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			what := fmt.Sprintf("seed %d, %v", seed, args)
			path := copyFile(t, base)
			var want journaled
			openImage(t, path, func(dev *device.File) { want = writeRandomly(t, dev, r, seed%2 == 1) })
			byFsck, byLinux := copyFile(t, path), copyFile(t, path)
			exit, out := program(t, "e2fsck", "-fy", byFsck)
			require.LessOrEqual(t, exit, 1, "%s: %s", what, out)
			oracle.Fsck(t, byFsck)
			want.check(t, byFsck, what+", e2fsck")
			oracle.Root(t)
			require.NoError(t, mountOnce(t, byLinux), what)
			oracle.Fsck(t, byLinux)
			want.check(t, byLinux, what+", Linux")
		}
	}
}
