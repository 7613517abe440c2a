package journal

import (
	"fmt"
	"iter"

	"drydock/format"
)

// fastMark is a place between two records of the fast-commit area.
type fastMark struct {
	block uint32 // log block
	off   int    // byte in it; 0: there are no records
}

// fastFinder looks for the complete fast commits.
type fastFinder struct {
	tid   format.Tid // of the transaction that they belong to
	first bool       // the next record is the first of all
	crc   uint32
	open  int // records of the one that is not complete yet
	block uint32
	done  bool
	err   error

	mark fastMark
	n    int // records up to mark
}

// findFastCommits finds the end of the last complete fast commit that belongs to
// the transaction after the last one that is replayed. The first that is not
// complete ends them without being damage: nobody was told that it was durable.
func (r *Recovery) findFastCommits(log *logReader, inodeSize int) error {
	first, end := r.Super.FastCommitArea()
	f := &fastFinder{tid: r.End, first: true}
	r.inodeMax = inodeMax(inodeSize, r.f.BlockSize)
	for n := first; n < end && !f.done; n++ {
		b, err := log.block(n)
		if err != nil {
			return err
		}
		f.block = n
		if err := format.WalkFastCommit(b, r.inodeMax, f.record); err != nil {
			break
		}
	}
	r.fast, r.FastRecords = f.mark, f.n
	return f.err
}

// inodeMax is the most bytes that an INODE may have.
func inodeMax(inodeSize, blockSize int) int {
	if inodeSize == 0 {
		return blockSize
	}
	return inodeSize
}

// record looks at the next record; more is false if the fast commits end before.
func (f *fastFinder) record(rec format.FCRecord) (more bool) {
	switch rec.Tag {
	case format.FCHead:
		more = f.head(rec)
	case format.FCTail:
		more = f.tail(rec)
	default:
		f.crc = rec.Sum(f.crc)
		more = !f.first
		if isChange(rec) {
			f.open++
		}
	}
	f.first, f.done = false, !more
	return more
}

// head looks at a HEAD, with which the first fast commit of a transaction begins.
func (f *fastFinder) head(rec format.FCRecord) bool {
	features, tid := rec.Head()
	f.crc = rec.Sum(f.crc)
	if tid != f.tid {
		return false
	}
	if features != 0 {
		f.err = &format.UnsupportedError{Detail: fmt.Sprintf("fast commits with features %#x", features)}
	}
	return features == 0
}

// tail looks at a TAIL, which completes a fast commit if its CRC is right.
func (f *fastFinder) tail(rec format.FCRecord) bool {
	tid, crc := rec.Tail()
	if f.first || tid != f.tid || crc != rec.Sum(f.crc) {
		return false
	}
	f.n, f.open = f.n+f.open, 0
	f.mark = fastMark{f.block, rec.Offset + len(rec.Raw)}
	f.crc = 0
	return true
}

// isChange tells whether a record says something of the file system.
func isChange(rec format.FCRecord) bool {
	return rec.Tag != format.FCHead && rec.Tag != format.FCTail && rec.Tag != format.FCPad
}

// FastCommits yields the records of the complete fast commits that follow the
// last transaction, in order; without HEAD, PAD and TAIL. Applying them is the
// file system's business. Records stay valid. An error, which ends them, is one
// of the device.
func (r *Recovery) FastCommits() iter.Seq2[format.FCRecord, error] {
	return func(yield func(format.FCRecord, error) bool) {
		first, _ := r.Super.FastCommitArea()
		for n, more := first, r.fast.off > 0; more && n <= r.fast.block; n++ {
			b := make([]byte, r.f.BlockSize)
			if err := r.area.ReadBlock(n, b); err != nil {
				yield(format.FCRecord{}, err)
				return
			}
			_ = format.WalkFastCommit(b, r.inodeMax, func(rec format.FCRecord) bool { // was walked before
				if n == r.fast.block && rec.Offset >= r.fast.off {
					return false
				}
				more = !isChange(rec) || yield(rec, nil)
				return more
			})
		}
	}
}
