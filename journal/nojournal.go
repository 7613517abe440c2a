package journal

// writeAllHome is the commit of a file system without a journal: all changed
// blocks are written to their places and flushed.
func (j *Journal) writeAllHome(t *transaction) error {
	if err := j.writeHome(t.versions); err != nil {
		return err
	}
	j.written()
	j.count(func(s *Stats) { s.HomeBlocks += uint64(len(t.versions)) })
	return j.flush.now()
}

// settle makes the versions of t, which are home, clean or frees them. The
// caller holds mu.
func (j *Journal) settle(t *transaction) {
	for len(t.versions) > 0 {
		j.isHome(t.versions[len(t.versions)-1])
	}
}

// isHome takes a version out of its transaction because its home has the same
// content. It is current, or the oldest of its block. The caller holds mu.
func (j *Journal) isHome(v *Version) {
	j.delist(v)
	e := j.entries[v.block]
	if e.cur == v {
		j.addClean(e)
		return
	}
	last := &e.old
	for *last != v {
		last = &(*last).older
	}
	*last = nil
	j.pool.put(v)
	j.dropIfBare(e)
}
