package cache

import "math/bits"

// tree finds the folio of a unit (the smallest folio: 4 KiB, or a block if that is
// larger). A folio is found under each of its units. Nodes have 64 slots, and a bit a
// slot that says whether something dirty is below, so that the dirty units of a
// large file are found without looking at the clean ones.
//
//	          [ . . . # . . ]          shift 6
//	                |
//	[ f f f f . g . . # . ]            shift 0: folios
//
// The owner's lock guards it.
type tree struct {
	root  *node
	shift uint // of a unit's number, to get the slot in the root
}

const (
	slotBits = 6
	slots    = 1 << slotBits
)

type node struct {
	parent  *node
	at      uint // slot in the parent
	present uint64
	dirty   uint64
	kids    []*node  // all slots, in a node above the leaves
	folios  []*folio // as many as were needed so far, in a leaf
}

// get returns the folio of unit u, or nil.
func (t *tree) get(u uint64) *folio {
	n := t.leaf(u)
	if i := int(u % slots); n != nil && i < len(n.folios) {
		return n.folios[i]
	}
	return nil
}

// leaf returns the node whose slots are the folios around unit u, or nil.
func (t *tree) leaf(u uint64) *node {
	n := t.root
	if u>>t.shift >= slots {
		return nil
	}
	for s := t.shift; s > 0 && n != nil; s -= slotBits {
		n = n.kids[u>>s%slots]
	}
	return n
}

// makeLeaf returns the node whose slots are the folios around unit u.
func (t *tree) makeLeaf(u uint64) *node {
	if t.root == nil {
		t.plant(u)
	}
	for u>>t.shift >= slots {
		t.raise()
	}
	n := t.root
	for s := t.shift; s > 0; s -= slotBits {
		n = n.kid(uint(u>>s%slots), s == slotBits)
	}
	return n
}

// plant makes a root that is high enough for unit u.
func (t *tree) plant(u uint64) {
	t.root = &node{}
	for u>>t.shift >= slots {
		t.shift += slotBits
	}
	if t.shift > 0 {
		t.root.kids = make([]*node, slots)
	}
}

// raise puts a node above the root, so that 64 times as many units fit.
func (t *tree) raise() {
	old := t.root
	t.root = &node{kids: make([]*node, slots)}
	t.shift += slotBits
	t.root.kids[0] = old
	old.parent = t.root
	t.root.present = 1
	if old.dirty != 0 {
		t.root.dirty = 1
	}
}

// kid returns the node in slot i of n, which is made if it is not there.
func (n *node) kid(i uint, leaf bool) *node {
	if n.kids[i] == nil {
		k := &node{parent: n, at: i}
		if !leaf {
			k.kids = make([]*node, slots)
		}
		n.kids[i] = k
		n.present |= 1 << i
	}
	return n.kids[i]
}

// each calls fn for each leaf that has units of [u, u+n), with the first slot, how many, and
// the mask of their bits. With make, leaves that are missing are made.
func (t *tree) each(u uint64, n int, make bool, fn func(leaf *node, i, count int, mask uint64)) {
	for n > 0 {
		i := int(u % slots)
		count := min(slots-i, n)
		leaf := t.leaf(u)
		if leaf == nil && make {
			leaf = t.makeLeaf(u)
		}
		if leaf != nil {
			fn(leaf, i, count, ^uint64(0)>>uint(slots-count)<<uint(i))
		}
		u += uint64(count)
		n -= count
	}
}

// put makes f the folio of the units [u, u+n), in place of what they had.
func (t *tree) put(f *folio, u uint64, n int) {
	t.each(u, n, true, func(leaf *node, i, count int, mask uint64) {
		leaf.reach(i + count)
		for j := i; j < i+count; j++ {
			if old := leaf.folios[j]; old != nil {
				old.owned--
			}
			leaf.folios[j] = f
		}
		leaf.present |= mask
	})
	f.owned += n
}

