package build

import (
	"bytes"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"drydock/format"
)

// xattrReader is how the xattrs of a name in an open directory are reached,
// from the best that the kernel has.
type xattrReader struct {
	at   bool // listxattrat and getxattrat (Linux 6.13)
	proc bool // /proc/self/fd/N/name
}

const (
	xattrListGuess = 1 << 10 // bytes; one call is enough where the names fit
	xattrListMax   = 1 << 16 // XATTR_LIST_MAX
	xattrValueMax  = 1 << 16 // XATTR_SIZE_MAX
)

func newXattrReader(root int) (x xattrReader) {
	_, err := listxattrat(root, "", nil)
	x.at = err == nil || err == unix.ENOTSUP
	_, err = unix.Llistxattr(procPath(root, "."), nil)
	x.proc = err == nil || err == unix.ENOTSUP
	return x
}

func procPath(dir int, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir, name)
}

// readXattrs returns the xattrs of a name in a directory, "" being the
// directory itself, as far as the filter keeps them. What cannot be read is
// noted.
func (s *DirSource) readXattrs(c *dirScan, dir uint32, ref *dirRef, name string) []format.Xattr {
	t := s.tree
	if t.o.Xattrs.None() {
		return nil
	}
	place := s.xattrPlace(dir, ref, name)
	names, err := place.list()
	if err != nil {
		c.fail(joinPath(s.dirPath(dir), name), "xattrs", err)
		return nil
	}
	var attrs []format.Xattr
	for full := range bytes.SplitSeq(names, []byte{0}) {
		if len(full) == 0 || !t.KeepXattr(string(full)) {
			continue
		}
		x, known, err := place.get(string(full))
		switch {
		case err == unix.ENODATA: // removed since it was listed
		case err != nil:
			c.fail(joinPath(s.dirPath(dir), name), "xattr "+string(full), err)
		case !known:
			t.Warn(warnXattr(string(full)), joinPath(s.dirPath(dir), name))
		default:
			attrs = append(attrs, x)
		}
	}
	return attrs
}

// xattrPlace is a file whose xattrs are read.
type xattrPlace struct {
	at   bool
	dir  int
	name string // in dir if at, else the path
}

func (s *DirSource) xattrPlace(dir uint32, ref *dirRef, name string) xattrPlace {
	if s.xattr.at {
		return xattrPlace{true, ref.fd, name}
	}
	if name == "" {
		name = "."
	}
	if s.xattr.proc {
		return xattrPlace{name: procPath(ref.fd, name)}
	}
	return xattrPlace{name: joinPath(joinPath(s.path, s.dirPath(dir)), name)}
}

// list returns the names, each with a zero byte at its end.
func (p xattrPlace) list() ([]byte, error) {
	var guess [xattrListGuess]byte
	n, err := p.listInto(guess[:])
	switch err {
	case nil:
		return append([]byte(nil), guess[:n]...), nil
	case unix.ENOTSUP:
		return nil, nil
	case unix.ERANGE:
		buf := make([]byte, xattrListMax)
		n, err = p.listInto(buf)
		return buf[:max(n, 0)], err
	}
	return nil, err
}

func (p xattrPlace) listInto(buf []byte) (int, error) {
	if p.at {
		return listxattrat(p.dir, p.name, buf)
	}
	return unix.Llistxattr(p.name, buf)
}

// get returns one attribute. known is false for a namespace that ext4 lacks.
func (p xattrPlace) get(full string) (x format.Xattr, known bool, err error) {
	var guess [xattrListGuess]byte
	buf := guess[:]
	n, err := p.getInto(full, buf)
	if err == unix.ERANGE {
		buf = make([]byte, xattrValueMax)
		n, err = p.getInto(full, buf)
	}
	if err != nil {
		return x, false, err
	}
	return newXattr(full, append([]byte{}, buf[:n]...))
}

func (p xattrPlace) getInto(full string, buf []byte) (int, error) {
	if p.at {
		return getxattrat(p.dir, p.name, full, buf)
	}
	return unix.Lgetxattr(p.name, full, buf)
}

// listxattrat returns the names of the xattrs of a name in a directory, "" being
// the directory itself. Source: include/uapi/asm-generic/unistd.h.
func listxattrat(dir int, name string, buf []byte) (int, error) {
	path, err := unix.BytePtrFromString(name)
	if err != nil {
		return 0, err
	}
	n, _, errno := unix.Syscall6(unix.SYS_LISTXATTRAT, uintptr(dir), uintptr(unsafe.Pointer(path)), atFlags(name),
		uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// xattrArgs is struct xattr_args (include/uapi/linux/xattr.h).
type xattrArgs struct {
	value uint64 // address
	size  uint32 // bytes there
	flags uint32
}

// getxattrat returns the value of an xattr of a name in a directory.
func getxattrat(dir int, name, full string, buf []byte) (int, error) {
	path, err := unix.BytePtrFromString(name)
	if err != nil {
		return 0, err
	}
	attr, err := unix.BytePtrFromString(full)
	if err != nil {
		return 0, err
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(unsafe.SliceData(buf))
	args := xattrArgs{value: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))), size: uint32(len(buf))}
	n, _, errno := unix.Syscall6(unix.SYS_GETXATTRAT, uintptr(dir), uintptr(unsafe.Pointer(path)), atFlags(name),
		uintptr(unsafe.Pointer(attr)), uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// atFlags are the flags for a name that is no path to be followed.
func atFlags(name string) uintptr {
	if name == "" {
		return unix.AT_EMPTY_PATH
	}
	return unix.AT_SYMLINK_NOFOLLOW
}
