package ext4

import (
	"io/fs"
	"strings"
	"time"

	"github.com/diskfs/go-diskfs/filesystem"

	"drydock/format"
)

// Diskfs returns the file system as go-diskfs knows it. Names may begin with a
// slash, new files have mode 0644 and new directories 0755; Stat does not follow
// a symbolic link. It also implements fs.ReadLinkFS. Close closes the FS.
func (fsys *FS) Diskfs() filesystem.FileSystem { return diskfs{fsys} }

type diskfs struct{ fsys *FS }

var (
	_ filesystem.FileSystem = diskfs{}
	_ filesystem.File       = (*File)(nil)
	_ fs.ReadLinkFS         = diskfs{}
)

// inside makes a name of go-diskfs one that does not begin with a slash.
func inside(name string) string {
	if name = strings.TrimLeft(name, "/"); name == "" {
		return "."
	}
	return name
}

func (d diskfs) Type() filesystem.Type { return filesystem.TypeExt4 }

func (d diskfs) Open(name string) (fs.File, error) {
	f, err := d.fsys.Open(inside(name))
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d diskfs) OpenFile(name string, flag int) (filesystem.File, error) {
	f, err := d.fsys.OpenFile(inside(name), flag, 0o644)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d diskfs) ReadDir(name string) ([]fs.DirEntry, error) { return d.fsys.ReadDir(inside(name)) }
func (d diskfs) ReadFile(name string) ([]byte, error)       { return d.fsys.ReadFile(inside(name)) }
func (d diskfs) Lstat(name string) (fs.FileInfo, error)     { return d.fsys.Lstat(inside(name)) }
func (d diskfs) ReadLink(name string) (string, error)       { return d.fsys.Readlink(inside(name)) }
func (d diskfs) Mkdir(name string) error                    { return d.fsys.MkdirAll(inside(name), 0o755) }
func (d diskfs) Link(old, name string) error                { return d.fsys.Link(inside(old), inside(name)) }
func (d diskfs) Symlink(target, name string) error          { return d.fsys.Symlink(target, inside(name)) }
func (d diskfs) Chmod(name string, mode fs.FileMode) error  { return d.fsys.Chmod(inside(name), mode) }
func (d diskfs) Chown(name string, uid, gid int) error      { return d.fsys.Chown(inside(name), uid, gid) }
func (d diskfs) Rename(old, name string) error              { return d.fsys.Rename(inside(old), inside(name)) }
func (d diskfs) Remove(name string) error                   { return d.fsys.Remove(inside(name)) }
func (d diskfs) Label() string                              { return d.fsys.Label() }
func (d diskfs) SetLabel(label string) error                { return d.fsys.SetLabel(label) }
func (d diskfs) Close() error                               { return d.fsys.Close() }

// Stat describes a symbolic link itself, as the file systems of go-diskfs do.
func (d diskfs) Stat(name string) (fs.FileInfo, error) { return d.fsys.Lstat(inside(name)) }

// Mknod takes a mode and a device number as mknod(2) of Linux does.
func (d diskfs) Mknod(name string, mode uint32, dev int) error {
	n := uint64(dev)
	major := uint32(n>>8&0xfff | n>>32&^0xfff)
	minor := uint32(n&0xff | n>>12&^0xff)
	disk := uint16(mode)
	if disk&format.ModeType == 0 {
		disk |= format.ModeRegular
	}
	return d.fsys.Mknod(inside(name), FileMode(disk), major, minor)
}

// Chtimes sets the times of creation, access and modification.
func (d diskfs) Chtimes(name string, ctime, atime, mtime time.Time) error {
	c, a, m := format.TimeOf(ctime), format.TimeOf(atime), format.TimeOf(mtime)
	return d.fsys.SetAttr(inside(name), Attr{Crtime: &c, Atime: &a, Mtime: &m})
}
