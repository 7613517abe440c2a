package ext4

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"testing"
	"time"

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

// newTested is an image to do the operations of the model on; reopen opens it.
func newTested(t testing.TB, path string, kind modelKind) image {
	m := &tested{t: t, file: path, opts: Options{ReadWrite: true, Now: func() time.Time { return modelClock }}}
	kind.choose(&m.opts)
	if kind.inTx {
		return inTx{m}
	}
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

func (m *tested) mkdirAll(name string, mode uint32) error { return m.fs.MkdirAll(name, permOf(mode)) }

func (m *tested) writeFile(name string, data []byte, mode uint32) error {
	return m.fs.WriteFile(name, data, permOf(mode))
}

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

// inTx does the operations by name in transactions.
type inTx struct{ *tested }

// update does an operation as one of several that may fail by themselves.
func (m inTx) update(call func(t *Tx) error) error {
	var failed error
	err := m.fs.Update(func(t *Tx) error {
		if failed = call(t); failed != nil {
			return nil
		}
		_, err := t.Lstat("/")
		return err
	})
	return errors.Join(failed, err)
}

func (m inTx) mkdir(name string, mode uint32) error {
	return m.update(func(t *Tx) error { return t.Mkdir(name, permOf(mode)) })
}

func (m inTx) mkdirAll(name string, mode uint32) error {
	return m.update(func(t *Tx) error { return t.MkdirAll(name, permOf(mode)) })
}

func (m inTx) mknod(name string, mode, major, minor uint32) error {
	return m.update(func(t *Tx) error { return t.Mknod(name, FileMode(uint16(mode)), major, minor) })
}

func (m inTx) remove(name string) error {
	return m.update(func(t *Tx) error { return t.Remove(name) })
}

func (m inTx) removeAll(name string) error {
	return m.update(func(t *Tx) error { return t.RemoveAll(name) })
}

func (m inTx) rename(from, to string) error {
	return m.update(func(t *Tx) error { return t.Rename(from, to) })
}

func (m inTx) link(from, to string) error {
	return m.update(func(t *Tx) error { return t.Link(from, to) })
}

func (m inTx) symlink(target, name string) error {
	return m.update(func(t *Tx) error { return t.Symlink(target, name) })
}

func (m inTx) readlink(name string) (target string, err error) {
	err = m.update(func(t *Tx) (err error) { target, err = t.Readlink(name); return err })
	return target, err
}

func (m inTx) chmod(name string, mode uint32) error {
	return m.update(func(t *Tx) error { return t.Chmod(name, permOf(mode)) })
}

func (m inTx) chown(name string, uid, gid int, follow bool) error {
	if !follow {
		return m.update(func(t *Tx) error { return t.Lchown(name, uid, gid) })
	}
	return m.update(func(t *Tx) error { return t.Chown(name, uid, gid) })
}

func (m inTx) chtimes(name string, atime, mtime time.Time, follow bool) error {
	if !follow {
		return m.update(func(t *Tx) error { return t.Lchtimes(name, atime, mtime) })
	}
	return m.update(func(t *Tx) error { return t.Chtimes(name, atime, mtime) })
}

func (m inTx) truncate(name string, size int64) error {
	return m.update(func(t *Tx) error { return t.Truncate(name, size) })
}

func (m inTx) stat(name string, follow bool) (a attributes, err error) {
	err = m.update(func(t *Tx) error {
		get := t.Lstat
		if follow {
			get = t.Stat
		}
		info, err := get(name)
		a = testedAttributes(info)
		return err
	})
	return a, err
}
