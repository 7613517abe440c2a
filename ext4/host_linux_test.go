package ext4

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/format"
	"drydock/internal/oracle"
)

// treeOptions says what a random tree has beside files and directories.
type treeOptions struct {
	files     int  // names in all
	maxFile   int  // bytes
	plain     bool // no xattrs
	bigXattr  int  // bytes of the largest xattr; 0: 200
	oldTimes  bool // only times that 32 bits hold, whole seconds
	maxTarget int  // bytes of the longest symbolic link; 0: 1000
	maxSparse int64
	dense     bool // no files with holes
	linkFiles bool // hard links of regular files only
}

// treeMaker fills a host directory with a random tree.
type treeMaker struct {
	t     testing.TB
	r     *rand.Rand
	o     treeOptions
	dirs  []string
	files []string
}

func makeTree(t testing.TB, r *rand.Rand, root string, o treeOptions) {
	t.Helper()
	m := &treeMaker{t: t, r: r, o: o, dirs: []string{root}}
	for i := range o.files {
		m.add(i)
	}
	for _, p := range append(m.files, m.dirs...) {
		m.times(p)
	}
}

// add makes one more name.
func (m *treeMaker) add(i int) {
	dir := m.dirs[m.r.IntN(len(m.dirs))]
	path := filepath.Join(dir, m.name(i))
	switch k := m.r.IntN(20); {
	case k < 4:
		require.NoError(m.t, os.Mkdir(path, 0o755))
		m.dirs = append(m.dirs, path)
		m.attributes(path)
		return
	case k < 7:
		m.symlink(path)
	case k < 8:
		m.special(path)
	case k < 10 && len(m.files) > 0:
		m.link(path)
	case k < 11 && !m.o.dense:
		m.sparse(path)
	default:
		require.NoError(m.t, os.WriteFile(path, m.bytes(m.size()), 0o644))
	}
	m.files = append(m.files, path)
	m.attributes(path)
}

// name returns a new name of any bytes but NUL and slash.
func (m *treeMaker) name(i int) string {
	stem := fmt.Sprintf("%d", i)
	switch m.r.IntN(6) {
	case 0:
		return stem + strings.Repeat("n", m.r.IntN(maxName-len(stem)))
	case 1:
		return stem + "\xff\xfe \n\x80\x01"
	case 2:
		return stem + "ßéメ"
	}
	return stem
}

func (m *treeMaker) link(path string) {
	old := m.files[m.r.IntN(len(m.files))]
	info, err := os.Lstat(old)
	require.NoError(m.t, err)
	if m.o.linkFiles && !info.Mode().IsRegular() {
		m.symlink(path)
		return
	}
	require.NoError(m.t, os.Link(old, path))
}

func (m *treeMaker) size() int {
	switch m.r.IntN(4) {
	case 0:
		return m.r.IntN(64)
	case 1:
		return m.r.IntN(300)
	}
	return m.r.IntN(m.o.maxFile + 1)
}

func (m *treeMaker) bytes(n int) []byte { return noise(n, m.r.Uint64()) }

func (m *treeMaker) symlink(path string) {
	longest := m.o.maxTarget
	if longest == 0 {
		longest = 1000
	}
	n := 1 + m.r.IntN(longest)
	if m.r.IntN(2) == 0 {
		n = 55 + m.r.IntN(10)
	}
	require.NoError(m.t, os.Symlink(strings.Repeat("t", n), path))
}

func (m *treeMaker) special(path string) {
	major, minor := uint32(m.r.IntN(256)), uint32(m.r.IntN(256))
	if m.r.IntN(2) == 0 {
		major, minor = uint32(m.r.IntN(4096)), uint32(m.r.IntN(1<<20))
	}
	kind := []uint32{unix.S_IFIFO, unix.S_IFCHR, unix.S_IFBLK, unix.S_IFSOCK}[m.r.IntN(4)]
	require.NoError(m.t, unix.Mknod(path, kind|0o600, int(unix.Mkdev(major, minor))))
}

// sparse makes a file with data at a few places.
func (m *treeMaker) sparse(path string) {
	f, err := os.Create(path)
	require.NoError(m.t, err)
	defer f.Close()
	size := int64(1 << 20)
	if m.o.maxSparse > 0 {
		size = 1 + m.r.Int64N(m.o.maxSparse)
	}
	for range m.r.IntN(4) {
		_, err := f.WriteAt(m.bytes(1+m.r.IntN(5000)), m.r.Int64N(size))
		require.NoError(m.t, err)
	}
	if m.r.IntN(2) == 0 {
		info, err := f.Stat()
		require.NoError(m.t, err)
		require.NoError(m.t, f.Truncate(info.Size()+m.r.Int64N(size)))
	}
}

