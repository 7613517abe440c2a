package build

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/format"
	"drydock/internal/mkfs"
)

// This file describes directories as lines of text with what the host itself
// tells, to compare with what a source made of them.

// describeHost describes a directory with the calls of the Go library and of
// the kernel, following no code of this package.
func describeHost(t testing.TB, root string) map[string]string {
	lines := make(map[string]string)
	ids := make(map[string]string)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, _ := filepath.Rel(root, path)
		var st syscall.Stat_t
		require.NoError(t, syscall.Lstat(path, &st))
		lines[rel] = describeStat(t, path, &st)
		if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			ids[rel] = fmt.Sprint(st.Dev, ":", st.Ino)
		}
		return nil
	})
	require.NoError(t, err)
	addLinks(lines, func(yield func(string, string)) {
		for path, id := range ids {
			yield(path, id)
		}
	})
	return lines
}

func describeStat(t testing.TB, path string, st *syscall.Stat_t) string {
	s := fmt.Sprintf("%06o %d:%d %d.%09d", st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec)
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFLNK:
		target, err := os.Readlink(path)
		require.NoError(t, err)
		s += fmt.Sprintf(" -> %q", target)
	case syscall.S_IFCHR, syscall.S_IFBLK:
		s += fmt.Sprintf(" dev=%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	case syscall.S_IFREG:
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		s += fmt.Sprintf(" size=%d sha=%x", st.Size, sha256.Sum256(data))
	}
	for _, x := range hostXattrs(t, path) {
		s += fmt.Sprintf(" %s=%x", x.FullName(), x.Value)
	}
	return s
}

// hostXattrs returns the xattrs of a file in disk form, ordered.
func hostXattrs(t testing.TB, path string) (attrs []format.Xattr) {
	list := make([]byte, 65536)
	n, err := unix.Llistxattr(path, list)
	if err == unix.ENOTSUP {
		return nil
	}
	require.NoError(t, err)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list[:n]), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		value := make([]byte, 65536)
		m, err := unix.Lgetxattr(path, name, value)
		require.NoError(t, err)
		value = value[:m]
		if strings.HasPrefix(name, "system.posix_acl_") {
			value, err = format.ACLToDisk(value)
			require.NoError(t, err)
		}
		index, short, ok := format.SplitXattrName(name)
		require.True(t, ok, name)
		attrs = append(attrs, format.Xattr{Index: index, Name: short, Value: value})
	}
	slices.SortFunc(attrs, format.CompareXattrs)
	return attrs
}

// sameTree compares descriptions.
func sameTree(t testing.TB, want, got map[string]string) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if want[path] != got[path] {
			t.Errorf("%q:\n want %s\n got  %s", path, want[path], got[path])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[path]; !ok {
			t.Errorf("%q: extra: %s", path, got[path])
		}
	}
}

// dirContent scans a directory with the default options.
func dirContent(t testing.TB, path string, o DirOptions) (*mkfs.Content, *DirSource) {
	src, err := NewDirSource(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { src.Close() })
	c, _ := scanSource(t, src, TreeOptions{})
	return c, src
}
