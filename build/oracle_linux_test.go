package build

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/internal/mkfs"
	"drydock/internal/oracle"
)

// everyKind makes a directory with one of everything that images tend to lose,
// symlinks of every length around the limits among them (B101, B109).
// It needs root.
func everyKind(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "hard")
	must := func(err error) { t.Helper(); require.NoError(t, err) }
	at := func(name string) string { return filepath.Join(root, name) }
	must(os.Mkdir(root, 0o751))
	for _, dir := range []string{"types", "names", "modes", "owners", "times", "links", "xattrs", "holes", "sizes", "many", "deep"} {
		must(os.Mkdir(at(dir), 0o755))
	}

	must(os.WriteFile(at("types/file"), []byte("data\n"), 0o644))
	must(os.Symlink("file", at("types/symlink")))
	must(os.Symlink("/nowhere/at/all", at("types/dangling")))
	must(unix.Mkfifo(at("types/fifo"), 0o622))
	must(unix.Mknod(at("types/socket"), unix.S_IFSOCK|0o755, 0))
	for i, dev := range []uint64{unix.Mkdev(1, 3), unix.Mkdev(255, 255), unix.Mkdev(256, 1), unix.Mkdev(4095, 1<<20-1)} {
		must(unix.Mknod(at(fmt.Sprintf("types/char%d", i)), unix.S_IFCHR|0o600, int(dev)))
		must(unix.Mknod(at(fmt.Sprintf("types/block%d", i)), unix.S_IFBLK|0o660, int(dev)))
	}
	must(os.Mkdir(at("types/empty directory"), 0o700))

	for _, name := range []string{"\xff\xfe not UTF-8", "new\nline", "äöü", " ", "-rf", "*", "\\", strings.Repeat("n", 255), "\x01\x7f"} {
		must(os.WriteFile(at("names/"+name), []byte(name), 0o644))
	}

	for _, mode := range []uint32{0, 0o111, 0o777, 0o4755, 0o2755, 0o1777, 0o7777, 0o6000} {
		name := at(fmt.Sprintf("modes/f%o", mode))
		must(os.WriteFile(name, nil, 0o600))
		must(unix.Chmod(name, mode))
		must(os.Mkdir(name+"d", 0o700))
		must(unix.Chmod(name+"d", mode))
	}

	for i, id := range []int{1, 65534, 65535, 65536, 1 << 24, 1<<32 - 2} {
		name := at(fmt.Sprintf("owners/%d", id))
		must(os.WriteFile(name, nil, 0o600))
		must(os.Lchown(name, id, id-i))
		must(os.Symlink("x", name+"l"))
		must(os.Lchown(name+"l", id-i, id))
	}

	for _, sec := range []int64{-1 << 31, -1, 0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<33 + 7, 15032385535} {
		for _, nsec := range []int64{0, 1, 999999999} {
			name := at(fmt.Sprintf("times/%d.%d", sec, nsec))
			must(os.WriteFile(name, nil, 0o600))
			stamp := []unix.Timespec{{Sec: 5}, {Sec: sec, Nsec: nsec}}
			must(unix.UtimesNanoAt(unix.AT_FDCWD, name, stamp, 0))
		}
	}

	must(os.WriteFile(at("links/a"), []byte("linked"), 0o644))
	must(os.Link(at("links/a"), at("links/b")))
	must(os.Link(at("links/a"), at("deep/c")))
	must(os.Symlink("target", at("links/s1")))
	must(os.Link(at("links/s1"), at("links/s2")))
	must(os.Link(at("types/char0"), at("links/char")))
	must(os.Link(at("types/fifo"), at("links/fifo")))

	for _, n := range []int{1, 58, 59, 60, 61, 255, 1022, 1023, 2000, 4094, 4095} {
		must(os.Symlink(strings.Repeat("t", n), at(fmt.Sprintf("links/t%d", n))))
	}

	kindsOfXattrs(t, at)
	kindsOfData(t, at)
	for i := range 1500 {
		must(os.WriteFile(at(fmt.Sprintf("many/%0*d", 1+i%200, i)), []byte{byte(i)}, 0o644))
	}
	deep := at("deep")
	for range 60 {
		deep = filepath.Join(deep, "down")
		must(os.Mkdir(deep, 0o755))
	}
	stamp := []unix.Timespec{{Sec: 5}, {Sec: 1234567890, Nsec: 987654321}}
	must(unix.UtimesNanoAt(unix.AT_FDCWD, root, stamp, 0))
	must(os.Lchown(root, 12, 1<<20))
	return root
}

