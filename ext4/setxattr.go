package ext4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"drydock/format"
	"drydock/internal/xattr"
)

// XattrFlags say what SetXattr may do, with the values of setxattr(2).
type XattrFlags int

// The flags of SetXattr. With none the attribute is made or replaced.
const (
	XattrCreate  XattrFlags = xattr.CreateOnly  // syscall.EEXIST if there is one
	XattrReplace XattrFlags = xattr.ReplaceOnly // syscall.ENODATA if there is none
)

// SetXattr sets an extended attribute, under its name with the namespace
// ("user.comment"); POSIX ACLs are given in the form of version 2, and change
// the permissions. A symbolic link is followed. Errors: EOPNOTSUPP for an unknown
// namespace, ERANGE and EINVAL for a name that is too long or empty, EPERM for
// namespace user of anything but files and directories, ENOSPC and E2BIG for
// values that have no place.
func (fsys *FS) SetXattr(name, attr string, value []byte, flags XattrFlags) error {
	return fsys.changeAttr("setxattr", name, true, setXattr(attr, value, flags))
}

// LsetXattr is SetXattr of a symbolic link itself.
func (fsys *FS) LsetXattr(name, attr string, value []byte, flags XattrFlags) error {
	return fsys.changeAttr("setxattr", name, false, setXattr(attr, value, flags))
}

// SetXattr is FS.SetXattr in the transaction.
func (t *Tx) SetXattr(name, attr string, value []byte, flags XattrFlags) error {
	return t.changeAttr("setxattr", name, true, setXattr(attr, value, flags))
}

// LsetXattr is FS.LsetXattr in the transaction.
func (t *Tx) LsetXattr(name, attr string, value []byte, flags XattrFlags) error {
	return t.changeAttr("setxattr", name, false, setXattr(attr, value, flags))
}

// SetXattr is FS.SetXattr of the file.
func (f *File) SetXattr(attr string, value []byte, flags XattrFlags) error {
	return f.change("setxattr", setXattr(attr, value, flags))
}

// RemoveXattr takes an extended attribute away; syscall.ENODATA if there is none.
func (fsys *FS) RemoveXattr(name, attr string) error {
	return fsys.changeAttr("removexattr", name, true, removeXattr(attr))
}

// LremoveXattr is RemoveXattr of a symbolic link itself.
func (fsys *FS) LremoveXattr(name, attr string) error {
	return fsys.changeAttr("removexattr", name, false, removeXattr(attr))
}

// RemoveXattr is FS.RemoveXattr in the transaction.
func (t *Tx) RemoveXattr(name, attr string) error {
	return t.changeAttr("removexattr", name, true, removeXattr(attr))
}

// LremoveXattr is FS.LremoveXattr in the transaction.
func (t *Tx) LremoveXattr(name, attr string) error {
	return t.changeAttr("removexattr", name, false, removeXattr(attr))
}

// RemoveXattr is FS.RemoveXattr of the file.
func (f *File) RemoveXattr(attr string) error { return f.change("removexattr", removeXattr(attr)) }

// setXattr makes the change of setxattr(2).
func setXattr(attr string, value []byte, flags XattrFlags) change {
	return func(t *Tx, in *inode) error {
		x, err := in.xattrFor(attr, value)
		if err != nil {
			return err
		}
		list, err := t.fs.xattrs.Read(t.src, in.num, in.raw)
		if err != nil {
			return err
		}
		if isACL(x) {
			return t.setACL(in, x, list)
		}
		if list, err = xattr.With(list, x, int(flags)); err != nil {
			return err
		}
		return t.writeXattrs(in.num, list)
	}
}

// removeXattr makes the change of removexattr(2).
func removeXattr(attr string) change {
	return func(t *Tx, in *inode) error {
		x, err := in.xattrFor(attr, nil)
		if err != nil {
			return err
		}
		list, err := t.fs.xattrs.Read(t.src, in.num, in.raw)
		if err != nil {
			return err
		}
		rest, err := xattr.Without(list, x.Index, x.Name)
		if err != nil {
			if isACL(x) {
				err = nil // Linux does not mind
			}
			return err
		}
		return t.writeXattrs(in.num, rest)
	}
}

