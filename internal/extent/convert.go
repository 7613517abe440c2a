package extent

import (
	"drydock/format"
)

// Convert makes what is mapped of [from, to) unwritten, or written. Holes stay.
// Extents that become alike are made one. A range inside an extent makes three
// of it, and a written one of full length makes two unwritten ones.
func (e *Editor) Convert(from, to format.LBlock, unwritten bool) error {
	if err := e.checkRange(uint64(from), uint64(to)); err != nil {
		return err
	}
	for l := uint64(from); l < uint64(to); {
		next, err := e.convert(format.LBlock(l), to, unwritten)
		if err != nil {
			return err
		}
		l = next
	}
	return nil
}

// convert changes the first extent of [from, to) and returns where to go on.
func (e *Editor) convert(from, to format.LBlock, unwritten bool) (next uint64, err error) {
	p, err := e.descend(from)
	if err != nil {
		return 0, err
	}
	leaf := &p[len(p)-1]
	i := leaf.i
	for i < leaf.count() && format.GetExtent(leaf.b, i).End() <= uint64(from) {
		i++
	}
	if i == leaf.count() {
		return leaf.bd.End, nil
	}
	x := format.GetExtent(leaf.b, i)
	if x.Unwritten == unwritten {
		return x.End(), nil
	}
	first, end := max(x.LBlock, from), min(x.End(), uint64(to))
	if uint64(first) >= end {
		return uint64(to), nil
	}
	return end, e.replace(p, i, 1, converted(x, first, end))
}

// converted returns x with [first, end) in the other state.
func converted(x format.Extent, first format.LBlock, end uint64) []format.Extent {
	var list []format.Extent
	if first > x.LBlock {
		list = append(list, part(x, uint64(x.LBlock), uint64(first)))
	}
	mid := part(x, uint64(first), end)
	mid.Unwritten = !x.Unwritten
	list = append(list, mid)
	if end < x.End() {
		list = append(list, part(x, end, x.End()))
	}
	return list
}

// part returns the part [from, to) of x.
func part(x format.Extent, from, to uint64) format.Extent {
	x = skip(x, uint32(from-uint64(x.LBlock)))
	x.Len = uint32(to - from)
	return x
}
