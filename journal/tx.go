package journal

import (
	"fmt"

	"drydock/format"
)

// Tx is a set of changes that happen together or not at all. It belongs to one
// goroutine. Bytes that it has given may be used until Commit or Abort.
type Tx struct {
	j *Journal
	s *txState // nil once it has ended
}

// change is what a Tx does to one block.
type change struct {
	block  format.Block
	v      *Version // new content; nil if there is none
	forget bool     // the block is freed, and not used again by this Tx
	since  uint32   // the savepoint since which this can be undone
}

// txState is what a Tx has gathered; it is used again by the next.
type txState struct {
	changes []change
	blocks  []format.Block       // of changes
	index   map[format.Block]int // of changes, when they are many
	last    int                  // the change that was found last

	changed, forgotten int // how many changes have content, or are a free

	onMerge, onAbort, onDurable []func()

	savepoint  uint32 // the innermost Try; 0: none
	savepoints uint32 // how many there were
	undo       []undo
}

// fewChanges can be searched one by one faster than through a map.
const fewChanges = 16

// Begin starts a Tx, and waits for the one that is under way to end. It fails
// with ErrAborted, ErrReadOnly or ErrClosed.
func (j *Journal) Begin() (*Tx, error) {
	if j.o.ReadOnly {
		return nil, ErrReadOnly
	}
	j.txMu.Lock()
	if err := j.usable(); err != nil {
		j.txMu.Unlock()
		return nil, err
	}
	return &Tx{j: j, s: &j.tx}, nil
}

// usable returns why nothing can be changed.
func (j *Journal) usable() error {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if j.closed {
		return ErrClosed
	}
	return j.err
}

// find returns the index of the change of b, or -1.
func (s *txState) find(b format.Block) int {
	if s.last < len(s.blocks) && s.blocks[s.last] == b {
		return s.last
	}
	if len(s.blocks) > fewChanges {
		if i, ok := s.index[b]; ok {
			s.last = i
			return i
		}
		return -1
	}
	for i, have := range s.blocks {
		if have == b {
			s.last = i
			return i
		}
	}
	return -1
}

// add appends a change.
func (s *txState) add(c change) {
	c.since = s.savepoints
	i := len(s.changes)
	s.changes = append(s.changes, c)
	s.blocks = append(s.blocks, c.block)
	s.last = i
	if i < fewChanges {
		return
	}
	if i == fewChanges {
		s.fillIndex()
	}
	s.index[c.block] = i
}

// fillIndex begins the map for the first changes.
func (s *txState) fillIndex() {
	if s.index == nil {
		s.index = make(map[format.Block]int, 8*fewChanges)
	}
	clear(s.index)
	for i, b := range s.blocks {
		s.index[b] = i
	}
}

// Get returns the Tx's own version of b, or the current one.
func (t *Tx) Get(b format.Block) (*Version, error) {
	if t.s == nil {
		return nil, errEnded
	}
	if i := t.s.find(b); i >= 0 && t.s.changes[i].v != nil {
		return t.s.changes[i].v, nil
	}
	return t.j.Get(b)
}

// errEnded is a mistake of the caller.
var errEnded = fmt.Errorf("journal: transaction has ended: %w", ErrClosed)

// Change returns the Tx's private copy of b, to be changed. It counts as checked
// from now on. ErrTooLarge: no more blocks fit; the Tx is as it was.
func (t *Tx) Change(b format.Block) ([]byte, error) {
	if t.s == nil {
		return nil, errEnded
	}
	i := t.s.find(b)
	if i >= 0 && t.s.changes[i].v != nil {
		t.save(i)
		return t.s.changes[i].v.data, nil
	}
	if err := t.j.awaitWritten(b); err != nil {
		return nil, err
	}
	cur, err := t.j.Get(b)
	if err != nil {
		return nil, err
	}
	return t.put(i, b, cur.data)
}

