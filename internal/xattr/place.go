package xattr

import (
	"fmt"
	"slices"
	"syscall"

	"drydock/format"
)

// SpaceError says that the attributes of one inode do not fit.
type SpaceError struct {
	Name  string // full name of the attribute that has no room
	Size  int    // bytes of its value
	Limit int    // together: bytes that all attributes may take; else: the largest value under this name
	Total int    // bytes that all attributes would take; 0 if this one does not even fit alone
}

func (e *SpaceError) Error() string {
	if e.Total == 0 {
		return fmt.Sprintf("extended attribute %s: value of %d bytes, want at most %d", e.Name, e.Size, e.Limit)
	}
	return fmt.Sprintf("extended attribute %s: no room for %d bytes beside the others: all take %d bytes of %d",
		e.Name, e.Size, e.Total, e.Limit)
}

// Is makes errors.Is(err, syscall.ENOSPC) true, which is what Linux says then.
func (e *SpaceError) Is(target error) bool { return target == syscall.ENOSPC }

// Hint says what to do about it.
func (e *SpaceError) Hint() string {
	return "leave the attribute out with --xattrs '!" + e.Name + "', or give larger inodes (--inode-size) or blocks (--block-size)"
}

// NameError says that an attribute cannot be stored under its name.
type NameError struct {
	Name   string // full name
	Detail string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("extended attribute %q: %s", e.Name, e.Detail)
}

// Hint says what to do about it.
func (e *NameError) Hint() string {
	return "leave the attribute out with --xattrs '!" + e.Name + "'"
}

// Place splits attrs over the inode and one xattr block. All lie in the inode
// if they fit. Otherwise the ones that Linux reads most (ACLs and security
// labels) go there first and then the others as far as there is room. Should
// the rest be too much for a block, the split that fills the inode best is
// taken, so that Place fails only where no split exists. Both parts are
// sorted; the result depends on the set alone, not on its order. The error is
// a *SpaceError or *NameError.
func Place(attrs []format.Xattr, inodeSize, extraIsize, blockSize int) (inInode, inBlock []format.Xattr, err error) {
	if len(attrs) == 0 {
		return nil, nil, nil
	}
	inode := format.InodeXattrSpace(inodeSize, extraIsize)
	block := format.BlockXattrSpace(blockSize)
	sorted := slices.SortedFunc(slices.Values(attrs), format.CompareXattrs)
	if err := check(sorted, max(inode, block)); err != nil {
		return nil, nil, err
	}
	total := size(sorted)
	if total <= inode {
		return sorted, nil, nil
	}
	chosen := greedy(sorted, inode)
	if total-chosen.size > block {
		chosen = fullest(sorted, inode)
	}
	if total-chosen.size > block {
		return nil, nil, crowded(sorted, inode, block)
	}
	inInode, inBlock = split(sorted, chosen.in)
	return inInode, inBlock, nil
}

// check looks at each attribute alone; limit is the larger of the two spaces.
func check(sorted []format.Xattr, limit int) error {
	for i, x := range sorted {
		room := min(limit-format.XattrSize(format.Xattr{Name: x.Name}), format.MaxXattrValueSize)
		switch {
		case x.ValueInum != 0:
			return &NameError{Name: x.FullName(), Detail: "its value lies in an inode of its own, which is not written"}
		case x.Index == 0:
			return &NameError{Name: x.FullName(), Detail: "no namespace"}
		case len(x.Name) > format.MaxXattrName:
			return &NameError{Name: x.FullName(), Detail: fmt.Sprintf("name of %d bytes, want at most %d without its prefix", len(x.Name), format.MaxXattrName)}
		case x.Index == format.XattrSystem && x.Name == inlineData:
			return &NameError{Name: x.FullName(), Detail: "name reserved for inline data"}
		case i > 0 && format.CompareXattrs(sorted[i-1], x) == 0:
			return &NameError{Name: x.FullName(), Detail: "given twice"}
		case len(x.Value) > room:
			return &SpaceError{Name: x.FullName(), Size: len(x.Value), Limit: max(room, 0)}
		}
	}
	return nil
}

const inlineData = "data"

func size(attrs []format.Xattr) int {
	n := 0
	for _, x := range attrs {
		n += format.XattrSize(x)
	}
	return n
}

// choice is what goes into the inode.
type choice struct {
	in   []bool
	size int
}

func (c *choice) add(i, n int) {
	c.in[i] = true
	c.size += n
}

// greedy takes what fits, the attributes read most often first.
func greedy(attrs []format.Xattr, room int) choice {
	c := choice{in: make([]bool, len(attrs))}
	for rank := range ranks {
		for i, x := range attrs {
			n := format.XattrSize(x)
			if rankOf(x) == rank && c.size+n <= room {
				c.add(i, n)
			}
		}
	}
	return c
}

const ranks = 3

// rankOf orders by how often Linux reads an attribute: at each permission
// check, when a child is made, when asked.
func rankOf(x format.Xattr) int {
	switch x.Index {
	case format.XattrACLAccess, format.XattrSecurity:
		return 0
	case format.XattrACLDefault:
		return 1
	}
	return 2
}

// fullest takes the attributes that fill room best. Sizes are multiples of
// four, so reached has an element for every sum that there can be: the number,
// plus one, of the attribute that reached it first.
func fullest(attrs []format.Xattr, room int) choice {
	const unit = 4
	reached := make([]int, room/unit+1)
	for i, x := range attrs {
		n := format.XattrSize(x) / unit
		for sum := len(reached) - 1; sum >= n; sum-- {
			if reached[sum] == 0 && (sum == n || reached[sum-n] != 0) {
				reached[sum] = i + 1
			}
		}
	}
	best := len(reached) - 1
	for best > 0 && reached[best] == 0 {
		best--
	}
	c := choice{in: make([]bool, len(attrs))}
	for best > 0 {
		i := reached[best] - 1
		n := format.XattrSize(attrs[i])
		c.add(i, n)
		best -= n / unit
	}
	return c
}

func split(attrs []format.Xattr, in []bool) (inInode, inBlock []format.Xattr) {
	for i, x := range attrs {
		if in[i] {
			inInode = append(inInode, x)
		} else {
			inBlock = append(inBlock, x)
		}
	}
	return inInode, inBlock
}

// crowded names the largest attribute of a set that has no split.
func crowded(attrs []format.Xattr, inode, block int) error {
	largest := slices.MaxFunc(attrs, func(a, b format.Xattr) int {
		return format.XattrSize(a) - format.XattrSize(b)
	})
	return &SpaceError{Name: largest.FullName(), Size: len(largest.Value), Limit: inode + block, Total: size(attrs)}
}