// attributes sets mode, owner and extended attributes.
func (m *treeMaker) attributes(path string) {
	id := func() int { return []int{0, 1, 65535, 65536, 1<<31 + 5}[m.r.IntN(5)] }
	require.NoError(m.t, os.Lchown(path, id(), id()))
	info, err := os.Lstat(path)
	require.NoError(m.t, err)
	if info.Mode().Type() != fs.ModeSymlink {
		require.NoError(m.t, unix.Chmod(path, uint32(m.r.IntN(0o10000))))
	}
	if m.o.plain || m.r.IntN(3) > 0 {
		return
	}
	if info.Mode().IsRegular() || info.IsDir() {
		m.xattr(path, "user.x"+strings.Repeat("y", m.r.IntN(30)))
		m.acl(path, info.IsDir())
	}
	m.xattr(path, "trusted.t")
	m.xattr(path, "security.s\xe9")
}

func (m *treeMaker) xattr(path, name string) {
	largest := m.o.bigXattr
	if largest == 0 || m.r.IntN(4) > 0 {
		largest = 200
	}
	require.NoError(m.t, unix.Lsetxattr(path, name, m.bytes(m.r.IntN(largest)), 0), "%q", path)
}

// acl sets an access ACL, and a default one on a directory.
func (m *treeMaker) acl(path string, dir bool) {
	acl := func() []byte {
		b := []byte{2, 0, 0, 0}
		entry := func(tag, perm uint16, id uint32) {
			b = append(b, byte(tag), byte(tag>>8), byte(perm), byte(perm>>8))
			b = append(b, byte(id), byte(id>>8), byte(id>>16), byte(id>>24))
		}
		const none = 1<<32 - 1
		entry(1, uint16(m.r.IntN(8)), none)
		entry(2, uint16(m.r.IntN(8)), uint32(m.r.IntN(100000)))
		entry(4, uint16(m.r.IntN(8)), none)
		entry(8, uint16(m.r.IntN(8)), uint32(m.r.IntN(100000)))
		entry(16, uint16(m.r.IntN(8)), none)
		entry(32, uint16(m.r.IntN(8)), none)
		return b
	}
	if m.r.IntN(2) == 0 {
		require.NoError(m.t, unix.Lsetxattr(path, "system.posix_acl_access", acl(), 0))
	}
	if dir && m.r.IntN(2) == 0 {
		require.NoError(m.t, unix.Lsetxattr(path, "system.posix_acl_default", acl(), 0))
	}
}

func (m *treeMaker) times(path string) {
	stamp := func() unix.Timespec {
		ts := unix.Timespec{Sec: m.r.Int64N(1<<31 - 1)}
		if !m.o.oldTimes {
			ts.Nsec = m.r.Int64N(1e9)
			ts.Sec = format.MinTime.Sec + m.r.Int64N(format.MaxTime.Sec-format.MinTime.Sec)
		}
		return ts
	}
	ts := []unix.Timespec{stamp(), stamp()}
	require.NoError(m.t, unix.UtimesNanoAt(unix.AT_FDCWD, path, ts, unix.AT_SYMLINK_NOFOLLOW))
}

// sameAs says how close an image must be to a host tree.
type sameAs struct {
	mount  bool // the host tree is the image, mounted: everything agrees
	fast   bool // but for times and blocks, which fast commits do not tell in full
	mke2fs bool // filled by mke2fs, which keeps neither nanoseconds nor times of directories
}

// requireSameTree compares an image with a host directory.
func requireSameTree(t testing.TB, fsys *FS, host string, how sameAs) int {
	t.Helper()
	ours := map[string]fs.DirEntry{}
	require.NoError(t, fsys.Walk(".", func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err, "%q", path)
		ours[path] = d
		return nil
	}))
	if !how.mount {
		delete(ours, "lost+found")
	}
	c := treeComparer{t: t, fs: fsys, host: host, how: how, inos: map[uint64]format.Ino{}}
	require.NoError(t, filepath.WalkDir(host, func(path string, _ fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, err := filepath.Rel(host, path)
		require.NoError(t, err)
		d := ours[rel]
		require.NotNil(t, d, "missing: %q", rel)
		delete(ours, rel)
		c.compare(rel, d)
		return nil
	}))
	require.Empty(t, slices.Sorted(maps.Keys(ours)), "not in the host tree")
	return len(c.inos)
}

type treeComparer struct {
	t    testing.TB
	fs   *FS
	host string
	how  sameAs
	inos map[uint64]format.Ino // host inode to ours
}

