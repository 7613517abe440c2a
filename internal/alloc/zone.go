package alloc

import (
	"cmp"
	"slices"

	"drydock/format"
)

// zone is where metadata of fixed place lies: superblocks, descriptors, the
// blocks reserved for more of them, bitmaps and inode tables of all groups.
// Ascending runs that neither touch nor overlap.
type zone []span

// span is the blocks from first on and before end.
type span struct{ first, end format.Block }

// within returns the parts of the zone between first and end.
func (z zone) within(first, end format.Block) zone {
	from, _ := slices.BinarySearchFunc(z, first, func(s span, b format.Block) int {
		if s.end > b {
			return 1
		}
		return -1
	})
	to := from
	for to < len(z) && z[to].first < end {
		to++
	}
	return z[from:to]
}

// touches reports whether a block from first on and before end is in the zone.
func (z zone) touches(first, end format.Block) bool { return len(z.within(first, end)) > 0 }

// mark sets the bits of the zone's blocks in the bitmap of a group whose
// blocks these are.
func (z zone) mark(m Bitmap, first, end format.Block) {
	for _, s := range z.within(first, end) {
		from, to := max(s.first, first), min(s.end, end)
		m.SetRange(int(from-first), int(to-from))
	}
}

// marked reports whether all bits that mark sets are set.
func (z zone) marked(m Bitmap, first, end format.Block) bool {
	for _, s := range z.within(first, end) {
		from, to := max(s.first, first), min(s.end, end)
		if !m.AllSet(int(from-first), int(to-from)) {
			return false
		}
	}
	return true
}

// zoneBuilder gathers a zone. Neighbours join as they come, so that it stays
// small while it grows.
type zoneBuilder struct {
	geo   *format.Geometry
	spans zone
}

// base adds what a group has at its start.
func (z *zoneBuilder) base(g format.Group) {
	z.put(z.geo.GroupFirst(g), z.geo.BaseMeta(g))
}

// add adds what a descriptor names.
func (z *zoneBuilder) add(d format.GroupDesc) {
	z.put(d.BlockBitmap(), 1)
	z.put(d.InodeBitmap(), 1)
	z.put(d.InodeTable(), z.geo.InodeTableBlocks())
}

// lookBack is how many spans a new one is compared with: with flex_bg a group
// adds to the block bitmaps, the inode bitmaps and the tables of its flex group
// in turn.
const lookBack = 4

func (z *zoneBuilder) put(first format.Block, n int) {
	if n == 0 {
		return
	}
	end := min(first+format.Block(n), z.geo.BlocksCount)
	for i := len(z.spans) - 1; i >= max(0, len(z.spans)-lookBack); i-- {
		if z.spans[i].end == first {
			z.spans[i].end = end
			return
		}
	}
	z.spans = append(z.spans, span{first, end})
}

// done sorts and joins what was gathered, and reports whether any of it overlaps.
func (z *zoneBuilder) done() (joined zone, overlap bool) {
	slices.SortFunc(z.spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	joined = z.spans[:0]
	for _, s := range z.spans {
		if last := len(joined) - 1; last >= 0 && joined[last].end >= s.first {
			overlap = overlap || joined[last].end > s.first
			joined[last].end = max(joined[last].end, s.end)
			continue
		}
		joined = append(joined, s)
	}
	return slices.Clip(joined), overlap
}

// owned is a piece of a zone and the group whose descriptor names it.
type owned struct {
	span
	group format.Group
	base  bool // it is what the group has at its start, which no descriptor names
}

// overlaps returns the groups whose descriptors name blocks that are metadata
// already. It is for file systems known to be damaged, and keeps an entry for
// each piece.
func overlaps(pieces []owned) (groups []format.Group) {
	slices.SortFunc(pieces, func(a, b owned) int { return cmp.Compare(a.first, b.first) })
	var last owned // the piece that reaches furthest
	for _, p := range pieces {
		if p.first < last.end {
			groups = append(groups, p.owners()...)
			groups = append(groups, last.owners()...)
		}
		if p.end > last.end {
			last = p
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// owners is the group that is to blame for a piece, if any.
func (p owned) owners() []format.Group {
	if p.base {
		return nil
	}
	return []format.Group{p.group}
}