// reach makes room for n folios. A small file's only leaf stays small.
func (n *node) reach(count int) {
	size := 1
	for size < count {
		size *= 4
	}
	if len(n.folios) < size {
		folios := make([]*folio, size)
		copy(folios, n.folios)
		n.folios = folios
	}
}

// drop takes f out, wherever it is still in.
func (t *tree) drop(f *folio) {
	t.each(f.unit, f.units, false, func(leaf *node, i, count int, _ uint64) {
		for j := i; j < min(i+count, len(leaf.folios)); j++ {
			if leaf.folios[j] == f {
				leaf.folios[j] = nil
				leaf.present &^= 1 << j
				leaf.unmark(1 << j)
			}
		}
		t.prune(leaf)
	})
	f.owned = 0
}

// prune takes out a node with nothing in it, and those above that become so.
func (t *tree) prune(n *node) {
	for n.present == 0 {
		if n.parent == nil {
			*t = tree{}
			return
		}
		n.parent.kids[n.at] = nil
		n.parent.present &^= 1 << n.at
		n = n.parent
	}
}

// mark says that the units [u, u+n) hold dirty blocks; they have folios.
func (t *tree) mark(u uint64, n int) {
	for n > 0 {
		i := int(u % slots)
		count := min(slots-i, n)
		t.leaf(u).mark(^uint64(0) >> uint(slots-count) << uint(i))
		u += uint64(count)
		n -= count
	}
}

func (n *node) mark(mask uint64) {
	for n != nil && n.dirty&mask != mask {
		n.dirty |= mask
		mask = 1 << n.at
		n = n.parent
	}
}

// unmark says that the units [u, u+n) hold no dirty blocks.
func (t *tree) unmark(u uint64, n int) {
	t.each(u, n, false, func(leaf *node, _, _ int, mask uint64) { leaf.unmark(mask) })
}

func (n *node) unmark(mask uint64) {
	for n != nil && n.dirty&mask != 0 {
		n.dirty &^= mask
		if n.dirty != 0 {
			return
		}
		mask = 1 << n.at
		n = n.parent
	}
}

// nextDirty returns the first unit from u on with dirty blocks.
func (t *tree) nextDirty(u uint64) (uint64, bool) {
	return t.next(u, func(n *node) uint64 { return n.dirty })
}

// nextPresent returns the first unit from u on that has a folio.
func (t *tree) nextPresent(u uint64) (uint64, bool) {
	return t.next(u, func(n *node) uint64 { return n.present })
}

// next returns the first unit from u on that bit leads to.
func (t *tree) next(u uint64, bit func(*node) uint64) (uint64, bool) {
	if t.root == nil || u>>t.shift >= slots {
		return 0, false
	}
	return t.root.next(t.shift, u, bit)
}

// next searches below n, a node whose slots stand for 1<<shift units each; u counts from
// n's first unit.
func (n *node) next(shift uint, u uint64, bit func(*node) uint64) (uint64, bool) {
	for found := bit(n) & (^uint64(0) << (u >> shift)); found != 0; found &= found - 1 {
		i := uint64(bits.TrailingZeros64(found))
		if shift == 0 {
			return i, true
		}
		from := uint64(0)
		if i == u>>shift {
			from = u & (1<<shift - 1)
		}
		if v, ok := n.kids[i].next(shift-slotBits, from, bit); ok {
			return i<<shift + v, true
		}
	}
	return 0, false
}

// occupied tells whether one of the units [u, u+n) has a folio.
func (t *tree) occupied(u uint64, n int) bool {
	for n > 0 {
		i := int(u % slots)
		count := min(slots-i, n)
		if leaf := t.leaf(u); leaf != nil && leaf.present&(^uint64(0)>>uint(slots-count)<<uint(i)) != 0 {
			return true
		}
		u += uint64(count)
		n -= count
	}
	return false
}
