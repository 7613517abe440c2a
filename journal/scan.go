package journal

import (
	"fmt"

	"drydock/format"
)

// ScanOptions says what Scan cannot read from the log.
type ScanOptions struct {
	Blocks    uint64 // of the file system: a tag beyond is damage; 0: no limit
	InodeSize int    // bytes; an inode in a fast commit has no more. 0: no limit
	External  bool   // the log lies on another device than the blocks that it is about
}

// Scan reads the log and decides what a replay does; it writes nothing.
//
// The error is one of the device, or says that the journal cannot be read at
// all: a superblock that is damaged or asks for what is not supported. Damage
// inside the log is in Recovery.Damage, and what is left of the log in the rest
// of Recovery.
func Scan(a *Area, o ScanOptions) (*Recovery, error) {
	s, err := a.ReadSuperblock()
	if err != nil {
		return nil, err
	}
	r := &Recovery{Super: s, Dirty: s.Start() != 0, First: s.Sequence(), End: s.Sequence(), Errno: s.Errno(), area: a, f: s.Format()}
	if !r.Dirty {
		return r, nil
	}
	if err := r.scan(o); err != nil {
		return nil, err
	}
	return r, nil
}

// scan is Scan of a log that is not empty.
func (r *Recovery) scan(o ScanOptions) error {
	log := newLogReader(r.area)
	end := newEndFinder(log, r.Super)
	if err := end.find(); err != nil {
		return err
	}
	if end.fatal != nil {
		r.Damage = end.fatal
		return nil
	}
	r.End, r.Failed, r.HasFailed = end.tid, end.failed, end.hasFailed
	if err := r.plan(log, o); err != nil || r.Damage != nil {
		return err
	}
	r.Damage = r.damage(end.badCommit)
	return r.findFastCommits(log, o.InodeSize)
}

// endFinder is pass SCAN: where the log ends. The tid of its cursor is that of
// the transaction which it is in, from then on the end.
type endFinder struct {
	cursor
	f       format.JournalFormat
	async   bool
	crc     uint32 // v1: of the transaction so far
	time    uint64 // of the last good commit, in seconds
	suspect error  // the transaction has a descriptor or revoke block with a wrong checksum

	cut       bool       // a commit block of v1, v2 or v3 with ASYNC_COMMIT is wrong: the log ends at cutAt
	cutAt     format.Tid // a flag of its own, since 0 is a transaction like any other
	badCommit uint32     // its log block
	failed    format.Tid
	hasFailed bool
	fatal     error // nothing is to be replayed
}

func newEndFinder(log *logReader, s format.JournalSuperblock) *endFinder {
	return &endFinder{
		cursor: newCursor(log, s), f: s.Format(), crc: crcStart,
		async: s.Has(format.JournalIncompatAsyncCommit),
	}
}

// crcStart begins the checksum of a transaction in v1.
const crcStart = 0xffffffff

// find goes along the log to its end.
func (e *endFinder) find() error {
	for more := true; more; {
		b, err := e.next()
		if err != nil {
			return err
		}
		if b == nil {
			break
		}
		switch blockType(b) {
		case format.JournalDescriptor:
			more, err = e.descriptor(b)
		case format.JournalRevoke:
			e.checkTail(b)
		case format.JournalCommit:
			more = e.commit(b)
		default:
			more = false
		}
		if err != nil {
			return err
		}
	}
	if e.cut {
		e.tid = e.cutAt
	}
	return nil
}

// checkTail notes a descriptor or revoke block with a wrong checksum. Such a
// block may be left from an earlier life of the journal: the commit block of
// the transaction tells.
func (e *endFinder) checkTail(b []byte) {
	if e.suspect == nil && !e.f.VerifyTail(b) {
		e.suspect = e.damage(e.prior(), "checksum of transaction %d is wrong", e.tid)
	}
}

// damage is about log block n.
func (e *endFinder) damage(n uint32, detail string, args ...any) error {
	return logDamage(e.log.a, n, detail, args...)
}

// logDamage is an error about log block n of a.
func logDamage(a *Area, n uint32, detail string, args ...any) *format.DamagedError {
	at, _ := a.run(n)
	return &format.DamagedError{Structure: fmt.Sprintf("journal block %d", n), Block: at, Offset: -1, Detail: fmt.Sprintf(detail, args...)}
}

// descriptor goes past the blocks that follow; more is false if there are not
// as many.
func (e *endFinder) descriptor(b []byte) (more bool, err error) {
	e.checkTail(b)
	n := countTags(e.f, b)
	if e.f.Csum != 1 || e.cut {
		return e.skip(n), nil
	}
	e.crc = format.JournalCRC(e.crc, b)
	for range n {
		at := e.at
		if !e.skip(1) {
			return false, nil
		}
		if b, err = e.log.block(at); err != nil {
			return false, err
		}
		e.crc = format.JournalCRC(e.crc, b)
	}
	return true, nil
}

// commit decides about a transaction at its commit block; more is false if the
// log ends before it.
//
// A checksum that is wrong has one of two reasons. A block of an earlier life
// of the journal, whose number happens to be the next: then its time lies before
// that of the last commit, and the log simply has ended. Else damage.
func (e *endFinder) commit(b []byte) (more bool) {
	sec := format.CommitBlock(b).Sec()
	older := sec < e.time
	switch {
	case e.suspect != nil:
		if !older {
			e.fatal = e.suspect
		}
		return false
	case e.cut: // what follows shows that the cut was no torn end of the log
		e.fail(e.cutAt)
		return false
	case e.f.VerifyCommit(b, e.crc), e.f.VerifyCommitHeader(b):
		e.crc = crcStart
	case older:
		return false
	default:
		e.cut, e.cutAt, e.badCommit = true, e.tid, e.prior()
		if !e.async {
			e.fail(e.tid)
			return false
		}
	}
	e.time = sec
	e.tid++
	return true
}

func (e *endFinder) fail(tid format.Tid) { e.failed, e.hasFailed = tid, true }
