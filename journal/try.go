package journal

// undo is what a change was when a Try began.
type undo struct {
	i     int
	was   change
	moved bool // was.v is the version itself; else a copy of it
}

// mark is how much a Tx had gathered at one time; its zero value is the start.
type mark struct {
	changes, undo, onMerge, onAbort, onDurable int
}

func (s *txState) mark() mark {
	return mark{len(s.changes), len(s.undo), len(s.onMerge), len(s.onAbort), len(s.onDurable)}
}

// Try calls fn. If fn fails, all that it did in the Tx is undone, including its
// callbacks, the error is returned, and the Tx goes on as if Try had not been
// called; bytes that Change gave before must then be asked for again. Tries may
// be nested.
func (t *Tx) Try(fn func() error) error {
	if t.s == nil {
		return errEnded
	}
	m, outer := t.s.mark(), t.s.savepoint
	t.s.savepoints++
	t.s.savepoint = t.s.savepoints
	err := fn()
	if t.s == nil { // fn has ended the Tx
		return err
	}
	t.s.savepoint = outer
	switch {
	case err != nil:
		t.undoTo(m)
	case outer == 0:
		t.dropUndo(m.undo)
	}
	return err
}

// save keeps a copy of change i before it changes, if that is the first time
// since the innermost savepoint.
func (t *Tx) save(i int) {
	s := t.s
	c := &s.changes[i]
	if s.savepoint == 0 || c.since >= s.savepoint {
		return
	}
	u := undo{i: i, was: *c}
	if c.v != nil {
		u.was.v = t.j.pool.get(c.block)
		copy(u.was.v.data, c.v.data)
		u.was.v.checked.Store(true)
	}
	s.undo = append(s.undo, u)
	c.since = s.savepoints
}

// saveMoved is save for a version that is going to be dropped.
func (t *Tx) saveMoved(i int) {
	s := t.s
	c := &s.changes[i]
	if s.savepoint == 0 || c.since >= s.savepoint {
		return
	}
	s.undo = append(s.undo, undo{i: i, was: *c, moved: true})
	c.since = s.savepoints
	if c.v != nil {
		c.v = nil
		s.changed--
	}
}

// undoTo makes the Tx what it was at m, and calls OnAbort callbacks.
func (t *Tx) undoTo(m mark) {
	s := t.s
	for i := len(s.onAbort) - 1; i >= m.onAbort; i-- {
		fn := s.onAbort[i]
		s.onAbort = s.onAbort[:i]
		fn()
	}
	for i := len(s.undo) - 1; i >= m.undo; i-- {
		t.restore(s.undo[i])
	}
	for _, c := range s.changes[m.changes:] {
		t.dropChange(c)
	}
	clear(s.changes[m.changes:])
	for _, b := range s.blocks[m.changes:] {
		delete(s.index, b)
	}
	s.changes, s.blocks = s.changes[:m.changes], s.blocks[:m.changes]
	s.undo = s.undo[:m.undo]
	s.onMerge, s.onDurable = s.onMerge[:m.onMerge], s.onDurable[:m.onDurable]
}

// restore undoes one change. A version that is still there keeps its place in
// memory, so that bytes given before stay right.
func (t *Tx) restore(u undo) {
	c := &t.s.changes[u.i]
	if c.v != nil && u.was.v != nil && !u.moved {
		copy(c.v.data, u.was.v.data)
		c.v, u.was.v = u.was.v, c.v
	}
	t.dropChange(*c)
	*c = u.was
	if c.v != nil {
		t.s.changed++
	}
	if c.forget {
		t.s.forgotten++
	}
}

// dropChange forgets what a change holds.
func (t *Tx) dropChange(c change) {
	if c.v != nil {
		t.j.pool.put(c.v)
		t.s.changed--
	}
	if c.forget {
		t.s.forgotten--
	}
}

// dropUndo forgets how to undo, back to length n.
func (t *Tx) dropUndo(n int) {
	s := t.s
	for _, u := range s.undo[n:] {
		if u.was.v != nil {
			t.j.pool.put(u.was.v)
		}
	}
	clear(s.undo[n:])
	s.undo = s.undo[:n]
}
