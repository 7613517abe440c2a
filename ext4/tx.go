package ext4

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"drydock/format"
	"drydock/journal"
)

// Tx is a group of operations that take effect together, see FS.Update. What it
// reads holds its own changes. It is for one goroutine.
type Tx struct {
	reader       // of the state with the changes made so far
	j            *journal.Tx
	time         format.Time  // of the operations
	unsealed     []format.Ino // inodes changed whose checksum is not up to date
	superChanged bool         // the superblock, likewise
	inos         []format.Ino // inodes changed, some more than once
	tid          format.Tid   // set by commit
	after        []func()     // run when the transaction has ended, however it did
	held         []*heldFile  // files whose data is locked, see hold
	ended        bool
}

// Update runs fn in a transaction. All that fn does through it is durable
// together, at the next Sync, or not at all: if fn returns an error nothing is
// changed. An operation that fails alone leaves nothing behind, and fn may go on.
//
// Other changes wait until fn returns. fn must use nothing but tx to change the
// file system; tx must not be used after it.
func (fsys *FS) Update(fn func(tx *Tx) error) error { return fsys.update(fn) }

// update is Update for one operation.
func (fsys *FS) update(fn func(t *Tx) error) error {
	t, err := fsys.begin()
	if err != nil {
		return err
	}
	defer t.abort()
	if err := fn(t); err != nil {
		return err
	}
	return t.commit()
}

// begin starts a transaction; it waits while there is another.
func (fsys *FS) begin() (*Tx, error) {
	if err := fsys.mayWrite(); err != nil {
		return nil, err
	}
	j, err := fsys.j.Begin()
	if err != nil {
		return nil, readOnly(err)
	}
	t := &Tx{j: j, time: fsys.now()}
	t.reader = reader{fsys, txSource{t}}
	return t, nil
}

// mayWrite says why nothing can be changed, if so.
func (fsys *FS) mayWrite() error {
	switch {
	case fsys.closed.Load():
		return fs.ErrClosed
	case !fsys.opts.ReadWrite:
		return syscall.EROFS
	}
	return nil
}

// readOnly adds EROFS to the error of a journal that takes no changes.
func readOnly(err error) error {
	if errors.Is(err, journal.ErrAborted) || errors.Is(err, journal.ErrReadOnly) {
		return fmt.Errorf("%w: %w", syscall.EROFS, err)
	}
	return err
}

// commit makes the changes visible.
func (t *Tx) commit() error {
	if t.ended {
		return fs.ErrClosed
	}
	if err := t.seal(0); err != nil {
		t.abort()
		return err
	}
	if err := t.fs.beforeChange(t.j.Size()); err != nil {
		t.abort()
		return err
	}
	if t.j.Size() > 0 {
		t.j.OnMerge(t.fs.countMerge)
	}
	tid, err := t.j.Commit()
	if err == nil {
		t.tid = tid
		t.fs.nodes.stamp(t.inos, tid)
	}
	t.end()
	return readOnly(err)
}

// countMerge notes that the state has changed. It runs before another transaction
// can begin, and after the change is visible: a count that was read in a View
// and is still the same in a transaction says that nothing has changed between.
func (fsys *FS) countMerge() { fsys.merges.Add(1) }

// abort forgets all changes. It does nothing after commit.
func (t *Tx) abort() {
	if !t.ended {
		t.j.Abort()
		t.end()
	}
}

func (t *Tx) end() {
	t.ended = true
	for _, fn := range t.after {
		fn()
	}
}

// try runs one operation of several: if it fails its changes are forgotten.
func (t *Tx) try(fn func(t *Tx) error) error {
	if t.ended {
		return fs.ErrClosed
	}
	before, superChanged := len(t.unsealed), t.superChanged
	t.superChanged = false
	err := t.j.Try(func() error {
		if err := fn(t); err != nil {
			return err
		}
		return t.seal(before)
	})
	t.unsealed, t.superChanged = t.unsealed[:before], superChanged
	return err
}

// changeInode returns the bytes of an inode to change. They are good until the
// next call of try. The checksum is set at the end.
func (t *Tx) changeInode(ino format.Ino) (format.Inode, error) {
	first := !slices.Contains(t.unsealed, ino)
	if first {
		if _, err := t.inode(ino); err != nil {
			return nil, err
		}
	}
	raw, err := t.slotOf(ino)
	if err == nil && first {
		t.foldTimes(ino, raw)
	}
	return raw, err
}

// foldTimes puts into the inode what its node knows of the time of the last
// write, so that what is set now comes later.
func (t *Tx) foldTimes(ino format.Ino, raw format.Inode) {
	if n := t.fs.peekNode(ino); n != nil {
		n.foldTimes(t, raw)
		t.after = append(t.after, func() { t.fs.putNode(n) })
	}
}

// slotOf is changeInode for an inode whose bytes may be anything.
func (t *Tx) slotOf(ino format.Ino) (format.Inode, error) {
	b, at, err := t.inodePlace(ino)
	if err != nil {
		return nil, err
	}
	block, err := t.j.Change(b)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(t.unsealed, ino) {
		t.unsealed = append(t.unsealed, ino)
		t.inos = append(t.inos, ino)
	}
	return format.Inode(block[at : at+t.fs.geo.InodeSize]), nil
}

// seal stores the checksums of the inodes that were changed since the list of
// them had the given length.
func (t *Tx) seal(from int) error {
	for _, ino := range t.unsealed[from:] {
		raw, err := t.slotOf(ino)
		if err != nil {
			return err
		}
		t.fs.csum.SealInode(ino, raw)
	}
	if !t.superChanged {
		return nil
	}
	sb, err := t.changeSuper()
	if err == nil {
		format.SealSuperblock(sb)
		t.superChanged = false
	}
	return err
}
