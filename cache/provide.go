package cache

import "drydock/format"

// need says what a write wants before it can go on, of which nothing is to be had
// under the lock.
type need struct {
	kind  needKind
	order int    // of a frame
	fill  *fill  // to wait for
	run   Run    // of blocks
	drops uint64 // of the mapping, when this was found
}

type needKind uint8

const (
	nothing needKind = iota // go on at once
	memory                  // a frame
	end                     // of another's reading from the device
	content                 // of the block, if it is mapped
	blocks                  // read from the device
	space                   // reserved
	open                    // a mapping that is not closed
)

// provide gets what a write needs; the caller holds no lock of the cache.
func (m *Mapping) provide(op *writeOp, want need) error {
	switch want.kind {
	case open:
		return ErrClosed
	case memory:
		return m.room(op, want.order)
	case end:
		return m.awaitFill(op, want.fill)
	case content:
		return m.learn(op, want)
	case blocks:
		return m.load(op, want.run)
	case space:
		return m.reserve(op, want.run)
	}
	return nil
}

// room gets memory for a frame of the order, or makes op do with less.
func (m *Mapping) room(op *writeOp, order int) error {
	seen := m.b.seen()
	units := m.unitsIn(order)
	switch {
	case m.b.reclaim(order, op.wait == never):
		return nil
	case units > 1:
		op.limit = units / 2
		return nil
	case op.wait == never:
		return m.punt()
	case op.wait == butRoom:
		return ErrNoRoom
	}
	m.waits.Add(1)
	op.limit = 0
	return m.b.await(seen)
}

func (m *Mapping) awaitFill(op *writeOp, f *fill) error {
	if op.wait == never {
		return m.punt()
	}
	<-f.done
	return nil
}

// learn finds out whether a block that is to be written in part is a hole, and
// reads it otherwise.
func (m *Mapping) learn(op *writeOp, want need) error {
	mapped, known, err := m.mapped(want.run.First, op.wait)
	switch {
	case err != nil:
		return err
	case !known:
		return m.punt()
	case mapped:
		return m.load(op, want.run)
	}
	op.holes[1] = op.holes[0]
	op.holes[0] = hole{want.run.First, want.drops, true}
	return nil
}

// mapped asks the source about block l.
func (m *Mapping) mapped(l format.LBlock, wait patience) (mapped, known bool, err error) {
	if m.quick != nil && wait == never {
		m.mu.RLock()
		defer m.mu.RUnlock()
		mapped, known = m.quick.TryMapped(l)
		return mapped, known, nil
	}
	mapped, err = m.src.Mapped(l)
	return mapped, true, err
}

// load reads blocks that a write needs from the device.
func (m *Mapping) load(op *writeOp, r Run) error {
	if op.wait == never {
		return m.punt()
	}
	m.mu.Lock()
	f := m.tree.get(m.unitOf(r.First))
	if f == nil || f.fill != nil {
		var busy *fill
		if f != nil {
			busy = f.fill
		}
		m.mu.Unlock()
		if busy != nil {
			<-busy.done
		}
		return nil // look again
	}
	defer m.mu.Unlock()
	lo, hi := f.index(r.First), f.index(r.end())
	hi = min(hi, int(m.span(f, m.unitOf(r.First))-f.unit)<<m.unitBits, f.bits(uptodate).next(lo, hi))
	if lo >= hi || f.bits(frozen).any(lo, hi) {
		return nil
	}
	_, err := m.read(f, lo, hi)
	return err
}

// reserve takes space for the blocks of a run, or for as many of the first as there
// is.
func (m *Mapping) reserve(op *writeOp, r Run) error {
	for {
		done, err := m.askSpace(r, op.wait)
		switch {
		case err == nil && !done:
			return m.punt()
		case err == nil:
			op.reserved = r
			return nil
		case r.N == 1 || m.whole:
			return err
		}
		r.N /= 2
	}
}

// askSpace asks the source for the space of a run.
func (m *Mapping) askSpace(r Run, wait patience) (done bool, err error) {
	if m.quick != nil && wait == never {
		m.mu.RLock()
		defer m.mu.RUnlock()
		return m.quick.TryReserve(r.First, r.N)
	}
	return true, m.src.Reserve(r.First, r.N)
}
