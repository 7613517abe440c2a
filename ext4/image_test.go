package ext4

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// filled are the images in testdata that hold the same tree.
var filled = []string{"ext4", "ext2", "inline"}

// twenty is the content of the file of that name.
func twenty() []byte { return bytes.Repeat([]byte("0123456789abcdef\n"), 1177)[:20000] }

// TestContent reads every kind of file.
func TestContent(t *testing.T) {
	for _, name := range filled {
		t.Run(name, func(t *testing.T) {
			fsys, _ := testImage(t, name)
			for path, want := range map[string]string{
				"hello.txt": "hello, world\n", "dir/hard": "hello, world\n", "fast": "hello, world\n",
				"dir/above": "hello, world\n", "empty": "", "absolute/deep/file": "deep\n",
				"twenty": string(twenty()),
			} {
				data, err := fsys.ReadFile(path)
				require.NoError(t, err, path)
				requireSame(t, []byte(want), data, path)
			}
			require.Equal(t, name, fsys.Label())
			require.Equal(t, byte(0x11), fsys.UUID()[0])
		})
	}
}

// B016: inode number, link count, owners of 32 bits and device numbers.
func TestStat(t *testing.T) {
	for _, name := range filled {
		t.Run(name, func(t *testing.T) {
			fsys, _ := testImage(t, name)
			stat := func(path string) (fs.FileInfo, *Stat) {
				info, err := fsys.Lstat(path)
				require.NoError(t, err)
				return info, StatOf(info)
			}
			info, hello := stat("hello.txt")
			_, hard := stat("dir/hard")
			require.Equal(t, hello, hard)
			require.Equal(t, uint32(2), hello.Nlink)
			require.Equal(t, "hello.txt", info.Name())
			require.Equal(t, "2020-02-03 04:05:06 +0000 UTC", info.ModTime().String())

			info, st := stat("twenty")
			require.Equal(t, [2]uint32{65536, 2147483653}, [2]uint32{st.UID, st.GID})
			require.Equal(t, fs.ModeSetuid|fs.ModeSetgid|0o711, info.Mode())
			require.Equal(t, int64(20000), info.Size())
			require.GreaterOrEqual(t, st.Blocks, uint64(40))

			info, st = stat("char")
			require.Equal(t, fs.ModeDevice|fs.ModeCharDevice|0o600, info.Mode())
			require.Equal(t, [2]uint32{5, 1}, [2]uint32{st.Major, st.Minor})
			info, st = stat("block")
			require.Equal(t, fs.ModeDevice|0o640, info.Mode())
			require.Equal(t, [2]uint32{259, 70000}, [2]uint32{st.Major, st.Minor})
			info, _ = stat("fifo")
			require.Equal(t, fs.ModeNamedPipe|0o600, info.Mode())
			info, _ = stat("fast")
			require.Equal(t, fs.ModeSymlink|0o777, info.Mode())
			info, st = stat("/")
			require.Equal(t, "/", info.Name())
			require.Equal(t, format.RootIno, st.Ino)
			require.True(t, info.IsDir())
		})
	}
}

