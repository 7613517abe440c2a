package device_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/device"
	"drydock/internal/oracle"
)

// allocated is the space that a file takes on its host, in bytes.
func allocated(t testing.TB, path string) int64 {
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

func TestFileIsSparse(t *testing.T) {
	d := newFileOf(t, 20<<30)
	require.Zero(t, allocated(t, d.Path()))
	_, err := d.WriteAt(bytes.Repeat([]byte{1}, 1<<20), 10<<30)
	require.NoError(t, err)
	require.NoError(t, d.Flush())
	require.InDelta(t, 1<<20, allocated(t, d.Path()), 64<<10)
	segments := collect(t, d, 0, d.Size())
	require.Len(t, segments, 1)
	require.Equal(t, device.Segment{Off: 10 << 30, Len: 1 << 20}, segments[0])
	require.Equal(t, []device.Segment{{Off: 10<<30 + 5, Len: 7}}, collect(t, d, 10<<30+5, 7))
	require.NoError(t, d.PunchHole(10<<30, 1<<20))
	require.NoError(t, d.Flush())
	require.InDelta(t, 0, allocated(t, d.Path()), 64<<10)
}

func TestFileSegmentsOfAnOddFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("tail"), 1<<20)
	require.NoError(t, err)
	var list []device.Segment
	for s, err := range device.FileSegments(f, 0, 5<<20) {
		require.NoError(t, err)
		list = append(list, s)
	}
	require.Equal(t, []device.Segment{{Off: 1 << 20, Len: 4}}, list)
}

// ext4Image has an ext4 file system of e2fsprogs in it.
func ext4Image(t testing.TB) string {
	image := imageFile(t, 8<<20)
	oracle.Run(t, "mke2fs", "-q", "-F", "-t", "ext4", image)
	return image
}

func TestMountedImageIsRefused(t *testing.T) {
	oracle.Root(t)
	image := ext4Image(t)
	dir := oracle.Mount(t, image)
	for _, o := range []device.Options{{}, {ReadOnly: true}} {
		_, err := device.Open(image, o)
		require.ErrorIs(t, err, device.ErrMounted)
		var mounted *device.MountedError
		require.ErrorAs(t, err, &mounted)
		require.Equal(t, dir, mounted.Point)
		require.Equal(t, "open "+image+": mounted at "+dir+" through "+mounted.Through, err.Error())

		_, err = device.Open(mounted.Through, o)
		require.ErrorIs(t, err, device.ErrMounted)
		require.EqualError(t, err, "open "+mounted.Through+": mounted at "+dir)
	}
	_, err := device.CreateTemp(image, device.TempOptions{Size: 4096, Force: true})
	require.ErrorIs(t, err, device.ErrMounted)
	look, err := device.Open(image, device.Options{ReadOnly: true, NoLock: true})
	require.NoError(t, err)
	require.NoError(t, look.Close())

	oracle.Unmount(t, dir)
	d, err := device.Open(image, device.Options{})
	require.NoError(t, err)
	require.NoError(t, d.Close())
	oracle.Fsck(t, image)
}

// A hard link or another path to a mounted image is the same image.
func TestMountedImageByAnotherName(t *testing.T) {
	oracle.Root(t)
	image := ext4Image(t)
	other := image + ".link"
	require.NoError(t, os.Link(image, other))
	oracle.Mount(t, image)
	_, err := device.Open(other, device.Options{})
	require.ErrorIs(t, err, device.ErrMounted)
}

// A mount in another mount namespace is in no table that we can read.
func TestMountInAnotherNamespaceIsRefused(t *testing.T) {
	oracle.Root(t)
	oracle.Need(t, "unshare", "mount")
	image := ext4Image(t)
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c",
		`mount -o loop "$0" "$1" && echo ready && read line; umount "$1"`, image, t.TempDir())
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() {
		in.Close()
		cmd.Wait()
	}()
	line := make([]byte, 6)
	_, err = io.ReadFull(out, line)
	require.NoError(t, err)

	_, err = device.Open(image, device.Options{})
	require.ErrorIs(t, err, device.ErrInUse)
	require.ErrorContains(t, err, "in use through /dev/loop")
	in.Close()
	require.NoError(t, cmd.Wait())
	d, err := device.Open(image, device.Options{})
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

