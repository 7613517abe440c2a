package extent

import (
	"drydock/format"
)

// Settle makes the tree around the given file blocks as small as it gets
// cheaply: a node that is less than half full goes into its neighbour where
// that leaves some room, and a root with one child takes over what fits it.
// Remove does it by itself. Insert and Convert do not, so that NodesFor stays
// true: freed nodes are of no use before their transaction is durable.
func (e *Editor) Settle(at ...format.LBlock) error {
	for _, l := range at {
		for again := true; again; {
			var err error
			if again, err = e.settle(min(l, format.MaxLBlock-1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle frees one node on the path to l, if it can; each call that returns
// true leaves one node less, so that they come to an end.
func (e *Editor) settle(l format.LBlock) (freed bool, err error) {
	p, err := e.descend(l)
	if err != nil {
		return false, err
	}
	for d := len(p) - 1; d > 0; d-- {
		if p[d].count() > e.room()/2 {
			continue
		}
		if freed, err := e.join(p, d); freed || err != nil {
			return freed, err
		}
	}
	if len(p) > 1 && p[0].count() == 1 && p[1].count() <= format.ExtentRootMax {
		return true, e.pullUp(&p[0], &p[1])
	}
	return false, nil
}

// join makes the node at level d of p one with a neighbour below the same
// parent, if both together leave an eighth of a node free.
func (e *Editor) join(p []level, d int) (bool, error) {
	up, i := &p[d-1], p[d-1].i
	if right, ok := e.neighbour(p, d, i+1); ok {
		up.i = i + 1
		return true, e.merge(p[:d+1], p[d], right)
	}
	if left, ok := e.neighbour(p, d, i-1); ok {
		return true, e.merge(p[:d+1], left, p[d])
	}
	return false, nil
}

// neighbour returns the node below entry i of the parent of the node at level
// d, if the two can be one. That it cannot be read is no reason to fail:
// nothing depends on it.
func (e *Editor) neighbour(p []level, d, i int) (other level, ok bool) {
	up := &p[d-1]
	if i < 0 || i >= up.count() {
		return other, false
	}
	other, err := e.node(up.bd.Child(up.b, up.h, i))
	n, m := p[d].count(), other.count()
	return other, err == nil && other.bd.Block != p[d].bd.Block && n > 0 && m > 0 && n+m <= e.room()-e.room()/8
}

// merge appends the entries of right to left and frees right, which lies below
// the entry that the path leads along.
func (e *Editor) merge(p []level, left, right level) error {
	if err := e.own(&left); err != nil {
		return err
	}
	n, count := left.count(), left.count()+right.count()
	copy(entries(left.b, n, count), entries(right.b, 0, right.count()))
	e.put(&left, count)
	d := len(p) - 1
	p[d] = right
	return e.drop(p, d)
}

// pullUp moves what the only child of the root holds into the root.
func (e *Editor) pullUp(root, child *level) error {
	if err := e.own(root); err != nil {
		return err
	}
	n := child.count()
	clear(root.b[headerLen:])
	copy(entries(root.b, 0, n), entries(child.b, 0, n))
	root.h.Depth--
	e.put(root, n)
	return e.free(child.bd.Block)
}
