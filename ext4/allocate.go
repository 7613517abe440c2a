package ext4

import (
	"errors"
	"syscall"

	"drydock/format"
	"drydock/internal/extent"
)

// Allocate gives blocks to what has none among the n bytes from off on; they
// read as zeros. Unless keepSize is set, the size moves up to the end of the range.
// It fails with ENOSPC when there is not enough space; what was allocated until
// then stays.
func (f *File) Allocate(off, n int64, keepSize bool) error {
	return f.changeRange("allocate", off, n, func(d *fileData) error { return d.allocateRange(off, off+n, keepSize) })
}

// PunchHole makes a hole of the n bytes from off on: they read as zeros, and the
// blocks that lie in the range as a whole are freed. The size stays.
func (f *File) PunchHole(off, n int64) error {
	return f.changeRange("punch", off, n, func(d *fileData) error { return d.punch(off, off+n) })
}

// ZeroRange makes zeros of the n bytes from off on without writing them: the
// blocks stay, or come, allocated. Unless keepSize is set, the size moves up to
// the end of the range.
func (f *File) ZeroRange(off, n int64, keepSize bool) error {
	return f.changeRange("zero", off, n, func(d *fileData) error { return d.zeroRange(off, off+n, keepSize) })
}

// changeRange checks a range and calls fn with the file locked; where space is
// short it is called again when there may be more.
func (f *File) changeRange(op string, off, n int64, fn func(d *fileData) error) error {
	if off < 0 || n <= 0 {
		return f.error(op, syscall.EINVAL)
	}
	d, err := f.writable(op)
	switch {
	case err != nil:
		return err
	case off > d.fs.maxSize()-n:
		err = errTooBig
	default:
		err = d.locked(fn)
	}
	return f.error(op, err)
}

// locked calls fn with rw held, twice if that may help against a lack of space.
func (d *fileData) locked(fn func(d *fileData) error) error {
	d.rw.Lock()
	defer d.rw.Unlock()
	err := fn(d)
	if errors.Is(err, syscall.ENOSPC) {
		d.fs.makeRoom()
		err = fn(d)
	}
	d.unlist()
	return err
}

// makeRoom does what can make space free: dirty data is written, so that
// promises become exact, and blocks that were freed can be had again. The caller
// holds rw of a file at most. Errors come back where they belong.
func (fsys *FS) makeRoom() {
	fsys.files.room.Lock()
	defer fsys.files.room.Unlock()
	fsys.writeAll(false)
	if _, _, pending, _ := fsys.alloc.Totals(); pending > 0 {
		fsys.awaitFreed()
	}
}

// awaitFreed makes all that was freed durable and waits until it can be used again.
func (fsys *FS) awaitFreed() {
	t, err := fsys.j.Begin()
	if err != nil {
		return
	}
	usable := make(chan struct{})
	t.OnDurable(func() { close(usable) }) // behind those of the frees before
	if _, err := t.Commit(); err != nil {
		return
	}
	if fsys.j.SyncAll() == nil {
		<-usable
	}
}

// allocateRange is Allocate of [from, to). The caller holds rw.
func (d *fileData) allocateRange(from, to int64, keepSize bool) error {
	if !keepSize {
		if err := d.zeroTail(to); err != nil {
			return err
		}
	}
	d.n.wbMu.Lock()
	defer d.n.wbMu.Unlock()
	if err := d.flushHeld(false); err != nil {
		return err
	}
	if err := d.fillHoles(from, to); err != nil {
		return err
	}
	return d.finishRange(to, keepSize)
}

// finishRange stores the times and, unless keepSize is set, moves the size up.
func (d *fileData) finishRange(size int64, keepSize bool) error {
	return d.change(func(t *Tx, raw format.Inode) error {
		raw.SetMtime(t.time)
		raw.SetCtime(t.time)
		t.onMergeData(d.n.ino, (*fileData).unstamp)
		if keepSize || size <= d.size.Load() {
			return nil
		}
		t.onMergeData(d.n.ino, func(d *fileData) { d.grown(size) })
		return t.setSize(raw, size)
	})
}

// grown takes over that the size in the inode has moved up.
func (d *fileData) grown(size int64) {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	d.disk = size
	d.size.Store(size)
}

