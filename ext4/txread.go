package ext4

import (
	"io/fs"
)

// Stat is FS.Stat in the transaction.
func (t *Tx) Stat(name string) (fs.FileInfo, error) { return t.pathInfo("stat", name, true) }

// Lstat is FS.Lstat in the transaction.
func (t *Tx) Lstat(name string) (fs.FileInfo, error) { return t.pathInfo("lstat", name, false) }

func (t *Tx) pathInfo(op, name string, follow bool) (fs.FileInfo, error) {
	if t.ended {
		return nil, pathError(op, name, fs.ErrClosed)
	}
	in, err := t.resolve(name, follow)
	if err != nil {
		return nil, pathError(op, name, err)
	}
	info := &fileInfo{name: baseName(name), stat: in.stat()}
	if n := t.fs.peekNode(in.num); n != nil {
		n.overlay(&info.stat)
		t.after = append(t.after, func() { t.fs.putNode(n) })
	}
	return info, nil
}

// ReadDir is FS.ReadDir in the transaction. The entries' Info method is for when
// it has ended.
func (t *Tx) ReadDir(name string) (list []fs.DirEntry, err error) {
	err = t.read(name, true, func(in *inode) (err error) {
		list, err = in.readDir()
		return err
	})
	return list, pathError("readdir", name, err)
}

// Readlink is FS.Readlink in the transaction.
func (t *Tx) Readlink(name string) (target string, err error) {
	err = t.read(name, false, func(in *inode) (err error) {
		target, err = in.readlink()
		return err
	})
	return target, pathError("readlink", name, err)
}

// Xattrs is FS.Xattrs in the transaction.
func (t *Tx) Xattrs(name string) (list []Xattr, err error) {
	err = t.read(name, true, func(in *inode) (err error) {
		list, err = in.xattrs()
		return err
	})
	return list, pathError("getxattr", name, err)
}

// Lxattrs is FS.Lxattrs in the transaction.
func (t *Tx) Lxattrs(name string) (list []Xattr, err error) {
	err = t.read(name, false, func(in *inode) (err error) {
		list, err = in.xattrs()
		return err
	})
	return list, pathError("getxattr", name, err)
}

// read calls fn with the inode that name leads to.
func (t *Tx) read(name string, follow bool, fn func(in *inode) error) error {
	if t.ended {
		return fs.ErrClosed
	}
	in, err := t.resolve(name, follow)
	if err != nil {
		return err
	}
	return fn(in)
}
