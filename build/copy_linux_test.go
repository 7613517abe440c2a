package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/device"
	"drydock/format"
	"drydock/internal/mkfs"
	"drydock/internal/oracle"
)

// Each kind of reader, by what it sees of a directory.
var copyReaders = map[string]func(*DirSource) Source{
	"ring": func(s *DirSource) Source { return s },
	"open": func(s *DirSource) Source { return struct{ openerSource }{s} },
	"data": func(s *DirSource) Source { return struct{ Source }{s} },
}

type openerSource interface {
	Source
	DirOpener
}

func TestSmallReaders(t *testing.T) {
	src, err := NewDirSource(t.TempDir(), DirOptions{})
	require.NoError(t, err)
	defer src.Close()
	for name, as := range copyReaders {
		r := newSmallReader(context.Background(), as(src), nil)
		switch r.(type) {
		case *ringReader:
			require.Equal(t, "ring", name)
		case openReader:
			if _, err := newRing(8, 8); name == "ring" {
				t.Logf("no io_uring here: %v", err)
			} else {
				require.Equal(t, "open", name)
			}
		case dataReader:
			require.Equal(t, "data", name)
		}
		r.close()
	}
}

// copyTree is a directory of the host that was scanned and planned.
type copyTree struct {
	dir     string
	src     *DirSource
	content *mkfs.Content
	plan    *mkfs.Plan
}

// scanTree makes files (path to size) below dir and plans an image of them.
func scanTree(t *testing.T, dir string, files map[string]int) *copyTree {
	for path, size := range files {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, randomData(uint64(size), size), 0o644))
	}
	c := &copyTree{dir: dir}
	var err error
	c.src, err = NewDirSource(dir, DirOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { c.src.Close() })
	tree := NewTree(TreeOptions{})
	require.NoError(t, c.src.Scan(context.Background(), tree))
	c.content, err = tree.Finish()
	require.NoError(t, err)
	c.plan, err = mkfs.New(c.content, mkfs.Options{})
	require.NoError(t, err)
	return c
}

func (c *copyTree) copy(src Source, dev device.Device, o copyOptions) error {
	_, err := copyData(context.Background(), c.plan, c.content, src, dev, o)
	return err
}

// check compares the device with the files.
func (c *copyTree) check(t *testing.T, dev device.Device) {
	var extents []format.Extent
	for _, node := range c.plan.Files() {
		want, err := os.ReadFile(filepath.Join(c.dir, c.content.Path(node)))
		require.NoError(t, err)
		extents = c.plan.Extents(node, extents[:0])
		for _, e := range extents {
			got := make([]byte, int(e.Len)*4096)
			_, err := dev.ReadAt(got, int64(e.Start)*4096)
			require.NoError(t, err)
			part := want[int(e.LBlock)*4096:]
			part = part[:min(len(part), len(got))]
			require.True(t, string(part) == string(got[:len(part)]), c.content.Path(node))
			require.True(t, strings.Trim(string(got[len(part):]), "\x00") == "", c.content.Path(node))
		}
	}
}

func TestCopyDirectory(t *testing.T) {
	files := map[string]int{"big": 5*jobBytes + 123, "job": jobBytes, "job+1": jobBytes + 1, "share": sharePiece + 9}
	for i := range 400 {
		files[fmt.Sprintf("dir%d/sub%d/file%d", i%30, i%7, i)] = 1 + i*i%9000
	}
	for i := range 150 { // so many directories that not all stay open
		files[fmt.Sprintf("alone%d/file", i)] = 4096 * (1 + i%2)
	}
	c := scanTree(t, t.TempDir(), files)
	for name, as := range copyReaders {
		before := openFiles(t)
		for _, workers := range []int{1, 4} {
			dev := device.NewMem(c.plan.Bytes())
			require.NoError(t, c.copy(as(c.src), dev, copyOptions{Workers: workers}), name)
			c.check(t, dev)
		}
		require.LessOrEqual(t, openFiles(t), before+maxDirs, name)
	}
}

func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func TestCopyChangedFile(t *testing.T) {
	changes := map[string]func(path string) error{
		"longer":  func(path string) error { return appendByte(path) },
		"shorter": func(path string) error { return os.Truncate(path, 4095) },
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"gone":    os.Remove,
		"symlink": func(path string) error { os.Remove(path); return os.Symlink("file0", path) },
		"folder":  func(path string) error { os.Remove(path); return os.Mkdir(path, 0o755) },
		"pipe":    func(path string) error { os.Remove(path); return unix.Mkfifo(path, 0o644) },
		"no dir":  func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	}
	for name, change := range changes {
		for reader, as := range copyReaders {
			for _, size := range []int{4096, 3*jobBytes + 5} {
				c := scanTree(t, t.TempDir(), map[string]int{"a/file0": 1, "a/file1": 4096, "b/file2": size, "b/file3": 5000})
				require.NoError(t, change(filepath.Join(c.dir, "b/file2")))
				err := c.copy(as(c.src), device.NewMem(c.plan.Bytes()), copyOptions{Workers: 2})
				require.ErrorIs(t, err, ErrChanged, "%s, %s, %d bytes", name, reader, size)
				require.ErrorContains(t, err, `"b/file2"`, "%s, %s, %d bytes", name, reader, size)
			}
		}
	}
}

