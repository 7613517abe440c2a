package cache

import "math/bits"

// tree finds the folio of a unit (the smallest folio: 4 KiB, or a block if that is
// larger). A folio is found under each of its units. Nodes have 64 slots, and a bit
// a slot that says whether something dirty is below, so that the dirty units of a
// large file are found without looking at the clean ones.
//
//	          [ . . . # . . ]          shift 6
//	                |
//	[ f f f f . g . . # . ]            shift 0: folios
//
// The owner's lock guards it.
type tree struct {
	root  *node
	shift uint  // of a unit's number, to get the slot in the root
	spare *node // a leaf with empty slots, for the next that is needed
}

const (
	slotBits = 6
	slots    = 1 << slotBits
)

type node struct {
	present uint64
	dirty   uint64
	folios  []*folio         // all slots, in a leaf; only the first few in the only leaf of a small file
	kids    []*node          // all slots, in a node above the leaves
	below   []*[slots]*folio // the kids' folios, in a node just above leaves: to find one, no leaf is looked at
	parent  *node
	at      uint // slot in the parent
}

// newNode returns a node above the leaves whose slots stand for 1<<shift units
// each.
func newNode(shift uint) *node {
	n := &node{kids: make([]*node, slots)}
	if shift == slotBits {
		n.below = make([]*[slots]*folio, slots)
	}
	return n
}

// smallLeaf is how many slots the only leaf of a small file has.
const smallLeaf = 4

// newLeaf returns a leaf with all slots, in one piece of memory.
func newLeaf() *node {
	leaf := &struct {
		node
		slots [slots]*folio
	}{}
	leaf.folios = leaf.slots[:]
	return &leaf.node
}

// get returns the folio of unit u, or nil.
func (t *tree) get(u uint64) *folio {
	n := t.root
	if u>>t.shift >= slots || n == nil {
		return nil
	}
	if t.shift == 0 {
		if u < uint64(len(n.folios)) {
			return n.folios[u]
		}
		return nil
	}
	for s := t.shift; s > slotBits; s -= slotBits {
		if n = n.kids[u>>s%slots]; n == nil {
			return nil
		}
	}
	if folios := n.below[u>>slotBits%slots]; folios != nil {
		return folios[u%slots]
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

// makeLeaf returns the node whose slots are the folios around unit u, with all
// slots up to u's.
func (t *tree) makeLeaf(u uint64) *node {
	if t.root == nil {
		t.plant(u)
	}
	for u>>t.shift >= slots {
		t.raise()
	}
	n := t.root
	for s := t.shift; s > 0; s -= slotBits {
		n = t.kid(n, uint(u>>s%slots), s-slotBits)
	}
	return n
}

// plant makes a root that is high enough for unit u.
func (t *tree) plant(u uint64) {
	for u>>t.shift >= slots {
		t.shift += slotBits
	}
	switch {
	case t.shift > 0:
		t.root = newNode(t.shift)
	case u < smallLeaf:
		t.root = &node{folios: make([]*folio, smallLeaf)}
	default:
		t.root = newLeaf()
	}
}

// widen gives the only leaf of a file that is no longer small all slots.
func (t *tree) widen() {
	if t.shift > 0 || t.root == nil || len(t.root.folios) == slots {
		return
	}
	leaf := newLeaf()
	copy(leaf.folios, t.root.folios)
	leaf.present, leaf.dirty = t.root.present, t.root.dirty
	t.root = leaf
}

// raise puts a node above the root, so that 64 times as many units fit.
func (t *tree) raise() {
	t.widen()
	old := t.root
	t.shift += slotBits
	t.root = newNode(t.shift)
	t.root.adopt(old, 0)
	if old.dirty != 0 {
		t.root.dirty = 1
	}
}

// kid returns the node in slot i of n, which is made if it is not there. Its own
// slots stand for 1<<shift units each.
func (t *tree) kid(n *node, i uint, shift uint) *node {
	if n.kids[i] != nil {
		return n.kids[i]
	}
	k := t.spare
	switch {
	case shift > 0:
		k = newNode(shift)
	case k == nil:
		k = newLeaf()
	default:
		t.spare = nil
	}
	n.adopt(k, i)
	return k
}

// adopt makes k the kid in slot i.
func (n *node) adopt(k *node, i uint) {
	k.parent, k.at = n, i
	n.kids[i] = k
	n.present |= 1 << i
	if k.kids == nil {
		n.below[i] = (*[slots]*folio)(k.folios)
	}
}

// orphan empties slot i.
func (n *node) orphan(i uint) {
	n.kids[i] = nil
	n.present &^= 1 << i
	if n.below != nil {
		n.below[i] = nil
	}
}

// each calls fn for each leaf there is that has units of [u, u+n), with the first
// slot and how many.
func (t *tree) each(u uint64, n int, fn func(leaf *node, i, count int)) {
	for n > 0 {
		i := int(u % slots)
		count := min(slots-i, n)
		if leaf := t.leaf(u); leaf != nil {
			fn(leaf, i, count)
		}
		u += uint64(count)
		n -= count
	}
}

// put makes f the folio of the units [u, u+n), in place of what they had.
func (t *tree) put(f *folio, u uint64, n int) {
	if last := u + uint64(n) - 1; t.root == nil {
		t.plant(last)
	} else if last >= smallLeaf {
		t.widen()
	}
	f.owned += int16(n)
	for n > 0 {
		i := int(u % slots)
		count := min(slots-i, n)
		leaf := t.leaf(u)
		if leaf == nil {
			leaf = t.makeLeaf(u)
		}
		leaf.put(f, i, count)
		u += uint64(count)
		n -= count
	}
}

// put makes f the folio of count slots from i on.
func (n *node) put(f *folio, i, count int) {
	for j := i; j < i+count; j++ {
		if old := n.folios[j]; old != nil {
			old.owned--
		}
		n.folios[j] = f
	}
	n.present |= slotMask(i, count)
}

// slotMask returns the bits of count slots from i on.
func slotMask(i, count int) uint64 { return ^uint64(0) >> uint(slots-count) << uint(i) }

// drop takes f out, wherever it is still in.
func (t *tree) drop(f *folio) {
	t.each(f.unit, int(f.units), func(leaf *node, i, count int) {
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
			t.root, t.shift = nil, 0
			return
		}
		n.parent.orphan(n.at)
		if n.kids == nil {
			t.spare = n
		}
		n = n.parent
	}
}

// mark says that the units [u, u+n) hold dirty blocks; they have folios.
func (t *tree) mark(u uint64, n int) {
	t.each(u, n, func(leaf *node, i, count int) { leaf.mark(slotMask(i, count)) })
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
	t.each(u, n, func(leaf *node, i, count int) { leaf.unmark(slotMask(i, count)) })
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

// next searches below n, a node whose slots stand for 1<<shift units each; u counts
// from n's first unit.
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
	found := false
	t.each(u, n, func(leaf *node, i, count int) { found = found || leaf.present&slotMask(i, count) != 0 })
	return found
}
