package cache

// carve gives the units that the step starts with, and that are being written back,
// a folio of their own, and with it the content of their blocks and what is known
// of them.
func (m *Mapping) carve(op *writeOp, f *folio, r *reach) need {
	u, n := m.carved(op, f, r)
	if lo, hi := int(u-f.unit)<<m.unitBits, (int(u-f.unit)+n)<<m.unitBits; f.filling(lo, hi) {
		return need{kind: end, fill: f.fill}
	}
	g, order := m.newFolio(u, n)
	if g == nil {
		return need{kind: memory, order: order}
	}
	at := int(u-f.unit) << m.unitBits
	have := f.bits(uptodate)
	for b := have.next(at, at+g.blocks()); b < at+g.blocks(); {
		next := have.nextClear(b, at+g.blocks())
		m.counts.CopyBytes += uint64(copy(g.block(b-at, next-at), f.block(b, next)))
		b = have.next(next, at+g.blocks())
	}
	for _, kind := range [...]int{uptodate, dirty, inFlight} {
		f.bits(kind).move(at, at+g.blocks(), g.bits(kind), 0)
	}
	m.tree.put(g, u, n)
	m.counts.Copies++
	return need{}
}

// carved returns which units of f carve takes: the first, and how many.
func (m *Mapping) carved(op *writeOp, f *folio, r *reach) (uint64, int) {
	if m.whole && f.owned == f.units && op.limit == 0 {
		return f.unit, int(f.units)
	}
	u, n := m.unitsOf(f, r.lo, r.hi)
	n = min(n, 1<<min(trailingZeros(u), maxOrder))
	if op.limit > 0 {
		n = min(n, op.limit)
	}
	return u, floorPower(n)
}
