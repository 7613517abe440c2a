package device

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

var (
	// ErrOutOfRange: the range does not lie inside the device.
	ErrOutOfRange = errors.New("outside the device")
	// ErrReadOnly: the device was opened for reading.
	ErrReadOnly = errors.New("opened read-only")
	// ErrInUse: another program holds the lock of the file or block device.
	ErrInUse = errors.New("in use by another program")
	// ErrMounted: the kernel has a file system on it mounted.
	ErrMounted = errors.New("mounted")
	// ErrNotDevice: neither a regular file nor a block device.
	ErrNotDevice = errors.New("neither a regular file nor a block device")
)

// OpError says which operation on which range failed.
type OpError struct {
	Op   string // "read", "write", "punch", ...
	Path string // of the device, or what it is ("memory")
	Off  int64  // bytes
	Len  int64  // bytes
	Err  error
}

func (e *OpError) Error() string {
	return fmt.Sprintf("%s %s: %d bytes at offset %d: %v", e.Op, e.Path, e.Len, e.Off, e.Err)
}

func (e *OpError) Unwrap() error { return e.Err }

// MountedError says where the kernel has mounted what was to be opened. It is
// ErrMounted.
type MountedError struct {
	Point   string // mount point
	Through string // block device in between, "" for none
}

func (e *MountedError) Error() string {
	if e.Through == "" {
		return "mounted at " + e.Point
	}
	return fmt.Sprintf("mounted at %s through %s", e.Point, e.Through)
}

// Is makes errors.Is(err, ErrMounted) true.
func (e *MountedError) Is(target error) bool { return target == ErrMounted }

// opError adds the operation and its range to err, in place of what the
// os package says of it.
func opError(op, path string, off, n int64, err error) error {
	if err == nil {
		return nil
	}
	return &OpError{op, path, off, n, cause(err)}
}

// pathError is opError for operations that have no range.
func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: cause(err)}
}

// cause takes a path error's own operation and path off.
func cause(err error) error {
	if p, ok := err.(*fs.PathError); ok {
		return p.Err
	}
	return err
}

// checkRange fails unless n bytes at off lie inside size bytes.
func checkRange(op, path string, off, n, size int64) error {
	if off >= 0 && n >= 0 && off <= size && n <= size-off {
		return nil
	}
	return opError(op, path, off, n, fmt.Errorf("%w (%d bytes)", ErrOutOfRange, size))
}

// readable returns how many of n bytes at off lie inside size bytes, and io.EOF
// if not all do.
func readable(path string, off int64, n int, size int64) (int, error) {
	switch {
	case off < 0:
		return 0, opError("read", path, off, int64(n), ErrOutOfRange)
	case n == 0:
		return 0, nil
	case off >= size:
		return 0, io.EOF
	case int64(n) > size-off:
		return int(size - off), io.EOF
	}
	return n, nil
}

// early is the error of a read that got too little though all of its range must
// be there: the end of input, which must not look like the device's end.
func early(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// unsupported marks err as errors.ErrUnsupported.
func unsupported(err error) error {
	return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
}

// isUnsupported reports whether to go on in another way.
func isUnsupported(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

// Name says what a device is, for messages: its path, or words such as "memory".
func Name(d Device) string {
	if n, ok := d.(interface{ Path() string }); ok && n.Path() != "" {
		return n.Path()
	}
	return "device"
}

// ReadOnly reports whether a device is known to refuse writes.
func ReadOnly(d Device) bool {
	r, ok := d.(interface{ ReadOnly() bool })
	return ok && r.ReadOnly()
}
