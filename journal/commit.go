package journal

import "drydock/format"

// durable reports whether transaction tid needs no commit any more. Only two
// transactions do, so that no number is too old to be compared. The caller holds mu.
func (j *Journal) durable(tid format.Tid) bool {
	running := j.running.tid == tid && !j.running.empty()
	committing := j.committing != nil && j.committing.tid == tid
	return !running && !committing
}

// Durable reports whether transaction tid, which Commit has returned, is durable.
func (j *Journal) Durable(tid format.Tid) bool {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.durable(tid)
}

// Sync returns when transaction tid is durable. Callers that come together share
// a commit. It fails with ErrAborted. If the transaction was durable before, the
// device is not flushed: see SyncData.
func (j *Journal) Sync(tid format.Tid) error {
	if j.o.ReadOnly {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		switch {
		case j.err != nil:
			return j.err
		case j.durable(tid):
			return nil
		case j.busy:
			j.cond.Wait()
		default:
			t := j.closeRunning()
			j.mu.Unlock()
			j.commit(t)
			j.mu.Lock()
		}
	}
}

// SyncData is Sync, and data that was written to Device before the call is
// durable too. Callers that come together share a flush.
func (j *Journal) SyncData(tid format.Tid) error {
	if j.o.ReadOnly {
		return nil
	}
	ticket := j.flush.ticket()
	if err := j.Sync(tid); err != nil {
		return err
	}
	if err := j.flush.reach(ticket); err != nil {
		return j.abort(err)
	}
	return nil
}

// SyncAll makes all that was merged, and all data that was written before the
// call, durable.
func (j *Journal) SyncAll() error {
	if j.o.ReadOnly {
		return nil
	}
	return j.SyncData(j.lastTid())
}

// lastTid is the transaction of the last change.
func (j *Journal) lastTid() format.Tid {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if last := j.lastChange(); last != nil {
		return last.tid
	}
	return j.running.tid - 1
}

// StartCommit begins to commit the running transaction in the background; if
// another commit is under way, when that has ended.
func (j *Journal) StartCommit() {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.o.ReadOnly || j.err != nil || j.running.empty():
	case j.busy:
		j.wanted = true
	default:
		j.startCommit()
	}
}

// startCommit commits the running transaction in the background. Nobody is
// busy. The caller holds mu, which is free for a moment in between.
func (j *Journal) startCommit() {
	t := j.closeRunning()
	j.mu.Unlock()
	j.spawn(func() { j.commit(t) })
	j.mu.Lock()
}

// closeRunning makes the running transaction the committing one. No Tx has to be
// waited for: one that is under way merges into the new one. Nobody is busy; the
// caller holds mu, and commits what is returned.
func (j *Journal) closeRunning() *transaction {
	t := j.running
	j.busy, j.wanted, j.committing, j.writing = true, false, t, t
	j.running = newTransaction(t.tid + 1)
	return t
}

// commit makes the committing transaction durable: by the log or, without one,
// by writing it home.
func (j *Journal) commit(t *transaction) {
	write := j.writeLog
	if j.log == nil {
		write = j.writeAllHome
	}
	if err := write(t); err != nil {
		j.abort(err)
		j.release()
		return
	}
	runAll(j.committed(t))
	j.release()
	j.checkpointIfHalfFull()
}

func runAll(fns []func()) {
	for _, fn := range fns {
		fn()
	}
}

// written notes that the blocks of the committing transaction have been written:
// it would not hurt any more if they changed in place.
func (j *Journal) written() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writing = nil
	j.cond.Broadcast()
}

// committed ends a commit and wakes those who wait for it. Then all that t has
// freed or replaced leaves the checkpoint, and what may be done now that it is
// durable is returned.
func (j *Journal) committed(t *transaction) []func() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.committing = nil
	j.stats.Commits++
	fns := t.onDurable
	t.onDurable = nil
	if j.log == nil {
		j.settle(t)
	} else {
		j.log.append(t)
		j.supersede(t)
	}
	j.cond.Broadcast()
	j.dropForgotten(t)
	t.revokes, t.forgets = nil, nil
	return fns
}

// release ends being busy. The next commit begins if somebody asked for it.
func (j *Journal) release() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.busy = false
	j.cond.Broadcast()
	if (j.wanted || j.large()) && j.err == nil && !j.running.empty() {
		j.startCommit()
	}
}

// supersede makes the versions of t, which is committed, the only ones of their
// blocks that wait for a checkpoint. The caller holds mu.
func (j *Journal) supersede(t *transaction) {
	for _, v := range t.versions {
		e := j.entries[v.block]
		if e.cur == v {
			j.dropOlder(e.old)
			e.old = nil
		} else { // a younger one is current, or the block is being freed
			j.dropOlder(v.older)
			v.older = nil
		}
	}
}

// dropOlder takes v and all that are older out of their transactions. The caller
// holds mu.
func (j *Journal) dropOlder(v *Version) {
	for v != nil {
		older := v.older
		j.delist(v)
		j.discard(v)
		v = older
	}
}

// discard frees a version that is neither current nor in a transaction, or
// leaves that to the checkpoint that is using it. The caller holds mu.
func (j *Journal) discard(v *Version) {
	if v.writing {
		v.obsolete = true
		return
	}
	j.pool.put(v)
}

// dropForgotten takes blocks that t, which is durable, has freed out of the
// checkpoint, and waits for a write of them that is under way: the next write
// may be file data. The caller holds mu.
func (j *Journal) dropForgotten(t *transaction) {
	underWay := false
	for _, b := range t.forgets {
		e := j.entries[b]
		if e == nil {
			continue
		}
		if e.old != nil && e.old.tx != t && !j.faults.keepForgotten {
			underWay = underWay || e.old.writing
			j.dropOlder(e.old)
			e.old = nil
		}
		if e.cur != nil && e.cur.tx == nil && !e.pinned { // read again since, for nothing
			j.clean.remove(e)
			e.cur = nil
		}
		j.dropIfBare(e)
	}
	if underWay && !j.faults.noWaitForHome {
		j.homeWrite.wait(j.cond)
	}
}

// awaitWritten waits, if that is the policy, until b is not on its way into the
// log any more.
func (j *Journal) awaitWritten(b format.Block) error {
	if j.o.Policy != CopyWait {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for waited := false; j.err == nil && j.beingWritten(b); waited = true {
		if !waited {
			j.stats.Waits++
		}
		j.cond.Wait()
	}
	return j.err
}

// beingWritten reports whether the current version of b is on its way into the
// log. The caller holds mu.
func (j *Journal) beingWritten(b format.Block) bool {
	e := j.entries[b]
	return e != nil && e.cur != nil && e.cur.tx != nil && e.cur.tx == j.writing
}
