package ext4

import (
	"io/fs"
	"os"
	"syscall"

	"drydock/format"
)

// WriteFile makes data the content of a file, which is made with permissions
// perm if it is not there.
func (fsys *FS) WriteFile(name string, data []byte, perm fs.FileMode) error {
	f, err := fsys.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// WriteFile is FS.WriteFile in the transaction: the data is written at once, to
// blocks that are the file's if the transaction succeeds. It is for small files;
// syscall.EBUSY is the error if somebody is writing to the file.
func (t *Tx) WriteFile(name string, data []byte, perm fs.FileMode) error {
	return pathError("write", name, t.try(func(t *Tx) error { return t.writeFile(name, data, perm) }))
}

func (t *Tx) writeFile(name string, data []byte, perm fs.FileMode) error {
	ino, err := t.createAt(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, format.ModeRegular|diskPerm(perm))
	if err != nil {
		return err
	}
	if err := t.setLength(ino, 0); err != nil {
		return err
	}
	return t.putData(ino, data)
}

// Truncate changes the size of a file; what is added reads as zeros.
func (fsys *FS) Truncate(name string, size int64) error {
	if err := fsys.mayWrite(); err != nil {
		return pathError("truncate", name, err)
	}
	f, err := fsys.openFile(name, func(r reader) (*inode, error) { return r.findToTruncate(name, size) })
	if err != nil {
		return pathError("truncate", name, err)
	}
	f.flag = os.O_WRONLY
	err = f.Truncate(size)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// Truncate is FS.Truncate in the transaction; syscall.EBUSY is the error if
// somebody is writing to the file.
func (t *Tx) Truncate(name string, size int64) error {
	return pathError("truncate", name, t.try(func(t *Tx) error {
		in, err := t.findToTruncate(name, size)
		if err != nil {
			return err
		}
		return t.setLength(in.num, size)
	}))
}

// findToTruncate returns the inode that a name leads to, if it can be cut or
// extended.
func (r reader) findToTruncate(name string, size int64) (*inode, error) {
	if size < 0 {
		return nil, syscall.EINVAL
	}
	in, err := r.resolve(name, true)
	switch {
	case err != nil:
		return nil, err
	case in.isDir():
		return nil, syscall.EISDIR
	case !in.isRegular():
		return nil, syscall.EINVAL
	}
	return in, in.mayOpen(os.O_WRONLY)
}
