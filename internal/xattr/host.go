package xattr

import (
	"drydock/format"
)

// FromHost converts an attribute as programs see it to the one on the disk:
// the name is split and a POSIX ACL takes its disk form. The error is a
// *NameError, or says what is wrong with the ACL.
func FromHost(name string, value []byte) (format.Xattr, error) {
	index, short, ok := format.SplitXattrName(name)
	if !ok {
		return format.Xattr{}, &NameError{Name: name, Detail: "unknown namespace or impossible name: want user., trusted., security., system. or gnu. and 1 to 255 bytes, none of them zero"}
	}
	x := format.Xattr{Index: index, Name: short, Value: value}
	if !isACL(x) {
		return x, nil
	}
	disk, err := format.ACLToDisk(value)
	if err != nil {
		return format.Xattr{}, &NameError{Name: name, Detail: err.Error()}
	}
	x.Value = disk
	return x, nil
}

// ToHost converts an attribute on the disk to the name and value that programs
// see.
func ToHost(x format.Xattr) (name string, value []byte, err error) {
	name = x.FullName()
	if !isACL(x) {
		return name, x.Value, nil
	}
	value, err = format.ACLFromDisk(x.Value)
	return name, value, err
}

func isACL(x format.Xattr) bool {
	return x.Index == format.XattrACLAccess || x.Index == format.XattrACLDefault
}