// TestResolve follows names as open(2) does.
func TestResolve(t *testing.T) {
	long := strings.Repeat("n", 256)
	for _, c := range []struct {
		name string
		same string // another name of the same inode
		err  error
	}{
		{name: "/hello.txt", same: "hello.txt"},
		{name: "./dir//sub/./deep/../../hard", same: "hello.txt"},
		{name: "../../hello.txt", same: "hello.txt"},
		{name: "dir/above", same: "hello.txt"},
		{name: "absolute/", same: "dir/sub"},
		{name: "absolute/../hard", same: "hello.txt"},
		{name: "/", same: "."},
		{name: "dir/sub/deep/..", same: "absolute"},
		{name: "", err: syscall.ENOENT},
		{name: "nothing", err: syscall.ENOENT},
		{name: "dangling", err: syscall.ENOENT},
		{name: "nothing/..", err: syscall.ENOENT},
		{name: "hello.txt/", err: syscall.ENOTDIR},
		{name: "hello.txt/.", err: syscall.ENOTDIR},
		{name: "hello.txt/..", err: syscall.ENOTDIR},
		{name: "hello.txt/x", err: syscall.ENOTDIR},
		{name: "fast/", err: syscall.ENOTDIR},
		{name: "loop1", err: syscall.ELOOP},
		{name: "loop2/x", err: syscall.ELOOP},
		{name: long, err: syscall.ENAMETOOLONG},
		{name: long[1:], err: syscall.ENOENT},
		{name: "dir/\x00", err: syscall.ENOENT},
	} {
		for _, image := range filled {
			fsys, _ := testImage(t, image)
			info, err := fsys.Stat(c.name)
			if c.err != nil {
				require.ErrorIs(t, err, c.err, "%s: %q", image, c.name)
				require.ErrorAs(t, err, new(*fs.PathError))
				continue
			}
			require.NoError(t, err, "%s: %q", image, c.name)
			same, err := fsys.Stat(c.same)
			require.NoError(t, err)
			require.Equal(t, same.Sys(), info.Sys(), "%s: %q", image, c.name)
		}
	}
}

func TestReadlink(t *testing.T) {
	for _, image := range filled {
		fsys, _ := testImage(t, image)
		for name, want := range map[string]string{
			"fast": "hello.txt", "slow": strings.Repeat("0", 99) + "7", "absolute": "/dir/sub",
			"loop1": "loop2", "dir/above": "../dir/../../../hello.txt",
		} {
			target, err := fsys.Readlink(name)
			require.NoError(t, err)
			require.Equal(t, want, target)
		}
		_, err := fsys.Readlink("hello.txt")
		require.ErrorIs(t, err, syscall.EINVAL)
		_, err = fsys.Readlink("absolute/") // the directory it leads to
		require.ErrorIs(t, err, syscall.EINVAL)
		info, err := fsys.Lstat("absolute/")
		require.NoError(t, err)
		require.True(t, info.IsDir())
	}
}

// B014: opening a device or a fifo says what it is.
func TestB014Special(t *testing.T) {
	fsys, _ := testImage(t, "ext4")
	for name, want := range map[string]string{
		"char":  "open char: is a character device (5:1): it holds no data",
		"block": "open block: is a block device (259:70000): it holds no data",
		"fifo":  "open fifo: is a fifo: it holds no data",
	} {
		_, err := fsys.Open(name)
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, syscall.ENXIO)
		_, err = fsys.ReadFile(name)
		require.EqualError(t, err, want)
		info, err := fsys.Stat(name)
		require.NoError(t, err)
		f, err := fsys.OpenInode(StatOf(info).Ino)
		require.NoError(t, err)
		_, err = f.Read(make([]byte, 1))
		require.ErrorAs(t, err, new(*SpecialError))
		_, err = f.ReadDir(-1)
		require.ErrorIs(t, err, syscall.ENOTDIR)
		for range f.Extents() {
			t.Fatalf("%s has an extent", name)
		}
	}
	_, err := fsys.ReadFile("dir")
	require.ErrorIs(t, err, syscall.EISDIR)
}

func TestXattrs(t *testing.T) {
	fsys, _ := testImage(t, "ext4")
	names := func(list []Xattr, err error) (out []string) {
		require.NoError(t, err)
		for _, x := range list {
			out = append(out, x.Name)
		}
		return out
	}
	list, err := fsys.Xattrs("fast")
	require.Equal(t, []string{"user.large", "user.note"}, names(list, err))
	require.Equal(t, strings.Repeat("0", 299)+"1", string(list[0].Value))
	require.Equal(t, "small", string(list[1].Value))
	require.Equal(t, []string{"security.test"}, names(fsys.Lxattrs("fast")))
	list, err = fsys.Xattrs("dir")
	require.Equal(t, []string{"system.posix_acl_access", "system.posix_acl_default"}, names(list, err))
	require.Equal(t, []byte{2, 0, 0, 0}, list[0].Value[:4])
	require.Len(t, list[0].Value, 4+5*8)
	require.Empty(t, names(fsys.Xattrs("empty")))
}

