package journal

// Stats counts what a journal has done since Open.
type Stats struct {
	Commits      uint64 // transactions made durable
	LogBlocks    uint64 // written to the log, all kinds
	HomeBlocks   uint64 // written to their places by checkpoints, or without a journal
	Checkpoints  uint64 // times that space in the log was freed
	Flushes      uint64 // of the home device; not those that a FUA write may need
	CopyOuts     uint64 // versions kept because a block changed while it was on its way into the log
	AlwaysCopies uint64 // blocks copied because of CopyAlways
	Waits        uint64 // times that Change waited because of CopyWait
	TxWaits      uint64 // times that Tx.Commit waited for the commit before
	Revokes      uint64 // records written
}

// Stats returns what was counted so far.
func (j *Journal) Stats() Stats {
	j.mu.RLock()
	defer j.mu.RUnlock()
	s := j.stats
	s.Flushes = j.flush.count.Load()
	return s
}

// count changes the statistics. The caller does not hold mu.
func (j *Journal) count(add func(*Stats)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	add(&j.stats)
}
