package ext4

import (
	"io/fs"
	"math"
	"syscall"
	"time"

	"drydock/format"
	"drydock/internal/xattr"
)

// Attr is what SetAttr changes; nil keeps what is there.
type Attr struct {
	Mode                        *fs.FileMode // permissions, set-ID and sticky bits; the type stays
	UID, GID                    *uint32
	Atime, Mtime, Ctime, Crtime *format.Time // Ctime nil: the time of the change
}

// SetAttr sets attributes exactly as they are given: unlike Chown it clears no
// set-ID bits. A symbolic link is followed.
func (fsys *FS) SetAttr(name string, a Attr) error {
	return fsys.changeAttr("setattr", name, true, setAttr(a))
}

// LsetAttr is SetAttr of a symbolic link itself.
func (fsys *FS) LsetAttr(name string, a Attr) error {
	return fsys.changeAttr("setattr", name, false, setAttr(a))
}

// SetAttr is FS.SetAttr in the transaction.
func (t *Tx) SetAttr(name string, a Attr) error {
	return t.changeAttr("setattr", name, true, setAttr(a))
}

// LsetAttr is FS.LsetAttr in the transaction.
func (t *Tx) LsetAttr(name string, a Attr) error {
	return t.changeAttr("setattr", name, false, setAttr(a))
}

// Chmod sets the permissions, set-ID and sticky bits of what name leads to.
func (fsys *FS) Chmod(name string, mode fs.FileMode) error {
	return fsys.changeAttr("chmod", name, true, setAttr(Attr{Mode: &mode}))
}

// Chmod is FS.Chmod in the transaction.
func (t *Tx) Chmod(name string, mode fs.FileMode) error {
	return t.changeAttr("chmod", name, true, setAttr(Attr{Mode: &mode}))
}

// Chown sets owner and group of what name leads to; -1 keeps one. As in Linux,
// a file that is no directory loses its set-user-ID bit by it, and one that its group
// may execute its set-group-ID bit.
func (fsys *FS) Chown(name string, uid, gid int) error {
	return fsys.changeAttr("chown", name, true, chown(uid, gid))
}

// Lchown is Chown of a symbolic link itself.
func (fsys *FS) Lchown(name string, uid, gid int) error {
	return fsys.changeAttr("lchown", name, false, chown(uid, gid))
}

// Chown is FS.Chown in the transaction.
func (t *Tx) Chown(name string, uid, gid int) error {
	return t.changeAttr("chown", name, true, chown(uid, gid))
}

// Lchown is FS.Lchown in the transaction.
func (t *Tx) Lchown(name string, uid, gid int) error {
	return t.changeAttr("lchown", name, false, chown(uid, gid))
}

// Chtimes sets the times of access and modification of what name leads to; a
// zero time.Time keeps one. Times before 1901 or after 2446 become those limits.
func (fsys *FS) Chtimes(name string, atime, mtime time.Time) error {
	return fsys.changeAttr("chtimes", name, true, chtimes(atime, mtime))
}

// Lchtimes is Chtimes of a symbolic link itself.
func (fsys *FS) Lchtimes(name string, atime, mtime time.Time) error {
	return fsys.changeAttr("lchtimes", name, false, chtimes(atime, mtime))
}

// Chtimes is FS.Chtimes in the transaction.
func (t *Tx) Chtimes(name string, atime, mtime time.Time) error {
	return t.changeAttr("chtimes", name, true, chtimes(atime, mtime))
}

// Lchtimes is FS.Lchtimes in the transaction.
func (t *Tx) Lchtimes(name string, atime, mtime time.Time) error {
	return t.changeAttr("lchtimes", name, false, chtimes(atime, mtime))
}

// change changes one inode in a transaction.
type change func(t *Tx, in *inode) error

func (fsys *FS) changeAttr(op, name string, follow bool, fn change) error {
	return pathError(op, name, fsys.update(func(t *Tx) error { return t.applyTo(name, follow, fn) }))
}

func (t *Tx) changeAttr(op, name string, follow bool, fn change) error {
	return pathError(op, name, t.try(func(t *Tx) error { return t.applyTo(name, follow, fn) }))
}

// applyTo changes the inode that name leads to.
func (t *Tx) applyTo(name string, follow bool, fn change) error {
	in, err := t.resolve(name, follow)
	if err != nil {
		return err
	}
	return t.apply(in, fn)
}

// apply changes an inode, if it may be changed at all.
func (t *Tx) apply(in *inode, fn change) error {
	if in.raw.Flags()&(format.InodeImmutable|format.InodeAppend) != 0 {
		return syscall.EPERM
	}
	return fn(t, in)
}

// change is apply for the file.
func (f *File) change(op string, fn change) error {
	if err := f.check(op); err != nil {
		return err
	}
	return f.error(op, f.fs.update(func(t *Tx) error {
		in, err := t.inode(f.n.ino)
		if err != nil {
			return err
		}
		return t.apply(in, fn)
	}))
}