func (c *treeComparer) compare(rel string, d fs.DirEntry) {
	t := c.t
	t.Helper()
	path := filepath.Join(c.host, rel)
	var want unix.Stat_t
	require.NoError(t, unix.Lstat(path, &want))
	info, err := c.fs.Lstat(rel)
	require.NoError(t, err)
	got := StatOf(info)
	require.Equal(t, info.Mode().Type(), d.Type(), "%q", rel)
	require.Equal(t, d.(*DirEntry).Ino(), got.Ino, "%q", rel)
	require.Equal(t, uint16(want.Mode), got.Mode, "%q: mode", rel)
	require.Equal(t, [2]uint32{want.Uid, want.Gid}, [2]uint32{got.UID, got.GID}, "%q: owner", rel)
	if !(c.how.mke2fs || c.how.fast) || !d.IsDir() {
		c.compareTime(rel, "mtime", want.Mtim, got.Mtime)
	}
	if rel != "." || c.how.mount {
		require.Equal(t, uint32(want.Nlink), got.Nlink, "%q: links", rel)
	}
	if ino, seen := c.inos[want.Ino]; seen {
		require.Equal(t, ino, got.Ino, "%q: hard link", rel)
	}
	c.inos[want.Ino] = got.Ino
	if c.how.mount {
		require.Equal(t, want.Ino, uint64(got.Ino), "%q: inode", rel)
		if got.Flags&format.InodeInlineData == 0 && !c.how.fast { // of inline data Linux makes up a number
			require.Equal(t, uint64(want.Blocks), got.Blocks, "%q: blocks", rel)
		}
		require.Equal(t, want.Size, got.Size, "%q: size", rel)
		if !c.how.fast || !d.IsDir() {
			c.compareTime(rel, "atime", want.Atim, got.Atime)
			c.compareTime(rel, "ctime", want.Ctim, got.Ctime)
		}
	}
	c.compareContent(rel, path, want)
	requireXattrs(t, c.fs, rel, path)
}

func (c *treeComparer) compareTime(rel, what string, want unix.Timespec, got format.Time) {
	c.t.Helper()
	if c.how.mke2fs {
		want.Nsec, got.Nsec = 0, 0
	}
	require.Equal(c.t, format.Time{Sec: want.Sec, Nsec: uint32(want.Nsec)}, got, "%q: %s", rel, what)
}

func (c *treeComparer) compareContent(rel, path string, want unix.Stat_t) {
	t := c.t
	t.Helper()
	switch want.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, err := os.Readlink(path)
		require.NoError(t, err)
		ours, err := c.fs.Readlink(rel)
		require.NoError(t, err)
		require.Equal(t, target, ours, "%q: target", rel)
	case unix.S_IFREG:
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		ours, err := c.fs.ReadFile(rel)
		require.NoError(t, err)
		requireSame(t, data, ours, rel)
	case unix.S_IFCHR, unix.S_IFBLK:
		info, err := c.fs.Lstat(rel)
		require.NoError(t, err)
		require.Equal(t, [2]uint32{unix.Major(want.Rdev), unix.Minor(want.Rdev)},
			[2]uint32{StatOf(info).Major, StatOf(info).Minor}, "%q: device", rel)
	}
}

// requireXattrs compares the extended attributes of a file with the host's.
func requireXattrs(t testing.TB, fsys *FS, rel, path string) {
	t.Helper()
	want := hostXattrs(t, path)
	got := map[string]string{}
	list, err := fsys.Lxattrs(rel)
	require.NoError(t, err, "%q", rel)
	for _, x := range list {
		got[x.Name] = string(x.Value)
	}
	require.Equal(t, want, got, "%q: extended attributes", rel)
}

func hostXattrs(t testing.TB, path string) map[string]string {
	t.Helper()
	names := make([]byte, 1<<16)
	n, err := unix.Llistxattr(path, names)
	if errors.Is(err, unix.ENOTSUP) {
		return map[string]string{}
	}
	require.NoError(t, err, "%q", path)
	found := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		value := make([]byte, 1<<16)
		n, err := unix.Lgetxattr(path, name, value)
		require.NoError(t, err, "%q: %q", path, name)
		found[name] = string(value[:n])
	}
	return found
}

// mke2fs makes an image of size in t's temporary directory; args go in front
// of the file's name.
func mke2fs(t testing.TB, size int64, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size))
	require.NoError(t, f.Close())
	oracle.Run(t, "mke2fs", append(append([]string{"-q", "-F"}, args...), path)...)
	return path
}
