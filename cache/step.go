package cache

import "drydock/format"

// reach is the part of a folio that a step writes to.
type reach struct {
	end    int64 // in bytes of the file: the step writes [op.off, end)
	lo, hi int   // blocks written to
	from   int   // blocks [from, to) become dirty: these, or all of them
	to     int
}

// step writes what it can of op into the folio at op.off, or says what it needs.
func (m *Mapping) step(op *writeOp) (int, need) {
	if m.closed {
		return 0, need{kind: open}
	}
	u := m.unitAt(op.off)
	f := m.tree.get(u)
	if n := m.short(op, f); n > 0 {
		return n, need{}
	}
	if op.sequence == unknown && (f == nil || op.off+int64(len(op.p)) > f.end()) {
		op.sequence = answerOf(m.follows(f, op.off))
	}
	if f == nil {
		var order int
		if f, order = m.place(u, m.wanted(op, u), op.limit); f == nil {
			return 0, need{kind: memory, order: order}
		}
	}
	r := m.reach(op, f, m.span(f, u))
	want, ok := m.mayChange(op, f, &r)
	if ok {
		want, ok = m.hasContent(op, f, &r)
	}
	if ok {
		want, ok = m.hasSpace(op, f, &r)
	}
	if !ok {
		return 0, want
	}
	return m.put(op, f, &r), need{}
}

// short writes op in the short way, which is there for writes that are counted in
// nanoseconds: in one folio of up to 64 blocks whose memory nobody else uses, into
// blocks that are dirty, or into whole ones for which the source has space at once.
// It returns 0 if that is not so.
func (m *Mapping) short(op *writeOp, f *folio) int {
	if f == nil || f.io != 0 || f.fill != nil || f.owned != f.units || int(f.units)<<m.unitBits > 64 || m.whole {
		return 0
	}
	at := int(op.off - int64(f.unit)<<(m.shift+m.unitBits)) // f.start without a look at f.m
	end := at + len(op.p)
	if end > len(f.buf) {
		return 0
	}
	touched := ^uint64(0) >> (63 - uint(end-1)>>m.shift) &^ (1<<(uint(at)>>m.shift) - 1)
	if touched&^f.words[dirty] != 0 {
		if (at|end)&(1<<m.shift-1) != 0 || touched&f.words[dirty] != 0 || !m.shortSoil(f, at, end) {
			return 0
		}
		f.words[uptodate] |= touched
	}
	n := copy(f.buf[at:end], op.p)
	f.touch(op.off + int64(n))
	m.counts.UserBytes += uint64(n)
	return n
}

// shortSoil makes the blocks in the bytes [at, end) of f dirty, none of which is,
// if the source has space for them at once.
func (m *Mapping) shortSoil(f *folio, at, end int) bool {
	if m.quick == nil {
		return false
	}
	lo, hi := at>>m.shift, end>>m.shift
	l := format.LBlock(f.unit<<m.unitBits) + format.LBlock(lo)
	if done, err := m.quick.TryReserve(l, hi-lo); err != nil || !done {
		return false
	}
	m.soil(f, lo, hi)
	return true
}

// wanted returns how many units a new folio for unit u should have.
func (m *Mapping) wanted(op *writeOp, u uint64) int {
	last := m.unitAt(op.off + int64(len(op.p)) - 1)
	n := int(min(last-u+1, maxFolioSize))
	if op.sequence == yes {
		n = m.ahead(u, n)
	}
	return n
}

// reach returns what op writes to in f, whose units up to after lead to it.
func (m *Mapping) reach(op *writeOp, f *folio, after uint64) reach {
	r := reach{end: min(op.off+int64(len(op.p)), int64(after)<<(m.shift+m.unitBits))}
	r.lo = int((op.off - f.start()) >> m.shift)
	m.cut(f, &r, r.end)
	return r
}

// cut ends r at byte offset end of the file.
func (m *Mapping) cut(f *folio, r *reach, end int64) {
	r.end = end
	r.hi = int((end-f.start()-1)>>m.shift) + 1
	r.from, r.to = r.lo, r.hi
	if m.whole && f.owned == f.units {
		r.from, r.to = 0, max(r.hi, m.usable(f))
	}
}

// cutAt ends r at block b of f.
func (m *Mapping) cutAt(f *folio, r *reach, b int) { m.cut(f, r, f.start()+int64(b)<<m.shift) }

