// Package journal is the jbd2 journal of a file system: it recovers a log that
// a crash has left, and writes one.
//
// # Writing
//
// All metadata of a file system that is open for writing is read and changed
// through a Journal. A block has a current version; it is never changed, only
// replaced by a newer one.
//
//	Begin -> Tx: private copies of blocks     Abort: forgotten, as if nothing had been
//	           |
//	         Commit: the copies become the current versions, all at once
//	           v
//	running transaction      collects the changes of many Txs
//	           |  one at a time, because of Sync, StartCommit, or its size
//	           v
//	committing transaction   log blocks -> flush -> commit block with FUA
//	           |
//	           v  durable: Sync returns, OnDurable callbacks run
//	committed transactions   in the log only; waiting for their checkpoint
//	           |
//	           v  blocks home -> flush -> journal superblock with FUA
//	           .  their space in the log is free
//
// A version that is on its way into the log, or waits for its checkpoint, stays
// as it is while a newer one becomes current: nobody waits for the log, and what
// is written is what was committed.
//
// # Rules
//
// One Tx at a time: Begin waits for the end of the other. A Tx is memory work,
// and reading of blocks that are not in memory. It waits for the log only when
// the running transaction has no room for it and the transaction before is still
// being committed.
//
// Bytes of a Version may be used inside the View, or until the end of the Tx, in
// which they were got. View and Begin do not nest in each other, nor in
// themselves. Callbacks run without locks of the journal, but a commit or a Tx
// waits for them: OnDurable, BeforeLog and OnAbort must not begin a Tx, nor wait
// for a commit or a checkpoint.
//
// Data is not this package's business, with two exceptions: a commit begins with
// a flush, or contains one, so that data written before Tx.Commit is durable when
// the change is (ordered mode by construction); and data blocks may be journaled
// like metadata (data=journal), for which ReadData is there.
//
// After an error in writing the log or a checkpoint the journal is aborted:
// reads go on, with all that was merged; Begin, Commit and Sync fail with
// ErrAborted. What the log on the disk holds stays there for the next recovery.
package journal
