//go:build !linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"drydock/ext4"
	"drydock/format"
)

// hostFacts is what the host knows of a file beyond fs.FileInfo. Owners, devices
// and hard links are read on Linux only.
type hostFacts struct {
	id           hostID
	nlink        uint64
	uid, gid     uint32
	major, minor uint32
	atime, mtime format.Time
}

// hostOf returns the facts in a FileInfo of the os package.
func hostOf(info fs.FileInfo) hostFacts {
	when := format.TimeOf(info.ModTime()).Clamp()
	return hostFacts{nlink: 1, atime: when, mtime: when}
}

// hostXattrs returns no attributes: they are read on Linux only.
func hostXattrs(string) ([]ext4.Xattr, error) { return nil, nil }

// place is a name in a directory of the host.
type place struct {
	dir  *os.File
	base string
}

func (p place) mknod(st *ext4.Stat) error {
	return fmt.Errorf("%s: a %s on this system: %w", p.base, typeName(ext4.FileMode(st.Mode)), errors.ErrUnsupported)
}

func (p place) setXattr(x ext4.Xattr) error {
	return fmt.Errorf("%s: attribute %s on this system: %w", p.base, x.Name, errors.ErrUnsupported)
}

func (p place) chown(uint32, uint32) error { return errors.ErrUnsupported }

func (p place) chmod(mode uint16) error {
	return os.Chmod(filepath.Join(p.dir.Name(), p.base), fs.FileMode(mode&0o777))
}

func (p place) chtimes(atime, mtime format.Time) error {
	return os.Chtimes(filepath.Join(p.dir.Name(), p.base), atime.Time(), mtime.Time())
}
