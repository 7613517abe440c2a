package cache

import "sync"

// Stats counts what a Mapping, or all mappings of a Budget, did.
type Stats struct {
	Hits        uint64 // parts of reads that were found in memory
	Misses      uint64 // reads of the device
	FillBytes   uint64 // bytes that these read
	UserBytes   uint64 // bytes taken by writes
	DeviceBytes uint64 // bytes given to writeback
	Copies      uint64 // copies made because a writer met blocks in writeback
	CopyBytes   uint64 // their bytes
	Waits       uint64 // times a writer waited for memory
	Punts       uint64 // times TryWriteAt gave up
	Evictions   uint64 // folios given up to make room
}

// Amplification returns the bytes given to writeback for each byte written by the
// user.
func (s Stats) Amplification() float64 { return float64(s.DeviceBytes) / float64(max(s.UserBytes, 1)) }

// plus adds another's counters.
func (s Stats) plus(o Stats) Stats {
	s.Hits += o.Hits
	s.Misses += o.Misses
	s.FillBytes += o.FillBytes
	s.UserBytes += o.UserBytes
	s.DeviceBytes += o.DeviceBytes
	s.Copies += o.Copies
	s.CopyBytes += o.CopyBytes
	s.Waits += o.Waits
	s.Punts += o.Punts
	s.Evictions += o.Evictions
	return s
}

// Stats returns the counters of this mapping.
func (m *Mapping) Stats() Stats {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.stats()
}

// stats is Stats for a caller that holds mu.
func (m *Mapping) stats() Stats {
	s := m.counts
	s.Hits, s.Punts, s.Waits = m.hits.Load(), m.punts.Load(), m.waits.Load()
	return s
}

// Stats returns the sums over all mappings that the budget has had.
func (b *Budget) Stats() Stats { return b.mappings.sum() }

// mappingList holds the open mappings of a budget and the sums of those that were
// closed. Its lock is outside a mapping's when summing, inside when closing; so sum
// takes the list first.
type mappingList struct {
	mu    sync.Mutex
	first *Mapping
	n     int
	past  Stats
}

func (l *mappingList) add(m *Mapping) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m.next = l.first
	if m.next != nil {
		m.next.prev = m
	}
	l.first = m
	l.n++
}

// remove takes a mapping out whose counters are s.
func (l *mappingList) remove(m *Mapping, s Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.prev != nil {
		m.prev.next = m.next
	} else {
		l.first = m.next
	}
	if m.next != nil {
		m.next.prev = m.prev
	}
	m.next, m.prev = nil, nil
	l.n--
	l.past = l.past.plus(s)
}

func (l *mappingList) sum() Stats {
	l.mu.Lock()
	open, sum := make([]*Mapping, 0, l.n), l.past
	for m := l.first; m != nil; m = m.next {
		open = append(open, m)
	}
	l.mu.Unlock()
	for _, m := range open {
		sum = sum.plus(m.Stats())
	}
	return sum
}
