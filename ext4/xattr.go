package ext4

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"drydock/format"
)

// Xattr is an extended attribute as getxattr(2) gives it: the name with its
// namespace, POSIX ACLs in the form of version 2.
type Xattr struct {
	Name  string
	Value []byte
}

// inlineName is the attribute in namespace system that holds what of a small
// file's data does not fit into i_block.
const inlineName = "data"

// Xattrs returns the extended attributes of a file, sorted by name; a symbolic
// link is followed.
func (fsys *FS) Xattrs(name string) ([]Xattr, error) { return fsys.pathXattrs(name, true) }

// Lxattrs is Xattrs of a symbolic link itself.
func (fsys *FS) Lxattrs(name string) ([]Xattr, error) { return fsys.pathXattrs(name, false) }

func (fsys *FS) pathXattrs(name string, follow bool) ([]Xattr, error) {
	var list []Xattr
	err := fsys.lookup(name, follow, func(in *inode) (err error) {
		list, err = in.xattrs()
		return err
	})
	return list, pathError("getxattr", name, err)
}

// xattrs returns the attributes that a user sees, sorted by name.
func (in *inode) xattrs() ([]Xattr, error) {
	raw, err := in.rawXattrs()
	if err != nil {
		return nil, in.wrap(err)
	}
	list := make([]Xattr, 0, len(raw))
	for _, x := range raw {
		if hiddenXattr(x) {
			continue
		}
		value, err := in.xattrValue(x)
		if err != nil {
			return nil, in.wrap(fmt.Errorf("extended attribute %s: %w", x.FullName(), err))
		}
		list = append(list, Xattr{Name: x.FullName(), Value: value})
	}
	slices.SortFunc(list, func(a, b Xattr) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// hiddenXattr reports whether an attribute is the file system's own: inline
// data or the encryption context.
func hiddenXattr(x format.Xattr) bool {
	return x.Index == format.XattrEncryption || x.Index == format.XattrSystem && x.Name == inlineName
}

// rawXattrs returns the attributes in the inode, then those in its block, in
// disk form.
func (in *inode) rawXattrs() ([]format.Xattr, error) {
	inside, err := format.DecodeInodeXattrs(in.xattrArea())
	if err != nil {
		return nil, err
	}
	n := in.raw.FileACL()
	if n == 0 {
		return inside, nil
	}
	block, err := in.xattrBlock(n)
	if err != nil {
		return nil, err
	}
	outside, err := format.DecodeXattrBlock(block)
	if err != nil {
		return nil, atBlock(err, n)
	}
	return append(inside, outside...), nil
}

// xattrArea returns the bytes of the inode behind its fields. An inode that
// does not say where its fields end has none.
func (in *inode) xattrArea() []byte {
	extra := int(in.raw.ExtraIsize())
	if len(in.raw) <= format.GoodOldInodeSize || extra == 0 {
		return nil
	}
	return in.raw[min(format.GoodOldInodeSize+extra, len(in.raw)):]
}

func (in *inode) xattrBlock(n format.Block) ([]byte, error) {
	block, err := in.get(n)
	if err != nil {
		return nil, fmt.Errorf("xattr block: %w", err)
	}
	if !in.fs.sealed(in.fs.csum.VerifyXattrBlock(n, block)) {
		return nil, &format.DamagedError{Structure: "xattr block", Block: n, Offset: -1, Detail: "wrong checksum"}
	}
	return block, nil
}

// xattrValue returns a value in the form of getxattr, as a copy.
func (in *inode) xattrValue(x format.Xattr) ([]byte, error) {
	value := bytes.Clone(x.Value)
	if x.ValueInum != 0 {
		var err error
		if value, err = in.eaInodeValue(x); err != nil {
			return nil, err
		}
	}
	if x.Index == format.XattrACLAccess || x.Index == format.XattrACLDefault {
		return format.ACLFromDisk(value)
	}
	if value == nil {
		value = []byte{}
	}
	return value, nil
}

// eaInodeValue reads a value of in that lies in an inode of its own (ea_inode).
func (in *inode) eaInodeValue(x format.Xattr) ([]byte, error) {
	ea, err := in.inode(x.ValueInum)
	if err != nil {
		return nil, err
	}
	switch {
	case !ea.raw.HasFlags(format.InodeEAInode) || !ea.isRegular():
		return nil, ea.damaged("holds no attribute value")
	case x.ValueSize > format.MaxXattrValueSize:
		return nil, ea.damaged("attribute value of %d bytes, want at most %d", x.ValueSize, format.MaxXattrValueSize)
	case ea.size() != uint64(x.ValueSize):
		return nil, ea.damaged("attribute value of %d bytes, its entry says %d", ea.size(), x.ValueSize)
	}
	value := make([]byte, x.ValueSize)
	if err := ea.readAt(value, 0); err != nil {
		return nil, err
	}
	if !in.fs.sealed(ea.holds(value, in)) {
		return nil, ea.damaged("attribute value does not match its hash")
	}
	return value, nil
}

// holds checks the hash of its value that an EA inode keeps in the seconds of its atime.
// One that Lustre wrote has none, but names its owner (kernel: fs/ext4/xattr.c).
func (in *inode) holds(value []byte, owner *inode) bool {
	if uint32(in.raw.Atime().Sec) == format.Crc32c(in.fs.csum.Seed, value) {
		return true
	}
	return uint32(in.raw.Mtime().Sec) == uint32(owner.num) && in.raw.Generation() == owner.raw.Generation()
}

// atBlock puts the block into a damage report that does not have one yet.
func atBlock(err error, n format.Block) error {
	var d *format.DamagedError
	if !errors.As(err, &d) || d.Block != 0 {
		return err
	}
	placed := *d
	placed.Block = n
	return &placed
}