// mayChange makes sure that nobody else uses the memory of the blocks: a block that
// is being written back gets another folio, one that is being read is waited for.
func (m *Mapping) mayChange(op *writeOp, f *folio, r *reach) (need, bool) {
	if f.filling(r.from, r.to) {
		return need{kind: end, fill: f.fill}, false
	}
	if f.io == 0 {
		return need{}, true
	}
	b := f.bits(frozen).next(r.from, r.to)
	switch {
	case b == r.to:
		return need{}, true
	case m.whole || b>>m.unitBits == r.lo>>m.unitBits:
		return m.carve(op, f, r), false
	default:
		m.cutAt(f, r, b>>m.unitBits<<m.unitBits)
		return need{}, true
	}
}

// hasContent makes sure that blocks of which the write covers only a part are
// uptodate, or are holes. The step ends before a last block that is not.
func (m *Mapping) hasContent(op *writeOp, f *folio, r *reach) (need, bool) {
	if m.whole {
		return m.hasAll(op, f, r)
	}
	if m.lacks(op, f, r, r.lo) {
		l := f.first() + format.LBlock(r.lo)
		return need{kind: content, run: Run{l, 1}, drops: m.drops}, false
	}
	if last := r.hi - 1; last > r.lo && m.lacks(op, f, r, last) {
		m.cutAt(f, r, last)
	}
	return need{}, true
}

// lacks tells whether block b is written in part, and has content elsewhere, as far
// as is known.
func (m *Mapping) lacks(op *writeOp, f *folio, r *reach, b int) bool {
	return m.partial(op, f, r, b) && !f.bits(uptodate).get(b) && !m.isHole(op, f.first()+format.LBlock(b))
}

// isHole tells whether block l, which is not uptodate, is known to be a hole.
func (m *Mapping) isHole(op *writeOp, l format.LBlock) bool {
	if h := (hole{l, m.drops, true}); op.holes[0] == h || op.holes[1] == h {
		return true
	}
	if m.quick == nil {
		return false
	}
	mapped, known := m.quick.TryMapped(l)
	return known && !mapped
}

// hasAll makes sure that all blocks of f are uptodate but those that the write
// covers.
func (m *Mapping) hasAll(op *writeOp, f *folio, r *reach) (need, bool) {
	have := f.bits(uptodate)
	for b := have.nextClear(r.from, r.to); b < r.to; b = have.nextClear(b+1, r.to) {
		if b >= r.lo && b < r.hi && !m.partial(op, f, r, b) {
			continue
		}
		return need{kind: blocks, run: Run{f.first() + format.LBlock(b), have.next(b, r.to) - b}}, false
	}
	return need{}, true
}

// partial tells whether the step writes a part of block b, not all of it.
func (m *Mapping) partial(op *writeOp, f *folio, r *reach, b int) bool {
	start := f.start() + int64(b)<<m.shift
	return start < op.off || start+1<<m.shift > r.end
}

// hasSpace makes sure that space is reserved for blocks that become dirty. The step
// ends where dirty blocks end, or what is reserved: lack of space is for the block
// that lacks it.
func (m *Mapping) hasSpace(op *writeOp, f *folio, r *reach) (need, bool) {
	d := f.bits(dirty)
	lo := d.nextClear(r.from, r.to)
	if lo == r.to {
		return need{}, true
	}
	run := Run{f.first() + format.LBlock(lo), r.to - lo}
	switch {
	case m.whole:
		return need{kind: space, run: run}, op.reserved == run
	case lo > r.from:
		m.cutAt(f, r, lo)
		return need{}, true
	case run.First < op.reserved.First || run.First >= op.reserved.end():
		run.N = d.next(lo, r.to) - lo
		if !m.reserveNow(op, run) {
			return need{kind: space, run: run}, false
		}
	}
	hi := min(r.to, lo+int(op.reserved.end()-run.First))
	if next := d.nextClear(hi, r.to); next < r.to {
		m.cutAt(f, r, next)
	}
	return need{}, true
}

// reserveNow takes space for a run if the source can do so under the lock.
func (m *Mapping) reserveNow(op *writeOp, r Run) bool {
	if m.quick == nil {
		return false
	}
	if done, err := m.quick.TryReserve(r.First, r.N); err != nil || !done {
		return false
	}
	op.reserved = r
	return true
}

// put copies into f and marks the blocks.
func (m *Mapping) put(op *writeOp, f *folio, r *reach) int {
	have := f.bits(uptodate)
	for _, b := range [2]int{r.lo, r.hi - 1} {
		if m.partial(op, f, r, b) && !have.get(b) {
			clear(f.block(b, b+1)) // a hole
		}
	}
	n := copy(f.buf[op.off-f.start():r.end-f.start()], op.p)
	have.set(r.lo, r.hi)
	m.soil(f, r.from, r.to)
	f.touch(r.end)
	m.counts.UserBytes += uint64(n)
	return n
}