// TestHoles: B020, holes and unwritten extents are zeros.
func TestHoles(t *testing.T) {
	want := make([]byte, 30000)
	for i := 1; i < 20; i += 2 {
		copy(want[i*1024:][:1024], twenty())
	}
	for _, image := range filled {
		fsys, _ := testImage(t, image)
		data, err := fsys.ReadFile("holes")
		require.NoError(t, err)
		requireSame(t, want, data, image)
		var starts []format.LBlock
		for x, err := range fsys.Extents("holes") {
			require.NoError(t, err)
			require.Equal(t, uint32(1), x.Len)
			starts = append(starts, x.LBlock)
		}
		require.Equal(t, []format.LBlock{1, 3, 5, 7, 9, 11, 13, 15, 17, 19}, starts)
	}
	fsys, _ := testImage(t, "ext4")
	data, err := fsys.ReadFile("unwritten")
	require.NoError(t, err)
	requireSame(t, append([]byte("begin"), make([]byte, 8187)...), data, "unwritten")
}

// TestFile uses the methods of a File.
func TestFile(t *testing.T) {
	for _, image := range filled {
		fsys, _ := testImage(t, image)
		f, err := fsys.Open("/twenty")
		require.NoError(t, err)
		require.Equal(t, "/twenty", f.Name())
		require.NoError(t, iotest.TestReader(f, twenty()))

		_, err = f.Seek(-5, io.SeekEnd)
		require.NoError(t, err)
		var rest bytes.Buffer
		n, err := io.Copy(&rest, f)
		require.NoError(t, err)
		require.Equal(t, int64(5), n)
		require.Equal(t, twenty()[19995:], rest.Bytes())

		p := make([]byte, 10)
		k, err := f.ReadAt(p, 19998)
		require.Equal(t, 2, k)
		require.Equal(t, io.EOF, err)
		k, err = f.ReadAt(p, 20000)
		require.Zero(t, k)
		require.Equal(t, io.EOF, err)
		_, err = f.ReadAt(p, -1)
		require.ErrorIs(t, err, syscall.EINVAL)
		_, err = f.ReadAt(p, 1<<62)
		require.Equal(t, io.EOF, err)
		_, err = f.Seek(-1, io.SeekStart)
		require.ErrorIs(t, err, syscall.EINVAL)
		_, err = f.Seek(0, 9)
		require.ErrorIs(t, err, syscall.EINVAL)

		require.NoError(t, f.Close())
		_, err = f.Read(p)
		require.ErrorIs(t, err, fs.ErrClosed)
		require.ErrorIs(t, f.Close(), fs.ErrClosed)
	}
}

func TestReadDir(t *testing.T) {
	for _, image := range filled {
		fsys, _ := testImage(t, image)
		list, err := fsys.ReadDir("dir")
		require.NoError(t, err)
		require.Equal(t, "L above,- hard,d sub/", dirString(list))
	}
}

func dirString(list []fs.DirEntry) string {
	var s []string
	for _, d := range list {
		s = append(s, fs.FormatDirEntry(d))
	}
	return strings.Join(s, ",")
}

