package journal

import (
	"slices"

	"drydock/format"
)

const (
	maxReread = 1 << 20 // blocks of the longest log that NextTid reads; mke2fs makes 2^18 unless asked for more
	maxJump   = 1 << 30 // so that the number is still newer than all others
)

// NextTid is a transaction number that the log can go on with after Finish, and
// what Finish stores in s_sequence: End+1, or a later one if the log holds
// blocks, left behind the end, that would continue a log begun with End+1. The
// first call reads the whole log to find these, unless it is clean.
func (r *Recovery) NextTid() format.Tid {
	if r.fresh == nil {
		tid := r.End + 1
		if r.Dirty {
			tid = freshTid(r.area, r.Super, tid)
		}
		r.fresh = &tid
	}
	return *r.fresh
}

// freshTid returns the first number from tid on at which a log can begin so that
// none of its transactions has the number of a block that is there already. A
// log of n blocks holds less than n transactions.
//
// A block that cannot be read may have any number, and a log that is too long is
// not read, which leaves a jump by the length of the log: what was written before
// was hardly further ahead.
func freshTid(a *Area, s format.JournalSuperblock, tid format.Tid) format.Tid {
	jump := tid + format.Tid(min(s.MaxLen(), maxJump))
	if s.MaxLen() > maxReread {
		return jump
	}
	ahead, err := tidsAhead(a, s, tid)
	if err != nil {
		return jump
	}
	slices.Sort(ahead)
	next := uint32(0)
	for _, d := range ahead {
		if d >= next && d-next < s.MaxLen() {
			next = d + 1
		}
	}
	return tid + format.Tid(next)
}

// tidsAhead returns by how much the blocks of the log, and the fast commits, are
// ahead of tid; older ones count as ahead by nearly 2^32.
func tidsAhead(a *Area, s format.JournalSuperblock, tid format.Tid) (ahead []uint32, err error) {
	note := func(t format.Tid) { ahead = append(ahead, uint32(t-tid)) }
	log, fast := newLogReader(a), s.LogEnd()
	for n := s.First(); n < s.MaxLen(); n++ {
		b, err := log.block(n)
		if err != nil {
			return nil, err
		}
		if h, ok := format.ReadJournalHeader(b); ok {
			note(h.Sequence)
		}
		if n > fast {
			noteFastCommits(b, note)
		}
	}
	return ahead, nil
}

// noteFastCommits calls note for the transactions of the fast commits that begin
// or end in a block.
func noteFastCommits(b []byte, note func(format.Tid)) {
	// Damage ends the records, as it does for a reader.
	_ = format.WalkFastCommit(b, len(b), func(rec format.FCRecord) bool {
		switch rec.Tag {
		case format.FCHead:
			_, tid := rec.Head()
			note(tid)
		case format.FCTail:
			tid, _ := rec.Tail()
			note(tid)
		}
		return true
	})
}
