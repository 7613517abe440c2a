package extent

import (
	"drydock/format"
)

// entry is an extent or an index entry as it lies in a node; both begin with
// the file block.
type entry [entryLen]byte

const (
	headerLen = 12
	entryLen  = 12
)

func extentEntry(x format.Extent) (e entry) {
	var node [headerLen + entryLen]byte
	format.PutExtent(node[:], 0, x)
	return entry(node[headerLen:])
}

func indexEntry(x format.ExtentIndex) (e entry) {
	var node [headerLen + entryLen]byte
	format.PutExtentIndex(node[:], 0, x)
	return entry(node[headerLen:])
}

// entries returns the bytes of entries i to j-1 of a node.
func entries(b []byte, i, j int) []byte { return b[headerLen+i*entryLen : headerLen+j*entryLen] }

// key returns the file block of the first entry of a node.
func key(b []byte) format.LBlock { return format.GetExtentIndex(b, 0).LBlock }

// own makes the node of a level one that may be changed. A node with less room
// than its block has, which is legal, gets all of it.
func (e *Editor) own(lv *level) error {
	if !lv.own {
		b, err := e.blocks.Change(lv.bd.Block)
		if err != nil {
			return err
		}
		lv.b, lv.own = b, true
		e.touched++
	}
	lv.h.Max = format.ExtentRootMax
	if lv.bd.Block != 0 {
		lv.h.Max = uint16(e.room())
	}
	return nil
}

// put writes the header of a node that was changed, and its checksum.
func (e *Editor) put(lv *level, count int) {
	lv.h.Entries = uint16(count)
	format.PutExtentHeader(lv.b, lv.h)
	if lv.bd.Block != 0 {
		e.file.sums.SealExtentBlock(e.file.ino, e.inode.Generation(), lv.b)
	}
}

// splice replaces the n entries at place i of the node at level d of path p by
// add. A node that becomes too large is split, one that becomes empty is freed,
// and the keys above stay right. The path is good afterwards only as far as
// nothing was split; a freed node has no entries then.
func (e *Editor) splice(p []level, d, i, n int, add []entry) error {
	lv := &p[d]
	count := lv.count() - n + len(add)
	if count == 0 {
		return e.drop(p, d)
	}
	if err := e.own(lv); err != nil {
		return err
	}
	if count > int(lv.h.Max) {
		return e.split(p, d, i, n, add)
	}
	tail := entries(lv.b, i+n, lv.count())
	copy(entries(lv.b, i+len(add), count), tail)
	putEntries(lv.b, i, add)
	e.put(lv, count)
	if i == 0 {
		return e.rekey(p, d)
	}
	return nil
}

// putEntries writes list to places i and on.
func putEntries(b []byte, i int, list []entry) {
	for k := range list {
		copy(entries(b, i+k, i+k+1), list[k][:])
	}
}

// drop takes a node that would be empty out of the tree. An empty root is a leaf.
func (e *Editor) drop(p []level, d int) error {
	lv := &p[d]
	if d == 0 {
		if err := e.own(lv); err != nil {
			return err
		}
		lv.h.Depth = 0
		e.put(lv, 0)
		return nil
	}
	lv.h.Entries = 0
	if err := e.free(lv.bd.Block); err != nil {
		return err
	}
	return e.splice(p, d-1, p[d-1].i, 1, nil)
}

func (e *Editor) free(b format.Block) error {
	if err := e.nodes.FreeNode(b); err != nil {
		return e.file.wrap(err)
	}
	e.delta--
	e.touched++
	delete(e.known, b)
	return nil
}

// rekey makes the keys above say where the node at level d begins.
func (e *Editor) rekey(p []level, d int) error {
	first := key(p[d].b)
	for ; d > 0; d-- {
		up := &p[d-1]
		x := format.GetExtentIndex(up.b, up.i)
		if x.LBlock == first {
			return nil
		}
		if err := e.own(up); err != nil {
			return err
		}
		x.LBlock = first
		format.PutExtentIndex(up.b, up.i, x)
		e.put(up, up.count())
		if up.i > 0 {
			return nil
		}
	}
	return nil
}

