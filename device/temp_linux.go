package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// createUnnamed makes a file without a name in a folder, which goes with its last
// user. It is errors.ErrUnsupported where the file system cannot, or where the
// file could not be given a name later.
func createUnnamed(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o666)
	switch {
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.EINVAL):
		return nil, unsupported(err)
	case err != nil:
		return nil, err
	}
	// EOPNOTSUPP is errors.ErrUnsupported as it is.
	err = descriptor(f, func(path string) error {
		_, err := os.Stat(path)
		return err
	})
	if err != nil {
		f.Close()
		return nil, unsupported(err)
	}
	return f, nil
}

// linkUnnamed gives such a file a name, at which there must be nothing.
func linkUnnamed(f *os.File, name string) error {
	return descriptor(f, func(path string) error {
		err := unix.Linkat(unix.AT_FDCWD, path, unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
		if err == unix.EEXIST {
			return fs.ErrExist
		}
		return err
	})
}

// descriptor calls fn with the path that procfs has for an open file.
func descriptor(f *os.File, fn func(path string) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return control(raw, func(fd int) error {
		return fn(fmt.Sprintf("/proc/self/fd/%d", fd))
	})
}

// renameExclusive renames unless there is something at the new name.
func renameExclusive(from, to string) error {
	switch err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE); err {
	case unix.EEXIST:
		return fs.ErrExist
	case unix.EINVAL:
		return unsupported(err)
	default:
		return err
	}
}
