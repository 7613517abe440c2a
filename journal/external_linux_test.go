package journal_test

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/internal/oracle"
	"drydock/journal"
)

// What Linux left in an external journal we replay as e2fsck does.
func TestKernelExternalJournal(t *testing.T) {
	t.Parallel()
	oracle.Root(t)
	for seed, size := range []string{"1024", "4096"} {
		log := fileOf(t, "journal.img")
		require.NoError(t, os.WriteFile(log, nil, 0o600))
		require.NoError(t, os.Truncate(log, 6<<20))
		loop := oracle.Loop(t, log)
		oracle.Run(t, "mke2fs", "-q", "-F", "-O", "journal_dev", "-b", size, loop)
		image := mkImage(t, "32M", "-b", size, "-J", "device="+loop)
		debug(t, image, "set_inode_field <2> flags 0x84000")
		dir := oracle.Mount(t, image, "nodelalloc")
		kernelWork(t, dir, rand.New(rand.NewPCG(uint64(seed), 6)))
		ours, theirs := snapshot(t, image), copyFile(t, image)
		oracle.Run(t, "sync", loop)
		ourLog, theirLog := snapshot(t, log), copyFile(t, log)
		oracle.Unmount(t, dir)

		exit, out := program(t, "e2fsck", "-y", "-E", "journal_only", "-j", theirLog, theirs)
		require.LessOrEqual(t, exit, 1, out)
		openImage(t, ours, func(dev *device.File) {
			openImage(t, ourLog, func(logDev *device.File) {
				sb := imageSuper(t, dev)
				area, err := journal.NewExternalArea(logDev, sb.BlockSize(), sb.UUID(), sb.JournalUUID())
				require.NoError(t, err)
				r := recoverDevice(t, dev, area)
				require.NoError(t, r.Damage)
				require.Greater(t, r.Transactions, 3)
				setRecover(t, dev, false)
			})
		})
		x, y := loadImage(t, theirs), loadImage(t, ours)
		p, q := make([]byte, 4096), make([]byte, 4096)
		for off := int64(4096); off < x.Size(); off += 4096 {
			_, err := x.ReadAt(p, off)
			require.NoError(t, err)
			_, err = y.ReadAt(q, off)
			require.NoError(t, err)
			require.Equal(t, p, q, "at %d", off)
		}
		requireSameJournal(t, theirLog, ourLog)
		oracle.Run(t, "e2fsck", "-fn", "-j", ourLog, ours)
	}
}

// requireSameJournal compares two external journals, but for the ext4 superblock.
func requireSameJournal(t testing.TB, a, b string) {
	x, err := os.ReadFile(a)
	require.NoError(t, err)
	y, err := os.ReadFile(b)
	require.NoError(t, err)
	require.True(t, string(x[2048:]) == string(y[2048:]))
}
