package cache

import "drydock/format"

// DirtyRuns returns the runs of dirty blocks in [from, to), ascending. What is in
// writeback is dirty only if it was written again.
func (m *Mapping) DirtyRuns(from, to format.LBlock) []Run {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var runs []Run
	m.eachDirty(from, to, func(f *folio, lo, hi int) bool {
		runs = join(runs, Run{f.first() + format.LBlock(lo), hi - lo})
		return true
	})
	return runs
}

// join appends r to runs, or to the last of them where it goes on.
func join(runs []Run, r Run) []Run {
	if n := len(runs); n > 0 && runs[n-1].end() == r.First {
		runs[n-1].N += r.N
		return runs
	}
	return append(runs, r)
}

// eachDirty calls fn for the runs of dirty blocks in [from, to), ascending, each in
// one folio, until fn returns false. fn may make the blocks clean.
func (m *Mapping) eachDirty(from, to format.LBlock, fn func(f *folio, lo, hi int) bool) {
	u, ok := m.tree.nextDirty(m.unitOf(from))
	for ok && u<<m.unitBits < uint64(to) {
		f := m.tree.get(u)
		after := m.span(f, u)
		lo, hi := m.within(f, u, after, from, to)
		for lo = f.bits(dirty).next(lo, hi); lo < hi; {
			end := f.bits(dirty).nextClear(lo, hi)
			if !fn(f, lo, end) {
				return
			}
			lo = f.bits(dirty).next(end, hi)
		}
		u, ok = m.tree.nextDirty(after)
	}
}

// soil makes the blocks [lo, hi) of f dirty; their units lead to f.
func (m *Mapping) soil(f *folio, lo, hi int) {
	d := f.bits(dirty)
	n := hi - lo - d.count(lo, hi)
	if n == 0 {
		return
	}
	d.set(lo, hi)
	u, units := m.unitsOf(f, lo, hi)
	m.tree.mark(u, units)
	m.dirty += int64(n)
	m.b.dirty.Add(int64(n) << m.shift)
}

// clean makes the blocks [lo, hi) of f clean; their units lead to f.
func (m *Mapping) clean(f *folio, lo, hi int) {
	d := f.bits(dirty)
	n := d.count(lo, hi)
	if n == 0 {
		return
	}
	d.clear(lo, hi)
	m.dirty -= int64(n)
	m.b.dirty.Add(-int64(n) << m.shift)
	u, units := m.unitsOf(f, lo, hi)
	for ; units > 0; u, units = u+1, units-1 {
		at := int(u-f.unit) << m.unitBits
		if !d.any(at, at+1<<m.unitBits) {
			m.tree.unmark(u, 1)
		}
	}
}

// Dirty returns the bytes of dirty blocks.
func (m *Mapping) Dirty() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.dirty << m.shift
}