// change runs a transaction that changes the inode of the file.
func (d *fileData) change(fn func(t *Tx, raw format.Inode) error) error {
	t, err := d.fs.begin()
	if err != nil {
		return err
	}
	defer t.abort()
	raw, err := t.changeInode(d.n.ino)
	if err != nil {
		return err
	}
	if err := fn(t, raw); err != nil {
		return err
	}
	if err := t.commit(); err != nil {
		return err
	}
	d.dataTid.Store(uint32(t.tid))
	return nil
}

// fillHoles gives unwritten blocks to the holes among the bytes [from, to). The
// caller holds rw and wbMu, and nothing of the file is dirty.
func (d *fileData) fillHoles(from, to int64) error {
	l, end := format.LBlock(from/d.blockSize()), d.blocksOf(to)
	for l < end {
		err := d.change(func(t *Tx, raw format.Inode) (err error) {
			l, err = t.fillSome(d, raw, l, end)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fillSome fills holes of [l, end) as far as the transaction has room, and returns
// where to go on.
func (t *Tx) fillSome(d *fileData, raw format.Inode, l, end format.LBlock) (format.LBlock, error) {
	ed, err := t.editTree(d.n.ino, raw, txNodes{t})
	if err != nil {
		return l, err
	}
	w := &recorder{t: t, limit: t.fs.j.MaxTx()}
	added, goal := int64(0), d.goalAt(t, l)
	for first := true; l < end && (first || w.hasRoom()); first = false {
		x, err := d.seen(t, l)
		if err != nil {
			return l, err
		}
		x = clip(x, l, uint64(end))
		if x.Kind == extent.Hole {
			if x.Start, x.Len, err = t.fillHole(d, ed, goal, x); err != nil {
				return l, err
			}
			added += int64(x.Len)
		}
		l += format.LBlock(x.Len)
		goal = x.Start + format.Block(x.Len)
	}
	return l, t.raiseBlocks(d, raw, added+int64(ed.NodeDelta()))
}

// goalAt is where the first block from l on should go.
func (d *fileData) goalAt(t *Tx, l format.LBlock) format.Block {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	if goal := d.goalIn(l, t.seen); goal != 0 {
		return goal
	}
	if d.goal != 0 {
		return d.goal
	}
	return t.fs.alloc.GoalFor(d.n.ino)
}

// raiseBlocks is addBlocks of a file whose tree may have got more extents, which it
// takes over into memory.
func (t *Tx) raiseBlocks(d *fileData, raw format.Inode, delta int64) error {
	if err := t.addBlocks(raw, delta); err != nil {
		return err
	}
	existing := t.fs.maxExtents(raw)
	t.onMergeData(d.n.ino, func(d *fileData) {
		d.n.mu.Lock()
		defer d.n.mu.Unlock()
		d.existing = max(d.existing, existing)
		d.raise()
	})
	return nil
}

// seen is lookup in a transaction.
func (d *fileData) seen(t *Tx, l format.LBlock) (extent.StatusExtent, error) {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	return d.find(l, t.seen)
}

// fillHole gives blocks to the first part of a hole, and returns which.
func (t *Tx) fillHole(d *fileData, ed *extent.Editor, goal format.Block, x extent.StatusExtent) (format.Block, uint32, error) {
	start, n, err := t.pick(goal, x.Len)
	if err != nil {
		return 0, 0, err
	}
	if err := ed.Insert(format.Extent{LBlock: x.LBlock, Len: n, Start: start, Unwritten: true}); err != nil {
		return 0, 0, err
	}
	t.onMergeData(d.n.ino, func(d *fileData) {
		d.n.mu.Lock()
		defer d.n.mu.Unlock()
		d.status.Set(x.LBlock, n, extent.Unwritten, start)
		d.goal = start + format.Block(n)
	})
	return start, n, nil
}

// pick takes up to n blocks that are promised to nobody, marked as used.
func (t *Tx) pick(goal format.Block, n uint32) (start format.Block, got uint32, err error) {
	start, got, err = t.fs.alloc.Find(goal, n, false)
	if err != nil {
		return 0, 0, err
	}
	t.j.OnAbort(func() { t.fs.alloc.Release(start, got, false) })
	return start, got, t.fs.alloc.Mark(t.j, start, got)
}

// punch is PunchHole of [from, to). The caller holds rw.
func (d *fileData) punch(from, to int64) error {
	size, bs := d.size.Load(), d.blockSize()
	if from >= size {
		d.touched() // nothing to do, but the times are set, as in Linux
		return nil
	}
	if to >= size {
		to = int64(d.blocksOf(size)) * bs
	}
	first, end := (from+bs-1)/bs, to/bs
	if err := d.zeroEdges(from, to, first, end); err != nil {
		return err
	}
	d.n.wbMu.Lock()
	defer d.n.wbMu.Unlock()
	if err := d.promiseExtent(); err != nil {
		return err
	}
	for next := format.LBlock(end); int64(next) > first; {
		err := d.change(func(t *Tx, raw format.Inode) (err error) {
			next, err = t.punchSome(d, raw, format.LBlock(first), next)
			return err
		})
		if err != nil {
			return err
		}
	}
	d.touched()
	return nil
}

// punchSome frees blocks of [first, end), from the end on, and returns the end of
// what is left.
func (t *Tx) punchSome(d *fileData, raw format.Inode, first, end format.LBlock) (format.LBlock, error) {
	return t.cutTree(d.n.ino, raw, first, end, func(d *fileData, next format.LBlock, existing int) {
		d.vacate(next, end, existing)
	})
}

// zeroEdges makes zeros of the bytes [from, to) that lie outside of the whole
// blocks [first, end), where they are not zeros already. The caller holds rw.
func (d *fileData) zeroEdges(from, to, first, end int64) error {
	bs := d.blockSize()
	if first > end { // inside of one block
		return d.zeroBytes(from, to)
	}
	if err := d.zeroBytes(from, first*bs); err != nil {
		return err
	}
	return d.zeroBytes(end*bs, to)
}

// zeroBytes makes zeros of bytes of one block.
func (d *fileData) zeroBytes(from, to int64) error {
	if from >= to {
		return nil
	}
	if d.journal {
		return d.zeroJournaled(from, to)
	}
	x, err := d.lookup(format.LBlock(from / d.blockSize()))
	if err != nil || x.Kind == extent.Hole || x.Kind == extent.Unwritten && d.pages.Load() == nil {
		return err
	}
	if err := d.mapping().Zero(from, to-from); err != nil {
		return err
	}
	d.touched()
	return nil
}

// zeroRange is ZeroRange of [from, to). The caller holds rw.
func (d *fileData) zeroRange(from, to int64, keepSize bool) error {
	bs := d.blockSize()
	first, end := (from+bs-1)/bs, to/bs
	if err := d.zeroEdges(from, to, first, end); err != nil {
		return err
	}
	if err := d.allocateRange(from, to, keepSize); err != nil {
		return err
	}
	d.n.wbMu.Lock()
	defer d.n.wbMu.Unlock()
	for l := format.LBlock(first); int64(l) < end; {
		err := d.change(func(t *Tx, raw format.Inode) (err error) {
			l, err = t.unwriteSome(d, raw, l, format.LBlock(end))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unwriteSome makes blocks of [l, end) unwritten as far as the transaction has
// room, and returns where to go on.
func (t *Tx) unwriteSome(d *fileData, raw format.Inode, l, end format.LBlock) (format.LBlock, error) {
	ed, err := t.editTree(d.n.ino, raw, txNodes{t})
	if err != nil {
		return l, err
	}
	w := &recorder{t: t, limit: t.fs.j.MaxTx()}
	for first := true; l < end && (first || w.hasRoom()); first = false {
		x, err := d.seen(t, l)
		if err != nil {
			return l, err
		}
		x = clip(x, l, uint64(end))
		if x.Kind == extent.Written {
			if err := ed.Convert(l, l+format.LBlock(x.Len), true); err != nil {
				return l, err
			}
			t.onMergeData(d.n.ino, func(d *fileData) { d.unwritten(x) })
		}
		l += format.LBlock(x.Len)
	}
	return l, t.raiseBlocks(d, raw, int64(ed.NodeDelta()))
}

// unwritten takes over that blocks hold zeros now.
func (d *fileData) unwritten(x extent.StatusExtent) {
	d.n.mu.Lock()
	d.status.Set(x.LBlock, x.Len, extent.Unwritten, x.Start)
	d.n.mu.Unlock()
	if m := d.pages.Load(); m != nil {
		m.Discard(x.LBlock, x.LBlock+format.LBlock(x.Len))
	}
}