// split is splice for a node that has no room. The node may be changed.
func (e *Editor) split(p []level, d, i, n int, add []entry) error {
	lv := &p[d]
	all := make([]byte, 0, (lv.count()+len(add))*entryLen)
	all = append(all, entries(lv.b, 0, i)...)
	for k := range add {
		all = append(all, add[k][:]...)
	}
	all = append(all, entries(lv.b, i+n, lv.count())...)
	if d == 0 {
		return e.grow(lv, all)
	}
	at := cutAt(p, d, i, n, len(add))
	right, err := e.newNode(lv.bd.Block, lv.h.Depth, all[at*entryLen:])
	if err != nil {
		return err
	}
	copy(lv.b[headerLen:], all[:at*entryLen])
	e.put(lv, at)
	if i == 0 {
		if err := e.rekey(p, d); err != nil {
			return err
		}
	}
	return e.splice(p, d-1, p[d-1].i+1, 0, []entry{indexEntry(right)})
}

// cutAt returns how many entries stay in the left one of two nodes. At the
// ends of the file the old entries stay together, so that a file written in one
// direction has full nodes; elsewhere both get half.
func cutAt(p []level, d, i, n, add int) int {
	lv := &p[d]
	all := lv.count() - n + add
	edge := 0
	if lv.h.Depth > 0 {
		edge = 1 // a new child comes behind the one that was split
	}
	switch {
	case lv.last() && i+n == lv.count():
		return i
	case i <= edge && leftmost(p[:d]):
		return i + add
	}
	return all / 2
}

// leftmost reports whether a path leads along the left edge of the tree.
func leftmost(p []level) bool {
	for _, lv := range p {
		if lv.i > 0 {
			return false
		}
	}
	return true
}

// newNode makes a node of list, near goal, and returns the entry that leads to it.
func (e *Editor) newNode(goal format.Block, depth uint16, list []byte) (format.ExtentIndex, error) {
	b, err := e.nodes.AllocNode(goal)
	if err != nil {
		return format.ExtentIndex{}, e.file.wrap(err)
	}
	e.delta++
	e.touched++
	node, err := e.blocks.New(b)
	if err != nil {
		return format.ExtentIndex{}, err
	}
	copy(node[headerLen:], list)
	lv := level{bd: format.ExtentBounds{Block: b}, b: node, h: format.ExtentHeader{Max: uint16(e.room()), Depth: depth}}
	e.put(&lv, len(list)/entryLen)
	return format.ExtentIndex{LBlock: key(node), Child: b}, nil
}

// grow moves the entries of the root, all of them, to a new node below it.
func (e *Editor) grow(root *level, all []byte) error {
	if root.h.Depth >= format.MaxExtentDepth {
		return e.damage(0, "full at depth %d, which is as deep as a tree can be", root.h.Depth)
	}
	x, err := e.newNode(e.goal(all), root.h.Depth, all)
	if err != nil {
		return err
	}
	root.h.Depth++
	format.PutExtentIndex(root.b, 0, x)
	clear(root.b[headerLen+entryLen:])
	e.put(root, 1)
	return nil
}

// goal says where the first node below the root should lie: beside the other
// nodes, or at the start of the group that the data begins in, where it does
// not stand in the way of data to come.
func (e *Editor) goal(all []byte) format.Block {
	var node [headerLen + entryLen]byte
	copy(node[headerLen:], all)
	if h, _ := format.ReadExtentHeader(e.inode.IBlock()); h.Depth > 0 {
		return format.GetExtentIndex(node[:], 0).Child
	}
	start := format.GetExtent(node[:], 0).Start
	if !e.g.ValidBlock(start) || e.g.BlocksPerGroup == 0 {
		return start
	}
	return e.g.GroupFirst(e.g.GroupOf(start))
}