func TestMountedPartitionIsRefused(t *testing.T) {
	oracle.Root(t)
	oracle.Need(t, "addpart")
	image := imageFile(t, 32<<20)
	dev := oracle.Loop(t, image, "--partscan")
	// addpart works where the kernel was built to know no partition tables too.
	oracle.Run(t, "addpart", dev, "1", "2048", "40960")
	part := dev + "p1"
	oracle.Run(t, "mke2fs", "-q", "-F", "-t", "ext4", part)
	dir := oracle.Mount(t, part)
	for _, path := range []string{image, dev, part} {
		_, err := device.Open(path, device.Options{})
		require.ErrorIs(t, err, device.ErrMounted, path)
		require.ErrorContains(t, err, dir)
	}
	oracle.Unmount(t, dir)
	d, err := device.Open(part, device.Options{})
	require.NoError(t, err)
	require.EqualValues(t, 40960*512, d.Size())
	require.NoError(t, d.Close())
}

func TestBlockDeviceLocks(t *testing.T) {
	oracle.Root(t)
	dev := oracle.Loop(t, imageFile(t, 1<<20))
	ro := device.Options{ReadOnly: true}
	writer, err := device.Open(dev, device.Options{})
	require.NoError(t, err)
	require.True(t, writer.IsBlock())
	_, err = device.Open(dev, device.Options{})
	require.ErrorIs(t, err, device.ErrInUse)
	_, err = device.Open(dev, ro)
	require.ErrorIs(t, err, device.ErrInUse)
	require.Error(t, exec.Command("mount", dev, t.TempDir()).Run(), "the kernel honours the lock too")
	require.NoError(t, writer.Close())

	reader, err := device.Open(dev, ro)
	require.NoError(t, err)
	second, err := device.Open(dev, ro)
	require.NoError(t, err)
	_, err = device.Open(dev, device.Options{})
	require.ErrorIs(t, err, device.ErrInUse)
	require.NoError(t, reader.Close())
	require.NoError(t, second.Close())
	writer, err = device.Open(dev, device.Options{})
	require.NoError(t, err)
	require.NoError(t, writer.Close())
}

// What is written to the block device reaches the file behind it; holes punched
// there are holes in the file.
func TestBlockDevice(t *testing.T) {
	for _, sector := range []string{"512", "4096"} {
		t.Run(sector, func(t *testing.T) {
			oracle.Root(t)
			image := imageFile(t, 4<<20)
			d, err := device.Open(oracle.Loop(t, image, "--sector-size="+sector), device.Options{})
			require.NoError(t, err)
			defer d.Close()
			require.EqualValues(t, 4<<20, d.Size())
			require.ErrorIs(t, d.Truncate(1<<20), errors.ErrUnsupported)

			_, err = d.WriteAt(bytes.Repeat([]byte{1}, 4<<20), 0)
			require.NoError(t, err)
			require.NoError(t, d.Flush())
			require.InDelta(t, 4<<20, allocated(t, image), 128<<10)
			require.NoError(t, d.PunchHole(4095, 3<<20))
			require.NoError(t, d.PunchHole(4<<20-700, 100))
			require.NoError(t, d.Flush())
			want := bytes.Repeat([]byte{1}, 4<<20)
			clear(want[4095 : 4095+3<<20])
			clear(want[4<<20-700:][:100])
			got := make([]byte, 4<<20)
			_, err = d.ReadAt(got, 0)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got))
			require.InDelta(t, 1<<20, allocated(t, image), 128<<10)
			behind, err := os.ReadFile(image)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, behind))
			require.NoError(t, d.Discard(3<<20+12_345, 512<<10))
			require.InDelta(t, 512<<10, allocated(t, image), 128<<10)
		})
	}
}

