package ext4

import (
	"io/fs"
	"syscall"
	"time"

	"drydock/format"
)

// Stat is all that an inode says about itself; FileInfo.Sys returns it.
type Stat struct {
	Ino          format.Ino
	Nlink        uint32 // 1 also for a directory with more subdirectories than the count can hold
	UID, GID     uint32
	Mode         uint16 // type and permissions as on disk (format.ModeDir | 0755)
	Major, Minor uint32 // device files only
	Size         int64  // bytes
	Blocks       uint64 // 512-byte units, with the blocks of the mapping and of attributes
	Atime        format.Time
	Mtime        format.Time
	Ctime        format.Time
	Crtime       format.Time // zero in inodes that are too small for it
	Flags        uint32      // format.InodeExtents and others
	Generation   uint32
	Projid       uint32 // zero in inodes that are too small for it
}

// fileInfo is the fs.FileInfo of an inode under one of its names.
type fileInfo struct {
	name string
	stat Stat
}

func (i *fileInfo) Name() string       { return i.name }
func (i *fileInfo) Size() int64        { return i.stat.Size }
func (i *fileInfo) Mode() fs.FileMode  { return FileMode(i.stat.Mode) }
func (i *fileInfo) ModTime() time.Time { return i.stat.Mtime.Time() }
func (i *fileInfo) IsDir() bool        { return i.Mode().IsDir() }
func (i *fileInfo) Sys() any           { return &i.stat }
func (i *fileInfo) String() string     { return fs.FormatFileInfo(i) }

// StatOf returns the Stat in a FileInfo of this package, nil in any other.
func StatOf(info fs.FileInfo) *Stat {
	st, _ := info.Sys().(*Stat)
	return st
}

// stat decodes the inode.
func (in *inode) stat() Stat {
	st := Stat{
		Ino: in.num, Nlink: uint32(in.raw.LinksCount()), UID: in.raw.UID(), GID: in.raw.GID(),
		Mode: in.raw.Mode(), Size: int64(in.size()), Blocks: in.raw.Sectors(in.fs.geo.Features, in.fs.geo.BlockSize),
		Atime: in.raw.Atime(), Mtime: in.raw.Mtime(), Ctime: in.raw.Ctime(), Crtime: in.raw.Crtime(),
		Flags: in.raw.Flags(), Generation: in.raw.Generation(), Projid: in.raw.Projid(),
	}
	if in.raw.HasDevice() {
		st.Major, st.Minor = in.raw.Device()
	}
	return st
}

// fileModes has the types of the on-disk mode in terms of io/fs.
var fileModes = map[uint16]fs.FileMode{
	format.ModeRegular: 0,
	format.ModeDir:     fs.ModeDir,
	format.ModeSymlink: fs.ModeSymlink,
	format.ModeChar:    fs.ModeDevice | fs.ModeCharDevice,
	format.ModeBlock:   fs.ModeDevice,
	format.ModeFifo:    fs.ModeNamedPipe,
	format.ModeSocket:  fs.ModeSocket,
}

// modeBits has the permission bits above rwxrwxrwx.
var modeBits = [...]struct {
	disk uint16
	mode fs.FileMode
}{{format.ModeSetUID, fs.ModeSetuid}, {format.ModeSetGID, fs.ModeSetgid}, {format.ModeSticky, fs.ModeSticky}}

// FileMode returns the on-disk mode in terms of io/fs. A type that does not
// exist is fs.ModeIrregular.
func FileMode(mode uint16) fs.FileMode {
	m, ok := fileModes[mode&format.ModeType]
	if !ok {
		m = fs.ModeIrregular
	}
	m |= fs.FileMode(mode & format.ModePerm)
	for _, b := range modeBits {
		if mode&b.disk != 0 {
			m |= b.mode
		}
	}
	return m
}

// DiskMode is the inverse of FileMode. It fails with syscall.EINVAL for a type
// that does not exist on the disk; bits that have no place there are dropped.
func DiskMode(mode fs.FileMode) (uint16, error) {
	for disk, m := range fileModes {
		if m == mode.Type() {
			return disk | diskPerm(mode), nil
		}
	}
	return 0, syscall.EINVAL
}

// diskPerm returns the permissions of a mode as they are on the disk.
func diskPerm(mode fs.FileMode) uint16 {
	perm := uint16(mode.Perm())
	for _, b := range modeBits {
		if mode&b.mode != 0 {
			perm |= b.disk
		}
	}
	return perm
}

// dirTypes has the types of directory entries in terms of io/fs; FTUnknown is not there.
var dirTypes = map[format.FileType]fs.FileMode{
	format.FTRegular: 0,
	format.FTDir:     fs.ModeDir,
	format.FTChar:    fs.ModeDevice | fs.ModeCharDevice,
	format.FTBlock:   fs.ModeDevice,
	format.FTFifo:    fs.ModeNamedPipe,
	format.FTSocket:  fs.ModeSocket,
	format.FTSymlink: fs.ModeSymlink,
}

// typeNames has what messages call each type.
var typeNames = map[fs.FileMode]string{
	0:                                 "regular file",
	fs.ModeDir:                        "directory",
	fs.ModeSymlink:                    "symbolic link",
	fs.ModeDevice | fs.ModeCharDevice: "character device",
	fs.ModeDevice:                     "block device",
	fs.ModeNamedPipe:                  "fifo",
	fs.ModeSocket:                     "socket",
}

// Stat describes what name leads to; Sys of the result is a *Stat.
func (fsys *FS) Stat(name string) (fs.FileInfo, error) { return fsys.pathInfo("stat", name, true) }

// Lstat is Stat of a symbolic link itself.
func (fsys *FS) Lstat(name string) (fs.FileInfo, error) { return fsys.pathInfo("lstat", name, false) }

func (fsys *FS) pathInfo(op, name string, follow bool) (fs.FileInfo, error) {
	info, err := fsys.statInode(baseName(name), func(r reader) (*inode, error) { return r.resolve(name, follow) })
	if err != nil {
		return nil, pathError(op, name, err)
	}
	return info, nil
}

// statInode describes the inode that find returns, with what its node knows
// better than the inode.
func (fsys *FS) statInode(name string, find func(reader) (*inode, error)) (fs.FileInfo, error) {
	info := &fileInfo{name: name}
	var n *node
	err := fsys.view(func(r reader) error {
		in, err := find(r)
		if err != nil {
			return err
		}
		info.stat, n = in.stat(), fsys.peekNode(in.num)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if n != nil {
		n.overlay(&info.stat)
		fsys.putNode(n)
	}
	return info, nil
}
