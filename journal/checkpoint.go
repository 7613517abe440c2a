package journal

import "slices"

// Checkpoint writes all committed blocks home and makes the log on the disk an
// empty one. What is running stays so.
func (j *Journal) Checkpoint() error {
	if j.log == nil {
		return nil
	}
	if err := j.acquire(); err != nil {
		return err
	}
	defer j.release()
	err := j.checkpoint(0, func() bool { return false })
	if err == nil {
		err = j.emptyLog(j.Running())
	}
	if err != nil {
		return j.abort(err)
	}
	return nil
}

// acquire waits until no commit is under way, and keeps others from beginning
// one until release.
func (j *Journal) acquire() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.busy && j.err == nil {
		j.cond.Wait()
	}
	if j.err != nil {
		return j.err
	}
	j.busy = true
	return nil
}

// reserve returns when the log has n free blocks, and memory is not full of
// blocks that are not home. That needs no commit: all that is in the log is
// committed. The caller is busy.
func (j *Journal) reserve(n uint32) error {
	enough := func() bool { return j.log.free >= n && j.dirty <= j.maxDirty }
	j.mu.RLock()
	ok := enough()
	j.mu.RUnlock()
	if ok {
		return nil
	}
	return j.checkpoint(n, enough)
}

// checkpointIfHalfFull starts a checkpoint in the background when half of the
// log, or of the memory for what is in it, is used.
func (j *Journal) checkpointIfHalfFull() {
	l := j.log
	if l == nil || j.late {
		return
	}
	enough := func() bool {
		return l.free >= (l.end-l.first)/2 && j.dirty <= j.maxDirty*3/4
	}
	j.mu.Lock()
	start := !j.checkpointing && j.err == nil && !enough()
	j.checkpointing = j.checkpointing || start
	j.mu.Unlock()
	if !start {
		return
	}
	j.spawn(func() {
		if err := j.checkpoint(0, enough); err != nil {
			j.abort(err)
		}
		j.mu.Lock()
		j.checkpointing = false
		j.mu.Unlock()
	})
}

// checkpoint frees the oldest transactions, a quarter of the log or at least n
// blocks at a time, until enough says so or the log has none.
func (j *Journal) checkpoint(n uint32, enough func() bool) error {
	j.ckptMu.Lock()
	defer j.ckptMu.Unlock()
	for {
		oldest, versions := j.oldest(n, enough)
		if len(oldest) == 0 {
			return j.Err()
		}
		if err := j.checkpointThese(oldest, versions); err != nil {
			return err
		}
	}
}

// oldest chooses what to checkpoint next, none if that is enough: transactions,
// and those of their versions that are not home. Those stay in memory until they are.
func (j *Journal) oldest(n uint32, enough func() bool) (oldest []*transaction, versions []*Version) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil || enough() {
		return nil, nil
	}
	l := j.log
	space := uint32(0)
	for _, t := range l.list {
		oldest = append(oldest, t)
		versions = append(versions, t.versions...)
		space += t.n
		if space >= max(n, (l.end-l.first)/4) {
			break
		}
	}
	for _, v := range versions {
		v.writing = true
	}
	return oldest, versions
}

// checkpointThese writes versions home, the only ones of the oldest transactions
// that are not obsolete, and then frees the log space of these transactions. What
// becomes obsolete meanwhile is not written. The order is what makes it safe:
//
//	home blocks -> flush -> journal superblock with FUA -> the space is free
//
// After an error the log on the disk stays as it is.
func (j *Journal) checkpointThese(oldest []*transaction, versions []*Version) error {
	last := oldest[len(oldest)-1]
	start, tid := j.log.after(last.start, last.n), last.tid+1
	if j.faults.tailBeforeHome {
		if err := j.moveTail(start, tid); err != nil {
			return err
		}
	}
	slices.SortFunc(versions, byBlock)
	if err := j.writeVersionsHome(versions); err != nil {
		return err
	}
	if !j.faults.noFlushBeforeTail {
		if err := j.flush.now(); err != nil {
			return err
		}
	}
	if err := j.moveTail(start, tid); err != nil {
		return err
	}
	for _, t := range oldest {
		j.log.inLog.remove(t.tid, t.logged)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.log.release(len(oldest))
	j.stats.Checkpoints++
	j.cond.Broadcast()
	return nil
}

// writeVersionsHome writes versions, sorted by block, run by run.
func (j *Journal) writeVersionsHome(versions []*Version) error {
	for len(versions) > 0 {
		var run []*Version
		run, versions = j.beginRun(versions)
		if len(run) == 0 {
			continue
		}
		err := j.writeRun(j.whatToWrite(run))
		if j.faults.ignoreHomeError {
			err = nil
		}
		j.endRun(run, err)
		if err != nil {
			return err
		}
	}
	return nil
}

// whatToWrite is run: what was committed, though there may be newer versions.
func (j *Journal) whatToWrite(run []*Version) []*Version {
	if !j.faults.checkpointUncommitted {
		return run
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	wrong := slices.Clone(run)
	for i, v := range wrong {
		if cur := j.entries[v.block].cur; cur != nil {
			wrong[i] = cur
		}
	}
	return wrong
}

// beginRun returns the next neighbours to be written together. It frees what has
// become obsolete before them.
func (j *Journal) beginRun(sorted []*Version) (run, rest []*Version) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(sorted) > 0 && sorted[0].obsolete {
		j.pool.put(sorted[0])
		sorted = sorted[1:]
	}
	if len(sorted) == 0 {
		return nil, nil
	}
	n := j.leadingRun(sorted)
	if i := slices.IndexFunc(sorted[:n], func(v *Version) bool { return v.obsolete }); i >= 0 {
		n = i
	}
	j.homeWrite.busy = true
	j.homeWrite.n++
	return sorted[:n], sorted[n:]
}

// endRun takes a run that is home out of its transactions.
func (j *Journal) endRun(run []*Version, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.homeWrite.busy = false
	j.cond.Broadcast()
	if err != nil {
		return
	}
	j.stats.HomeBlocks += uint64(len(run))
	for _, v := range run {
		v.writing = false
		if v.obsolete {
			j.pool.put(v)
		} else {
			j.isHome(v)
		}
	}
}
