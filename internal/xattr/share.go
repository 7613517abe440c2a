package xattr

import (
	"slices"

	"drydock/format"
)

// Set numbers a distinct content of an xattr block in a Table.
type Set int

// Shared is an xattr block to be and the number of inodes that use it.
type Shared struct {
	Set  Set
	Refs uint32 // 1 to format.MaxXattrRefs
}

// Table collects the xattr blocks of a file system. Inodes with the same
// attributes share blocks, up to 1,024 to a block; a set with an attribute
// whose hash is 0 is never shared, as in Linux. The zero value is ready.
type Table struct {
	sets   []setInfo
	byKey  map[string]Set
	blocks []Shared
	key    []byte
}

type setInfo struct {
	attrs  []format.Xattr
	single bool // not to be shared
	open   int  // the block that takes the next inode; -1: none yet
}

// Intern returns the number of a set, which is the same for equal sets in any
// order. Doing it once for many inodes saves time.
func (t *Table) Intern(attrs []format.Xattr) Set {
	attrs = slices.SortedFunc(slices.Values(attrs), format.CompareXattrs)
	t.key = appendKey(t.key[:0], attrs)
	if id, ok := t.byKey[string(t.key)]; ok {
		return id
	}
	if t.byKey == nil {
		t.byKey = map[string]Set{}
	}
	id := Set(len(t.sets))
	t.byKey[string(t.key)] = id
	t.sets = append(t.sets, setInfo{attrs: attrs, single: unshareable(attrs), open: -1})
	return id
}

// Use adds an inode to a block that holds set, and returns the block's number
// in Blocks.
func (t *Table) Use(id Set) int {
	s := &t.sets[id]
	if s.open < 0 || s.single || t.blocks[s.open].Refs == format.MaxXattrRefs {
		s.open = len(t.blocks)
		t.blocks = append(t.blocks, Shared{Set: id})
	}
	t.blocks[s.open].Refs++
	return s.open
}

// Blocks returns the blocks in the order of their first use.
func (t *Table) Blocks() []Shared { return t.blocks }

// Attrs returns the sorted attributes of a set.
func (t *Table) Attrs(id Set) []format.Xattr { return t.sets[id].attrs }

func unshareable(attrs []format.Xattr) bool {
	return slices.ContainsFunc(attrs, func(x format.Xattr) bool {
		return format.XattrEntryHash(x.Name, x.Value) == 0
	})
}

// appendKey appends bytes that are the same for the same sorted attributes
// only: lengths stand before what they measure.
func appendKey(key []byte, attrs []format.Xattr) []byte {
	for _, x := range attrs {
		n := len(x.Value)
		key = append(key, x.Index, byte(len(x.Name)), byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
		key = append(key, x.Name...)
		key = append(key, x.Value...)
	}
	return key
}
