package cache

import "drydock/format"

// Discard drops the whole blocks [from, to), dirty or not, as truncating and
// punching holes do. What is in writeback stays with the writeback, whose failure
// makes it dirty no more.
//
// The caller keeps writes to the range away until it has given up the space of the
// blocks, and waits for the writeback's End before the same place is written again.
func (m *Mapping) Discard(from, to format.LBlock) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.discard(from, to)
}

func (m *Mapping) discard(from, to format.LBlock) {
	m.drops++
	for _, w := range m.inflight {
		w.gone = append(w.gone, blockRange{from, to})
	}
	u, ok := m.tree.nextPresent(m.unitOf(from))
	for ok && u<<m.unitBits < uint64(to) {
		f := m.tree.get(u)
		after := m.span(f, u)
		lo, hi := m.within(f, u, after, from, to)
		m.discardIn(f, lo, hi)
		u, ok = m.tree.nextPresent(after)
	}
	m.b.rearm()
}

// discardIn drops the blocks [lo, hi) of f.
func (m *Mapping) discardIn(f *folio, lo, hi int) {
	m.clean(f, lo, hi)
	f.bits(uptodate).clear(lo, hi)
	f.bits(inFlight).clear(lo, hi)
	if f.filling(lo, hi) {
		f.fill.stale = true
	}
	m.rest(f)
}

// rest does what is due when f may have come to rest: a folio that holds nothing
// goes, an idle one can be evicted.
func (m *Mapping) rest(f *folio) {
	switch {
	case f.owned == 0 || f.fill != nil:
	case !f.bits(uptodate).any(0, f.blocks()):
		m.remove(f, false)
	case f.idle():
		m.b.idle(f)
	}
}

// remove takes f, which is in the clock's hand if inHand says so, out of the tree.
// Its memory is free when no Writeback reads it.
func (m *Mapping) remove(f *folio, inHand bool) {
	m.tree.drop(f)
	if f.io == 0 {
		m.b.release(f, inHand)
	}
}

// What became of a folio that was to be evicted.
type eviction uint8

const (
	evicted eviction = iota // its memory is free
	busy                    // it is in use, or gone already
	locked                  // the lock could not be had without waiting
)

// evict gives up f, which is in the clock's hand, if it is idle.
func (m *Mapping) evict(f *folio, try bool) eviction {
	if !try {
		m.mu.Lock()
	} else if !m.mu.TryLock() {
		return locked
	}
	defer m.mu.Unlock()
	if f.owned == 0 || !f.idle() {
		return busy
	}
	m.remove(f, true)
	m.drops++
	m.counts.Evictions++
	return evicted
}
