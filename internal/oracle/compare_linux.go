package oracle

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// CompareTrees compares two directories of the host, and everything below, by
// what the kernel says of them: names, types, modes, owners, modification
// times to the nanosecond, sizes, devices, symlink targets, xattrs, which
// names are one file, data, and that no hole of a has become data in b, in
// units of blockSize. The name skip in b's root is left out. It returns a
// line for each difference.
func CompareTrees(t testing.TB, a, b string, skip string, blockSize int64) []string {
	t.Helper()
	c := &comparison{blockSize: blockSize, links: map[inode]inode{}}
	c.dir(a, b, skip)
	return c.differences
}

type inode struct{ dev, ino uint64 }

type comparison struct {
	blockSize   int64
	links       map[inode]inode // files of a to those of b
	differences []string
}

func (c *comparison) differ(path, what string, a, b any) {
	c.differences = append(c.differences, fmt.Sprintf("%q: %s: %v and %v", path, what, a, b))
}

func (c *comparison) dir(a, b, skip string) {
	c.attributes(a, b)
	names, other := c.names(a, ""), c.names(b, skip)
	if !slices.Equal(names, other) {
		c.differ(a, "names", names, other)
		return
	}
	for _, name := range names {
		x, y := filepath.Join(a, name), filepath.Join(b, name)
		if info, err := os.Lstat(x); err == nil && info.IsDir() {
			c.dir(x, y, "")
			continue
		}
		c.attributes(x, y)
	}
}

func (c *comparison) names(dir, skip string) []string {
	f, err := os.Open(dir)
	if err != nil {
		c.differ(dir, "open", err, nil)
		return nil
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		c.differ(dir, "read", err, nil)
	}
	if skip != "" {
		names = slices.DeleteFunc(names, func(n string) bool { return n == skip })
	}
	sort.Strings(names)
	return names
}

func (c *comparison) attributes(a, b string) {
	var x, y syscall.Stat_t
	if err := syscall.Lstat(a, &x); err != nil {
		c.differ(a, "lstat", err, nil)
		return
	}
	if err := syscall.Lstat(b, &y); err != nil {
		c.differ(a, "lstat", nil, err)
		return
	}
	for _, v := range []struct {
		what string
		a, b any
	}{
		{"mode", x.Mode, y.Mode}, {"uid", x.Uid, y.Uid}, {"gid", x.Gid, y.Gid}, {"mtime", x.Mtim, y.Mtim},
		{"links", c.nlink(&x), c.nlink(&y)}, {"device", c.rdev(&x), c.rdev(&y)}, {"size", c.size(&x), c.size(&y)},
	} {
		if v.a != v.b {
			c.differ(a, v.what, v.a, v.b)
		}
	}
	c.identity(a, &x, &y)
	c.xattrs(a, b)
	switch x.Mode & syscall.S_IFMT {
	case syscall.S_IFLNK:
		p, _ := os.Readlink(a)
		if q, _ := os.Readlink(b); p != q {
			c.differ(a, "target", p, q)
		}
	case syscall.S_IFREG:
		c.data(a, b, x.Size)
	}
}

// nlink of a directory depends on the file system, and size too.
func (c *comparison) nlink(st *syscall.Stat_t) uint64 {
	if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		return 0
	}
	return uint64(st.Nlink)
}

func (c *comparison) size(st *syscall.Stat_t) int64 {
	if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		return 0
	}
	return st.Size
}

func (c *comparison) rdev(st *syscall.Stat_t) uint64 {
	if m := st.Mode & syscall.S_IFMT; m == syscall.S_IFCHR || m == syscall.S_IFBLK {
		return uint64(st.Rdev)
	}
	return 0
}

// identity checks that names of one file in a are names of one file in b.
func (c *comparison) identity(path string, x, y *syscall.Stat_t) {
	from, to := inode{uint64(x.Dev), x.Ino}, inode{uint64(y.Dev), y.Ino}
	if before, seen := c.links[from]; seen && before != to {
		c.differ(path, "inode", before, to)
	}
	c.links[from] = to
}

func (c *comparison) xattrs(a, b string) {
	x, y := ListXattrs(a), ListXattrs(b)
	for name, v := range x {
		if w, ok := y[name]; !ok || !bytes.Equal(v, w) {
			c.differ(a, "xattr "+name, v, w)
		}
		delete(y, name)
	}
	for name, w := range y {
		c.differ(a, "xattr "+name, nil, w)
	}
}

func (c *comparison) data(a, b string, size int64) {
	f, err := os.Open(a)
	if err != nil {
		c.differ(a, "open", err, nil)
		return
	}
	defer f.Close()
	g, err := os.Open(b)
	if err != nil {
		c.differ(a, "open", nil, err)
		return
	}
	defer g.Close()
	x, y := dataRuns(f, size, c.blockSize), dataRuns(g, size, c.blockSize)
	if !slices.Equal(x, y) {
		c.differ(a, "holes", x, y)
		x = [][2]int64{{0, size}}
	}
	for _, run := range x {
		if off, err := firstDifference(f, g, run[0], min(run[1], size)); err != nil || off >= 0 {
			c.differ(a, "data", off, err)
		}
	}
}

// firstDifference is the offset of the first byte from off to end-1 that
// differs, or -1.
func firstDifference(f, g io.ReaderAt, off, end int64) (int64, error) {
	p, q := make([]byte, 1<<18), make([]byte, 1<<18)
	for ; off < end; off += int64(len(p)) {
		n := int(min(int64(len(p)), end-off))
		if _, err := f.ReadAt(p[:n], off); err != nil {
			return off, err
		}
		if _, err := g.ReadAt(q[:n], off); err != nil {
			return off, err
		}
		if !bytes.Equal(p[:n], q[:n]) {
			for i := range p[:n] {
				if p[i] != q[i] {
					return off + int64(i), nil
				}
			}
		}
	}
	return -1, nil
}

const (
	seekData = 3
	seekHole = 4
)

// dataRuns lists the first and last byte of each run of data, widened to
// blocks; what touches is one run.
func dataRuns(f *os.File, size, blockSize int64) [][2]int64 {
	var runs [][2]int64
	for off := int64(0); off < size; {
		from, err := f.Seek(off, seekData)
		if err != nil {
			break
		}
		to, err := f.Seek(from, seekHole)
		if err != nil {
			break
		}
		off = to
		from, to = from/blockSize*blockSize, (to+blockSize-1)/blockSize*blockSize
		if last := len(runs) - 1; last >= 0 && from <= runs[last][1] {
			runs[last][1] = to
			continue
		}
		runs = append(runs, [2]int64{from, to})
	}
	return runs
}

// ListXattrs returns all xattrs of a file; symlinks are not followed.
func ListXattrs(path string) map[string][]byte {
	attrs := map[string][]byte{}
	buf := make([]byte, 1<<17)
	n, err := unix.Llistxattr(path, buf)
	if err != nil {
		return attrs
	}
	for name := range bytes.SplitSeq(bytes.TrimRight(buf[:n], "\x00"), []byte{0}) {
		if len(name) == 0 {
			continue
		}
		value := make([]byte, 1<<17)
		n, err := unix.Lgetxattr(path, string(name), value)
		if err != nil {
			value, n = []byte(err.Error()), len(err.Error())
		}
		attrs[string(name)] = value[:n]
	}
	return attrs
}
