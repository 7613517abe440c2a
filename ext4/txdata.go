package ext4

import (
	"slices"
	"syscall"
	"time"

	"drydock/device"
	"drydock/format"
	"drydock/journal"
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
	d      *fileData
	merged bool // of what follows; else it did not come to be
	heldChange
}

// heldChange is what becomes of a file.
type heldChange struct {
	cut  bool  // it was made shorter ...
	at   int64 // ... to this size
	more bool  // there are blocks behind that, for other transactions to free
	size int64 // what it grows to after the transaction; 0: it does not
}

// change notes what becomes of the file if the transaction does not fail.
func (h *heldFile) change(t *Tx, now heldChange) {
	before := h.heldChange
	h.heldChange = now
	t.j.OnAbort(func() { h.heldChange = before })
	t.j.OnMerge(func() { h.merged = true })
}

// hold takes the write lock of a file until the transaction has ended. It fails
// with EBUSY rather than wait for somebody who may wait for the transaction. It
// returns nil for a file that this transaction has made.
func (t *Tx) hold(ino format.Ino) (*heldFile, error) {
	for _, h := range t.held {
		if h.d.n.ino == ino {
			return h, h.usable()
		}
	}
	d, err := t.dataOf(ino)
	if d == nil || err != nil {
		return nil, err
	}
	for range busyTries {
		if d.rw.TryLock() {
			h := &heldFile{d: d}
			t.held = append(t.held, h)
			t.after = slices.Insert(t.after, 0, func() { h.release(t) }) // while the node is kept
			return h, nil
		}
		time.Sleep(busyPause)
	}
	return nil, syscall.EBUSY
}

// usable fails for a file whose tree holds blocks behind its size for now.
func (h *heldFile) usable() error {
	if h.more {
		return journal.ErrTooLarge
	}
	return nil
}

// dataOf returns the data of a file, and keeps its node until the transaction has
// ended; nil if all others see no such file yet.
func (t *Tx) dataOf(ino format.Ino) (d *fileData, err error) {
	in, err := t.fs.merged().inode(ino)
	if err != nil {
		return nil, err
	}
	n, _ := t.fs.getNode(ino)
	if n == nil {
		return nil, nil
	}
	t.after = append(t.after, func() { t.fs.putNode(n) })
	if in.raw.LinksCount() == 0 && n.loaded() == nil {
		return nil, nil
	}
	return n.fileDataBy(t.seen)
}

// release does after the transaction what is left to do - it frees the rest of what
// was cut, sees to the end of the last block, or lets the file grow - and gives the
// lock up.
func (h *heldFile) release(t *Tx) {
	defer h.d.rw.Unlock()
	if !h.merged {
		return
	}
	h.d.dataTid.Store(uint32(t.tid))
	var err error
	if h.cut {
		err = h.d.shrinkRest(h.d.size.Load(), h.more)
	}
	if h.size > 0 && err == nil {
		err = h.d.grow(h.size)
	}
	if err != nil {
		h.d.errs.add(err)
	}
}

// setLength changes the size of a regular file in a transaction of several
// operations. What does not fit that is freed after it. The size of a file with
// data that is not written yet moves up when that is written.
func (t *Tx) setLength(ino format.Ino, size int64) error {
	h, err := t.hold(ino)
	if err != nil {
		return err
	}
	raw, err := t.changeInode(ino)
	if err != nil {
		return err
	}
	if size > t.fs.maxSize() {
		return errTooBig
	}
	raw.SetMtime(t.time)
	raw.SetCtime(t.time)
	t.onMergeData(ino, (*fileData).unstamp)
	old := int64(raw.Size())
	switch {
	case h != nil && h.cut:
		old = max(old, h.at)
	case h != nil:
		old = h.d.size.Load()
	}
	if size > old {
		return t.lengthen(h, ino, raw, size)
	}
	return t.shorten(h, ino, raw, size)
}

// shorten is setLength to at most the size that the file has.
func (t *Tx) shorten(h *heldFile, ino format.Ino, raw format.Inode, size int64) error {
	more, err := t.truncate(nil, ino, size)
	switch {
	case err != nil:
		return err
	case h != nil:
		h.change(t, heldChange{cut: true, at: size, more: more})
	case more:
		return journal.ErrTooLarge
	default: // nobody else sees the file yet
		return t.zeroOnDisk(ino, raw, size)
	}
	if more {
		return t.addOrphan(ino)
	}
	return nil
}

// unstamp forgets the time of the last write: a later one is in the inode.
func (d *fileData) unstamp() {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	d.stamped = false
}

// lengthen is setLength to more than the size that the file has. What the last
// block holds behind that becomes zeros on the device at once: nobody sees it yet.
// That is not so after the file was made shorter in this transaction.
func (t *Tx) lengthen(h *heldFile, ino format.Ino, raw format.Inode, size int64) error {
	switch {
	case h != nil && h.cut && h.at%int64(t.fs.geo.BlockSize) != 0:
		return &format.UnsupportedError{Detail: "a file that is made shorter and then longer in one transaction"}
	case h != nil && !h.cut && !h.d.idle():
		h.change(t, heldChange{size: size})
		return nil
	}
	if err := t.zeroOnDisk(ino, raw, int64(raw.Size())); err != nil {
		return err
	}
	t.onMergeData(ino, func(d *fileData) { d.grown(size) })
	return t.setSize(raw, size)
}

// idle reports whether all data of the file is on the device, and recorded.
func (d *fileData) idle() bool {
	if !d.n.wbMu.TryLock() {
		return false
	}
	defer d.n.wbMu.Unlock()
	if m := d.pages.Load(); m != nil && m.Dirty() > 0 {
		return false
	}
	d.n.mu.RLock()
	defer d.n.mu.RUnlock()
	return d.disk == d.size.Load()
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
	existing := t.fs.maxExtents(raw)
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