// Chmod is FS.Chmod of the file.
func (f *File) Chmod(mode fs.FileMode) error { return f.change("chmod", setAttr(Attr{Mode: &mode})) }

// Chown is FS.Chown of the file.
func (f *File) Chown(uid, gid int) error { return f.change("chown", chown(uid, gid)) }

// Chtimes is FS.Chtimes of the file.
func (f *File) Chtimes(atime, mtime time.Time) error {
	return f.change("chtimes", chtimes(atime, mtime))
}

// SetAttr is FS.SetAttr of the file.
func (f *File) SetAttr(a Attr) error { return f.change("setattr", setAttr(a)) }

// setAttr makes the change that a describes.
func setAttr(a Attr) change {
	return func(t *Tx, in *inode) error {
		raw, err := t.changeInode(in.num)
		if err != nil {
			return err
		}
		t.touch(raw)
		if a.UID != nil {
			raw.SetUID(*a.UID)
		}
		if a.GID != nil {
			raw.SetGID(*a.GID)
		}
		setTime(a.Atime, raw.SetAtime)
		setTime(a.Mtime, raw.SetMtime)
		setTime(a.Ctime, raw.SetCtime)
		setTime(a.Crtime, raw.SetCrtime)
		if a.Mode == nil {
			return nil
		}
		return t.setMode(in, raw.Mode()&format.ModeType|diskPerm(*a.Mode))
	}
}

func setTime(to *format.Time, set func(format.Time)) {
	if to != nil {
		set(*to)
	}
}

// setMode sets the mode of an inode and makes its ACL agree.
func (t *Tx) setMode(in *inode, mode uint16) error {
	raw, err := t.changeInode(in.num)
	if err != nil {
		return err
	}
	raw.SetMode(mode)
	if !in.hasXattrs() || in.isSymlink() {
		return nil
	}
	list, err := t.fs.xattrs.Read(t.src, in.num, raw)
	if err != nil {
		return err
	}
	i := xattr.Find(list, format.XattrACLAccess, "")
	if i < 0 {
		return nil
	}
	if list[i].Value, err = xattr.ChmodACL(list[i].Value, mode); err != nil {
		return in.wrap(err)
	}
	return t.writeXattrs(in.num, list)
}

// chown makes the change of chown(2).
func chown(uid, gid int) change {
	return func(t *Tx, in *inode) error {
		if !validID(uid) || !validID(gid) {
			return syscall.EINVAL
		}
		raw, err := t.changeInode(in.num)
		if err != nil {
			return err
		}
		t.touch(raw)
		if uid >= 0 {
			raw.SetUID(uint32(uid))
		}
		if gid >= 0 {
			raw.SetGID(uint32(gid))
		}
		if in.isDir() {
			return nil
		}
		raw.SetMode(modeAfterChown(raw.Mode()))
		return t.dropCapability(in)
	}
}

// validID reports whether an owner can be stored; -1 says that there is none.
func validID(id int) bool { return id >= -1 && int64(id) < math.MaxUint32 }

// modeAfterChown returns what a change of the owner leaves of a mode.
func modeAfterChown(mode uint16) uint16 {
	const groupExec = 0o010
	mode &^= format.ModeSetUID
	if mode&groupExec != 0 {
		mode &^= format.ModeSetGID
	}
	return mode
}

// capability is the attribute that gives a program privileges, in namespace
// security. It does not outlive a change of the owner.
const capability = "capability"

// dropCapability takes away an inode's file capabilities.
func (t *Tx) dropCapability(in *inode) error {
	if !in.hasXattrs() {
		return nil
	}
	list, err := t.fs.xattrs.Read(t.src, in.num, in.raw)
	if err != nil {
		return err
	}
	if list, err = xattr.Without(list, format.XattrSecurity, capability); err != nil {
		return nil // it has none
	}
	return t.writeXattrs(in.num, list)
}

// chtimes makes the change of utimensat(2).
func chtimes(atime, mtime time.Time) change {
	return func(t *Tx, in *inode) error {
		raw, err := t.changeInode(in.num)
		if err != nil {
			return err
		}
		t.touch(raw)
		if !atime.IsZero() {
			raw.SetAtime(format.TimeOf(atime))
		}
		if !mtime.IsZero() {
			raw.SetMtime(format.TimeOf(mtime))
		}
		return nil
	}
}

// SetLabel changes the volume name, of at most 16 bytes.
func (fsys *FS) SetLabel(label string) error {
	return pathError("setlabel", label, fsys.update(func(t *Tx) error { return t.setLabel(label) }))
}

// SetLabel is FS.SetLabel in the transaction.
func (t *Tx) SetLabel(label string) error {
	return pathError("setlabel", label, t.try(func(t *Tx) error { return t.setLabel(label) }))
}

// maxLabel is the longest volume name, in bytes.
const maxLabel = 16

func (t *Tx) setLabel(label string) error {
	if len(label) > maxLabel {
		return syscall.EINVAL
	}
	sb, err := t.changeSuper()
	if err == nil {
		sb.SetVolumeName(label)
	}
	return err
}
