package cache

import (
	"drydock/format"
)

// ReadAt reads len(p) bytes at off, which must lie inside the caller's end of file.
// A reader that goes on where the last read ended makes it read ahead, in larger
// and larger folios. Reads never wait for memory: where none is to be had, they
// read past the cache.
func (m *Mapping) ReadAt(p []byte, off int64) error {
	if err := m.check(int64(len(p)), off); err != nil {
		return err
	}
	op := readOp{p: p, off: off}
	for len(op.p) > 0 {
		if m.hit(&op) {
			continue
		}
		if err := m.miss(&op); err != nil {
			return err
		}
	}
	return nil
}

// readOp is a read in progress: what is left to read.
type readOp struct {
	p        []byte
	off      int64
	sequence answer // does it go on where one ended?
	limit    int    // most units of a new folio, for lack of memory; 0: none
}

// hit reads what the folio at op.off has in memory; false if that is nothing.
func (m *Mapping) hit(op *readOp) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	f := m.tree.get(m.unitAt(op.off))
	if f == nil || !m.copyOut(op, f) {
		return false
	}
	m.hits.Add(1)
	return true
}

// copyOut reads what f has from op.off on; false if that is nothing. The caller
// holds mu, at least shared.
func (m *Mapping) copyOut(op *readOp, f *folio) bool {
	lo := int((op.off - f.start()) >> m.shift)
	end := min(op.off+int64(len(op.p)), f.end())
	hi := int((end-f.start()-1)>>m.shift) + 1
	have := f.bits(uptodate).nextClear(lo, hi)
	if have == lo || m.closed {
		return false
	}
	if op.sequence == unknown && op.off > f.start() {
		op.sequence = answerOf(f.lastEnd() == op.off)
	}
	end = min(end, f.start()+int64(have)<<m.shift)
	n := copy(op.p, f.buf[op.off-f.start():end-f.start()])
	op.p, op.off = op.p[n:], op.off+int64(n)
	f.touch(end)
	return true
}

// miss brings what is at op.off into memory and reads it, or reads it past the
// cache.
func (m *Mapping) miss(op *readOp) error {
	m.mu.Lock()
	u := m.unitAt(op.off)
	f := m.tree.get(u)
	if op.sequence == unknown {
		op.sequence = answerOf(m.follows(f, op.off))
	}
	if f == nil && !m.closed {
		var order int
		if f, order = m.place(u, m.readAhead(op, u), op.limit); f == nil {
			m.mu.Unlock()
			return m.roomToRead(op, order)
		}
	}
	if m.closed || f.fill != nil {
		return m.await(f)
	}
	if lo := int((op.off - f.start()) >> m.shift); f.bits(frozen).get(lo) && !f.bits(uptodate).get(lo) {
		m.mu.Unlock() // discarded, but a Writeback reads this memory: nothing may be read into it
		return m.bypass(op)
	}
	defer m.mu.Unlock()
	return m.readInto(op, f, u)
}

// await lets go of mu and waits for the fill of f; or says that the mapping is
// closed.
func (m *Mapping) await(f *folio) error {
	if m.closed {
		m.mu.Unlock()
		return ErrClosed
	}
	busy := f.fill
	m.mu.Unlock()
	<-busy.done
	return nil
}

// readAhead returns how many units a new folio for unit u should have.
func (m *Mapping) readAhead(op *readOp, u uint64) int {
	last := m.unitAt(op.off + int64(len(op.p)) - 1)
	n := int(min(last-u+1, maxFolioSize))
	if op.sequence != yes {
		return n
	}
	n = m.ahead(u, n)
	if s, ok := m.src.(Sizer); ok && s.Size() > op.off {
		n = int(min(uint64(n), m.unitAt(s.Size()-1)-u+1))
	}
	return n
}

// readInto reads from the device the blocks that miss at op.off, and if the user
// goes on in sequence those behind them, as far as f goes; then copies them out.
// The caller holds mu, which is let go of meanwhile.
func (m *Mapping) readInto(op *readOp, f *folio, u uint64) error {
	lo := int((op.off - f.start()) >> m.shift)
	after := int(m.span(f, u)-f.unit) << m.unitBits
	wanted := min(after, int((op.off+int64(len(op.p))-f.start()-1)>>m.shift)+1)
	hi := wanted
	if op.sequence == yes {
		hi = max(hi, min(after, m.usable(f)))
	}
	hi = f.bits(frozen).next(lo, f.bits(uptodate).next(lo, hi))
	if lo == hi {
		return nil // another was faster
	}
	done, err := m.read(f, lo, hi)
	switch {
	case err != nil && hi > wanted: // a bad block ahead is not this reader's
		op.sequence = no
		return nil
	case done:
		m.copyOut(op, f)
	}
	return err
}

// read fills the blocks [lo, hi) of f, which has no other fill, from the device.
// The caller holds mu, which is let go of meanwhile; writers keep away from the
// blocks. False if some of them were discarded meanwhile.
func (m *Mapping) read(f *folio, lo, hi int) (bool, error) {
	now := &fill{lo: lo, hi: hi, done: make(chan struct{})}
	f.fill = now
	m.counts.Misses++
	m.counts.FillBytes += uint64(hi-lo) << m.shift
	m.mu.Unlock()
	err := m.src.Fill(f.first()+format.LBlock(lo), f.block(lo, hi))
	m.mu.Lock()
	f.fill = nil
	close(now.done)
	done := err == nil && !now.stale
	if done {
		f.bits(uptodate).set(lo, hi)
	}
	m.rest(f)
	return done, err
}

// roomToRead gets memory for a frame of the order, or makes op do with less, or
// with none.
func (m *Mapping) roomToRead(op *readOp, order int) error {
	units := m.unitsIn(order)
	switch {
	case m.b.reclaim(order, false):
		return nil
	case units > 1:
		op.limit = units / 2
		return nil
	}
	return m.bypass(op)
}

// bypass reads one block that is not in memory, past the cache.
func (m *Mapping) bypass(op *readOp) error {
	size := int64(1) << m.shift
	l, at := format.LBlock(op.off>>m.shift), int(op.off&(size-1))
	m.b.scratchMu.Lock()
	defer m.b.scratchMu.Unlock()
	buf := m.b.scratchFrame().bytes()[:size]
	if err := m.src.Fill(l, buf); err != nil {
		return err
	}
	n := copy(op.p, buf[at:])
	op.p, op.off = op.p[n:], op.off+int64(n)
	m.bypassed(size)
	return nil
}

// bypassed counts a read past the cache.
func (m *Mapping) bypassed(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Misses++
	m.counts.FillBytes += uint64(n)
}