// On hosts that reflink, data of a source file are shared, not copied.
func TestCloneShares(t *testing.T) {
	for kind, size := range map[string]int64{"xfs": 320 << 20, "btrfs": 256 << 20} {
		t.Run(kind, func(t *testing.T) {
			dir := oracle.MkfsHost(t, kind, size)
			want := bytes.Repeat([]byte("0123456789abcdef"), 4<<20/16+100)[:4<<20+1000]
			path := filepath.Join(dir, "source")
			require.NoError(t, os.WriteFile(path, want, 0o666))
			src, err := os.Open(path)
			require.NoError(t, err)
			defer src.Close()
			require.NoError(t, src.Sync())

			d, err := device.CreateTemp(filepath.Join(dir, "a.img"), device.TempOptions{Size: 64 << 20})
			require.NoError(t, err)
			defer d.Abort()
			w, err := device.NewWindow(d, 1<<20, 32<<20)
			require.NoError(t, err)
			done, err := device.NewCopier(w).Copy(8192, src, 0, int64(len(want)))
			require.NoError(t, err)
			require.Equal(t, device.Copied{Cloned: 4 << 20, Written: 1000}, done)
			require.NoError(t, d.Commit(true))

			got, err := os.ReadFile(filepath.Join(dir, "a.img"))
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got[1<<20+8192:][:len(want)]))
			require.True(t, device.IsZero(got[1<<20+8192+len(want):]))
			oracle.Need(t, "filefrag")
			require.Contains(t, oracle.Run(t, "filefrag", "-v", path), "shared")

			_, err = src.Seek(0, io.SeekStart)
			require.NoError(t, err)
			f, err := device.Open(filepath.Join(dir, "a.img"), device.Options{})
			require.NoError(t, err)
			defer f.Close()
			require.ErrorIs(t, f.CloneRange(100, src, 0, 4096), errors.ErrUnsupported, "not aligned")
			require.ErrorIs(t, f.CloneRange(0, src, 4<<20, 4096), io.ErrUnexpectedEOF)
			require.ErrorIs(t, f.CloneRange(64<<20, src, 0, 4096), device.ErrOutOfRange)
		})
	}
}

// Between two file systems nothing can be shared; the copy is right all the same.
func TestCloneAcrossFileSystems(t *testing.T) {
	dir := oracle.MkfsHost(t, "ext4", 16<<20)
	path := filepath.Join(dir, "source")
	want := bytes.Repeat([]byte{5}, 300_000)
	require.NoError(t, os.WriteFile(path, want, 0o666))
	src, err := os.Open(path)
	require.NoError(t, err)
	defer src.Close()
	d := newFile(t)
	require.ErrorIs(t, d.CloneRange(0, src, 0, 4096), errors.ErrUnsupported)
	done, err := device.NewCopier(d).Copy(0, src, 0, 300_000)
	require.NoError(t, err)
	require.Equal(t, device.Copied{Written: 300_000}, done)
}

func TestFullHost(t *testing.T) {
	dir := oracle.MkfsHost(t, "ext4", 4<<20)
	path := filepath.Join(dir, "a.img")
	d, err := device.CreateTemp(path, device.TempOptions{Size: 64 << 20})
	require.NoError(t, err)
	chunk := bytes.Repeat([]byte{1}, 1<<20)
	for off := int64(0); err == nil && off < d.Size(); off += 1 << 20 {
		_, err = d.WriteAt(chunk, off)
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	require.ErrorContains(t, err, "write "+path+": 1048576 bytes at offset")
	require.NoError(t, d.Abort())
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 1, "only lost+found")
}

// child runs a test function of this file in a process of its own, with an
// argument, and lets it be killed.
func child(t *testing.T, test, arg string) (cmd *exec.Cmd, out io.Reader) {
	cmd = exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), "DEVICE_TEST_CHILD="+arg)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return cmd, out
}

