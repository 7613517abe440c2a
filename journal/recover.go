package journal

import (
	"iter"

	"drydock/format"
)

// Recovery is what a log asks for, as Scan has found it.
type Recovery struct {
	Super        format.JournalSuperblock // as it is on the disk
	Dirty        bool                     // s_start is not 0: there is something in the log
	First, End   format.Tid               // transactions First to End-1 are replayed
	Transactions int                      // how many these are

	// Damage is not nil if the kernel would refuse the log and keep it.
	Damage error
	// Failed is the transaction whose commit block is bad, if HasFailed.
	Failed    format.Tid
	HasFailed bool

	// Errno is what Finish leaves in s_errno: what was there, unless the caller,
	// having made the file system's own mark durable, sets it to 0.
	Errno int32
}

// Blocks yields the home blocks that a replay writes, in ascending order.
func (r *Recovery) Blocks() iter.Seq[format.Block] { return func(func(format.Block) bool) {} }

// ReadBlock reads into p what a replay writes to home block b; ok is false, and
// p unchanged, if it does not write there.
func (r *Recovery) ReadBlock(b format.Block, p []byte) (ok bool, err error) { return false, errStub }

// NextTid is the transaction number that the log goes on with.
func (r *Recovery) NextTid() format.Tid { return r.End + 1 }
