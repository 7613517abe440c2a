package cache

import (
	"errors"

	"drydock/format"
)

// ErrWouldWait is what TryWriteAt says when it can go on only by waiting: for memory, for a
// lock, or for a read of the device.
var ErrWouldWait = errors.New("the write would have to wait")

// patience is what a write waits for.
type patience uint8

const (
	never   patience = iota // TryWriteAt
	butRoom                 // locks and reads of the device, but not memory
	always
)

// WriteAt writes p at off. Where memory is used up it waits until something was written back.
// On an error n bytes were taken.
func (m *Mapping) WriteAt(p []byte, off int64) (n int, err error) { return m.write(p, off, always) }

// WriteWithin is WriteAt for callers that hold a lock which writeback needs: instead of waiting for
// memory it returns ErrNoRoom. The caller lets go of the lock, calls Budget.WaitRoom, and goes on
// with the bytes from n on.
func (m *Mapping) WriteWithin(p []byte, off int64) (n int, err error) {
	return m.write(p, off, butRoom)
}

// TryWriteAt writes as much of p as it can without waiting for memory, the device, or
// a lock that others hold for longer than a copy takes. n < len(p) comes with ErrWouldWait, or
// the error that ended it.
func (m *Mapping) TryWriteAt(p []byte, off int64) (n int, err error) { return m.write(p, off, never) }

func (m *Mapping) write(p []byte, off int64, wait patience) (int, error) {
	if err := m.check(int64(len(p)), off); err != nil {
		return 0, err
	}
	op := writeOp{p: p, off: off, wait: wait}
	for len(op.p) > 0 {
		if err := m.advance(&op); err != nil {
			return len(p) - len(op.p), err
		}
	}
	return len(p), nil
}

// writeOp is a write in progress: what is left to write, and what was found out on the way.
type writeOp struct {
	p    []byte
	off  int64
	wait patience

	sequence answer // does it go on where one ended?
	limit    int    // most units of a new folio, for lack of memory; 0: none
	reserved Run    // has space
	holes    [2]hole
}

type answer uint8

const (
	unknown answer = iota
	no
	yes
)

func answerOf(b bool) answer {
	if b {
		return yes
	}
	return no
}

// hole is a block that was not mapped when the mapping had seen so many drops, and that
// has therefore, while that number stands, no content but what is in memory.
type hole struct {
	block format.LBlock
	drops uint64
	known bool
}

// took moves op on by n bytes.
func (op *writeOp) took(n int) {
	op.p = op.p[n:]
	op.off += int64(n)
	if op.sequence == unknown {
		op.sequence = no // its own end is where it goes on
	}
}

// need says what a write wants before it can go on, of which nothing is to be had under the lock.
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

// advance writes into one folio, or gets something that is needed for it.
func (m *Mapping) advance(op *writeOp) error {
	if !m.lock(op.wait) {
		return m.punt()
	}
	n, want := m.step(op)
	m.mu.Unlock()
	if n > 0 {
		op.took(n)
		m.b.throttle()
		return nil
	}
	return m.provide(op, want)
}

// lock takes the lock; a write that must not wait gives up when another holds it for longer
// than a copy should take.
func (m *Mapping) lock(wait patience) bool {
	if wait != never {
		m.mu.Lock()
		return true
	}
	for range 100 {
		if m.mu.TryLock() {
			return true
		}
	}
	return false
}

// punt counts a write that must not wait and would have to.
func (m *Mapping) punt() error {
	m.punts.Add(1)
	return ErrWouldWait
}

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
	if n := m.overwrite(op, f); n > 0 {
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

// overwrite writes op if nothing has to be found out or marked: all in one folio, whose blocks
// are dirty already. It returns 0 if that is not so.
func (m *Mapping) overwrite(op *writeOp, f *folio) int {
	if f == nil || f.io != 0 || f.fill != nil || int(f.units)<<m.unitBits > 64 || m.whole {
		return 0
	}
	at := int(op.off - int64(f.unit)<<(m.shift+m.unitBits)) // f.start without a look at f.m
	end := at + len(op.p)
	if end > len(f.buf) {
		return 0
	}
	touched := ^uint64(0) >> (63 - uint(end-1)>>m.shift) &^ (1<<(uint(at)>>m.shift) - 1)
	if f.words[dirty]&touched != touched {
		return 0
	}
	n := copy(f.buf[at:end], op.p)
	f.touch(op.off + int64(n))
	m.counts.UserBytes += uint64(n)
	return n
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

// mayChange makes sure that nobody else uses the memory of the blocks: a block that is
// being written back gets another folio, one that is being read is waited for.
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

// hasContent makes sure that blocks of which the write covers only a part are uptodate,
// or are holes. The step ends before a last block that is not.
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

// lacks tells whether block b is written in part, and has content elsewhere, as far as is known.
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

// hasAll makes sure that all blocks of f are uptodate but those that the write covers.
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

// hasSpace makes sure that space is reserved for blocks that become dirty. The step ends
// where dirty blocks end, or what is reserved: lack of space is for the block that lacks it.
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

// carve gives the units that the step starts with, and that are being written back, a folio of their
// own, and with it the content of their blocks and what is known of them.
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

// learn finds out whether a block that is to be written in part is a hole, and reads it otherwise.
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

// reserve takes space for the blocks of a run, or for as many of the first as there is.
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