func childArg() string { return os.Getenv("DEVICE_TEST_CHILD") }

// await reads the child's output until it has said so.
func await(t *testing.T, out io.Reader, word string) {
	var all []byte
	buf := make([]byte, 100)
	for !strings.Contains(string(all), word) {
		n, err := out.Read(buf)
		all = append(all, buf[:n]...)
		require.NoError(t, err, string(all))
	}
}

// A process that is killed while it makes an image leaves nothing at all.
func TestKilledWhileMaking(t *testing.T) {
	if path := childArg(); path != "" {
		d, err := device.CreateTemp(path, device.TempOptions{Size: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		d.WriteAt(bytes.Repeat([]byte{1}, 1<<20), 0)
		fmt.Println("ready")
		time.Sleep(time.Minute)
	}
	dir := t.TempDir()
	needTmpfile(t, dir)
	cmd, out := child(t, "TestKilledWhileMaking", filepath.Join(dir, "a.img"))
	await(t, out, "ready")
	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, names)
}

// needTmpfile skips where the host has no files without a name.
func needTmpfile(t *testing.T, dir string) {
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o666)
	if err != nil {
		t.Skipf("skipped: needs O_TMPFILE on %s: %v", dir, err)
	}
	f.Close()
}

// A process is killed at random moments while it replaces an image again and
// again: what is there is always one whole image.
func TestKilledWhileReplacing(t *testing.T) {
	const size = 1 << 20
	if path := childArg(); path != "" {
		fmt.Println("ready")
		for i := byte(1); ; i++ {
			d, err := device.CreateTemp(path, device.TempOptions{Size: size, Force: true})
			if err != nil {
				t.Fatal(err)
			}
			d.WriteAt(bytes.Repeat([]byte{i | 1}, size), 0)
			if err := d.Commit(false); err != nil {
				t.Fatal(err)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "a.img")
	for round := range 8 {
		cmd, out := child(t, "TestKilledWhileReplacing", path)
		await(t, out, "ready")
		time.Sleep(time.Duration(round*round) * time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		cmd.Wait()
		got, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		require.Len(t, got, size)
		require.NotZero(t, got[0])
		require.True(t, bytes.Equal(got, bytes.Repeat(got[:1], size)), "round %d: not one image", round)
	}
}

// Locks hold between processes and go with them.
func TestLockBetweenProcesses(t *testing.T) {
	if path := childArg(); path != "" {
		if _, err := device.Open(path, device.Options{}); err != nil {
			t.Fatal(err)
		}
		fmt.Println("ready")
		time.Sleep(time.Minute)
	}
	path := imageFile(t, 4096)
	cmd, out := child(t, "TestLockBetweenProcesses", path)
	await(t, out, "ready")
	_, err := device.Open(path, device.Options{})
	require.ErrorIs(t, err, device.ErrInUse)
	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	d, err := device.Open(path, device.Options{})
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

func TestConcurrentFlushAndWrite(t *testing.T) {
	d := newFile(t)
	var wg sync.WaitGroup
	for w := range int64(4) {
		wg.Go(func() {
			for range 5 {
				if _, err := d.WriteFUA([]byte{1}, w*512); err != nil {
					t.Error(err)
				}
				if err := d.Flush(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// A file that was closed can be opened again at once, also while the process
// starts others, which have its files for a moment.
func TestOpenAgainWhileForking(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.img")
	require.NoError(t, os.WriteFile(path, make([]byte, 4096), 0o600))
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = exec.Command("/nonexistent").Run() // forks and fails to become anything
					_ = exec.Command("true").Run()
				}
			}
		})
	}
	for range 300 {
		dev, err := device.Open(path, device.Options{})
		if !assert.NoError(t, err) {
			break
		}
		assert.NoError(t, dev.Close())
	}
	close(stop)
	group.Wait()
}
