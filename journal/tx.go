package journal

import "drydock/format"

// Tx is a set of changes that happen together or not at all.
type Tx struct{}

// Get returns the Tx's own version of b, or the current one.
func (t *Tx) Get(b format.Block) (*Version, error) { return nil, errStub }

// Change returns the Tx's private copy of b, to be changed.
func (t *Tx) Change(b format.Block) ([]byte, error) { return nil, errStub }

// New returns a private version of b that is all zeros.
func (t *Tx) New(b format.Block) ([]byte, error) { return nil, errStub }

// Forget says that b is freed.
func (t *Tx) Forget(b format.Block) {}

// Try calls fn; if it fails, what it did in the Tx is undone.
func (t *Tx) Try(fn func() error) error { return errStub }

// OnMerge has fn called when the Tx has been merged.
func (t *Tx) OnMerge(fn func()) {}

// OnAbort has fn called when the Tx, or the Try around, is undone.
func (t *Tx) OnAbort(fn func()) {}

// OnDurable has fn called when the changes are durable.
func (t *Tx) OnDurable(fn func()) {}

// Size is the number of blocks changed so far.
func (t *Tx) Size() int { return 0 }

// Commit merges the changes and returns their transaction.
func (t *Tx) Commit() (format.Tid, error) { return 0, errStub }

// Abort forgets the Tx.
func (t *Tx) Abort() {}
