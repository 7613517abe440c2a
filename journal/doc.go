// Package journal is the jbd2 journal of a file system: it recovers a log that
// a crash has left, and writes one.
//
// # Recovery
//
//	Area    the blocks of the journal inode (NewArea), or an external device
//	  |
//	Scan    reads the log three times and writes nothing: where it ends; which
//	  |     blocks are in it, and revoked; which copies are good
//	  v
//	Recovery     Blocks, ReadBlock    the state after a replay, without one
//	  |          FastCommits          what comes after the last transaction
//	  |          Damage, Skipped      why Linux would refuse it
//	Replay  all copies home -> flush
//	  |     (the file system carries out fast commits, and makes that durable)
//	Finish  journal superblock: empty, a number that no block in the log is near
//
// Nothing in a log is believed. It is no longer than its area, its area no longer
// than the device; a tag leads into the file system and not into the log; what
// has a checksum is verified, again when it is read a second time. Memory is for
// positions: some for each block in the log that is to go home, none for revoked
// blocks that are not. It reads all that jbd2 ever wrote: checksums of version 1,
// 2 and 3 or none, 32-bit and 64-bit numbers, the old superblock.
//
// Where Linux refuses a log (Damage), a replay does what e2fsck does, which goes
// on with a part of it; it is for the caller to choose. Recovery changes the log
// in its last write only, so it can be cut off anywhere and done again.
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
