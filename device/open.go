package device

import (
	"fmt"
	"io/fs"
	"os"
)

// Options say how Open opens. The zero value: for reading and writing, alone.
type Options struct {
	ReadOnly bool // many readers may have it open, no writer
	NoLock   bool // take no lock and look for no mount: for a look at one's own risk
}

// Open opens an image file or, on Linux, a block device. It fails with ErrInUse
// if another program has it open in a way that excludes this one, with a
// *MountedError if it is mounted, be it through a loop device, and with
// ErrNotDevice if it is neither of the two. A host file system that has no
// locks gives none.
func Open(path string, o Options) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, pathError("open", path, err)
	}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return openRegular(path, o)
	case mode.Type() == fs.ModeDevice:
		return openBlock(path, o)
	default:
		return nil, pathError("open", path, fmt.Errorf("%w (%s)", ErrNotDevice, kindOf(mode)))
	}
}

// Create makes an image file of size bytes, all of them a hole, where there is
// none (fs.ErrExist otherwise), and locks it.
func Create(path string, size int64) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, pathError("create", path, err)
	}
	if err := prepare(f, size); err != nil {
		f.Close()
		os.Remove(path)
		return nil, pathError("create", path, err)
	}
	return newFile(f, path, size, false)
}

// prepare locks a new file and gives it its size.
func prepare(f *os.File, size int64) error {
	if err := lockFile(f, true); err != nil {
		return err
	}
	return f.Truncate(size)
}

func openRegular(path string, o Options) (*File, error) {
	flag := os.O_RDWR
	if o.ReadOnly {
		flag = os.O_RDONLY
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, pathError("open", path, err)
	}
	info, err := f.Stat()
	if err == nil && !o.NoLock {
		err = claim(f, info, !o.ReadOnly)
	}
	if err != nil {
		f.Close()
		return nil, pathError("open", path, err)
	}
	return newFile(f, path, info.Size(), o.ReadOnly)
}

// claim locks an image file unless the kernel has it mounted.
func claim(f *os.File, info fs.FileInfo, exclusive bool) error {
	if err := lockFile(f, exclusive); err != nil {
		return err
	}
	return checkLoops(info)
}

// kindOf names a type of file.
func kindOf(mode fs.FileMode) string {
	switch mode.Type() {
	case fs.ModeDir:
		return "a directory"
	case fs.ModeNamedPipe:
		return "a fifo"
	case fs.ModeSocket:
		return "a socket"
	case fs.ModeDevice | fs.ModeCharDevice:
		return "a character device"
	}
	return "mode " + mode.String()
}
