package cache

// idle tells that a folio can be evicted from now on.
func (b *Budget) idle(f *folio) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch f.at {
	case outside:
		b.clock.push(f)
	case inHand:
		f.at = inHandIdle
	}
	b.progressed()
}

// reclaim makes take(order) likely to succeed, by growing or evicting; false if
// neither helps. With try it does not wait for locks. The caller holds no lock of
// the cache.
func (b *Budget) reclaim(order int, try bool) bool {
	b.mu.Lock()
	n := b.clock.n
	b.mu.Unlock()
	for visits := 0; ; visits++ {
		b.mu.Lock()
		found := b.free.has(order)
		b.mu.Unlock()
		if found || b.grow() {
			return true
		}
		if try && visits > 2*n || !b.evict(try, visits >= n) {
			return false
		}
	}
}

// refill evicts until n bytes, but not more than may be dirty before writeback is
// asked for, are free: what was written back is about what is written until the
// next time, and the writers should find memory.
func (b *Budget) refill(n int64) {
	b.mu.Lock()
	visits := b.clock.n
	b.mu.Unlock()
	n = min(n, b.background)
	for ; visits > 0 && b.limit-b.used.Load() < n && b.evict(false, false); visits-- {
	}
}

// evict gives up the folio under the clock's hand, unless it is busy, or was used
// again since the hand passed last and force is not set; false if there is no
// folio.
func (b *Budget) evict(try, force bool) bool {
	f, any := b.hand(force)
	if f == nil {
		return any
	}
	switch f.m.evict(f, try) {
	case locked:
		b.putBack(f, true)
	case busy:
		b.putBack(f, false)
	}
	return true
}

// hand takes the next folio out of the clock and returns it, or nil if it stays in,
// for a second chance. False if there is none.
func (b *Budget) hand(force bool) (*folio, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.clock.first
	if f == nil {
		return nil, false
	}
	b.clock.remove(f)
	if f.ended.And(^usedAgain)&usedAgain != 0 && !force {
		b.clock.push(f)
		return nil, true
	}
	f.at = inHand
	return f, true
}

// putBack ends the stay of a folio in the hand that was not evicted.
func (b *Budget) putBack(f *folio, idle bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	idle = idle || f.at == inHandIdle
	f.at = outside
	if idle && f.frame != nil {
		b.clock.push(f)
	}
}

// clockPlace says where a folio is, seen from the clock. A folio that the hand
// found busy is outside until it is idle.
type clockPlace uint8

const (
	outside clockPlace = iota
	inClock
	inHand     // of one goroutine, which looks at it
	inHandIdle // ... and has to look again, or to put it back
)

// clock is a list of folios; the hand is at the first, and what it passes goes to
// the end.
type clock struct {
	first, last *folio
	n           int
}

func (l *clock) push(f *folio) {
	f.prev, f.next, f.at = l.last, nil, inClock
	if l.last != nil {
		l.last.next = f
	} else {
		l.first = f
	}
	l.last = f
	l.n++
}

func (l *clock) remove(f *folio) {
	if f.prev != nil {
		f.prev.next = f.next
	} else {
		l.first = f.next
	}
	if f.next != nil {
		f.next.prev = f.prev
	} else {
		l.last = f.prev
	}
	f.prev, f.next, f.at = nil, nil, outside
	l.n--
}
