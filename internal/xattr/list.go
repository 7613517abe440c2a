package xattr

import (
	"slices"
	"syscall"

	"drydock/format"
)

// Flags of With and Store.Set, with the values of setxattr(2).
const (
	CreateOnly  = 1 // the attribute must not exist
	ReplaceOnly = 2 // the attribute must exist
)

// Find returns the place of an attribute in list; -1 if it is not there.
func Find(list []format.Xattr, index uint8, name string) int {
	return slices.IndexFunc(list, func(x format.Xattr) bool { return x.Index == index && x.Name == name })
}

// With returns list with x, in the place of one with the same name if there is
// one. The error is syscall.EEXIST or syscall.ENODATA if flags forbid it, and
// syscall.EINVAL for unknown flags. The elements of list are not changed.
func With(list []format.Xattr, x format.Xattr, flags int) ([]format.Xattr, error) {
	i := Find(list, x.Index, x.Name)
	switch {
	case flags&^(CreateOnly|ReplaceOnly) != 0:
		return nil, syscall.EINVAL
	case i >= 0 && flags&CreateOnly != 0:
		return nil, syscall.EEXIST
	case i < 0 && flags&ReplaceOnly != 0:
		return nil, syscall.ENODATA
	case i < 0:
		return append(slices.Clip(list), x), nil
	}
	list = slices.Clone(list)
	list[i] = x
	return list, nil
}

// Without returns list without an attribute; the error is syscall.ENODATA if
// it is not there. The elements of list are not changed.
func Without(list []format.Xattr, index uint8, name string) ([]format.Xattr, error) {
	i := Find(list, index, name)
	if i < 0 {
		return nil, syscall.ENODATA
	}
	return slices.Delete(slices.Clone(list), i, i+1), nil
}
