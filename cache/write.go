package cache

import (
	"errors"

	"drydock/format"
)

// ErrWouldWait is what TryWriteAt says when it can go on only by waiting: for
// memory, for a lock, or for a read of the device.
var ErrWouldWait = errors.New("the write would have to wait")

// patience is what a write waits for.
type patience uint8

const (
	never   patience = iota // TryWriteAt
	butRoom                 // locks and reads of the device, but not memory
	always
)

// WriteAt writes p at off. Where memory is used up it waits until something was
// written back. On an error n bytes were taken.
func (m *Mapping) WriteAt(p []byte, off int64) (n int, err error) { return m.write(p, off, always) }

// WriteWithin is WriteAt for callers that hold a lock which writeback needs:
// instead of waiting for memory it returns ErrNoRoom. The caller lets go of the
// lock, calls WaitRoom, and goes on with the bytes from n on.
func (m *Mapping) WriteWithin(p []byte, off int64) (n int, err error) {
	return m.write(p, off, butRoom)
}

// WaitRoom waits until there is memory for a write to go on with that has met
// ErrNoRoom. The caller holds nothing that writeback needs.
func (m *Mapping) WaitRoom() error {
	for {
		seen := m.b.seen()
		if m.b.reclaim(m.orderOf(1), false) {
			return nil
		}
		m.waits.Add(1)
		if err := m.b.await(seen); err != nil {
			return err
		}
	}
}

// TryWriteAt writes as much of p as it can without waiting for memory, the device,
// or a lock that others hold for longer than a copy takes. n < len(p) comes with
// ErrWouldWait, or the error that ended it.
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

// writeOp is a write in progress: what is left to write, and what was found out on
// the way.
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

// hole is a block that was not mapped when the mapping had seen so many drops, and
// that has therefore, while that number stands, no content but what is in memory.
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

// lock takes the lock; a write that must not wait gives up when another holds it
// for longer than a copy should take.
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
