package ext4

import (
	"syscall"
	"time"

	"drydock/device"
	"drydock/format"
)

// What a transaction of several operations does to the data of files. It cannot
// wait for a file's lock, since those who hold it may wait for the transaction.

// busyTries and busyPause say how long an operation in a transaction waits for
// a writer that is in the middle of a write to the same file.
const (
	busyTries = 200
	busyPause = 5 * time.Millisecond
)

// heldFile is a file that a transaction of several operations has locked.
type heldFile struct {
	d    *fileData
	then []func() // when the transaction has ended
}

// hold takes the write lock of a file, if its data is in memory, until the
// transaction has ended. It fails with EBUSY rather than wait for somebody who may
// wait for the transaction. It returns nil for a file without data in memory.
func (t *Tx) hold(ino format.Ino) (*heldFile, error) {
	nodes := &t.fs.nodes
	nodes.mu.Lock()
	n := nodes.byNo[ino]
	nodes.mu.Unlock()
	d := n.loaded()
	if d == nil {
		return nil, nil
	}
	for _, h := range t.held {
		if h.d == d {
			return h, nil
		}
	}
	for range busyTries {
		if d.rw.TryLock() {
			h := &heldFile{d: d}
			t.held = append(t.held, h)
			t.after = append(t.after, h.release)
			return h, nil
		}
		time.Sleep(busyPause)
	}
	return nil, syscall.EBUSY
}

// release gives the lock up at the end of the transaction.
func (h *heldFile) release() {
	for _, fn := range h.then {
		fn()
	}
	h.d.rw.Unlock()
}

// setLength changes the size of a regular file in a transaction of several
// operations. What does not fit that is freed after it.
func (t *Tx) setLength(ino format.Ino, size int64) error {
	h, err := t.hold(ino)
	if err != nil {
		return err
	}
	raw, err := t.changeInode(ino)
	if err != nil {
		return err
	}
	old := int64(raw.Size())
	if h != nil {
		old = h.d.size.Load()
	}
	if size > t.fs.maxSize() {
		return errTooBig
	}
	raw.SetMtime(t.time)
	raw.SetCtime(t.time)
	t.onMergeData(ino, (*fileData).unstamp)
	if size > old {
		return t.lengthen(ino, raw, size)
	}
	more, err := t.truncate(nil, ino, size)
	if err == nil && more {
		err = t.addOrphan(ino)
	}
	if err == nil && h != nil {
		t.finishCut(h, size, more)
	}
	return err
}

// finishCut does after the transaction what is left of a cut: it frees the rest,
// and sees to the end of the last block.
func (t *Tx) finishCut(h *heldFile, size int64, more bool) {
	merged := false
	t.j.OnMerge(func() { merged = true })
	h.then = append(h.then, func() {
		if !merged {
			return
		}
		h.d.dataTid.Store(uint32(t.tid))
		if err := h.d.shrinkRest(size, more); err != nil {
			h.d.errs.add(err)
		}
	})
}

// unstamp forgets the time of the last write: a later one is in the inode.
func (d *fileData) unstamp() {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	d.stamped = false
}

// lengthen moves the size in the inode up. What the last block holds behind the
// old size becomes zeros on the device at once.
func (t *Tx) lengthen(ino format.Ino, raw format.Inode, size int64) error {
	if err := t.zeroOnDisk(ino, raw, int64(raw.Size())); err != nil {
		return err
	}
	if err := t.setSize(raw, size); err != nil {
		return err
	}
	t.onMergeData(ino, func(d *fileData) {
		d.n.mu.Lock()
		defer d.n.mu.Unlock()
		d.disk = size
		d.size.Store(max(size, d.size.Load()))
	})
	return nil
}

// zeroOnDisk makes zeros of what the last block of a file of the given size holds
// behind that.
func (t *Tx) zeroOnDisk(ino format.Ino, raw format.Inode, size int64) error {
	bs := int64(t.fs.geo.BlockSize)
	if size%bs == 0 {
		return nil
	}
	l := format.LBlock(size / bs)
	x, err := (&inode{reader: t.reader, num: ino, raw: raw}).blockMap().Lookup(l)
	if err != nil || x.Start == 0 || x.Unwritten {
		return err
	}
	b := x.Start + format.Block(l-x.LBlock)
	if t.journalsData(raw) {
		block, err := t.j.Change(b)
		if err == nil {
			clear(block[size%bs:])
		}
		return err
	}
	_, err = t.fs.dev.WriteAt(make([]byte, bs-size%bs), int64(b)*bs+size%bs)
	return err
}

// journalsData reports whether the data of an inode goes into the journal.
func (t *Tx) journalsData(raw format.Inode) bool {
	return t.fs.opts.Data == DataJournal || raw.HasFlags(format.InodeJournalData)
}

// putData makes p the content of a regular file whose size is 0: it is written
// to new blocks at once, so that it comes with the transaction or not at all.
func (t *Tx) putData(ino format.Ino, p []byte) error {
	if _, err := t.hold(ino); err != nil {
		return err
	}
	raw, err := t.changeInode(ino)
	if err != nil || len(p) == 0 {
		return err
	}
	if int64(len(p)) > t.fs.maxSize() {
		return errTooBig
	}
	ed, err := t.editTree(ino, raw, txNodes{t})
	if err != nil {
		return err
	}
	blocks := t.fs.blocksFor(int64(len(p)))
	goal := t.fs.alloc.GoalFor(ino)
	for l := format.LBlock(0); l < blocks; {
		start, n, err := t.pick(goal, uint32(blocks-l))
		if err != nil {
			return err
		}
		if err := t.putRun(raw, start, n, p[int64(l)*int64(t.fs.geo.BlockSize):]); err != nil {
			return err
		}
		if err := ed.Insert(format.Extent{LBlock: l, Len: n, Start: start}); err != nil {
			return err
		}
		l, goal = l+format.LBlock(n), start+format.Block(n)
	}
	raw.SetMtime(t.time)
	raw.SetCtime(t.time)
	if err := t.addBlocks(raw, int64(blocks)+int64(ed.NodeDelta())); err != nil {
		return err
	}
	existing := t.maxExtents(ino, raw)
	t.onMergeData(ino, func(d *fileData) { d.replaced(int64(len(p)), existing) })
	return t.setSize(raw, int64(len(p)))
}

// putRun writes the first n blocks of p, or what there is of them and zeros, to
// the blocks from start on.
func (t *Tx) putRun(raw format.Inode, start format.Block, n uint32, p []byte) error {
	bs := t.fs.geo.BlockSize
	p = p[:min(len(p), int(n)*bs)]
	if t.journalsData(raw) {
		for b := start; len(p) > 0; b++ {
			part := p[:min(len(p), bs)]
			if err := t.putBlock(b, 0, part, true); err != nil {
				return err
			}
			p = p[len(part):]
		}
		return nil
	}
	bufs := [][]byte{p}
	if rest := int(n)*bs - len(p); rest > 0 {
		bufs = append(bufs, make([]byte, rest))
	}
	_, err := device.Writev(t.fs.dev, bufs, int64(start)*int64(bs))
	return err
}

// replaced takes over that the file has other content now, all of it written.
func (d *fileData) replaced(size int64, existing int) {
	d.n.mu.Lock()
	d.status.Remove(0, format.MaxLBlock)
	d.disk, d.existing, d.stamped = size, existing, false
	d.size.Store(size)
	d.n.mu.Unlock()
	if m := d.pages.Load(); m != nil {
		m.Discard(0, format.MaxLBlock)
	}
}
