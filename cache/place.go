package cache

import "math"

// place makes a folio for unit u, which has none, of up to want units, or as the
// options say, and of up to limit units if that is not 0. When there is no memory
// for it, it returns nil and the order that was missing. The caller holds mu.
func (m *Mapping) place(u uint64, want, limit int) (*folio, int) {
	n := m.fit(u, want, limit)
	f, order := m.newFolio(u&^uint64(n-1), n)
	if f != nil {
		m.tree.put(f, f.unit, n)
	}
	return f, order
}

// newFolio returns a folio for the units [u, u+n), not in the tree yet, or nil and
// the order of the frame that it would take.
func (m *Mapping) newFolio(u uint64, n int) (*folio, int) {
	order := m.orderOf(n)
	f := m.b.take(m, u, n, order)
	if blocks := n << m.unitBits; f != nil && blocks > 64 {
		more := make(bitmap, kinds*blocks/64)
		f.more = &more
	}
	return f, order
}

// orderOf returns the order of the frame for n units.
func (m *Mapping) orderOf(n int) int { return orderOf(n << (m.shift + m.unitBits)) }

// unitsIn returns how many units a frame of the order has room for.
func (m *Mapping) unitsIn(order int) int { return 1 << (order + pageShift) >> (m.shift + m.unitBits) }

// fit returns how many units a new folio for unit u gets: a power of two, and none
// that has a folio.
func (m *Mapping) fit(u uint64, want, limit int) int {
	n := int(m.fixed)
	if n == 0 {
		n = min(want, streamFolio>>(m.shift+m.unitBits))
		if u != 0 {
			n = min(n, 1<<min(trailingZeros(u), maxOrder))
		}
	}
	if limit > 0 {
		n = min(n, limit)
	}
	n = floorPower(n)
	for n > 1 && m.tree.occupied(u&^uint64(n-1), n) {
		n >>= 1
	}
	return n
}

// ahead returns how many units a new folio for unit u should have when n are needed
// and the user goes on in sequence: twice as many as the folio before.
func (m *Mapping) ahead(u uint64, n int) int {
	if u == 0 {
		return n
	}
	if before := m.tree.get(u - 1); before != nil {
		return max(n, 2*int(before.units))
	}
	return n
}

// follows tells whether a read or write at off goes on where one ended. f is the
// folio there, or nil.
func (m *Mapping) follows(f *folio, off int64) bool {
	if off == 0 {
		return false
	}
	if f == nil || off == f.start() {
		f = m.tree.get(m.unitAt(off - 1))
	}
	return f != nil && f.lastEnd() == off
}

// usable returns how many blocks of f can be part of the file.
func (m *Mapping) usable(f *folio) int {
	n := min(int64(f.blocks()), math.MaxUint32-int64(f.first()))
	if s, ok := m.src.(Sizer); ok {
		n = min(n, (s.Size()-f.start()+1<<m.shift-1)>>m.shift)
	}
	return int(max(n, 0))
}
