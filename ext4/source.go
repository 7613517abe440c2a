package ext4

import (
	"fmt"

	"drydock/format"
	"drydock/journal"
)

// source gives the current content of metadata blocks: that which is merged, or
// in a transaction that with its own changes. The bytes must not be changed, and
// are good until the View or the transaction ends.
type source interface {
	get(b format.Block) ([]byte, error)
}

// reader reads metadata from one source. What it returns from the merged state
// belongs together inside one View, see FS.view.
type reader struct {
	fs *FS
	source
}

// merged reads the state that all see.
func (fsys *FS) merged() reader {
	if fsys.j == nil {
		return reader{fsys, fsys.meta}
	}
	return reader{fsys, journalSource{fsys.j}}
}

// view runs fn while no transaction is merged, so that all it reads is of one
// state. fn neither begins a transaction nor waits for one, and takes no node.mu.
func (fsys *FS) view(fn func(r reader) error) error {
	if fsys.j == nil {
		return fn(fsys.merged())
	}
	return fsys.j.View(func() error { return fn(fsys.merged()) })
}

// journalSource is the merged state.
type journalSource struct{ j *journal.Journal }

func (s journalSource) get(b format.Block) ([]byte, error) { return bytesOf(s.j.Get(b)) }

// txSource is the state with the changes of a transaction.
type txSource struct{ t *Tx }

func (s txSource) get(b format.Block) ([]byte, error) { return bytesOf(s.t.j.Get(b)) }

func bytesOf(v *journal.Version, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return v.Bytes(), nil
}

// ReadBlock copies block b to p; it is what the packages below ask for.
func (r reader) ReadBlock(b format.Block, p []byte) error {
	data, err := r.get(b)
	if err != nil {
		return err
	}
	if copy(p, data) < len(p) {
		return fmt.Errorf("read of %d bytes from a block of %d", len(p), len(data))
	}
	return nil
}
