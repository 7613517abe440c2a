package build

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
)

// linkIndex finds the link of a name in a directory. It is an open hash table
// of link numbers, 0 marking a free place; links are never taken out (a link
// that was taken away stays, with node 0, and is used again for the name). It
// is filled once something is looked up in it.
type linkIndex struct {
	slots []uint32 // a power of two of them
	used  int
	seed  maphash.Seed
}

const (
	indexMin  = 1024 // slots
	indexLoad = 4    // at most 3 of 4 slots are used
)

// start fills the index with what the tree holds.
func (x *linkIndex) start(t *Tree) {
	x.seed = maphash.MakeSeed()
	x.resize(t, indexMin)
}

// add takes up a new link, whose name its directory does not have yet.
func (x *linkIndex) add(t *Tree, l uint32) {
	if x.slots == nil {
		return
	}
	if x.used*indexLoad >= len(x.slots)*(indexLoad-1) {
		x.resize(t, 2*len(x.slots))
		return // l is among the tree's links and so is in by now
	}
	x.insert(t, l)
}

func (x *linkIndex) insert(t *Tree, l uint32) {
	e := t.links.at(l)
	i := x.slot(e.parent, t.names.get(e.name))
	for x.slots[i] != 0 {
		i = (i + 1) & (len(x.slots) - 1)
	}
	x.slots[i] = l
	x.used++
}

// resize makes a table of at least size slots with all links of the tree.
func (x *linkIndex) resize(t *Tree, size int) {
	for int(t.links.n)*indexLoad >= size*(indexLoad-1) {
		size *= 2
	}
	x.slots = make([]uint32, size)
	x.used = 0
	for l := uint32(1); l < t.links.n; l++ {
		x.insert(t, l)
	}
}

// find returns the link of a name in a directory, 0 if there never was one.
func (x *linkIndex) find(t *Tree, dir uint32, name []byte) uint32 {
	if x.slots == nil {
		x.start(t)
	}
	for i := x.slot(dir, name); ; i = (i + 1) & (len(x.slots) - 1) {
		l := x.slots[i]
		if l == 0 {
			return 0
		}
		if e := t.links.at(l); e.parent == dir && bytes.Equal(t.names.get(e.name), name) {
			return l
		}
	}
}

// slot is where the search for a name begins.
func (x *linkIndex) slot(dir uint32, name []byte) int {
	var h maphash.Hash
	h.SetSeed(x.seed)
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], dir)
	h.Write(b[:])
	h.Write(name)
	return int(h.Sum64() & uint64(len(x.slots)-1))
}
