package journal

import (
	"cmp"
	"iter"
	"slices"

	"drydock/format"
)

// Recovery is what a log asks for, as Scan has found it. Only positions are
// kept in memory; the blocks stay in the log, which must not change meanwhile.
// The methods that write, and NextTid, must not run beside others; the rest may.
type Recovery struct {
	Super        format.JournalSuperblock // as it is on the disk
	Dirty        bool                     // s_start is not 0: there is something in the log
	First, End   format.Tid               // transactions First to End-1 are replayed
	Transactions int                      // how many these are

	// Damage is not nil where Linux refuses to mount and keeps the log: it is a
	// *format.DamagedError. A replay then does what e2fsck does: nothing, if a
	// descriptor or revoke block is bad (First is End); all but the blocks in
	// Skipped; all before the transaction Failed.
	Damage error
	// Failed is the transaction whose commit block is bad, if HasFailed: the log
	// ends before it though there was more.
	Failed    format.Tid
	HasFailed bool
	// Skipped are the copies in the log that are not written home.
	Skipped []Skipped

	// FastRecords is the number of records that FastCommits yields.
	FastRecords int
	// Errno is what Finish leaves in s_errno: what was there, unless the caller
	// changes it. It may be cleared only when the file system's own mark of an
	// error is durable.
	Errno int32

	area     *Area
	f        format.JournalFormat
	copies   []logCopy // ascending by home, one for each
	fast     fastMark  // end of the last complete fast commit
	inodeMax int       // bytes of an inode in it
	replayed bool
	fresh    *format.Tid // what NextTid has found
}

// Skipped is a copy of a block that is not written home, since its checksum is
// wrong or its home lies where no block of a file system can be.
type Skipped struct {
	Home   format.Block
	Tid    format.Tid
	Log    uint32 // the log block
	Reason string
}

// logCopy is where the content of a home block lies in the log.
type logCopy struct {
	home   format.Block
	log    uint32
	tid    format.Tid
	sum    uint32 // of the tag
	escape bool
}

// Len is the number of home blocks that a replay writes.
func (r *Recovery) Len() int { return len(r.copies) }

// Blocks yields the home blocks that a replay writes, in ascending order.
func (r *Recovery) Blocks() iter.Seq[format.Block] {
	return func(yield func(format.Block) bool) {
		for _, c := range r.copies {
			if !yield(c.home) {
				return
			}
		}
	}
}

// ReadBlock reads into p, which has the size of a block, what a replay writes
// to home block b; ok is false, and p unchanged, if it does not write there. It
// may be called from many goroutines at once.
func (r *Recovery) ReadBlock(b format.Block, p []byte) (ok bool, err error) {
	i, ok := slices.BinarySearchFunc(r.copies, b, func(c logCopy, b format.Block) int { return cmp.Compare(c.home, b) })
	if !ok {
		return false, nil
	}
	return true, r.read(r.copies[i], p)
}

// read reads a copy as it is to be at home. Its checksum was right in Scan; that
// it is no more means that the log has changed.
func (r *Recovery) read(c logCopy, p []byte) error {
	if err := r.area.ReadBlock(c.log, p); err != nil {
		return err
	}
	if !r.f.VerifyTag(format.JournalTag{Checksum: c.sum}, c.tid, p) {
		return logDamage(r.area, c.log, "copy of block %d in transaction %d has changed", c.home, c.tid)
	}
	if c.escape {
		format.UnescapeJournalBlock(p)
	}
	return nil
}
