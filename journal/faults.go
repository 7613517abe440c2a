package journal

// faults break one rule each, on purpose; the zero value breaks none. They are
// for the tests, which must notice.
type faults struct {
	noFlushBeforeCommit   bool // log blocks may come after the commit block
	noFlushOfHome         bool // external log: file data may come after the commit block
	commitWithoutFUA      bool // Sync returns although the commit block may be lost
	releaseBeforeDurable  bool // freed blocks are used again before the commit
	noBeforeLog           bool // log blocks, and nothing says that recovery is needed
	startAfterCommit      bool // the superblock says where the log begins, but after the first commit
	noFeatures            bool // the log uses what the superblock does not say
	timeGoesBack          bool // commit times follow the clock
	noSequenceJump        bool // an emptied log goes on with numbers that it had before
	noFlushBeforeTail     bool // the tail moves past blocks that may not be home
	tailBeforeHome        bool // the tail moves first
	tailWithoutFUA        bool // log space is used again under the old tail
	checkpointUncommitted bool // a checkpoint writes what is current, not what is committed
	keepForgotten         bool // a freed block is still written home by a checkpoint
	noWaitForHome         bool // a freed block is used again while a checkpoint writes it
	noRevoke              bool // old copies of a freed block are replayed
	keepRevoke            bool // a block that is used again in the same transaction stays revoked
	noEscape              bool // a block that looks like the journal's own ends the log
	ignoreLogError        bool // a commit although log blocks were not written
	ignoreHomeError       bool // the tail moves although home blocks were not written
	ignoreSuperblockError bool // log space is used again although the tail is old
}
