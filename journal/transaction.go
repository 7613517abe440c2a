package journal

import "drydock/format"

// transaction is a set of changes that become durable together. One is running,
// one may be committing, and the committed ones wait in the log for their
// checkpoint.
type transaction struct {
	tid       format.Tid
	versions  []*Version // of different blocks; those that are not home
	revokes   map[format.Block]struct{}
	forgets   []format.Block // all blocks that were freed, some of them used again
	onDurable []func()

	// Once it is in the log:
	logged   []format.Block // home blocks that have a copy in it
	start, n uint32         // its log blocks
}

func newTransaction(tid format.Tid) *transaction { return &transaction{tid: tid} }

// empty reports whether a commit would have nothing to do.
func (t *transaction) empty() bool {
	return len(t.versions) == 0 && len(t.forgets) == 0 && len(t.onDurable) == 0
}

// enlist makes v wait in t. The caller holds mu.
func (j *Journal) enlist(t *transaction, v *Version) {
	v.tx, v.index = t, len(t.versions)
	t.versions = append(t.versions, v)
	j.dirty++
}

// delist takes v out of its transaction. The caller holds mu.
func (j *Journal) delist(v *Version) {
	t, last := v.tx, len(v.tx.versions)-1
	moved := t.versions[last]
	t.versions[v.index], moved.index = moved, v.index
	t.versions[last] = nil
	t.versions = t.versions[:last]
	v.tx = nil
	j.dirty--
}

// replace puts v in the place of a version of the same block.
func (t *transaction) replace(old, v *Version) {
	v.tx, v.index = t, old.index
	t.versions[old.index] = v
	old.tx = nil
}

// revoke notes that copies of b up to this transaction must not be replayed.
func (t *transaction) revoke(b format.Block) {
	if t.revokes == nil {
		t.revokes = map[format.Block]struct{}{}
	}
	t.revokes[b] = struct{}{}
}
