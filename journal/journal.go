package journal

import (
	"errors"
	"sync"

	"drydock/device"
	"drydock/format"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrAborted: writing the log or a checkpoint has failed; the error wraps why.
	ErrAborted = errors.New("journal is aborted")
	// ErrReadOnly: the journal was opened for reading.
	ErrReadOnly = errors.New("journal is read-only")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("journal is closed")
	// ErrTooLarge: a Tx changes more blocks than a transaction can have.
	ErrTooLarge = errors.New("transaction is larger than the log allows")
	// ErrNotRecovered: the log still has transactions.
	ErrNotRecovered = errors.New("journal needs recovery")
)

// CopyPolicy says how a block is kept unchanged while it is written to the log.
type CopyPolicy int

// The policies. All but the first exist for comparison.
const (
	CopyOnDemand CopyPolicy = iota // a block that changes again meanwhile gets a new version
	CopyAlways                     // all blocks are copied before they are written
	CopyWait                       // Change waits until the block has been written
)

// Options say what Open opens.
type Options struct {
	Device    device.Device // home of the blocks
	BlockSize int           // bytes
	Blocks    uint64        // of the file system; a block beyond is damage

	// Area is where the log lies. Without, a Sync writes the changed blocks home
	// and flushes, and a crash leaves any part of them.
	Area     *Area
	ReadOnly bool // Get, View, ReadBlock and ReadData only
	// Overlay is asked for a block's content before the device is read: what a
	// recovery would write there.
	Overlay func(b format.Block, p []byte) (bool, error)

	Wide bool // use block numbers of 64 bits in the log
	Csum bool // use checksums (v3) in the log

	Memory  int64      // bytes of unchanged blocks to keep; 0: 8 MiB
	Dirty   int64      // bytes of changed blocks to hold, about; 0: 64 MiB
	Policy  CopyPolicy // how blocks on their way into the log are kept
	NoFlush bool       // never flush: a crash of the host may leave anything
	Poison  bool       // for tests: bytes that may no longer be used are overwritten

	// Now gives the time for commit blocks; without, it is 0. Time that goes
	// backwards is held back.
	Now func() (sec uint64, nsec uint32)
	// BeforeLog is called before the first write into an empty log. When it
	// returns, the file system must say on the disk, durably, that it needs
	// recovery. It may not begin a Tx.
	BeforeLog func() error
	// OnAbort is called once, after the journal has aborted and s_errno has been
	// recorded where possible. It may not wait for the journal.
	OnAbort func(error)
}

// Sizes that apply where Options leave them open, in bytes, and the fewest
// blocks that are kept whatever they say.
const (
	defaultMemory = 8 << 20
	defaultDirty  = 64 << 20
	fewestClean   = 16
	fewestDirty   = 64
)

// Journal is the metadata of an open file system. All methods may be called
// from many goroutines.
//
// Locks, outer to inner: txMu, mergeMu, ckptMu, mu, sbMu. Nothing is written
// or flushed under mergeMu or mu.
type Journal struct {
	o      Options
	faults faults
	pool   versionPool
	flush  flusher

	txMu sync.Mutex // held from Begin to the end of the Tx
	tx   txState    // of the Tx that holds txMu

	mergeMu sync.RWMutex // a View holds it for reading, a merge for writing

	ckptMu sync.Mutex // held by the one that does a checkpoint

	// mu guards what follows, all entries and all transactions. cond is
	// signalled when a commit, a checkpoint or its write ends, and at an abort.
	mu         sync.RWMutex
	cond       *sync.Cond
	entries    map[format.Block]*entry
	clean      cleanList
	dirty      int // versions that wait in a transaction
	maxDirty   int // how many these should be at most
	maxTx      int // blocks of a transaction
	running    *transaction
	committing *transaction // the one whose commit is under way
	writing    *transaction // committing, until its blocks have been written
	busy       bool         // somebody commits, or has the log to himself
	wanted     bool         // commit running as soon as nobody is busy
	log        *ring        // nil: no journal
	err        error        // why it aborted
	closed     bool
	stats      Stats

	checkpointing bool      // in the background
	homeWrite     homeWrite // of the checkpoint under way

	background sync.WaitGroup // commits and checkpoints that nobody waits for
	inline     bool           // for tests: nothing happens in the background
	late       bool           // for tests: no checkpoint before the log is full
}

// Open makes a journal whose log is empty ready for use; it writes nothing. It
// fails with ErrNotRecovered if there is something in the log, and with the
// errors of Area.ReadSuperblock.
func Open(o Options) (*Journal, error) {
	j := &Journal{o: o, entries: map[format.Block]*entry{}}
	j.cond = sync.NewCond(&j.mu)
	j.pool.init(o.BlockSize, o.Poison)
	j.clean.limit = max(int(orDefault(o.Memory, defaultMemory)/int64(o.BlockSize)), fewestClean)
	j.maxDirty = max(int(orDefault(o.Dirty, defaultDirty)/int64(o.BlockSize)), fewestDirty)
	j.maxTx = j.maxDirty / 4
	j.flush.init(o)
	j.running = newTransaction(1)
	if o.Area == nil || o.ReadOnly {
		return j, nil
	}
	if err := j.openLog(); err != nil {
		return nil, err
	}
	return j, nil
}

func orDefault(n, def int64) int64 {
	if n == 0 {
		return def
	}
	return n
}

// MaxTx is the most blocks that a Tx may change: about a quarter of the log.
func (j *Journal) MaxTx() int { return j.maxTx }

// Running is the number of the transaction that the next Tx merges into.
func (j *Journal) Running() format.Tid {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.running.tid
}

// spawn runs fn in the background, or at once in tests that want no chance.
// The caller holds no lock that fn takes.
func (j *Journal) spawn(fn func()) {
	if j.inline {
		fn()
		return
	}
	j.background.Go(fn)
}

// Close commits, checkpoints and leaves an empty log whose sequence number no
// old block in the log can follow. It waits for a Tx to end. A journal in which
// nothing has changed is not written to. After an abort it leaves the disk
// alone and returns why it was aborted.
func (j *Journal) Close() error {
	j.txMu.Lock()
	j.mu.Lock()
	again := j.closed
	j.closed = true
	j.mu.Unlock()
	j.txMu.Unlock()
	if again || j.o.ReadOnly {
		return nil
	}
	err := j.Sync(j.lastTid())
	if err == nil {
		err = j.Checkpoint()
	}
	j.background.Wait()
	return err
}
