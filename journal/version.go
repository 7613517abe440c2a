package journal

import (
	"sync"
	"sync/atomic"

	"drydock/format"
)

// Version is the content of a block at one time.
type Version struct {
	data    []byte
	checked atomic.Bool
	block   format.Block

	// Guarded by Journal.mu.
	tx       *transaction // that it waits in; nil: it is the same at home, or private to a Tx
	index    int          // in tx.versions
	older    *Version     // next older one that still waits for something
	writing  bool         // a checkpoint uses it
	obsolete bool         // nobody else does: who ends writing frees it
}

// Bytes is the content; it must not be changed.
func (v *Version) Bytes() []byte { return v.data }

// Checked reports whether SetChecked was called: the caller has verified the
// content, or made it himself.
func (v *Version) Checked() bool { return v.checked.Load() }

// SetChecked notes that the content was found right.
func (v *Version) SetChecked() { v.checked.Store(true) }

// versionPool keeps versions that nobody uses for their memory.
type versionPool struct {
	free   sync.Pool
	poison bool
}

// poisonByte is not a likely value of anything.
const poisonByte = 0xDB

func (p *versionPool) init(blockSize int, poison bool) {
	p.poison = poison
	p.free.New = func() any { return &Version{data: make([]byte, blockSize)} }
}

// get returns a version with any content.
func (p *versionPool) get(b format.Block) *Version {
	v := p.free.Get().(*Version)
	v.block = b
	return v
}

// put takes back a version that nobody can reach any more.
func (p *versionPool) put(v *Version) {
	if p.poison {
		for i := range v.data {
			v.data[i] = poisonByte
		}
	}
	v.checked.Store(false)
	v.tx, v.older, v.writing, v.obsolete = nil, nil, false, false
	p.free.Put(v)
}
