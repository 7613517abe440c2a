package xattr

import (
	"encoding/binary"

	"drydock/format"
)

// POSIX ACLs in the form of programs: a header of 4 bytes, then entries of tag,
// permissions and id (kernel: include/uapi/linux/posix_acl_xattr.h). All entries
// have one length there, which is why the functions below work on this form.
const (
	aclHeader = 4
	aclEntry  = 8
	aclPerm   = 2 // offset in an entry

	aclUserObj  = 0x01
	aclGroupObj = 0x04
	aclMask     = 0x10
	aclOther    = 0x20

	permBits = 7
)

// acl is an ACL that was checked.
type acl []byte

// parseACL returns an ACL on the disk in the form of programs.
func parseACL(disk []byte) (acl, error) {
	host, err := format.ACLFromDisk(disk)
	if err != nil {
		return nil, err
	}
	_, err = format.ACLToDisk(host) // checks order and completeness
	return acl(host), err
}

func (a acl) disk() ([]byte, error) { return format.ACLToDisk(a) }

// entry returns the first entry with a tag; nil if there is none.
func (a acl) entry(tag uint16) []byte {
	for e := a[aclHeader:]; len(e) >= aclEntry; e = e[aclEntry:] {
		if binary.LittleEndian.Uint16(e) == tag {
			return e[:aclEntry]
		}
	}
	return nil
}

func perm(e []byte) uint16 { return binary.LittleEndian.Uint16(e[aclPerm:]) }

func setPerm(e []byte, p uint16) { binary.LittleEndian.PutUint16(e[aclPerm:], p&permBits) }

// class returns the entries that stand for the three classes of the mode: the
// owner, the mask or else the group, and the others.
func (a acl) class() [3][]byte {
	group := a.entry(aclMask)
	if group == nil {
		group = a.entry(aclGroupObj)
	}
	return [3][]byte{a.entry(aclUserObj), group, a.entry(aclOther)}
}

// extended reports whether the ACL says more than a mode can.
func (a acl) extended() bool { return len(a) > aclHeader+3*aclEntry }

// shift returns where the permissions of class i are in a mode.
func shift(i int) uint { return uint(6 - 3*i) }

// mode returns mode with the permissions of the three classes.
func (a acl) mode(mode uint16) uint16 {
	mode &^= format.ModePerm
	for i, e := range a.class() {
		mode |= perm(e) & permBits << shift(i)
	}
	return mode
}

// InheritACL is what a new inode with this mode (type and permissions) gets in a
// directory with the default ACL parent, in disk form; nil: none (kernel:
// posix_acl_create). With an ACL the umask does not count, and the permissions
// of mode are cut down to it. access is nil if the mode says it all; def is the
// default ACL of a new directory. A symlink inherits nothing.
func InheritACL(parent []byte, mode uint16) (newMode uint16, access, def []byte, err error) {
	if len(parent) <= aclHeader || mode&format.ModeType == format.ModeSymlink {
		return mode, nil, nil, nil
	}
	a, err := parseACL(parent)
	if err != nil {
		return 0, nil, nil, err
	}
	for i, e := range a.class() {
		setPerm(e, perm(e)&(mode>>shift(i)))
	}
	if mode&format.ModeType == format.ModeDir {
		def = parent
	}
	newMode = a.mode(mode)
	if a.extended() {
		access, err = a.disk()
	}
	return newMode, access, def, err
}

// ChmodACL returns the access ACL, in disk form, of an inode whose mode becomes
// mode (kernel: posix_acl_chmod): the three classes get its permissions. One without entries
// stays as it is.
func ChmodACL(access []byte, mode uint16) ([]byte, error) {
	if len(access) <= aclHeader {
		return access, nil
	}
	a, err := parseACL(access)
	if err != nil {
		return nil, err
	}
	for i, e := range a.class() {
		setPerm(e, mode>>shift(i))
	}
	return a.disk()
}

// ModeOfACL returns the mode of an inode that gets an access ACL, in disk form,
// and whether the ACL has to be stored: one that says no more than the mode is
// not (kernel: posix_acl_update_mode). Whether the set-group-ID bit stays is
// for the caller to decide.
func ModeOfACL(access []byte, mode uint16) (newMode uint16, store bool, err error) {
	a, err := parseACL(access)
	if err != nil {
		return 0, false, err
	}
	return a.mode(mode), a.extended(), nil
}
