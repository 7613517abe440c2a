package ext4

import (
	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/extent"
)

// record puts what was written into the trees and inodes of its files, in as few
// transactions as possible.
func (b *batch) record() {
	var todo []*share
	for _, p := range b.shares {
		if p.err == nil && !p.whole() && p.unrecorded(b.times) {
			todo = append(todo, p)
		}
	}
	for len(todo) > 0 {
		todo = b.recordSome(todo)
	}
}

// unrecorded reports whether the inode of a share whose data is written has to be changed.
func (p *share) unrecorded(times bool) bool {
	if p.behind(times) {
		return true
	}
	for _, f := range p.flights {
		if f.kind != extent.Written {
			return true
		}
	}
	if len(p.flights) == 0 {
		return false
	}
	last := p.flights[len(p.flights)-1]
	p.d.n.mu.RLock()
	defer p.d.n.mu.RUnlock()
	return p.d.disk < min(p.size, (int64(last.l)+int64(last.n))*p.d.blockSize())
}

// whole reports whether all of a share that had blocks is recorded.
func (p *share) whole() bool { return len(p.flights) > 0 && p.done == len(p.flights) }

// recordSome records as many shares as fit a transaction, and returns those
// still to be done. A share that cannot be recorded fails alone.
func (b *batch) recordSome(todo []*share) []*share {
	t, err := b.fs.begin()
	if err != nil {
		return failAll(todo, err)
	}
	defer t.abort()
	w := &recorder{t: t, times: b.times, limit: b.fs.j.MaxTx()}
	finished := 0
	for finished < len(todo) && w.hasRoom() {
		p := todo[finished]
		whole, err := w.share(p)
		if err != nil {
			p.fail(err)
			return append(todo[:finished:finished], todo[finished+1:]...)
		}
		if !whole {
			break
		}
		finished++
	}
	if err := w.commit(); err != nil {
		return failAll(todo, err)
	}
	return todo[finished:]
}

func failAll(todo []*share, err error) []*share {
	for _, p := range todo {
		p.fail(err)
	}
	return nil
}

// recorder is one transaction that records shares.
type recorder struct {
	t      *Tx
	times  bool
	limit  int
	runs   []alloc.Run  // blocks to be marked as used
	group  format.Group // the last one in which blocks are used
	groups int          // so often another one began
	files  []*fileData
}

// recordMargin is how many blocks one run of a file can change at most, besides
// bitmaps: the inode, and two paths in the tree that are split all the way.
const recordMargin = 4*format.MaxExtentDepth + 2

// hasRoom reports whether another run can be recorded. A bitmap and a
// descriptor for each group are still to come.
func (w *recorder) hasRoom() bool {
	return w.t.j.Size() == 0 || w.t.j.Size()+2*w.groups+recordMargin+4 <= w.limit
}

// use has blocks marked as used at the end.
func (w *recorder) use(start format.Block, n uint32) {
	if i := len(w.runs) - 1; i >= 0 && w.runs[i].Start+format.Block(w.runs[i].N) == start {
		w.runs[i].N += n
	} else {
		w.runs = append(w.runs, alloc.Run{Start: start, N: n})
	}
	geo := &w.t.fs.geo
	first, last := geo.GroupOf(start), geo.GroupOf(start+format.Block(n)-1)
	if w.groups == 0 || first != w.group {
		w.groups++
	}
	w.groups += int(last - first)
	w.group = last
}

// commit marks the blocks and ends the transaction.
func (w *recorder) commit() error {
	if len(w.runs) > 0 {
		if err := w.t.fs.alloc.MarkMany(w.t.j, w.runs); err != nil {
			return err
		}
	}
	if err := w.t.commit(); err != nil {
		return err
	}
	for _, d := range w.files {
		d.dataTid.Store(uint32(w.t.tid))
	}
	return nil
}

// share records what fits of a share, and reports whether that was all.
func (w *recorder) share(p *share) (whole bool, err error) {
	raw, err := w.t.changeInode(p.d.n.ino)
	if err != nil {
		return false, err
	}
	var now recorded
	if p.done < len(p.flights) {
		if err := w.blocks(p, raw, &now); err != nil {
			return false, err
		}
	}
	whole = now.done == len(p.flights)
	if err := w.size(p, raw, &now, whole); err != nil {
		return false, err
	}
	w.t.j.OnMerge(func() { p.merged(&now) })
	if len(now.pieces) > 0 || now.size > 0 {
		w.files = append(w.files, p.d)
	}
	return whole, nil
}

