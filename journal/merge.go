package journal

import (
	"fmt"

	"drydock/format"
)

// Commit makes the changes current, all at once, and part of the running
// transaction, whose number it returns: Sync makes it durable. A Tx without
// changes returns the number of the last change. On an error, ErrAborted,
// ErrClosed or ErrTooLarge, the Tx has been aborted.
func (t *Tx) Commit() (format.Tid, error) {
	if t.s == nil {
		return 0, errEnded
	}
	j, s := t.j, t.s
	t.dropUndo(0)
	if s.changed == 0 && s.forgotten == 0 {
		return t.commitNothing(), nil
	}
	if err := j.makeRoom(s.changed, s.forgotten); err != nil {
		t.Abort()
		return 0, err
	}
	tid, large := j.merge(s)
	t.finish()
	if large {
		j.commitIfLarge()
	}
	return tid, nil
}

// finish runs what waits for the merge, and ends the Tx.
func (t *Tx) finish() {
	runAll(t.s.onMerge)
	if t.j.faults.releaseBeforeDurable {
		runAll(t.s.onDurable)
	}
	t.end()
}

// commitNothing ends a Tx without changes. Its OnDurable callbacks wait for the
// last change, if that is not durable yet.
func (t *Tx) commitNothing() format.Tid {
	j := t.j
	j.mu.Lock()
	last := j.lastChange()
	fns := t.s.onDurable
	if last != nil {
		last.onDurable = append(last.onDurable, fns...)
		fns = nil
	}
	j.mu.Unlock()
	tid := j.lastTid()
	runAll(fns)
	t.finish()
	return tid
}

// lastChange returns the youngest transaction that has changes and is not
// durable; nil if all is. The caller holds mu.
func (j *Journal) lastChange() *transaction {
	if !j.running.empty() {
		return j.running
	}
	return j.committing
}

// makeRoom sees to it that the running transaction can take more changed and
// forgotten blocks. If it cannot, it is committed in the background, and a new
// one runs; that waits for the end of a commit that is under way. The caller has
// the Tx, so nobody else fills the room.
func (j *Journal) makeRoom(changed, forgotten int) error {
	if !j.fits(changed, forgotten) {
		return fmt.Errorf("%w: %d blocks and %d revokes", ErrTooLarge, changed, forgotten)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		r := j.running
		switch {
		case j.closed:
			return ErrClosed
		case j.err != nil:
			return j.err
		case j.fits(len(r.versions)+changed, len(r.revokes)+forgotten):
			return nil
		case j.busy:
			j.stats.TxWaits++
			j.cond.Wait()
		default:
			j.startCommit()
		}
	}
}

// commitIfLarge starts a commit when the running transaction is half full, so
// that the device has work before a Tx has to wait for it.
func (j *Journal) commitIfLarge() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.large() && !j.busy && j.err == nil {
		j.startCommit()
	}
}

// large reports whether the running transaction is half full. The caller holds mu.
func (j *Journal) large() bool { return 2*len(j.running.versions) >= j.maxTx }

// merge replaces current versions by those of a Tx. It returns the transaction,
// and whether that is large now.
func (j *Journal) merge(s *txState) (tid format.Tid, large bool) {
	j.mergeMu.Lock()
	defer j.mergeMu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range s.changes {
		c := &s.changes[i]
		switch {
		case c.v != nil:
			j.mergeVersion(c.block, c.v)
			c.v = nil
		case c.forget:
			j.mergeForget(c.block)
		}
	}
	j.running.onDurable = append(j.running.onDurable, s.onDurable...)
	return j.running.tid, j.large()
}

// mergeVersion makes v current. The caller holds mergeMu and mu.
func (j *Journal) mergeVersion(b format.Block, v *Version) {
	e := j.entryOf(b)
	j.setCurrent(e, v)
	if len(j.running.revokes) > 0 && !j.faults.keepRevoke {
		// Replay would skip this transaction's own copy. Older copies are
		// replayed again, and then overwritten by it.
		delete(j.running.revokes, b)
	}
}

// setCurrent puts v, which has no transaction, into the running transaction as
// the current version. The caller holds mergeMu and mu.
func (j *Journal) setCurrent(e *entry, v *Version) {
	if cur := e.cur; cur != nil && cur.tx == j.running {
		j.running.replace(cur, v)
		j.pool.put(cur)
		e.cur = v
		return
	}
	j.retireCurrent(e)
	j.enlist(j.running, v)
	e.cur = v
}

// retireCurrent takes away the current version, which is not the running
// transaction's: it is kept if the log or a checkpoint still needs it. The
// caller holds mergeMu and mu.
func (j *Journal) retireCurrent(e *entry) {
	cur := e.cur
	switch {
	case cur == nil:
		return
	case cur.tx == nil:
		j.takeClean(e)
		return
	case cur.tx == j.writing && j.o.Policy == CopyOnDemand:
		j.stats.CopyOuts++
	}
	cur.older = e.old
	e.old, e.cur = cur, nil
}

// mergeForget makes b a block without content of the journal's. The caller holds
// mergeMu and mu.
func (j *Journal) mergeForget(b format.Block) {
	r := j.running
	r.forgets = append(r.forgets, b)
	e := j.entries[b]
	if e != nil && e.cur != nil && e.cur.tx == r {
		v := e.cur
		e.cur = nil
		j.delist(v)
		j.pool.put(v)
	} else if e != nil {
		j.retireCurrent(e)
	}
	if e != nil && e.old != nil || j.inLog(b) {
		r.revoke(b)
	}
	if e != nil {
		j.dropIfBare(e)
	}
}
