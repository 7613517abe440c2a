package journal

import (
	"slices"

	"drydock/format"
)

// features returns the journal superblock with the features that the writer
// uses: revoke records always, 64-bit numbers and checksums as asked for, no
// fast commits. A superblock of version 1 becomes one of version 2.
func features(super format.JournalSuperblock, o Options) format.JournalSuperblock {
	s := slices.Clone(super)
	if s.V1() {
		clear(s[afterV1:])
		format.PutJournalHeader(s, format.JournalHeader{Type: format.JournalSuperblockV2})
		s.SetNrUsers(1)
	}
	f := s.FeatureIncompat() | format.JournalIncompatRevoke
	f &^= format.JournalIncompatCsumV2 | format.JournalIncompatCsumV3 | format.JournalIncompatAsyncCommit | format.JournalIncompatFastCommit
	s.SetFeatureCompat(s.FeatureCompat() &^ format.JournalCompatChecksum)
	if o.Wide {
		f |= format.JournalIncompat64Bit
	}
	s.SetChecksumType(0)
	if o.Csum {
		f |= format.JournalIncompatCsumV3
		s.SetChecksumType(format.JournalCrc32c)
	}
	s.SetFeatureIncompat(f)
	return s
}

// afterV1 is where a superblock of version 1 ends, in bytes.
const afterV1 = 0x24

// startLog makes the disk say that the log begins with t, the first transaction
// of an empty log. The file system says before that it needs recovery; the flush
// of t's commit makes the rest durable.
func (j *Journal) startLog(t *transaction) error {
	l := j.log
	if !l.empty {
		return nil
	}
	if j.o.BeforeLog != nil && !j.faults.noBeforeLog {
		if err := j.o.BeforeLog(); err != nil {
			return err
		}
	}
	err := j.updateSuper(false, func(s format.JournalSuperblock) format.JournalSuperblock {
		if !j.faults.noFeatures {
			s = features(s, j.o)
		}
		s.SetStart(l.head)
		s.SetSequence(t.tid)
		return s
	})
	l.empty = err != nil
	return err
}

// moveTail makes the disk say that the log begins with transaction tid at log
// block start: the space before may be used again when it returns.
func (j *Journal) moveTail(start uint32, tid format.Tid) error {
	return j.updateSuper(!j.faults.tailWithoutFUA, func(s format.JournalSuperblock) format.JournalSuperblock {
		s.SetStart(start)
		s.SetSequence(tid)
		return s
	})
}

// emptyLog makes the disk say that there is nothing in the log. Who opens it
// next goes on with the number behind next, which no block of the log can have:
// so old transactions never seem to follow new ones. The caller is busy, and
// nothing is committed.
func (j *Journal) emptyLog(next format.Tid) error {
	l := j.log
	if l.empty {
		return nil
	}
	if j.faults.noSequenceJump {
		next = l.sequence
	}
	err := j.updateSuper(true, func(s format.JournalSuperblock) format.JournalSuperblock {
		s.SetStart(0)
		s.SetSequence(next)
		return s
	})
	l.empty = err == nil
	return err
}

// updateSuper changes the journal superblock, first on the disk and then here.
// After an abort nothing but recordErrno does.
func (j *Journal) updateSuper(fua bool, change func(format.JournalSuperblock) format.JournalSuperblock) error {
	l := j.log
	l.superMu.Lock()
	defer l.superMu.Unlock()
	if err := j.Err(); err != nil {
		return err
	}
	s := change(slices.Clone(l.super))
	if err := l.writeSuper(s, fua && !j.o.NoFlush); err != nil && !j.faults.ignoreSuperblockError {
		return err
	}
	l.super = s
	return nil
}

// recordErrno stores s_errno, as far as the device lets it.
func (l *ring) recordErrno(errno int32, fua bool) {
	l.superMu.Lock()
	defer l.superMu.Unlock()
	s := slices.Clone(l.super)
	s.SetErrno(errno)
	if l.writeSuper(s, fua) == nil {
		l.super = s
	}
}

// writeSuper writes s, durably or not.
func (l *ring) writeSuper(s format.JournalSuperblock, fua bool) error {
	if fua {
		return l.area.WriteSuperblock(s)
	}
	s.Seal()
	at, _ := l.area.run(l.area.Super)
	_, err := l.area.Device.WriteAt(s, l.area.offset(at))
	return err
}