// recorded is what one transaction records of a share.
type recorded struct {
	pieces   []extent.StatusExtent // as they are from now on
	flown    uint64                // blocks that were in flight
	convert  uint64                // blocks that were unwritten
	nodes    int                   // taken out of what was promised
	done     int                   // flights recorded, those of earlier transactions included
	end      int64                 // of what is written, bytes
	size     int64                 // the size in the inode; 0: as before
	existing int
}

// blocks records runs of blocks in the tree as long as there is room.
func (w *recorder) blocks(p *share, raw format.Inode, now *recorded) error {
	d := p.d
	nodes := &promisedNodes{txNodes: txNodes{w.t}, left: d.promisedNodes(), used: &now.nodes}
	ed, err := w.t.editTree(d.n.ino, raw, nodes)
	if err != nil {
		return err
	}
	now.done = p.done
	for now.done < len(p.flights) && (now.done == p.done || w.hasRoom()) {
		if err := w.flight(p, ed, now); err != nil {
			return err
		}
		now.done++
	}
	if err := w.t.addBlocks(raw, int64(now.flown)+int64(ed.NodeDelta())); err != nil {
		return err
	}
	now.existing = w.t.fs.maxExtents(raw)
	return nil
}

// flight records the next run of a share, or what is left of it.
func (w *recorder) flight(p *share, ed *extent.Editor, now *recorded) error {
	f := p.flights[now.done]
	now.end = max(now.end, (int64(f.l)+int64(f.n))*p.d.blockSize())
	if f.kind == extent.Written {
		return nil
	}
	pieces, err := p.d.remains(w.t, f)
	if err != nil {
		return err
	}
	for _, x := range pieces {
		if x.Kind == extent.Unwritten {
			err = ed.Convert(x.LBlock, x.LBlock+format.LBlock(x.Len), false)
			now.convert += uint64(x.Len)
		} else {
			err = ed.Insert(format.Extent{LBlock: x.LBlock, Len: x.Len, Start: x.Start})
			w.use(x.Start, x.Len)
			now.flown += uint64(x.Len)
		}
		if err != nil {
			return err
		}
		x.Kind = extent.Written
		now.pieces = append(now.pieces, x)
	}
	return nil
}

// remains returns what is left of a run that was not cut off meanwhile.
func (d *fileData) remains(t *Tx, f flight) (list []extent.StatusExtent, err error) {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	end := uint64(f.l) + uint64(f.n)
	if f.kind == extent.Delayed {
		return d.inFlight(f.l, end), nil
	}
	for at := uint64(f.l); at < end; {
		x, err := d.find(format.LBlock(at), t.seen)
		if err != nil {
			return nil, err
		}
		x = clip(x, format.LBlock(at), end)
		if x.Kind == f.kind && x.Start == f.start+format.Block(at-uint64(f.l)) {
			list = append(list, x)
		}
		at = x.End()
	}
	return list, nil
}

// size moves the size in the inode: to the end of what is written, or, when
// nothing else is to be written, to the size that the file had when its blocks
// were taken.
func (w *recorder) size(p *share, raw format.Inode, now *recorded, whole bool) error {
	d := p.d
	size, cuts := d.sizeAndCuts()
	size = max(size, p.grow)
	target := min(p.size, size, now.end)
	if whole && p.complete && cuts == p.cuts {
		target = min(p.size, size)
	}
	if cuts != p.cuts && len(now.pieces) == 0 {
		return nil // what was written was cut off
	}
	if target <= int64(raw.Size()) {
		return nil
	}
	now.size = target
	return w.t.setSize(raw, target)
}

// merged takes over into memory what is recorded now.
func (p *share) merged(now *recorded) {
	d := p.d
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	for _, x := range now.pieces {
		d.status.Set(x.LBlock, x.Len, extent.Written, x.Start)
	}
	d.flying -= now.flown
	d.convert -= min(d.convert, now.convert)
	d.promised -= min(d.promised, uint64(now.nodes))
	if now.size > 0 {
		d.disk = now.size
	}
	if now.existing > 0 {
		d.existing = now.existing
	}
	p.done = max(p.done, now.done)
}
