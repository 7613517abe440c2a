package ext4

import (
	"errors"
	"syscall"

	"drydock/format"
	"drydock/internal/extent"
)

// Files whose data goes into the journal have no cache and no delayed blocks: a
// write is a transaction that holds the data, too, and is done as a whole or not
// at all, as long as it fits one. Blocks that are freed are revoked.

// readJournaled is readDevice with the data that is in the journal only.
func (d *fileData) readJournaled(p []byte, off int64) error {
	clear(p)
	err := d.eachPiece(off, len(p), func(x extent.StatusExtent, from, to int, at int64) error {
		if x.Kind != extent.Written {
			return nil
		}
		return d.wrap(d.readBlocks(p[from:to], at))
	})
	if end := d.size.Load() - off; err == nil && end < int64(len(p)) {
		clear(p[max(end, 0):])
	}
	return err
}

// readBlocks reads bytes at a place of the device through the journal, which
// knows whole blocks only.
func (d *fileData) readBlocks(p []byte, at int64) error {
	bs := d.blockSize()
	skip := at % bs
	if skip == 0 && int64(len(p))%bs == 0 {
		return d.fs.j.ReadData(format.Block(at/bs), p)
	}
	buf := make([]byte, (skip+int64(len(p))+bs-1)/bs*bs)
	if err := d.fs.j.ReadData(format.Block(at/bs), buf); err != nil {
		return err
	}
	copy(p, buf[skip:])
	return nil
}

// writeJournaled writes p in as few transactions as it takes. The caller holds rw.
func (d *fileData) writeJournaled(p []byte, off int64) (n int, err error) {
	if err := d.zeroTail(off); err != nil {
		return 0, err
	}
	retried := false
	for n < len(p) {
		k, err := d.writeTx(p[n:], off+int64(n))
		if errors.Is(err, syscall.ENOSPC) && !retried {
			d.fs.makeRoom()
			retried = true
			continue
		}
		if err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

// journaledBlocks is how many blocks of data one transaction takes: what is left
// is for bitmaps and the tree.
func (fsys *FS) journaledBlocks() int { return max(fsys.j.MaxTx()/2, 1) }

// writeTx writes the first part of p in one transaction, and returns how much.
func (d *fileData) writeTx(p []byte, off int64) (n int, err error) {
	bs := d.blockSize()
	limit := (off/bs+int64(d.fs.journaledBlocks()))*bs - off
	p = p[:min(int64(len(p)), limit)]
	err = d.change(func(t *Tx, raw format.Inode) (err error) {
		n, err = t.writeData(d, raw, p, off)
		if err != nil {
			return err
		}
		raw.SetMtime(t.time)
		raw.SetCtime(t.time)
		t.onMergeData(d.n.ino, (*fileData).unstamp)
		if end := off + int64(n); end > int64(raw.Size()) {
			t.onMergeData(d.n.ino, func(d *fileData) { d.grown(end) })
			return t.setSize(raw, end)
		}
		return nil
	})
	return n, err
}

// writeData puts data into blocks of a file, as long as there is room in the
// transaction, and returns how much.
func (t *Tx) writeData(d *fileData, raw format.Inode, p []byte, off int64) (n int, err error) {
	ed, err := t.editTree(d.n.ino, raw, txNodes{t})
	if err != nil {
		return 0, err
	}
	bs := d.blockSize()
	w := &recorder{t: t, limit: t.fs.j.MaxTx()}
	added, goal := int64(0), d.goalAt(t, format.LBlock(off/bs))
	for n < len(p) && (n == 0 || w.hasRoom()) {
		at := off + int64(n)
		l := format.LBlock(at / bs)
		x, fresh, err := t.blockFor(d, ed, l, goal)
		if err != nil {
			return n, err
		}
		if fresh {
			added++
		}
		part := p[n:min(int64(len(p)), int64(n)+bs-at%bs)]
		if err := t.putBlock(x.Start, int(at%bs), part, x.Kind != extent.Written); err != nil {
			return n, err
		}
		n += len(part)
		goal = x.Start + 1
	}
	return n, t.raiseBlocks(d, raw, added+int64(ed.NodeDelta()))
}

// blockFor returns the block of file block l, as it was before: a hole gets a new
// one, and it is written afterwards.
func (t *Tx) blockFor(d *fileData, ed *extent.Editor, l format.LBlock, goal format.Block) (x extent.StatusExtent, fresh bool, err error) {
	if x, err = d.seen(t, l); err != nil {
		return x, false, err
	}
	x = clip(x, l, uint64(l)+1)
	switch x.Kind {
	case extent.Written:
		return x, false, nil
	case extent.Unwritten:
		err = ed.Convert(l, l+1, false)
	default:
		fresh = true
		if x.Start, _, err = t.pick(goal, 1); err == nil {
			err = ed.Insert(format.Extent{LBlock: l, Len: 1, Start: x.Start})
		}
	}
	start := x.Start
	t.onMergeData(d.n.ino, func(d *fileData) {
		d.n.mu.Lock()
		defer d.n.mu.Unlock()
		d.status.Set(l, 1, extent.Written, start)
		d.goal = start + 1
	})
	return x, fresh, err
}

// putBlock puts bytes into a block of data; a fresh one holds zeros besides.
func (t *Tx) putBlock(b format.Block, at int, p []byte, fresh bool) error {
	change := t.j.Change
	if fresh || len(p) == t.fs.geo.BlockSize {
		change = t.j.New
	}
	block, err := change(b)
	if err == nil {
		copy(block[at:], p)
	}
	return err
}

// zeroJournaled makes zeros of bytes of one block, if that holds data.
func (d *fileData) zeroJournaled(from, to int64) error {
	bs := d.blockSize()
	l := format.LBlock(from / bs)
	x, err := d.lookup(l)
	if err != nil || x.Kind != extent.Written {
		return err
	}
	b := x.Start + format.Block(l-x.LBlock)
	return d.change(func(t *Tx, _ format.Inode) error {
		block, err := t.j.Change(b)
		if err == nil {
			clear(block[from%bs : from%bs+to-from])
		}
		return err
	})
}
