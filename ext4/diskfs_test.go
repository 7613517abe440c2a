package ext4

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/diskfs/go-diskfs/filesystem"
	"github.com/stretchr/testify/require"
)

// copyFileSystem copies a tree by the calls that CopyFileSystem in package sync of
// go-diskfs makes. That package needs modules that nothing else here does.
func copyFileSystem(src fs.FS, dst filesystem.FileSystem) error {
	return fs.WalkDir(src, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." || name == "lost+found" {
			return err
		}
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return dst.Mkdir(name)
		case d.Type() == fs.ModeSymlink:
			target, err := src.(fs.ReadLinkFS).ReadLink(name)
			if err != nil {
				return err
			}
			return dst.Symlink(target, name)
		}
		data, err := fs.ReadFile(src, name)
		if err != nil {
			return err
		}
		f, err := dst.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR)
		if err != nil {
			return err
		}
		if _, err := f.Write(data); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		return dst.Chtimes(name, info.ModTime(), info.ModTime(), info.ModTime())
	})
}

// compareFS compares names, types, sizes and contents as CompareFS in package
// sync of go-diskfs does.
func compareFS(a, b fs.FS) error {
	seen := map[string]bool{"lost+found": true}
	err := fs.WalkDir(a, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "lost+found" {
			return err
		}
		seen[name] = true
		there, err := fs.Stat(b, name)
		if err != nil {
			return err
		}
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir() != there.IsDir() || !d.IsDir() && info.Size() != there.Size():
			return fmt.Errorf("%s: %v and %v", name, info, there)
		case d.IsDir():
			return nil
		}
		x, err := fs.ReadFile(a, name)
		y, err2 := fs.ReadFile(b, name)
		if err == nil && err2 == nil && string(x) != string(y) {
			err = fmt.Errorf("%s: contents differ", name)
		}
		return errors.Join(err, err2)
	})
	return errors.Join(err, fs.WalkDir(b, ".", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && !seen[name] {
			err = fmt.Errorf("%s is in one only", name)
		}
		return err
	}))
}

// TestDiskfs copies a tree in and out with go-diskfs and compares it.
func TestDiskfs(t *testing.T) {
	at := time.Date(2021, 2, 3, 4, 5, 6, 0, time.UTC)
	src := fstest.MapFS{
		"etc/hosts":   {Data: []byte("127.0.0.1 localhost\n"), Mode: 0o644, ModTime: at},
		"etc/empty":   {Mode: 0o600, ModTime: at},
		"usr/lib/big": {Data: noise(300_000, 5), Mode: 0o755, ModTime: at},
		"link":        {Data: []byte("etc/hosts"), Mode: fs.ModeSymlink | 0o777, ModTime: at},
		"dir":         {Mode: fs.ModeDir | 0o755, ModTime: at},
	}
	dev := formatMem(t, 16<<20, FormatOptions{})
	d := openWith(t, dev, Options{}).Diskfs()
	require.Equal(t, filesystem.TypeExt4, d.Type())
	require.NoError(t, copyFileSystem(src, d))
	require.NoError(t, compareFS(src, d))
	info, err := d.Stat("/etc/hosts")
	require.NoError(t, err)
	require.True(t, info.ModTime().Equal(at))
	require.Equal(t, at.Unix(), StatOf(info).Crtime.Sec)

	other := formatMem(t, 16<<20, FormatOptions{BlockSize: 1024})
	copied := openWith(t, other, Options{}).Diskfs()
	require.NoError(t, copyFileSystem(d, copied))
	require.NoError(t, compareFS(d, copied))
	require.NoError(t, copied.Close())
	requireSettled(t, other)

	require.NoError(t, d.SetLabel("label"))
	require.Equal(t, "label", d.Label())
	require.NoError(t, d.Mknod("/null", 0o020666, 1<<8|3))
	require.NoError(t, d.Mknod("/fifo", 0o010600, 0))
	info, err = d.Stat("null")
	require.NoError(t, err)
	require.Equal(t, [2]uint32{1, 3}, [2]uint32{StatOf(info).Major, StatOf(info).Minor})
	require.NoError(t, d.Chmod("/dir", 0o700))
	require.NoError(t, d.Chown("/dir", 5, 6))
	require.NoError(t, d.Link("/etc/hosts", "/dir/hosts"))
	require.NoError(t, d.Rename("/etc/empty", "/dir/empty"))
	require.NoError(t, d.Remove("/link"))
	require.NoError(t, d.Symlink("x", "/link"))
	f, err := d.OpenFile("/dir/hosts", os.O_RDWR|os.O_APPEND)
	require.NoError(t, err)
	_, err = f.Write([]byte("more"))
	require.NoError(t, err)
	_, err = f.Seek(10, io.SeekStart)
	require.NoError(t, err)
	rest, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, "localhost\nmore", string(rest))
	require.NoError(t, f.Close())
	list, err := d.ReadDir("/dir")
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.NoError(t, d.Close())
	requireSettled(t, dev)
}

// The view of io/fs holds what was written through the library.
func TestWrittenFS(t *testing.T) {
	fsys := openWith(t, formatMem(t, 16<<20, FormatOptions{}), Options{})
	require.NoError(t, fsys.MkdirAll("a/b", 0o755))
	require.NoError(t, fsys.WriteFile("a/file", []byte("file"), 0o644))
	require.NoError(t, fsys.Symlink("a/file", "link"))
	require.NoError(t, fstest.TestFS(fsys.FS(), "a/file", "a/b", "link"))
	require.NoError(t, fsys.Close())
}
