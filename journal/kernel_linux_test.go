package journal_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/device"
	"drydock/format"
	"drydock/internal/oracle"
	"drydock/journal"
)

// mountOnce lets Linux mount an image, which replays its journal, and unmounts
// it again. It returns the error of the mount.
func mountOnce(t testing.TB, path string) error {
	dev, dir := oracle.Loop(t, path), t.TempDir()
	if err := unix.Mount(dev, dir, "ext4", 0, "errors=continue"); err != nil {
		return err
	}
	oracle.Run(t, "umount", dir)
	return nil
}

// Linux does what goldens say: it refuses what they call damage, and keeps the
// log, else the blocks are the same.
func TestGoldenIsLinux(t *testing.T) {
	t.Parallel()
	oracle.Root(t)
	base := mkImage(t, "8M", "-b", "1024", "-J", "size=1")
	for _, c := range goldens {
		t.Run(c.id, func(t *testing.T) {
			path := goldenImage(t, base, &c, c.kinds[len(c.kinds)-1])
			err := mountOnce(t, path)
			if !c.damage {
				require.NoError(t, err)
				c.checkLetters(t, path, c.want)
				return
			}
			require.Error(t, err)
			require.True(t, scan(t, imageArea(t, loadImage(t, path))).Dirty)
		})
	}
}

// Linux does the same with random logs. It is the oracle for what e2fsck lacks:
// K13 (a log with a fast-commit area wraps where that begins) and K14 (a commit
// block of which only the first sector is there counts).
func TestRandomLogsAreLinux(t *testing.T) {
	t.Parallel()
	oracle.Root(t)
	base := mkImage(t, "10M", "-b", "1024", "-J", "size=2")
	seeds := uint64(30)
	if oracle.IsLong() {
		seeds = 1000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { compareWithLinux(t, base, seed) })
	}
}

// compareWithLinux lets Linux and us recover the random log of a seed.
func compareWithLinux(t *testing.T, base string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	l := newRandomLog(r, homeBlocks)
	l.kind.async = l.kind.async && l.kind.csum < 2
	l.withoutZero()
	l.start += 1024
	if r.IntN(2) == 0 {
		l.kind.fast, l.start = 256, 2048-256-uint32(1+r.IntN(40))
	}
	path := copyFile(t, base)
	openImage(t, path, func(dev *device.File) {
		l.write(t, imageArea(t, dev), func(b format.Block) format.Block { return spareBlocks + b }, r.IntN(20))
		setRecover(t, dev, true)
	})
	ours := loadImage(t, path)
	err := mountOnce(t, path)
	got, scanErr := journal.Scan(imageArea(t, ours), journal.ScanOptions{})
	require.NoError(t, scanErr)
	what := fmt.Sprintf("%+v, %v; Linux says %v", l.kind, got.Damage, err)
	require.Equal(t, err != nil, got.Damage != nil, what)
	if err == nil {
		require.NoError(t, got.Replay(ours), what)
		require.Equal(t, spares(t, loadImage(t, path)), spares(t, ours), what)
	}
}

// kernelWork makes changes on a mounted file system that need several
// transactions, revoked blocks among them, and returns with all of them durable.
func kernelWork(t testing.TB, dir string, r *rand.Rand) {
	for i := range 4 {
		sub := filepath.Join(dir, fmt.Sprint("dir", i))
		require.NoError(t, os.MkdirAll(sub, 0o755))
		for k := range 30 + r.IntN(60) {
			name := filepath.Join(sub, fmt.Sprintf("file-with-a-long-name-%0*d", 20+r.IntN(100), k))
			data := append([]byte{0xC0, 0x3B, 0x39, 0x98}, bytes.Repeat([]byte{byte(k)}, r.IntN(5000))...)
			require.NoError(t, os.WriteFile(name, data, 0o644))
			if k%7 == 0 {
				require.NoError(t, unix.Setxattr(name, "user.large", filled(300+r.IntN(200), byte(k)), 0))
			}
		}
		oracle.Run(t, "sync", "-f", dir)
		if i > 0 {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, fmt.Sprint("dir", i-1))))
		}
	}
	oracle.Run(t, "sync", "-f", dir)
}

// snapshot copies the image of a mounted file system, as a power cut would leave it.
func snapshot(t testing.TB, path string) string {
	oracle.Run(t, "sync", path) // the loop device writes to the page cache of the file
	return copyFile(t, path)
}

// What Linux left in its journals we replay as Linux and e2fsck do: the same
// blocks, and a clean file system.
func TestKernelJournals(t *testing.T) {
	t.Parallel()
	oracle.Root(t)
	for i, c := range []struct {
		args []string
		opts []string
	}{
		{[]string{"-b", "1024", "-O", "metadata_csum,64bit", "-J", "size=8"}, nil},
		{[]string{"-b", "4096", "-O", "metadata_csum,^64bit", "-J", "size=8"}, []string{"data=journal"}},
		{[]string{"-b", "1024", "-O", "^metadata_csum,^64bit", "-J", "size=1"}, nil}, // a log of the smallest size
		{[]string{"-b", "2048", "-O", "^metadata_csum,64bit", "-J", "size=4"}, []string{"journal_checksum", "journal_async_commit", "data=writeback"}},
		{[]string{"-b", "1024", "-O", "^extent,^64bit,^metadata_csum", "-J", "size=2"}, nil}, // a journal with a block map
	} {
		what := fmt.Sprint(c.args, c.opts)
		image := mkImage(t, "32M", c.args...)
		flags := 0x84000 // extents; data=journal, which files inherit
		if strings.Contains(c.args[3], "^extent") {
			flags = 0x4000
		}
		debug(t, image, "set_inode_field <2> flags 0x%x", flags)
		dir := oracle.Mount(t, image, append(c.opts, "nodelalloc")...)
		kernelWork(t, dir, rand.New(rand.NewPCG(uint64(i), 4)))
		ours := snapshot(t, image)
		linux, fsck := copyFile(t, ours), copyFile(t, ours)
		oracle.Unmount(t, dir)

		r := recoverImage(t, ours)
		require.NoError(t, r.Damage, what)
		require.Greater(t, r.Transactions, 3, what)
		require.Greater(t, r.Len(), 20, what)
		exit, out := program(t, "e2fsck", "-y", "-E", "journal_only", fsck)
		require.LessOrEqual(t, exit, 1, out)
		requireSameFS(t, fsck, ours, what)
		oracle.Fsck(t, ours)
		require.NoError(t, mountOnce(t, linux))
		requireSameHomes(t, r, linux, ours, what)
	}
}
