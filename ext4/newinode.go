package ext4

import (
	"encoding/binary"
	"fmt"

	"drydock/format"
	"drydock/internal/xattr"
)

// Inode flags that a new inode has from its directory (kernel: EXT4_FL_INHERITED),
// and those of them that suit a regular file, and anything but a file or directory.
const (
	inheritedFlags = format.InodeSecRm | format.InodeUnRm | format.InodeCompr | format.InodeSync |
		format.InodeNoDump | format.InodeNoAtime | format.InodeComprBlk | format.InodeNoCompr |
		format.InodeJournalData | format.InodeNoTail | format.InodeDirSync | format.InodeProjInherit |
		format.InodeCasefold | format.InodeDAX
	regularFlags = ^(format.InodeDirSync | format.InodeTopDir | format.InodeCasefold | format.InodeProjInherit)
	otherFlags   = format.InodeNoDump | format.InodeNoAtime
)

// newInode makes an inode for a new name in a directory, with links links. Its
// owner is root; group and default ACL come from the directory.
func (t *Tx) newInode(parent *inode, mode, links uint16) (format.Ino, format.Inode, error) {
	isDir := mode&format.ModeType == format.ModeDir
	ino, err := t.fs.alloc.NewInode(t.j, parent.num, isDir)
	if err != nil {
		return 0, nil, err
	}
	raw, err := t.slotOf(ino)
	if err != nil {
		return 0, nil, err
	}
	var gid uint32
	if parent.raw.Mode()&format.ModeSetGID != 0 {
		gid = parent.raw.GID()
		if isDir {
			mode |= format.ModeSetGID
		}
	}
	t.fillInode(ino, raw, parent, mode)
	raw.SetLinksCount(links)
	raw.SetGID(gid)
	if err := t.inheritACL(parent, ino, raw); err != nil {
		return 0, nil, err
	}
	return ino, raw, nil
}

// fillInode writes all of an inode: what was there before is of no use.
func (t *Tx) fillInode(ino format.Ino, raw format.Inode, parent *inode, mode uint16) {
	clear(raw)
	if len(raw) > format.GoodOldInodeSize {
		raw.SetExtraIsize(t.fs.wantExtraIsize())
	}
	raw.SetMode(mode)
	raw.SetGeneration(t.generation(ino))
	raw.SetAtime(t.time)
	raw.SetMtime(t.time)
	raw.SetCtime(t.time)
	raw.SetCrtime(t.time)
	raw.SetFlags(inheritFlags(parent.raw.Flags(), mode))
	switch mode & format.ModeType {
	case format.ModeRegular, format.ModeDir, format.ModeSymlink:
		raw.SetFlags(raw.Flags() | format.InodeExtents)
		format.PutExtentHeader(raw.IBlock(), format.ExtentHeader{Max: format.ExtentRootMax})
	}
}

// inheritFlags returns the flags that a new inode has from its directory.
func inheritFlags(parent uint32, mode uint16) uint32 {
	flags := parent & inheritedFlags
	switch mode & format.ModeType {
	case format.ModeDir:
		return flags
	case format.ModeRegular:
		return flags & regularFlags
	}
	return flags & otherFlags
}

// wantExtraIsize is the i_extra_isize of a new inode: what the superblock wants
// if that is possible.
func (fsys *FS) wantExtraIsize() uint16 {
	room := fsys.geo.InodeSize - format.GoodOldInodeSize
	want := max(fsys.super.WantExtraIsize(), fsys.super.MinExtraIsize())
	if want%4 != 0 || int(want) > room || want < 4 {
		return uint16(min(format.DefaultExtraIsize, room))
	}
	return want
}

// generation tells an inode from others that had its number: a mix of its number,
// the time and a counter.
func (t *Tx) generation(ino format.Ino) uint32 {
	var b [24]byte
	binary.LittleEndian.PutUint32(b[0:], uint32(ino))
	binary.LittleEndian.PutUint32(b[4:], t.fs.serial.Add(1))
	binary.LittleEndian.PutUint64(b[8:], uint64(t.time.Sec))
	binary.LittleEndian.PutUint32(b[16:], t.time.Nsec)
	uuid := t.fs.super.UUID()
	return format.Crc32c(format.Crc32c(^uint32(0), uuid[:]), b[:])
}

// inheritACL gives a new inode what the default ACL of its directory asks for.
func (t *Tx) inheritACL(parent *inode, ino format.Ino, raw format.Inode) error {
	def, err := parent.defaultACL()
	if err != nil || def == nil {
		return err
	}
	mode, access, def, err := xattr.InheritACL(def, raw.Mode())
	if err != nil {
		return fmt.Errorf("default ACL of inode %d: %w", parent.num, err)
	}
	raw.SetMode(mode)
	var list []format.Xattr
	if access != nil {
		list = append(list, format.Xattr{Index: format.XattrACLAccess, Value: access})
	}
	if def != nil {
		list = append(list, format.Xattr{Index: format.XattrACLDefault, Value: def})
	}
	if list == nil {
		return nil
	}
	delta, err := t.fs.xattrs.Write(t.j, txNodes{t}, ino, raw, list)
	if err != nil {
		return err
	}
	return t.addBlocks(raw, int64(delta))
}

// defaultACL returns the default ACL of a directory in the form on the disk,
// nil if it has none. Most directories have no attributes at all.
func (in *inode) defaultACL() ([]byte, error) {
	if !in.hasXattrs() {
		return nil, nil
	}
	list, err := in.fs.xattrs.Read(in.src, in.num, in.raw)
	if err != nil {
		return nil, err
	}
	if i := xattr.Find(list, format.XattrACLDefault, ""); i >= 0 {
		return list[i].Value, nil
	}
	return nil, nil
}