// TestIndexed lists and looks up names in an htree.
func TestIndexed(t *testing.T) {
	fsys, _ := testImage(t, "ext4")
	info, err := fsys.Stat("many")
	require.NoError(t, err)
	require.NotZero(t, StatOf(info).Flags&format.InodeIndex)
	list, err := fsys.ReadDir("many")
	require.NoError(t, err)
	require.Len(t, list, 100)
	for _, d := range list {
		info, err := fsys.Lstat("many/" + d.Name())
		require.NoError(t, err)
		require.Equal(t, d.(*DirEntry).Ino(), StatOf(info).Ino)
	}
	_, err = fsys.Lstat("many/name")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestIOFS holds the view to what io/fs asks for.
func TestIOFS(t *testing.T) {
	fsys, _ := testImage(t, "plain")
	require.NoError(t, fstest.TestFS(fsys.FS(), "hello.txt", "dir/twenty", "dir/sub/hard", "dir/sub/hole", "absolute", "dir/sub/empty"))
	target, err := fs.ReadLink(fsys.FS(), "absolute")
	require.NoError(t, err)
	require.Equal(t, "/dir/sub", target)
	for _, bad := range []string{"/hello.txt", "", "dir/", "\xff"} {
		_, err := fsys.FS().Open(bad)
		require.ErrorIs(t, err, fs.ErrInvalid, "%q", bad)
	}
}

// TestWalk walks like fs.WalkDir, and stops where it is told to.
func TestWalk(t *testing.T) {
	for _, image := range append(filled, "plain") {
		fsys, _ := testImage(t, image)
		var want, got []string
		require.NoError(t, fs.WalkDir(fsys.FS(), ".", func(path string, d fs.DirEntry, err error) error {
			want = append(want, path)
			return err
		}))
		require.NoError(t, fsys.Walk(".", func(path string, d fs.DirEntry, err error) error {
			got = append(got, path)
			return err
		}))
		require.Equal(t, want, got)
	}
	fsys, _ := testImage(t, "plain")
	for stop, want := range map[error]string{
		fs.SkipDir: "/ /absolute /dir /hello.txt /lost+found",
		fs.SkipAll: "/ /absolute /dir",
	} {
		var got []string
		require.NoError(t, fsys.Walk("/", func(path string, d fs.DirEntry, err error) error {
			got = append(got, path)
			if path == "/dir" {
				return stop
			}
			return err
		}))
		require.Equal(t, want, strings.Join(got, " "))
	}
	stop := errors.New("stop")
	require.Equal(t, stop, fsys.Walk(".", func(string, fs.DirEntry, error) error { return stop }))
	require.ErrorIs(t, fsys.Walk("nothing", func(_ string, _ fs.DirEntry, err error) error { return err }), fs.ErrNotExist)
}

// TestConcurrent has many goroutines read the same files at once; it is for
// the race detector.
func TestConcurrent(t *testing.T) {
	fsys, _ := testImage(t, "ext4")
	f, err := fsys.Open("twenty")
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			p := make([]byte, 20000)
			if _, err := f.ReadAt(p, 0); err != nil || !bytes.Equal(p, twenty()) {
				t.Errorf("ReadAt: %v", err)
			}
			if err := readAllOf(fsys); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// readAllOf reads everything that there is, and returns the first error that is
// none of a special file.
func readAllOf(fsys *FS) error {
	return fsys.Walk(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if _, err := fsys.Lxattrs(path); err != nil {
			return err
		}
		switch {
		case d.Type() == fs.ModeSymlink:
			_, err = fsys.Readlink(path)
		case d.Type().IsRegular():
			_, err = fsys.ReadFile(path)
		}
		return err
	})
}

func TestClosed(t *testing.T) {
	fsys, _ := testImage(t, "plain")
	f, err := fsys.Open("hello.txt")
	require.NoError(t, err)
	require.NoError(t, fsys.Close())
	_, err = fsys.Open("hello.txt")
	require.ErrorIs(t, err, fs.ErrClosed)
	_, err = fsys.OpenInode(2)
	require.ErrorIs(t, err, fs.ErrClosed)
	_, err = f.Read(make([]byte, 1))
	require.ErrorIs(t, err, fs.ErrClosed)
}

// walkOK passes on every error of a walk.
func walkOK(_ string, _ fs.DirEntry, err error) error { return err }