func isACL(x format.Xattr) bool {
	return x.Index == format.XattrACLAccess || x.Index == format.XattrACLDefault
}

// The names of POSIX ACLs.
const (
	accessACL  = "system.posix_acl_access"
	defaultACL = "system.posix_acl_default"
)

// xattrFor makes the disk form of an attribute of the inode, or says as Linux
// would why there can be none. An ACL without a value is one without entries.
func (in *inode) xattrFor(attr string, value []byte) (x format.Xattr, err error) {
	if err := checkXattrName(attr); err != nil {
		return x, err
	}
	switch {
	case len(value) > format.MaxXattrValueSize:
		return x, syscall.E2BIG
	case strings.HasPrefix(attr, "user.") && !in.isRegular() && !in.isDir():
		return x, syscall.EPERM
	case attr == accessACL && in.isSymlink() || attr == defaultACL && in.isSymlink():
		return x, syscall.EOPNOTSUPP
	case attr == defaultACL && !in.isDir() && len(value) > aclHeader && (len(value)-aclHeader)%aclEntry == 0:
		return x, syscall.EACCES
	case attr == accessACL && len(value) <= aclHeader:
		return format.Xattr{Index: format.XattrACLAccess}, nil
	case attr == defaultACL && len(value) <= aclHeader:
		return format.Xattr{Index: format.XattrACLDefault}, nil
	}
	x, err = xattr.FromHost(attr, value)
	if err != nil {
		return x, errors.Join(syscall.EINVAL, err)
	}
	return x, nil
}

// Lengths of an ACL without entries, and of an entry.
const (
	aclHeader = 4
	aclEntry  = 8
)

// checkXattrName says what is wrong with the name of an attribute.
func checkXattrName(attr string) error {
	if len(attr) == 0 || len(attr) > format.MaxXattrName {
		return syscall.ERANGE
	}
	if attr == accessACL || attr == defaultACL {
		return nil
	}
	for _, prefix := range []string{"user.", "trusted.", "security.", "gnu."} {
		if rest, ok := strings.CutPrefix(attr, prefix); ok {
			if rest == "" {
				return syscall.EINVAL
			}
			return nil
		}
	}
	return syscall.EOPNOTSUPP
}

// setACL sets or removes an ACL, which for that of access is also a change of
// the permissions (kernel: posix_acl_update_mode).
func (t *Tx) setACL(in *inode, x format.Xattr, list []format.Xattr) error {
	keep := x.Value != nil
	if x.Index == format.XattrACLAccess && keep {
		mode, store, err := xattr.ModeOfACL(x.Value, in.raw.Mode())
		if err != nil {
			return errors.Join(syscall.EINVAL, err)
		}
		raw, err := t.changeInode(in.num)
		if err != nil {
			return err
		}
		raw.SetMode(mode)
		keep = store
	}
	if keep {
		list, _ = xattr.With(list, x, 0) // no flag forbids it
	} else if xattr.Find(list, x.Index, x.Name) >= 0 {
		list, _ = xattr.Without(list, x.Index, x.Name) // it was found
	}
	return t.writeXattrs(in.num, list)
}

// writeXattrs makes list all the attributes of an inode.
func (t *Tx) writeXattrs(ino format.Ino, list []format.Xattr) error {
	raw, err := t.changeInode(ino)
	if err != nil {
		return err
	}
	t.touch(raw)
	delta, err := t.fs.xattrs.Write(t.j, txNodes{t}, ino, raw, list)
	if tooLarge := (*xattr.NameError)(nil); errors.As(err, &tooLarge) {
		return fmt.Errorf("%w: %w", syscall.ENOSPC, err)
	}
	if err != nil {
		return err
	}
	return t.addBlocks(raw, int64(delta))
}

// hasXattrs reports whether there may be extended attributes.
func (in *inode) hasXattrs() bool {
	area := in.xattrArea()
	return in.raw.FileACL() != 0 || len(area) >= 4 && binary.LittleEndian.Uint32(area) == format.XattrMagic
}
