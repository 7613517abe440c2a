package journal

import (
	"slices"

	"drydock/format"
)

// writeLog is the commit of t by the log. The order is what makes it safe:
//
//	space in the log     its old content is home, and the tail on the disk is past it
//	first one only       file system needs recovery; journal superblock: log begins at t
//	log blocks           revokes, then descriptors each with its copies
//	flush                of them, and of all file data that was written before
//	commit block, FUA    durable from here on
func (j *Journal) writeLog(t *transaction) error {
	l := j.log
	t.n = l.need(len(t.versions), len(t.revokes))
	if err := j.reserve(t.n); err != nil {
		return err
	}
	t.start = l.head
	for _, v := range t.versions {
		t.logged = append(t.logged, v.block)
	}
	l.inLog.add(t.tid, t.logged)
	if !j.faults.startAfterCommit {
		if err := j.startLog(t); err != nil {
			return err
		}
	}
	blocks := j.layOut(t)
	body, commit := blocks[:len(blocks)-1], blocks[len(blocks)-1]
	if err := l.write(t.start, body); err != nil && !j.faults.ignoreLogError {
		return err
	}
	j.written()
	if err := j.flushLog(); err != nil {
		return err
	}
	if err := j.Err(); err != nil { // a checkpoint has failed meanwhile
		return err
	}
	if err := j.writeCommit(l.after(t.start, uint32(len(body))), commit); err != nil {
		return err
	}
	if j.faults.startAfterCommit {
		if err := j.startLog(t); err != nil {
			return err
		}
	}
	j.count(func(s *Stats) {
		s.LogBlocks += uint64(t.n)
		s.Revokes += uint64(len(t.revokes))
	})
	return nil
}

// flushLog makes durable what a commit block vouches for.
func (j *Journal) flushLog() error {
	if j.o.NoFlush || j.faults.noFlushBeforeCommit {
		return nil
	}
	own := j.log.area.Device
	if sameDevice(own, j.o.Device) {
		return j.flush.now()
	}
	if !j.faults.noFlushOfHome {
		if err := j.flush.now(); err != nil {
			return err
		}
	}
	return own.Flush()
}

// writeCommit writes the commit block, durably.
func (j *Journal) writeCommit(at uint32, block []byte) error {
	if j.o.NoFlush || j.faults.commitWithoutFUA {
		return j.log.area.WriteBlocks(at, [][]byte{block})
	}
	return j.log.area.WriteBlockFUA(at, block)
}

// layOut returns the log blocks of t, which stay right until the next call.
func (j *Journal) layOut(t *transaction) [][]byte {
	l := j.log
	l.scratched, l.layout = 0, l.layout[:0]
	if !j.faults.noRevoke {
		l.layOutRevokes(t)
	}
	per := l.f.TagsPerDescriptor()
	for rest := t.versions; len(rest) > 0; rest = rest[min(per, len(rest)):] {
		j.layOutCopies(t.tid, rest[:min(per, len(rest))])
	}
	if j.faults.noRevoke {
		t.n = uint32(len(l.layout)) + 1
	}
	if j.o.Policy == CopyAlways {
		j.count(func(s *Stats) { s.AlwaysCopies += uint64(len(t.versions)) })
	}
	commit := l.block()
	sec, nsec := l.time(j.o.Now, j.faults.timeGoesBack)
	l.f.PutCommit(commit, t.tid, sec, nsec, 0)
	return append(l.layout, commit)
}

// layOutRevokes adds the revoke blocks of t.
func (l *ring) layOutRevokes(t *transaction) {
	blocks := make([]format.Block, 0, len(t.revokes))
	for b := range t.revokes {
		blocks = append(blocks, b)
	}
	slices.Sort(blocks)
	for len(blocks) > 0 {
		p := l.block()
		n := l.f.PutRevokes(p, t.tid, blocks)
		l.layout, blocks = append(l.layout, p), blocks[n:]
	}
}

// layOutCopies adds a descriptor and the blocks that it describes. A block that
// begins like one of the journal's own is changed in a copy.
func (j *Journal) layOutCopies(tid format.Tid, versions []*Version) {
	l := j.log
	descriptor := l.block()
	d := l.f.NewDescriptor(descriptor, tid, l.uuid)
	l.layout = append(l.layout, descriptor)
	for _, v := range versions {
		data := v.data
		_, escape := format.ReadJournalHeader(data)
		escape = escape && !j.faults.noEscape
		if escape || j.o.Policy == CopyAlways {
			data = l.block()
			copy(data, v.data)
		}
		if escape {
			format.EscapeJournalBlock(data)
		}
		d.Add(v.block, escape, l.f.TagSum(tid, data))
		l.layout = append(l.layout, data)
	}
	d.Close()
}

// block returns a block of memory until the next layOut.
func (l *ring) block() []byte {
	if l.scratched == len(l.scratch) {
		l.scratch = append(l.scratch, make([]byte, l.f.BlockSize))
	}
	p := l.scratch[l.scratched]
	l.scratched++
	return p
}

// time is when a commit happens: never before the last one, since recovery takes
// a damaged block with an older time for a left-over.
func (l *ring) time(now func() (uint64, uint32), back bool) (sec uint64, nsec uint32) {
	if now != nil {
		sec, nsec = now()
	}
	if !back && (sec < l.sec || sec == l.sec && nsec < l.nsec) {
		sec, nsec = l.sec, l.nsec
	}
	l.sec, l.nsec = sec, nsec
	return sec, nsec
}
