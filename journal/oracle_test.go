package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/oracle"
	"drydock/journal"
)

// mkImage makes an image with mke2fs and returns its path.
func mkImage(t testing.TB, size string, args ...string) string {
	oracle.Need(t, "mke2fs", "e2fsck", "debugfs")
	path := filepath.Join(t.TempDir(), "fs.img")
	oracle.Run(t, "mke2fs", append(append([]string{"-q", "-F", "-t", "ext4"}, args...), path, size)...)
	return path
}

// copyFile copies a file with its holes and returns the copy's path.
func copyFile(t testing.TB, path string) string {
	to := filepath.Join(t.TempDir(), "copy.img")
	oracle.Run(t, "cp", "--sparse=always", path, to)
	return to
}

// loadImage returns the content of an image as a device in memory.
func loadImage(t testing.TB, path string) *device.Mem {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	dev := device.NewMem(info.Size())
	require.NoError(t, device.CopySparse(dev, f, info.Size()))
	return dev
}

// openImage opens an image for writing until fn returns.
func openImage(t testing.TB, path string, fn func(dev *device.File)) {
	dev, err := device.Open(path, device.Options{})
	require.NoError(t, err)
	defer dev.Close()
	fn(dev)
}

// program runs a program that may fail, and returns its exit code and output. To
// e2fsck it is always the same time.
func program(t testing.TB, name string, args ...string) (exit int, out string) {
	oracle.Need(t, name)
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC", "E2FSCK_TIME=1700000000", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	b, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

// spareBlocks are free blocks near the end of an 8 MiB image with blocks of
// 1 KiB, that tests let logs write to.
const spareBlocks = format.Block(8000)

// goldenImage writes the log of c into a copy of an image, and returns its path.
func goldenImage(t testing.TB, base string, c *golden, k logKind) string {
	path := copyFile(t, base)
	openImage(t, path, func(dev *device.File) {
		c.write(t, imageArea(t, dev), k, spareHome)
		setRecover(t, dev, true)
	})
	return path
}

func spareHome(letter byte) format.Block { return spareBlocks + format.Block(letter-'A') }

// letters are the blocks that goldens use.
const letters = "ABC"

// checkLetters compares the blocks of a golden on an image with want.
func (c *golden) checkLetters(t testing.TB, path string, want map[byte]byte) {
	dev := loadImage(t, path)
	p := make([]byte, 1024)
	for i := range letters {
		_, err := dev.ReadAt(p, int64(spareHome(letters[i]))*1024)
		require.NoError(t, err)
		require.Equal(t, want[letters[i]], p[len(p)-1], "%s: block %c", c.id, letters[i])
		magic := strings.HasPrefix(c.id, "E9") && letters[i] == 'A'
		_, isMagic := format.ReadJournalHeader(p)
		require.Equal(t, magic, isMagic, c.id)
	}
}

// e2fsck itself does what goldens say; and where it does not go on to repair,
// Replay and Finish leave the same bytes in the whole image.
func TestGoldenIsE2fsck(t *testing.T) {
	t.Parallel()
	base := mkImage(t, "8M", "-b", "1024", "-J", "size=1")
	for _, c := range goldens {
		kinds := c.kinds
		if !oracle.IsLong() {
			kinds = kinds[len(kinds)-1:]
		}
		for _, k := range kinds {
			t.Run(fmt.Sprintf("%s %+v", c.id, k), func(t *testing.T) { compareGolden(t, base, &c, k) })
		}
	}
}

// compareGolden lets e2fsck and us recover the log of a golden.
func compareGolden(t *testing.T, base string, c *golden, k logKind) {
	path := goldenImage(t, base, c, k)
	exit, out := program(t, "e2fsck", "-fy", path)
	require.Equal(t, c.exit, exit, out)
	require.Equal(t, c.damage, strings.Contains(out, "corrupt") || strings.Contains(out, "checksum error"), out)
	c.checkLetters(t, path, c.want)
	s, err := imageArea(t, loadImage(t, path)).ReadSuperblock()
	require.NoError(t, err)
	require.Zero(t, s.Start())
	require.Equal(t, c.next, s.Sequence())

	ours := goldenImage(t, base, c, k)
	recoverImage(t, ours)
	c.checkLetters(t, ours, c.want)
	if c.later == 0 && !k.old { // e2fsck clears what has no meaning in an old superblock
		requireSameImage(t, path, ours, c.id)
	}
	oracle.Fsck(t, ours)
}

// recoverImage replays the journal of an image with this package, and clears
// needs_recovery.
func recoverImage(t testing.TB, path string) (r *journal.Recovery) {
	openImage(t, path, func(dev *device.File) {
		r = recoverDevice(t, dev, imageArea(t, dev))
		setRecover(t, dev, false)
	})
	return r
}

// recoverDevice replays the log in area over dev.
func recoverDevice(t testing.TB, dev device.Device, area *journal.Area) *journal.Recovery {
	sb := imageSuper(t, dev)
	r, err := journal.Scan(area, journal.ScanOptions{
		Blocks: sb.BlocksCount(), InodeSize: int(sb.InodeSize()), External: area.Device != dev,
	})
	require.NoError(t, err)
	require.NoError(t, r.Replay(dev))
	require.NoError(t, r.Finish())
	return r
}

// requireSameImage compares two images of 1 KiB blocks, but for the superblock
// of the file system, where e2fsck leaves times.
func requireSameImage(t testing.TB, a, b string, what string) {
	x, err := os.ReadFile(a)
	require.NoError(t, err)
	y, err := os.ReadFile(b)
	require.NoError(t, err)
	require.Len(t, y, len(x))
	for off := 0; off < len(x); off += 1024 {
		if off != format.SuperblockOffset && string(x[off:off+1024]) != string(y[off:off+1024]) {
			t.Fatalf("%s: block %d differs between %s and %s", what, off/1024, a, b)
		}
	}
}

// debug runs one command of debugfs that changes the image.
func debug(t testing.TB, path, format string, args ...any) string {
	return oracle.Run(t, "debugfs", "-w", "-R", fmt.Sprintf(format, args...), path)
}

// requireSameFS compares two images but for the superblock and the journal's own.
func requireSameFS(t testing.TB, a, b string, what string) {
	x, y := loadImage(t, a), loadImage(t, b)
	area := imageArea(t, x)
	skip := map[int64]bool{0: true, int64(area.Extents[0].Start): true}
	if area.BlockSize == 1024 {
		skip[1] = true
	}
	p, q := make([]byte, area.BlockSize), make([]byte, area.BlockSize)
	for n := range x.Size() / int64(area.BlockSize) {
		_, err := x.ReadAt(p, n*int64(area.BlockSize))
		require.NoError(t, err)
		_, err = y.ReadAt(q, n*int64(area.BlockSize))
		require.NoError(t, err)
		require.True(t, skip[n] || bytes.Equal(p, q), "%s: block %d", what, n)
	}
}

// requireSameHomes compares the blocks that a replay wrote, but for those that
// others change afterwards: the superblock and the descriptors.
func requireSameHomes(t testing.TB, r *journal.Recovery, a, b string, what string) {
	x, y := loadImage(t, a), loadImage(t, b)
	geo, err := format.GeometryOf(imageSuper(t, x))
	require.NoError(t, err)
	size := int64(geo.BlockSize)
	p, q := make([]byte, size), make([]byte, size)
	for home := range r.Blocks() {
		_, err := x.ReadAt(p, int64(home)*size)
		require.NoError(t, err)
		_, err = y.ReadAt(q, int64(home)*size)
		require.NoError(t, err)
		require.True(t, home <= geo.DescBlock(0) || bytes.Equal(p, q), "%s: block %d", what, home)
	}
}