// New returns a private version of b that is all zeros; nothing is read.
func (t *Tx) New(b format.Block) ([]byte, error) {
	if t.s == nil {
		return nil, errEnded
	}
	if err := t.j.checkBlock(b, 1); err != nil {
		return nil, err
	}
	i := t.s.find(b)
	if i >= 0 && t.s.changes[i].v != nil {
		t.save(i)
		clear(t.s.changes[i].v.data)
		return t.s.changes[i].v.data, nil
	}
	return t.put(i, b, nil)
}

// put makes a private version of b with the given content, nil for zeros, for
// the change at i or, if that is -1, a new one.
func (t *Tx) put(i int, b format.Block, content []byte) ([]byte, error) {
	s := t.s
	if s.changed >= t.j.maxTx {
		return nil, fmt.Errorf("%w: %d blocks", ErrTooLarge, s.changed+1)
	}
	v := t.j.pool.get(b)
	if content == nil {
		clear(v.data)
	} else {
		copy(v.data, content)
	}
	v.checked.Store(true)
	s.changed++
	if i < 0 {
		s.add(change{block: b, v: v})
		return v.data, nil
	}
	t.save(i)
	c := &s.changes[i]
	if c.forget {
		c.forget = false
		s.forgotten--
	}
	c.v = v
	return v.data, nil
}

// Forget says that b is being freed: a block of metadata, or of journaled data.
// Its change is dropped, and what the log has of it will not be replayed.
func (t *Tx) Forget(b format.Block) {
	if t.s == nil {
		return
	}
	s := t.s
	i := s.find(b)
	if i < 0 {
		s.add(change{block: b, forget: true})
		s.forgotten++
		return
	}
	t.saveMoved(i)
	c := &s.changes[i]
	if c.v != nil {
		t.j.pool.put(c.v)
		c.v = nil
		s.changed--
	}
	if !c.forget {
		c.forget = true
		s.forgotten++
	}
}

// OnMerge has fn called in Commit when the changes have become current, while
// the Tx still excludes others.
func (t *Tx) OnMerge(fn func()) {
	if t.s != nil {
		t.s.onMerge = append(t.s.onMerge, fn)
	}
}

// OnAbort has fn called when the Tx, or the Try around the call, is undone: the
// last one first.
func (t *Tx) OnAbort(fn func()) {
	if t.s != nil {
		t.s.onAbort = append(t.s.onAbort, fn)
	}
}

// OnDurable has fn called when the changes are durable and no checkpoint writes
// what was forgotten: blocks that were freed may be used again.
func (t *Tx) OnDurable(fn func()) {
	if t.s != nil {
		t.s.onDurable = append(t.s.onDurable, fn)
	}
}

// Size is the number of blocks changed so far; with those that it takes to
// revoke the forgotten ones. It is to be compared with Journal.MaxTx.
func (t *Tx) Size() int {
	if t.s == nil {
		return 0
	}
	return t.s.changed + t.j.revokeBlocks(t.s.forgotten)
}

// Abort forgets the Tx; after Commit it does nothing.
func (t *Tx) Abort() {
	if t.s == nil {
		return
	}
	t.undoTo(mark{})
	t.end()
}

// end lets others begin.
func (t *Tx) end() {
	t.s.reset()
	t.s = nil
	t.j.txMu.Unlock()
}

// keepChanges bounds the memory that an ended Tx leaves to the next.
const keepChanges = 1 << 12

// reset makes the state that of a new Tx.
func (s *txState) reset() {
	if cap(s.changes) > keepChanges {
		*s = txState{}
		return
	}
	clear(s.changes)
	clear(s.onMerge)
	clear(s.onAbort)
	clear(s.onDurable)
	*s = txState{
		changes: s.changes[:0], blocks: s.blocks[:0], index: s.index, undo: s.undo[:0],
		onMerge: s.onMerge[:0], onAbort: s.onAbort[:0], onDurable: s.onDurable[:0],
	}
}
