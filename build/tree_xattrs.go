package build

import (
	"hash/maphash"
	"slices"

	"drydock/format"
)

// xattrSets holds distinct sets of xattrs, each once.
type xattrSets struct {
	sets  [][]format.Xattr
	index map[uint64][]uint32 // hash of a set -> the sets with that hash
	names map[string]string   // one copy of each name
	seed  maphash.Seed
}

// add returns the number of a set with these xattrs plus 1, 0 for none. The
// order of attrs does not matter; attrs is not kept, the values are.
func (x *xattrSets) add(attrs []format.Xattr) uint32 {
	if len(attrs) == 0 {
		return 0
	}
	if x.index == nil {
		x.index = make(map[uint64][]uint32)
		x.names = make(map[string]string)
		x.seed = maphash.MakeSeed()
	}
	slices.SortFunc(attrs, format.CompareXattrs)
	h := x.hash(attrs)
	for _, i := range x.index[h] {
		if slices.EqualFunc(x.sets[i], attrs, equalXattrs) {
			return i + 1
		}
	}
	i := uint32(len(x.sets))
	x.sets = append(x.sets, x.clone(attrs))
	x.index[h] = append(x.index[h], i)
	return i + 1
}

// get returns the set that add gave the number n; it must not be changed.
func (x *xattrSets) get(n uint32) []format.Xattr {
	if n == 0 {
		return nil
	}
	return x.sets[n-1]
}

func (x *xattrSets) hash(attrs []format.Xattr) uint64 {
	var h maphash.Hash
	h.SetSeed(x.seed)
	for _, a := range attrs {
		h.WriteByte(a.Index)
		h.WriteString(a.Name)
		h.WriteByte(0)
		h.Write(a.Value)
		h.WriteByte(0)
	}
	return h.Sum64()
}

// clone copies attrs with shared names.
func (x *xattrSets) clone(attrs []format.Xattr) []format.Xattr {
	set := slices.Clone(attrs)
	for i := range set {
		name := set[i].Name
		if _, known := x.names[name]; !known {
			x.names[name] = name
		}
		set[i].Name = x.names[name]
	}
	return set
}

func equalXattrs(a, b format.Xattr) bool {
	return a.Index == b.Index && a.Name == b.Name && string(a.Value) == string(b.Value)
}
