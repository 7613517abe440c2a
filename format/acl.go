package format

import "fmt"

// POSIX ACLs have two forms. Programs see version 2 (8 bytes an entry, with an
// id in each); the disk holds version 1, where an entry has an id only if it
// names a user or a group (kernel: include/uapi/linux/posix_acl_xattr.h,
// fs/ext4/acl.h).
const (
	aclXattrVersion = 2
	aclDiskVersion  = 1
	aclHeaderLen    = 4
	aclXattrEntry   = 8
	aclDiskShort    = 4
	aclDiskLong     = 8
	aclPermMask     = 7
	aclNoID         = 0xFFFFFFFF // id of entries that name nobody
)

// Tags of ACL entries.
const (
	aclUserObj  = 0x01
	aclUser     = 0x02
	aclGroupObj = 0x04
	aclGroup    = 0x08
	aclMask     = 0x10
	aclOther    = 0x20
)

const (
	aclVersion le32 = 0x0
	aclTag     le16 = 0x0
	aclPerm    le16 = 0x2
	aclID      le32 = 0x4
)

// aclEntry is one entry in either form.
type aclEntry struct {
	tag, perm uint16
	id        uint32
}

// ACLToDisk converts the value of system.posix_acl_access or _default from
// the form that getxattr returns to the one on the disk. It refuses what Linux
// would: an unknown version or tag, and entries that are missing, doubled or
// out of order.
func ACLToDisk(xattrForm []byte) ([]byte, error) {
	entries, err := aclParseXattr(xattrForm)
	if err != nil {
		return nil, err
	}
	if err := aclCheck(entries); err != nil {
		return nil, err
	}
	disk := make([]byte, aclHeaderLen, aclHeaderLen+len(entries)*aclDiskLong)
	aclVersion.put(disk, aclDiskVersion)
	var e [aclDiskLong]byte
	for _, x := range entries {
		aclTag.put(e[:], x.tag)
		aclPerm.put(e[:], x.perm)
		aclID.put(e[:], x.id)
		disk = append(disk, e[:aclDiskLen(x.tag)]...)
	}
	return disk, nil
}

// ACLFromDisk converts an ACL from the form on the disk to the one that
// getxattr returns.
func ACLFromDisk(disk []byte) ([]byte, error) {
	if len(disk) < aclHeaderLen {
		return nil, aclDamage(0, "%d bytes, want at least %d", len(disk), aclHeaderLen)
	}
	if v := aclVersion.get(disk); v != aclDiskVersion {
		return nil, aclDamage(0, "version %d on the disk, want %d", v, aclDiskVersion)
	}
	out := make([]byte, aclHeaderLen, aclHeaderLen+len(disk)/aclDiskShort*aclXattrEntry)
	aclVersion.put(out, aclXattrVersion)
	for off := aclHeaderLen; off < len(disk); {
		x, n, err := aclDiskEntry(disk, off)
		if err != nil {
			return nil, err
		}
		var e [aclXattrEntry]byte
		aclTag.put(e[:], x.tag)
		aclPerm.put(e[:], x.perm)
		aclID.put(e[:], x.id)
		out = append(out, e[:]...)
		off += n
	}
	return out, nil
}

// aclDiskEntry returns the entry at off and its length.
func aclDiskEntry(disk []byte, off int) (aclEntry, int, error) {
	e := disk[off:]
	if len(e) < aclDiskShort {
		return aclEntry{}, 0, aclDamage(off, "entry of %d bytes, want %d", len(e), aclDiskShort)
	}
	x := aclEntry{tag: aclTag.get(e), perm: aclPerm.get(e), id: aclNoID}
	if !aclKnown(x.tag) {
		return x, 0, aclDamage(off, "unknown tag %#x", x.tag)
	}
	n := aclDiskLen(x.tag)
	if len(e) < n {
		return x, 0, aclDamage(off, "entry of %d bytes, want %d", len(e), n)
	}
	if n == aclDiskLong {
		x.id = aclID.get(e)
	}
	return x, n, nil
}

// aclDiskLen returns the bytes of an entry on the disk.
func aclDiskLen(tag uint16) int {
	if tag == aclUser || tag == aclGroup {
		return aclDiskLong
	}
	return aclDiskShort
}

func aclKnown(tag uint16) bool {
	switch tag {
	case aclUserObj, aclUser, aclGroupObj, aclGroup, aclMask, aclOther:
		return true
	}
	return false
}

func aclParseXattr(b []byte) ([]aclEntry, error) {
	if len(b) < aclHeaderLen || (len(b)-aclHeaderLen)%aclXattrEntry != 0 {
		return nil, aclDamage(0, "%d bytes, want %d and %d an entry", len(b), aclHeaderLen, aclXattrEntry)
	}
	if v := aclVersion.get(b); v != aclXattrVersion {
		return nil, aclDamage(0, "version %d, want %d", v, aclXattrVersion)
	}
	entries := make([]aclEntry, 0, len(b)/aclXattrEntry)
	for e := b[aclHeaderLen:]; len(e) > 0; e = e[aclXattrEntry:] {
		entries = append(entries, aclEntry{tag: aclTag.get(e), perm: aclPerm.get(e), id: aclID.get(e)})
	}
	return entries, nil
}

// aclCheck requires entries in the order of their tags: owner, named users,
// group, named groups, mask, other. Owner, group and other are there once; the
// mask is there once if anybody is named, else at most once.
func aclCheck(entries []aclEntry) error {
	var seen, last uint16
	for i, x := range entries {
		off := aclHeaderLen + i*aclXattrEntry
		named := x.tag == aclUser || x.tag == aclGroup
		switch {
		case !aclKnown(x.tag):
			return aclDamage(off, "unknown tag %#x", x.tag)
		case x.perm&^aclPermMask != 0:
			return aclDamage(off, "permissions %#x, want at most 7", x.perm)
		case x.tag < last || x.tag == last && !named:
			return aclDamage(off, "tag %#x after %#x", x.tag, last)
		case named && x.id == aclNoID:
			return aclDamage(off, "tag %#x without an id", x.tag)
		}
		seen |= x.tag
		last = x.tag
	}
	return aclCheckTags(seen)
}

func aclCheckTags(seen uint16) error {
	const base = aclUserObj | aclGroupObj | aclOther
	if seen&base != base {
		return aclDamage(0, "tags %#x, want owner, group and other", seen)
	}
	if seen&(aclUser|aclGroup) != 0 && seen&aclMask == 0 {
		return aclDamage(0, "tags %#x, want a mask beside named users and groups", seen)
	}
	return nil
}

func aclDamage(off int, detail string, args ...any) error {
	return &DamagedError{Structure: "ACL", Offset: off, Detail: fmt.Sprintf(detail, args...)}
}
