package ext4

import (
	"fmt"
	"io"

	"drydock/format"
	"drydock/journal"
)

// source gives the current version of metadata blocks: the journal that which is
// merged, a transaction that with its own changes. Bytes of a version are good
// until the View or the transaction ends.
type source interface {
	Get(b format.Block) (*journal.Version, error)
}

// reader reads metadata from one source. What it returns from the merged state
// belongs together inside one View, see FS.view.
type reader struct {
	fs  *FS
	src source
}

// merged reads the state that all see.
func (fsys *FS) merged() reader { return reader{fsys, fsys.j} }

// view runs fn while no transaction is merged, so that all it reads is of one
// state. fn neither begins a transaction nor waits for one, and takes no node.mu.
func (fsys *FS) view(fn func(r reader) error) error {
	return fsys.j.View(func() error { return fn(fsys.merged()) })
}

// txSource is the state with the changes of a transaction.
type txSource struct{ t *Tx }

// Get implements source.
func (s txSource) Get(b format.Block) (*journal.Version, error) { return s.t.j.Get(b) }

// get returns block b, which must not be changed.
func (r reader) get(b format.Block) ([]byte, error) {
	v, err := r.src.Get(b)
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

// readFull fills p from off; a device that ends before is an error.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
