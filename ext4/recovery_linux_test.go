package ext4

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/device"
	"drydock/format"
	"drydock/internal/oracle"
)

// journaled are the kinds of file systems whose journals Linux leaves to us.
var journaled = []struct{ name, args string }{
	{"1k", "-t ext4 -b 1024"},
	{"4k", "-t ext4 -b 4096"},
	{"no-csum", "-t ext4 -b 1024 -O ^metadata_csum,^64bit"},
	{"orphan_file", "-t ext4 -b 1024 -O orphan_file"},
}

// whileMounted copies an image while the kernel has it mounted, as a crash would
// leave it.
func whileMounted(t *testing.T, image string) string {
	t.Helper()
	crashed := filepath.Join(t.TempDir(), "crashed")
	oracle.Run(t, "cp", "--sparse=always", image, crashed)
	return crashed
}

// syncPath is fsync of a file or directory of the host.
func syncPath(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

// busyTree changes a mounted file system: some of it durable by transactions,
// some by fsync of single files, some not at all.
func busyTree(t *testing.T, dir string, held *[]*os.File) {
	r := newRand(t)
	makeTree(t, r, dir, treeOptions{files: 60, maxFile: 30000})
	unix.Sync()
	for i := range 120 {
		path := filepath.Join(dir, fmt.Sprintf("f%d", r.IntN(40)))
		switch r.IntN(9) {
		case 0:
			_ = os.Remove(path)
		case 1:
			_ = os.Rename(path, filepath.Join(dir, fmt.Sprintf("f%d", r.IntN(40))))
		case 2:
			_ = os.Link(path, filepath.Join(dir, fmt.Sprintf("l%d", i)))
		case 3:
			_ = os.Truncate(path, int64(r.IntN(20000)))
		case 4:
			_ = os.Mkdir(filepath.Join(dir, fmt.Sprintf("d%d", i)), 0o755)
		case 5:
			if f, err := os.Open(path); err == nil {
				*held = append(*held, f)
				require.NoError(t, os.Remove(path))
			}
		default:
			require.NoError(t, os.WriteFile(path, noise(r.IntN(20000), r.Uint64()), 0o600))
			if r.IntN(2) == 0 {
				syncPath(t, path)
			}
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "last"), []byte("last"), 0o600))
	syncPath(t, filepath.Join(dir, "last"))
}

// TestKernelJournal opens what Linux would leave after a crash: for reading
// without a byte written (B085), for writing with the journal replayed; both see
// what Linux itself makes of it.
func TestKernelJournal(t *testing.T) {
	oracle.Root(t)
	oracle.Need(t, "mke2fs", "e2fsck")
	for _, k := range journaled {
		if k.name == "4k" && !oracle.IsLong() {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			image := mke2fs(t, 48<<20, strings.Fields(k.args)...)
			dir := oracle.Mount(t, image, "noatime")
			var held []*os.File
			busyTree(t, dir, &held)
			crashed := whileMounted(t, image)
			for _, f := range held {
				_ = f.Close()
			}
			oracle.Unmount(t, dir)
			compareRecovered(t, crashed)
		})
	}
}

// syncAll calls fsync for every file below dir.
func syncFiles(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			syncPath(t, path)
		}
		return err
	}))
}

// TestKernelFastCommit opens what Linux leaves when the last changes are in fast
// commits only. Linux itself refuses some of them, so the file system as it is
// mounted is what to compare with.
func TestKernelFastCommit(t *testing.T) {
	oracle.Root(t)
	oracle.Need(t, "mke2fs", "e2fsck")
	records := 0
	for _, args := range []string{"-b 1024", "-b 4096", "-b 1024 -O orphan_file", "-b 2048 -O ^metadata_csum,^64bit"} {
		if args != "-b 1024" && !oracle.IsLong() {
			continue
		}
		for range 2 {
			image := mke2fs(t, 48<<20, append(strings.Fields("-t ext4 -O fast_commit"), strings.Fields(args)...)...)
			dir := oracle.Mount(t, image, "noatime")
			var held []*os.File
			busyTree(t, dir, &held)
			syncFiles(t, dir)
			crashed := whileMounted(t, image)
			records += compareFastCommit(t, crashed, dir)
			for _, f := range held {
				_ = f.Close()
			}
			oracle.Unmount(t, dir)
		}
	}
	require.Positive(t, records)
}

// compareFastCommit compares what we make of an image with a mounted tree. It
// returns the number of fast-commit records.
func compareFastCommit(t *testing.T, crashed, dir string) int {
	t.Helper()
	dev := openDev(t, crashed)
	fsys, err := load(dev, Options{})
	require.NoError(t, err)
	rec, _, err := fsys.scan()
	require.NoError(t, err)
	t.Logf("%d records", rec.FastRecords)
	same := sameAs{mount: true, fast: true}
	require.Positive(t, requireSameTree(t, openImage(t, crashed), dir, same))
	rw := openRW(t, crashed, Options{})
	require.Positive(t, requireSameTree(t, rw, dir, same))
	closeRW(t, rw)
	oracle.Fsck(t, crashed)
	require.Positive(t, requireSameTree(t, openImage(t, crashed), dir, same))
	return rec.FastRecords
}

// compareRecovered compares what we and Linux make of an image.
func compareRecovered(t *testing.T, crashed string) {
	t.Helper()
	before, err := os.ReadFile(crashed)
	require.NoError(t, err)
	require.True(t, needsRecovery(format.Superblock(before[1024:2048])), "journal is not dirty")
	kernels := filepath.Join(t.TempDir(), "kernel")
	require.NoError(t, os.WriteFile(kernels, before, 0o600))
	dir := oracle.Mount(t, kernels, "noatime")

	require.Positive(t, requireSameTree(t, openImage(t, crashed), dir, sameAs{mount: true}))
	after, err := os.ReadFile(crashed)
	require.NoError(t, err)
	require.True(t, bytes.Equal(before, after), "opening for reading has written")

	fsys := openRW(t, crashed, Options{})
	require.Positive(t, requireSameTree(t, fsys, dir, sameAs{mount: true}))
	closeRW(t, fsys)
	oracle.Fsck(t, crashed)
	require.Positive(t, requireSameTree(t, openImage(t, crashed), dir, sameAs{mount: true}))
}

// B074: opening for writing and closing writes nothing at all.
func TestB074NothingWritten(t *testing.T) {
	oracle.Need(t, "mke2fs")
	for _, k := range writeKinds {
		image := mke2fs(t, 16<<20, strings.Fields(k.args)...)
		before, err := os.ReadFile(image)
		require.NoError(t, err)
		dev, err := device.Open(image, device.Options{})
		require.NoError(t, err)
		fault := device.NewFault(dev, nil)
		fsys, err := Open(fault, Options{ReadWrite: true})
		require.NoError(t, err)
		require.NoError(t, fsys.Walk(".", walkOK))
		require.NoError(t, fsys.Sync())
		require.NoError(t, fsys.Close())
		require.Zero(t, fault.Count(device.OpWrite), k.name)
		require.NoError(t, dev.Close())
		after, err := os.ReadFile(image)
		require.NoError(t, err)
		require.True(t, bytes.Equal(before, after), k.name)
	}
}