func kindsOfXattrs(t *testing.T, at func(string) string) {
	t.Helper()
	set := func(name, attr string, value []byte) {
		t.Helper()
		require.NoError(t, unix.Lsetxattr(at(name), attr, value, 0))
	}
	for _, name := range []string{"small", "full", "block", "shared1", "shared2", "both", "empty", "acl"} {
		require.NoError(t, os.WriteFile(at("xattrs/"+name), []byte(name), 0o644))
	}
	require.NoError(t, os.Mkdir(at("xattrs/dir"), 0o755))
	set("xattrs/small", "user.a", []byte("1"))
	set("xattrs/empty", "user.empty", nil)
	set("xattrs/block", "user.block", make([]byte, 900))
	for _, name := range []string{"xattrs/shared1", "xattrs/shared2"} {
		set(name, "user.shared", make([]byte, 500))
	}
	for i := range 9 {
		set("xattrs/both", fmt.Sprintf("user.number%d", i), make([]byte, 20*i))
	}
	set("xattrs/full", "trusted.t", []byte("t"))
	set("xattrs/full", "user.u", []byte("\x00\xff"))
	set("xattrs/full", "security.capability", []byte("\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	set("types/symlink", "trusted.link", []byte("on a symlink"))
	set("types/fifo", "trusted.fifo", []byte("on a fifo"))
	for _, args := range [][]string{
		{"-m", "u:1:rw,u:70000:r,g:5:x,m:rw", at("xattrs/acl")},
		{"-m", "u:3:rwx,d:u:4:r,d:g:1:w", at("xattrs/dir")},
	} {
		if out, err := exec.Command("setfacl", args...).CombinedOutput(); err != nil {
			t.Logf("no ACLs in the tree: %v %s", err, out)
		}
	}
}

func kindsOfData(t *testing.T, at func(string) string) {
	t.Helper()
	for _, n := range []int{0, 1, 511, 512, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20, 1<<20 + 1} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(i*7 + i>>8)
		}
		require.NoError(t, os.WriteFile(at(fmt.Sprintf("sizes/%d", n)), data, 0o644))
	}
	for name, spots := range map[string][]int64{
		"all": nil, "front": {0}, "middle": {1 << 20}, "back": {1<<21 - 100},
		"far": {3 << 30}, "some": {0, 100000, 200000, 1500000}, "zeros": {-1},
	} {
		f, err := os.Create(at("holes/" + name))
		require.NoError(t, err)
		size := int64(2 << 20)
		if name == "far" {
			size = 4 << 30
		}
		require.NoError(t, f.Truncate(size))
		for _, off := range spots {
			data := []byte("data in a file with holes")
			if off < 0 {
				data, off = make([]byte, 1<<20), 0
			}
			_, err := f.WriteAt(data, off)
			require.NoError(t, err)
		}
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
	}
}

// checkAgainstKernel builds an image of a directory, has e2fsck judge it, and
// compares what the kernel mounts with the directory.
func checkAgainstKernel(t *testing.T, tree string, o Options) *Result {
	t.Helper()
	o.Out, o.From = filepath.Join(t.TempDir(), "out.img"), []string{tree}
	r, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.Empty(t, r.Warnings)
	oracle.Fsck(t, o.Out)
	dir := oracle.Mount(t, o.Out)
	differences := oracle.CompareTrees(t, tree, dir, "lost+found", int64(r.BlockSize))
	for i, d := range differences[:min(20, len(differences))] {
		t.Errorf("difference %d of %d: %s", i+1, len(differences), d)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "written by the kernel"), []byte("x"), 0o644), "mounted read-write")
	return r
}

func TestHardTree(t *testing.T) {
	oracle.Need(t, "e2fsck", "setfacl")
	oracle.Root(t)
	tree := everyKind(t)
	for _, profile := range mkfs.Profiles() {
		t.Run(profile, func(t *testing.T) {
			checkAgainstKernel(t, tree, Options{Profile: profile, FreeBytes: 32 << 20, FreeInodes: 8, Verify: true})
		})
	}
	t.Run("empty", func(t *testing.T) {
		empty := filepath.Join(t.TempDir(), "empty")
		require.NoError(t, os.Mkdir(empty, 0o700))
		require.NoError(t, os.Chtimes(empty, time.Time{}, time.Unix(1e9, 5)))
		checkAgainstKernel(t, empty, Options{FreeBytes: 32 << 20, FreeInodes: 8})
	})
}

// TestRealTrees builds from the Go toolchain and from the directories listed
// in DRYDOCK_TREES (separated by colons), such as a debootstrap tree.
func TestRealTrees(t *testing.T) {
	oracle.Long(t)
	oracle.Need(t, "e2fsck")
	oracle.Root(t)
	goRoot := strings.TrimSpace(oracle.Run(t, "go", "env", "GOROOT"))
	for _, tree := range filepath.SplitList(goRoot + ":" + os.Getenv("DRYDOCK_TREES")) {
		if tree == "" {
			continue
		}
		t.Run(filepath.Base(tree), func(t *testing.T) {
			checkAgainstKernel(t, tree, Options{FreeBytes: 32 << 20, FreeInodes: 8, Verify: true})
		})
	}
}
