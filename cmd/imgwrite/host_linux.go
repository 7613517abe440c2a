package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"drydock/ext4"
	"drydock/format"
)

// hostFacts is what the host knows of a file beyond fs.FileInfo.
type hostFacts struct {
	id           hostID
	nlink        uint64
	uid, gid     uint32
	major, minor uint32
	atime, mtime format.Time
}

// hostOf returns the facts in a FileInfo of the os package.
func hostOf(info fs.FileInfo) hostFacts {
	st := info.Sys().(*syscall.Stat_t)
	return hostFacts{
		id: hostID{uint64(st.Dev), st.Ino}, nlink: uint64(st.Nlink), uid: st.Uid, gid: st.Gid,
		major: unix.Major(uint64(st.Rdev)), minor: unix.Minor(uint64(st.Rdev)),
		atime: format.Time{Sec: st.Atim.Sec, Nsec: uint32(st.Atim.Nsec)}.Clamp(),
		mtime: format.Time{Sec: st.Mtim.Sec, Nsec: uint32(st.Mtim.Nsec)}.Clamp(),
	}
}

// hostXattrs returns the extended attributes of a host file, a symbolic link not
// followed. A host file system without any has none.
func hostXattrs(name string) ([]ext4.Xattr, error) {
	list, err := grow(func(p []byte) (int, error) { return unix.Llistxattr(name, p) })
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, &fs.PathError{Op: "listxattr", Path: name, Err: err}
	}
	var attrs []ext4.Xattr
	for attr := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if attr == "" {
			continue
		}
		value, err := grow(func(p []byte) (int, error) { return unix.Lgetxattr(name, attr, p) })
		if err != nil {
			return nil, &fs.PathError{Op: "getxattr " + attr, Path: name, Err: err}
		}
		attrs = append(attrs, ext4.Xattr{Name: attr, Value: value})
	}
	return attrs, nil
}

// grow calls get with a buffer that is large enough.
func grow(get func([]byte) (int, error)) ([]byte, error) {
	p := make([]byte, 1024)
	for {
		n, err := get(p)
		if err == nil {
			return p[:n], nil
		}
		if !errors.Is(err, unix.ERANGE) || len(p) > 1<<20 {
			return nil, err
		}
		p = make([]byte, 4*len(p))
	}
}

// place is a name in a directory of the host that is open, so that nothing can
// lead elsewhere any more.
type place struct {
	dir  *os.File
	base string
}

// path leads to the name through the open directory.
func (p place) path() string { return fmt.Sprintf("/proc/self/fd/%d/%s", p.dir.Fd(), p.base) }

// mknod makes a device, fifo or socket.
func (p place) mknod(st *ext4.Stat) error {
	dev := unix.Mkdev(st.Major, st.Minor)
	err := unix.Mknodat(int(p.dir.Fd()), p.base, uint32(st.Mode&^0o7777)|0o600, int(dev))
	if err != nil {
		return &fs.PathError{Op: "mknod", Path: p.base, Err: err}
	}
	return nil
}

// setXattr sets an extended attribute; a symbolic link is not followed.
func (p place) setXattr(x ext4.Xattr) error {
	if err := unix.Lsetxattr(p.path(), x.Name, x.Value, 0); err != nil {
		return &fs.PathError{Op: "setxattr " + x.Name, Path: p.base, Err: err}
	}
	return nil
}

// chown sets the owner; a symbolic link is not followed.
func (p place) chown(uid, gid uint32) error {
	if err := unix.Fchownat(int(p.dir.Fd()), p.base, int(uid), int(gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &fs.PathError{Op: "chown", Path: p.base, Err: err}
	}
	return nil
}

// chmod sets the permissions of what is no symbolic link.
func (p place) chmod(mode uint16) error {
	if err := unix.Fchmodat(int(p.dir.Fd()), p.base, uint32(mode&0o7777), 0); err != nil {
		return &fs.PathError{Op: "chmod", Path: p.base, Err: err}
	}
	return nil
}

// chtimes sets the times; a symbolic link is not followed.
func (p place) chtimes(atime, mtime format.Time) error {
	ts := []unix.Timespec{{Sec: atime.Sec, Nsec: int64(atime.Nsec)}, {Sec: mtime.Sec, Nsec: int64(mtime.Nsec)}}
	if err := unix.UtimesNanoAt(int(p.dir.Fd()), p.base, ts, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &fs.PathError{Op: "chtimes", Path: p.base, Err: err}
	}
	return nil
}
