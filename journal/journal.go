package journal

import (
	"errors"

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
	CopyAlways                     // all blocks are copied first, as jbd2 was once proposed to do
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

// Journal is the metadata of an open file system. All methods may be called
// from many goroutines.
type Journal struct{}

var errStub = errors.New("journal: stub")

// Open makes a journal whose log is empty ready for use; it writes nothing.
func Open(o Options) (*Journal, error) { return nil, errStub }

// Get returns the current version of a block, inside a View or while the caller
// has a Tx.
func (j *Journal) Get(b format.Block) (*Version, error) { return nil, errStub }

// View calls fn and lets no Tx merge meanwhile.
func (j *Journal) View(fn func() error) error { return errStub }

// ReadBlock copies the current version of b to p.
func (j *Journal) ReadBlock(b format.Block, p []byte) error { return errStub }

// ReadData reads blocks of data from b on.
func (j *Journal) ReadData(b format.Block, p []byte) error { return errStub }

// Override makes data the current version of b without logging it.
func (j *Journal) Override(b format.Block, data []byte) {}

// Begin starts a Tx.
func (j *Journal) Begin() (*Tx, error) { return nil, errStub }

// MaxTx is the most blocks that a Tx may change.
func (j *Journal) MaxTx() int { return 0 }

// Running is the number of the transaction that the next Tx merges into.
func (j *Journal) Running() format.Tid { return 0 }

// Durable reports whether transaction tid is durable.
func (j *Journal) Durable(tid format.Tid) bool { return false }

// Sync returns when transaction tid is durable.
func (j *Journal) Sync(tid format.Tid) error { return errStub }

// SyncData is Sync, and data written before the call is durable too.
func (j *Journal) SyncData(tid format.Tid) error { return errStub }

// SyncAll makes all that was merged, and all data written before, durable.
func (j *Journal) SyncAll() error { return errStub }

// StartCommit begins to commit the running transaction in the background.
func (j *Journal) StartCommit() {}

// Checkpoint writes all committed blocks home and empties the log.
func (j *Journal) Checkpoint() error { return errStub }

// Close commits, checkpoints and empties the log.
func (j *Journal) Close() error { return errStub }

// Err is why the journal has aborted; nil if it has not.
func (j *Journal) Err() error { return errStub }

// Abort stops all writing, as an I/O error does.
func (j *Journal) Abort(err error) {}

// Stats returns what was counted so far.
func (j *Journal) Stats() Stats { return Stats{} }

// Version is the content of a block at one time.
type Version struct{}

// Bytes is the content; it must not be changed.
func (v *Version) Bytes() []byte { return nil }

// Checked reports whether SetChecked was called for the content.
func (v *Version) Checked() bool { return false }

// SetChecked notes that the content was found right.
func (v *Version) SetChecked() {}

// Stats counts what a journal has done.
type Stats struct {
	Commits, LogBlocks, HomeBlocks, Checkpoints, Flushes, CopyOuts, AlwaysCopies, Waits, TxWaits, Revokes uint64
}
