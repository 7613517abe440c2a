package ext4

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/format"
)

// tested is an image file through this package.
type tested struct {
	t    testing.TB
	file string
	opts Options
	dev  *os.File
	fs   *FS
}

// openTested opens an image to do the operations of the model on it.
func openTested(t testing.TB, path string, kind modelKind) image {
	m := &tested{t: t, file: path, opts: Options{ReadWrite: true, Now: func() time.Time { return modelClock }}}
	kind.choose(&m.opts)
	require.NoError(t, m.reopen())
	return m
}

func (m *tested) path() string { return m.file }

func (m *tested) reopen() error {
	f, err := os.OpenFile(m.file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	m.dev = f
	m.fs, err = Open(imageDev{f, info.Size()}, m.opts)
	return err
}

func (m *tested) close() error {
	if m.fs == nil {
		return nil
	}
	err := m.fs.Close()
	m.fs = nil
	return errors.Join(err, m.dev.Close())
}

func (m *tested) open(name string, flag int, mode uint32) (handle, error) {
	f, err := m.fs.OpenFile(name, flag, permOf(mode))
	if err != nil {
		return nil, err
	}
	return testedHandle{f}, nil
}

// permOf gives a mode of Linux the form of io/fs.
func permOf(mode uint32) fs.FileMode { return FileMode(uint16(mode | unix.S_IFREG)) }

func (m *tested) mkdir(name string, mode uint32) error { return m.fs.Mkdir(name, permOf(mode)) }

func (m *tested) mknod(name string, mode, major, minor uint32) error {
	return m.fs.Mknod(name, FileMode(uint16(mode)), major, minor)
}

func (m *tested) remove(name string) error               { return m.fs.Remove(name) }
func (m *tested) removeAll(name string) error            { return m.fs.RemoveAll(name) }
func (m *tested) rename(from, to string) error           { return m.fs.Rename(from, to) }
func (m *tested) link(from, to string) error             { return m.fs.Link(from, to) }
func (m *tested) symlink(target, name string) error      { return m.fs.Symlink(target, name) }
func (m *tested) readlink(name string) (string, error)   { return m.fs.Readlink(name) }
func (m *tested) chmod(name string, mode uint32) error   { return m.fs.Chmod(name, permOf(mode)) }
func (m *tested) truncate(name string, size int64) error { return m.fs.Truncate(name, size) }

func (m *tested) sync() error { return m.fs.Sync() }

func (m *tested) chown(name string, uid, gid int, follow bool) error {
	if follow {
		return m.fs.Chown(name, uid, gid)
	}
	return m.fs.Lchown(name, uid, gid)
}

func (m *tested) chtimes(name string, atime, mtime time.Time, follow bool) error {
	if follow {
		return m.fs.Chtimes(name, atime, mtime)
	}
	return m.fs.Lchtimes(name, atime, mtime)
}

func (m *tested) setXattr(name, attr string, value []byte, flags int, follow bool) error {
	f := [...]XattrFlags{0, XattrCreate, XattrReplace}[flags]
	if follow {
		return m.fs.SetXattr(name, attr, value, f)
	}
	return m.fs.LsetXattr(name, attr, value, f)
}

func (m *tested) removeXattr(name, attr string, follow bool) error {
	if follow {
		return m.fs.RemoveXattr(name, attr)
	}
	return m.fs.LremoveXattr(name, attr)
}

func (m *tested) xattrs(name string, follow bool) (map[string][]byte, error) {
	get := m.fs.Lxattrs
	if follow {
		get = m.fs.Xattrs
	}
	list, err := get(name)
	attrs := map[string][]byte{}
	for _, x := range list {
		attrs[x.Name] = x.Value
	}
	return attrs, err
}

func (m *tested) readDir(name string) (lines []string, err error) {
	list, err := m.fs.ReadDir(name)
	for _, d := range list {
		lines = append(lines, fmt.Sprintf("%v %s", d.Type(), d.Name()))
	}
	slices.Sort(lines)
	return lines, err
}

func (m *tested) stat(name string, follow bool) (attributes, error) {
	get := m.fs.Lstat
	if follow {
		get = m.fs.Stat
	}
	info, err := get(name)
	return testedAttributes(info), err
}

func testedAttributes(info fs.FileInfo) attributes {
	if info == nil {
		return attributes{}
	}
	st := StatOf(info)
	a := attributes{mode: uint32(st.Mode), nlink: st.Nlink, uid: st.UID, gid: st.GID, size: st.Size, ino: uint64(st.Ino),
		atime: timeName(st.Atime.Time()), mtime: timeName(st.Mtime.Time())}
	switch st.Mode & format.ModeType {
	case format.ModeDir:
		a.size = 0
	case format.ModeChar, format.ModeBlock:
		a.rdev = fmt.Sprintf("device %d:%d", st.Major, st.Minor)
	}
	return a
}

// testedHandle is an open file of ours.
type testedHandle struct{ f *File }

func (h testedHandle) readAt(p []byte, off int64) (int, error)  { return h.f.ReadAt(p, off) }
func (h testedHandle) writeAt(p []byte, off int64) (int, error) { return h.f.WriteAt(p, off) }
func (h testedHandle) write(p []byte) (int, error)              { return h.f.Write(p) }
func (h testedHandle) truncate(size int64) error                { return h.f.Truncate(size) }
func (h testedHandle) punch(off, n int64) error                 { return h.f.PunchHole(off, n) }
func (h testedHandle) chmod(mode uint32) error                  { return h.f.Chmod(permOf(mode)) }
func (h testedHandle) sync() error                              { return h.f.Sync() }
func (h testedHandle) close() error                             { return h.f.Close() }

func (h testedHandle) allocate(off, n int64, keepSize bool) error {
	return h.f.Allocate(off, n, keepSize)
}

func (h testedHandle) zero(off, n int64, keepSize bool) error {
	return h.f.ZeroRange(off, n, keepSize)
}

func (h testedHandle) stat() (attributes, error) {
	info, err := h.f.Stat()
	return testedAttributes(info), err
}