func appendByte(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write([]byte{1})
	return err
}

// A pipe that someone has open for writing lets its readers wait.
func TestCopyOfPipeIsNoHang(t *testing.T) {
	c := scanTree(t, t.TempDir(), map[string]int{"a": 1000, "b": 1000, "c": 1000})
	path := filepath.Join(c.dir, "b")
	require.NoError(t, os.Remove(path))
	require.NoError(t, unix.Mkfifo(path, 0o644))
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer writer.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = copyData(ctx, c.plan, c.content, c.src, device.NewMem(c.plan.Bytes()), copyOptions{})
	require.True(t, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrChanged), err)

	r, err := newRingReader(context.Background(), c.src, c.content)
	if err != nil {
		t.Skipf("skipped: no io_uring here: %v", err)
	}
	defer r.close()
	r.patience = 2
	cut := newCutter(c.plan, c.content)
	j := newJob()
	defer j.free()
	require.True(t, cut.next(&j))
	failed, err := r.read(&j, []int{0, 1, 2})
	require.ErrorIs(t, err, ErrChanged)
	require.Equal(t, "b", c.content.Path(j.pieces[failed].node))
}

// What the ring fails to do is done without it, as is everything once it is broken.
func TestCopyWithBrokenRing(t *testing.T) {
	files := make(map[string]int)
	for i := range 100 {
		files[fmt.Sprintf("dir/file%d", i)] = 1000 + i
	}
	c := scanTree(t, t.TempDir(), files)
	r, err := newRingReader(context.Background(), c.src, c.content)
	if err != nil {
		t.Skipf("skipped: no io_uring here: %v", err)
	}
	defer r.close()
	cut := newCutter(c.plan, c.content)
	j := newJob()
	defer j.free()
	require.True(t, cut.next(&j))
	todo := make([]int, len(j.pieces))
	for i := range todo {
		todo[i] = i
	}
	fd := r.ring.fd
	r.ring.fd = -1
	_, err = r.read(&j, todo)
	require.NoError(t, err)
	require.Nil(t, r.ring)
	require.NoError(t, unix.Close(fd))
	for i := range j.pieces {
		p := &j.pieces[i]
		require.Equal(t, randomData(uint64(p.n), p.n), j.data(p))
	}
}

func TestRingThatIsOfNoUseIsGivenUp(t *testing.T) {
	c := scanTree(t, t.TempDir(), map[string]int{"a": 1})
	r, err := newRingReader(context.Background(), c.src, c.content)
	if err != nil {
		t.Skipf("skipped: no io_uring here: %v", err)
	}
	defer r.close()
	for _, again := range []int{2, 2, 2, 1, 2, 2, 2} {
		r.again = make([]int, again)
		r.judge(2)
		require.NotNil(t, r.ring)
	}
	r.again = make([]int, 2)
	r.judge(2)
	require.Nil(t, r.ring)
}

func TestCopySharesBlocks(t *testing.T) {
	for _, fs := range []string{"xfs", "btrfs"} {
		t.Run(fs, func(t *testing.T) {
			oracle.Root(t)
			oracle.Need(t, "mkfs."+fs)
			dir := mountNew(t, fs, 400<<20)
			c := scanTree(t, filepath.Join(dir, "tree"), map[string]int{
				"big": 20<<20 + 1234, "odd": 200_001, "small": 70, "page": sharePiece,
			})
			dev, err := device.Create(filepath.Join(dir, "image"), c.plan.Bytes())
			require.NoError(t, err)
			defer dev.Close()
			before := freeBytes(t, dir)
			require.NoError(t, c.copy(c.src, dev, copyOptions{}))
			require.Less(t, before-freeBytes(t, dir), int64(1<<20))
			c.check(t, dev)
		})
	}
}

// mountNew mounts a new file system of this type and size.
func mountNew(t *testing.T, fs string, size int64) string {
	path := filepath.Join(t.TempDir(), "fs")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, size))
	oracle.Run(t, "mkfs."+fs, "-q", path)
	dir := t.TempDir()
	oracle.Run(t, "mount", "-o", "loop", "-t", fs, path, dir)
	t.Cleanup(func() { oracle.Run(t, "umount", dir) })
	return dir
}

func freeBytes(t *testing.T, dir string) int64 {
	f, err := os.Open(dir)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, unix.Syncfs(int(f.Fd())))
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &st))
	return int64(st.Bfree) * st.Bsize
}
