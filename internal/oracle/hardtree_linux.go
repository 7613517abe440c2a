package oracle

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// WriteFile writes a file with exactly this mode, and the directories above it.
func WriteFile(t testing.TB, path, data string, mode fs.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(data), mode))
	require.NoError(t, os.Chmod(path, mode))
}

// SetTime sets the mtime of a file, symlinks too.
func SetTime(t testing.TB, path string, sec int64, nsec int64) {
	t.Helper()
	ts := []unix.Timespec{{Sec: sec, Nsec: nsec}, {Sec: sec, Nsec: nsec}}
	require.NoError(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, ts, unix.AT_SYMLINK_NOFOLLOW))
}

// WriteSparse makes a file of a size with data at some places.
func WriteSparse(t testing.TB, path string, size int64, data map[int64]string) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(size))
	for off, s := range data {
		_, err := f.WriteAt([]byte(s), off)
		require.NoError(t, err)
	}
	require.NoError(t, f.Sync())
}

// HardTree makes a directory with all that is hard to copy and that any user can
// make: types, names of any bytes, links, holes, times, targets around the limits.
func HardTree(t testing.TB) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	require.NoError(t, os.Mkdir(root, 0o755))
	at := func(name string) string { return root + "/" + name }

	WriteFile(t, at("plain"), "hello\n", 0o644)
	WriteFile(t, at("empty"), "", 0o600)
	WriteFile(t, at("setuid"), "x", 0o755)
	require.NoError(t, os.Chmod(at("setuid"), 0o755|fs.ModeSetuid|fs.ModeSetgid))
	require.NoError(t, os.MkdirAll(at("sticky/deep/er"), 0o755))
	require.NoError(t, os.Chmod(at("sticky"), 0o777|fs.ModeSticky))
	require.NoError(t, os.MkdirAll(at("empty dir"), 0o700))

	for _, name := range []string{"new\nline", "\xff\xfe not utf-8", "-rf", "ü日本語", " ", "back\\slash", "quote\"'", strings.Repeat("n", 255), "...", "trail ."} {
		WriteFile(t, at("names/"+name), "data of "+name, 0o644)
	}
	for i := range 50 {
		WriteFile(t, at(fmt.Sprintf("many/file-with-a-longer-name-%d", i)), fmt.Sprint(i), 0o644)
	}
	for _, n := range []int{1, 59, 60, 61, 1023, 1024, 4095} { // B101: 59 and 60
		err := os.Symlink(strings.Repeat("t", n), at(fmt.Sprintf("link-%d", n)))
		if !errors.Is(err, unix.ENAMETOOLONG) { // of 4095 only some file systems
			require.NoError(t, err)
		}
	}
	require.NoError(t, os.Symlink("/etc/passwd", at("absolute")))
	require.NoError(t, os.Symlink("sticky", at("to-dir")))

	require.NoError(t, os.Link(at("plain"), at("sticky/plain-again")))
	require.NoError(t, os.Link(at("plain"), at("zz-third")))
	require.NoError(t, os.Link(at("link-60"), at("link-60-again"))) // B026

	require.NoError(t, syscall.Mkfifo(at("fifo"), 0o640))
	require.NoError(t, os.Link(at("fifo"), at("fifo-again")))
	Socket(t, at("socket"))

	block := strings.Repeat("d", 4096)
	WriteSparse(t, at("sparse-mid"), 1<<20, map[int64]string{512 << 10: block})
	WriteSparse(t, at("sparse-ends"), 2<<20+5, map[int64]string{0: block, 2 << 20: "tail!"})
	WriteSparse(t, at("sparse-all"), 2<<20, nil)
	WriteSparse(t, at("sparse-none"), 4096, map[int64]string{0: block})

	for i, sec := range []int64{0, 1, -1, -315619200, 1<<31 - 1, 1 << 31, 1 << 32, 1<<34 - 1<<31 - 1} {
		name := at(fmt.Sprintf("time-%d", i))
		WriteFile(t, name, "", 0o644)
		SetTime(t, name, sec, int64(i)*111_111_111)
	}
	SetTime(t, at("absolute"), 1234567890, 987654321)
	SetTime(t, at("sticky"), 1, 999_999_999)
	SetTime(t, root, 1500000000, 5)
	return root
}

// Socket makes a socket.
func Socket(t testing.TB, path string) {
	t.Helper()
	old, err := os.Getwd() // the path of a socket is limited
	require.NoError(t, err)
	require.NoError(t, os.Chdir(filepath.Dir(path)))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Base(path), Net: "unix"})
	require.NoError(t, os.Chdir(old))
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	l.Close()
}

// Privileged adds to a HardTree what only root can make: devices, owners,
// attributes of all namespaces, ACLs. It needs setfacl.
func Privileged(t testing.TB, root string) {
	t.Helper()
	at := func(name string) string { return root + "/" + name }
	require.NoError(t, unix.Mknod(at("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	require.NoError(t, unix.Mknod(at("disk"), unix.S_IFBLK|0o660, int(unix.Mkdev(259, 70000))))
	require.NoError(t, unix.Mknod(at("whiteout"), unix.S_IFCHR, 0))
	require.NoError(t, os.Lchown(at("names"), 65536, 4000000000))
	require.NoError(t, os.Lchown(at("plain"), 4294967294, 70000))
	require.NoError(t, os.Lchown(at("absolute"), 1000, 1001))
	require.NoError(t, os.Chmod(at("empty"), 0))
	require.NoError(t, os.Chown(root, 7, 8))
	require.NoError(t, os.Chmod(root, 0o711))

	for name, value := range map[string]string{
		"user.comment": "a comment", "user.empty": "", "trusted.key": "\x00\x01", "security.other": "s",
		"user." + strings.Repeat("n", 250): "long name", "user.large": strings.Repeat("v", 2000),
	} {
		require.NoError(t, unix.Lsetxattr(at("plain"), name, []byte(value), 0), name)
	}
	require.NoError(t, unix.Lsetxattr(at("absolute"), "trusted.on-a-link", []byte("x"), 0))
	require.NoError(t, unix.Lsetxattr(at("null"), "trusted.on-a-device", []byte("x"), 0))
	require.NoError(t, unix.Lsetxattr(root, "user.on-the-root", []byte("x"), 0))
	capability := "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	require.NoError(t, unix.Lsetxattr(at("setuid"), "security.capability", []byte(capability), 0)) // B049
	Run(t, "setfacl", "-m", "u:1234:r-x,g:4000000001:rw-", at("plain"))
	Run(t, "setfacl", "-m", "u:1234:r-x", "-d", "-m", "u:7:rwx", at("sticky"))
}
