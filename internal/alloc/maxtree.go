package alloc

import "math/bits"

// maxTree keeps a number for each of a row of groups and finds the next group
// whose number is large enough in logarithmic time: a binary tree, each of whose
// inner nodes has the larger number of the two below it.
type maxTree struct {
	nodes []uint32 // nodes[1] is the root; the leaves are from size on
	size  int      // leaves: a power of two
	n     int      // leaves in use
}

// newMaxTree makes a tree over values.
func newMaxTree(values []uint32) maxTree {
	size := 1 << bits.Len(uint(max(len(values), 1)-1))
	t := maxTree{nodes: make([]uint32, 2*size), size: size, n: len(values)}
	copy(t.nodes[size:], values)
	for i := size - 1; i > 0; i-- {
		t.nodes[i] = max(t.nodes[2*i], t.nodes[2*i+1])
	}
	return t
}

// get returns the number of leaf i.
func (t *maxTree) get(i int) uint32 { return t.nodes[t.size+i] }

// set changes the number of leaf i.
func (t *maxTree) set(i int, v uint32) {
	i += t.size
	t.nodes[i] = v
	for i >>= 1; i > 0; i >>= 1 {
		v = max(t.nodes[2*i], t.nodes[2*i+1])
		if t.nodes[i] == v {
			return
		}
		t.nodes[i] = v
	}
}

// max is the largest number of all.
func (t *maxTree) max() uint32 { return t.nodes[1] }

// next returns the first leaf from leaf from on, and before end, that has at
// least v, which is not 0; -1 if there is none.
func (t *maxTree) next(from, end int, v uint32) int {
	if from >= end || from >= t.n {
		return -1
	}
	i := from + t.size
	for t.nodes[i] < v { // climb until a node to the right can hold one
		for i&1 == 1 {
			i >>= 1
		}
		if i == 0 {
			return -1
		}
		i++
	}
	for i < t.size { // descend to its first
		i *= 2
		if t.nodes[i] < v {
			i++
		}
	}
	if i -= t.size; i < end {
		return i
	}
	return -1
}
