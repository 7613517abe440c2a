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
	f, err := fsys.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return pathError("truncate", name, unwrapPath(err))
	}
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
		in, err := t.resolve(name, true)
		switch {
		case err != nil:
			return err
		case size < 0:
			return syscall.EINVAL
		}
		if err := in.mayOpen(os.O_WRONLY); err != nil {
			return err
		}
		return t.setLength(in.num, size)
	}))
}

// unwrapPath takes an error out of the *fs.PathError around it.
func unwrapPath(err error) error {
	if p, ok := err.(*fs.PathError); ok {
		return p.Err
	}
	return err
}
