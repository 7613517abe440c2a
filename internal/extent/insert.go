package extent

import (
	"slices"

	"drydock/format"
)

// Insert maps x, of any length, in a hole of the file. It becomes one with what
// it goes on from or leads on to. The error matches format.ErrDamaged if a part
// of it is mapped already or lies outside the file system.
func (e *Editor) Insert(x format.Extent) error {
	if err := e.checkRange(uint64(x.LBlock), x.End()); err != nil {
		return err
	}
	if x.Start < e.file.min || x.Start >= e.file.max || format.Block(x.Len) > e.file.max-x.Start {
		return e.damage(0, "file blocks %d+%d in blocks %d+%d, want %d to %d", x.LBlock, x.Len, x.Start, x.Len, e.file.min, e.file.max-1)
	}
	for x.Len > 0 {
		part := x
		part.Len = min(x.Len, maxLen(x.Unwritten))
		if err := e.insert(part); err != nil {
			return err
		}
		x = skip(x, part.Len)
	}
	return nil
}

// insert maps an extent that one entry can hold.
func (e *Editor) insert(x format.Extent) error {
	p, err := e.descend(x.LBlock)
	if err != nil {
		return err
	}
	leaf := &p[len(p)-1]
	i := placeOf(leaf, x.LBlock)
	if err := e.checkFree(leaf, i, x); err != nil {
		return err
	}
	if x.End() == leaf.bd.End && !leaf.last() && !(i > 0 && follows(format.GetExtent(leaf.b, i-1), x)) {
		if done, err := e.insertNext(x); done || err != nil {
			return err
		}
		if p, err = e.descend(x.LBlock); err != nil { // it used the same memory
			return err
		}
	}
	return e.replace(p, i, 0, []format.Extent{x})
}

// placeOf returns the place of the first entry after l in a leaf on the path to l.
func placeOf(leaf *level, l format.LBlock) int {
	if leaf.i < leaf.count() && format.GetExtent(leaf.b, leaf.i).LBlock <= l {
		return leaf.i + 1
	}
	return leaf.i
}

// checkFree makes sure that x, which belongs at place i, lies in a hole.
func (e *Editor) checkFree(leaf *level, i int, x format.Extent) error {
	if i > 0 {
		if y := format.GetExtent(leaf.b, i-1); y.End() > uint64(x.LBlock) {
			return e.damage(leaf.bd.Block, "file blocks %d+%d are mapped already: %d+%d", x.LBlock, x.Len, y.LBlock, y.Len)
		}
	}
	end := leaf.bd.End
	if i < leaf.count() {
		end = uint64(format.GetExtent(leaf.b, i).LBlock)
	}
	if x.End() > end {
		return e.damage(leaf.bd.Block, "file blocks %d+%d are mapped already: from %d on", x.LBlock, x.Len, end)
	}
	return nil
}

// insertNext makes x one with the first extent of the next leaf, if it can be.
func (e *Editor) insertNext(x format.Extent) (done bool, err error) {
	p, err := e.descend(format.LBlock(x.End()))
	if err != nil {
		return false, err
	}
	leaf := &p[len(p)-1]
	next := format.GetExtent(leaf.b, 0)
	if leaf.count() == 0 || !follows(x, next) || x.Len+next.Len > maxLen(x.Unwritten) {
		return false, nil
	}
	x.Len += next.Len
	return true, e.splice(p, len(p)-1, 0, 1, []entry{extentEntry(x)})
}

// appendNext is Append that leaves next as it is unless it becomes one with what
// is before it: to take only a part of it away would leave a short rest behind
// it, a new one with every insert of a file that is written backwards.
func appendNext(list []format.Extent, next format.Extent) []format.Extent {
	if with := Append(slices.Clone(list), next); len(with) == len(list) {
		return with
	}
	return append(list, next)
}

// replace replaces the n extents at place i of the leaf at the end of p by
// list; what can be one extent with the neighbours in the leaf becomes so.
func (e *Editor) replace(p []level, i, n int, list []format.Extent) error {
	leaf := &p[len(p)-1]
	from, to := max(i-1, 0), min(i+n+1, leaf.count())
	var merged []format.Extent
	if from < i {
		merged = append(merged, format.GetExtent(leaf.b, from))
	}
	for _, x := range list {
		merged = Append(merged, x)
	}
	if i+n < to {
		merged = appendNext(merged, format.GetExtent(leaf.b, i+n))
	}
	for from < to && len(merged) > 0 && merged[0] == format.GetExtent(leaf.b, from) {
		from, merged = from+1, merged[1:]
	}
	for from < to && len(merged) > 0 && merged[len(merged)-1] == format.GetExtent(leaf.b, to-1) {
		to, merged = to-1, merged[:len(merged)-1]
	}
	if from == to && len(merged) == 0 && leaf.count() > 0 {
		return nil
	}
	add := make([]entry, len(merged))
	for k, x := range merged {
		add[k] = extentEntry(x)
	}
	return e.splice(p, len(p)-1, from, to-from, add)
}
