package ext4

import (
	"slices"
	"syscall"

	"drydock/cache"
	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/extent"
)

// truncate makes a file shorter, or frees what it has beyond its size: one step,
// in this transaction. more says that blocks are left for another step; the
// inode must be an orphan then. n may be nil if nobody uses the inode. The
// caller holds rw and wbMu of a file in use.
func (t *Tx) truncate(n *node, ino format.Ino, size int64) (more bool, err error) {
	raw, err := t.changeInode(ino)
	if err != nil {
		return false, err
	}
	if int64(raw.Size()) > size {
		raw.SetSize(uint64(size))
	}
	from := t.fs.blocksFor(size)
	next, err := t.cutTree(ino, raw, from, format.MaxLBlock, func(d *fileData, _ format.LBlock, existing int) {
		d.cutTo(size, existing)
	})
	return next > from, err
}

// onMergeData calls fn with what is in memory of a file's data, if there is
// anything, when the transaction has been merged.
func (t *Tx) onMergeData(ino format.Ino, fn func(d *fileData)) {
	t.j.OnMerge(func() {
		nodes := &t.fs.nodes
		nodes.mu.Lock()
		n := nodes.byNo[ino]
		nodes.mu.Unlock()
		if d := n.loaded(); d != nil {
			fn(d)
		}
	})
}

// loaded returns the data of a node, if there is any.
func (n *node) loaded() *fileData {
	if n == nil {
		return nil
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.data == nil || n.data.gone {
		return nil
	}
	return n.data
}

// blocksFor returns how many blocks hold size bytes.
func (fsys *FS) blocksFor(size int64) format.LBlock {
	return format.LBlock(min((uint64(size)+uint64(fsys.geo.BlockSize)-1)/uint64(fsys.geo.BlockSize), format.MaxLBlock))
}

// maxForget is how many blocks of journaled data one transaction frees at most:
// each takes a revoke record.
const maxForget = 1 << 16

// cutTree frees the blocks [from, to) of a file from their end on, as far as the
// transaction has room; [from, next) is left to be done. When the transaction is
// merged, vacate is called with what is in memory of the file, if anything: until
// it returns, blocks that were freed are not used again, even if the transaction
// is durable already.
func (t *Tx) cutTree(ino format.Ino, raw format.Inode, from, to format.LBlock, vacate func(d *fileData, next format.LBlock, existing int)) (next format.LBlock, err error) {
	vacant := make(chan struct{})
	t.j.OnDurable(func() { <-vacant }) // in front of what freeing has done then
	if next, err = t.cutBlocks(ino, raw, from, to); err != nil {
		return to, err
	}
	existing := t.fs.maxExtents(raw)
	t.onMergeData(ino, func(d *fileData) { vacate(d, next, existing) })
	t.j.OnMerge(func() { close(vacant) })
	return next, nil
}

// cutBlocks is cutTree on the disk.
func (t *Tx) cutBlocks(ino format.Ino, raw format.Inode, from, to format.LBlock) (next format.LBlock, err error) {
	c := cutter{t: t, journaled: t.journalsData(raw)}
	if !raw.HasFlags(format.InodeExtents) && from == 0 && to == format.MaxLBlock {
		return from, c.blockMap(ino, raw)
	}
	ed, err := t.editTree(ino, raw, txNodes{t})
	if err != nil {
		return to, err
	}
	next, done, err := ed.Remove(from, to, t.fs.j.MaxTx()/4, c.free)
	if err == nil {
		err = t.addBlocks(raw, int64(ed.NodeDelta())-c.freed)
	}
	if done {
		next = from
	}
	return next, err
}

// cutter frees blocks of data.
type cutter struct {
	t         *Tx
	journaled bool
	freed     int64
	forgotten int
}

// free gives a run of blocks back, and ends the removal when the transaction is full.
func (c *cutter) free(start format.Block, n uint32) error {
	if c.journaled {
		for b := start; b < start+format.Block(n); b++ {
			c.t.j.Forget(b)
		}
		c.forgotten += int(n)
	}
	if err := c.t.fs.alloc.Free(c.t.j, start, n); err != nil {
		return err
	}
	c.freed += int64(n)
	if c.t.j.Size() > c.t.fs.j.MaxTx()/2 || c.forgotten > maxForget {
		return extent.ErrPause
	}
	return nil
}

// blockMap frees all that the block map of an ext2 file leads to.
func (c *cutter) blockMap(ino format.Ino, raw format.Inode) error {
	in := &inode{reader: c.t.reader, num: ino, raw: slices.Clone(raw)}
	m := in.blockMap()
	var runs []alloc.Run
	for x, err := range m.Map() {
		if err != nil {
			return err
		}
		runs = append(runs, alloc.Run{Start: x.Start, N: x.Len})
	}
	indirect := 0
	for b, err := range m.Nodes() {
		if err != nil {
			return err
		}
		c.t.j.Forget(b)
		runs = append(runs, alloc.Run{Start: b, N: 1})
		indirect++
	}
	slices.SortFunc(runs, func(a, b alloc.Run) int { return int(int64(a.Start) - int64(b.Start)) })
	for _, r := range runs {
		if err := c.free(r.Start, r.N); err != nil && err != extent.ErrPause {
			return err
		}
	}
	if len(runs) > 0 {
		clear(raw.IBlock())
	}
	return c.t.addBlocks(raw, -c.freed)
}

// cutTo takes over into memory that the file was cut: its size, and that nothing
// is behind it. It runs while the transaction is merged.
func (d *fileData) cutTo(size int64, existing int) {
	d.n.mu.Lock()
	if size < d.size.Load() {
		d.size.Store(size)
	}
	d.disk = min(d.disk, size)
	d.n.mu.Unlock()
	d.vacate(d.blocksOf(size), format.MaxLBlock, existing)
}

// vacate takes over that the blocks [from, to) are a hole now: what the cache has
// of them is dropped, promises are given back, and what is on its way to blocks
// that were freed is waited for. The caller holds rw, and no lock that a
// writeback or a reader needs to come to its end.
func (d *fileData) vacate(from, to format.LBlock, existing int) {
	if from >= to {
		return
	}
	d.n.mu.Lock()
	flying := d.inFlight(from, uint64(to))
	for _, x := range flying {
		d.flying -= uint64(x.Len)
	}
	d.status.Set(from, uint32(to-from), extent.Hole, 0)
	d.cuts++
	d.existing = existing
	d.raise()
	d.settle()
	d.n.mu.Unlock()
	if m := d.pages.Load(); m != nil {
		m.Discard(from, to)
	}
	d.waitIO()
	for _, x := range flying {
		d.fs.alloc.Release(x.Start, x.Len, false)
	}
}

// waitIO waits until reads and writes of blocks that are under way have ended.
func (d *fileData) waitIO() {
	d.io.Lock()
	defer d.io.Unlock()
}

// Truncate changes the size of the file. What is added reads as zeros and takes
// no space.
func (f *File) Truncate(size int64) error {
	if size < 0 || !f.closed.Load() && !writing(f.flag) {
		return f.error("truncate", syscall.EINVAL)
	}
	d, err := f.writable("truncate")
	if err == nil {
		err = f.error("truncate", d.truncate(size))
	}
	return err
}

// openTruncate is what O_TRUNC does to a file that is opened for writing.
func (f *File) openTruncate() error {
	d, err := f.n.fileData()
	if err == nil {
		err = d.prepare()
	}
	if err == nil {
		err = d.truncate(0)
	}
	return err
}

// truncate changes the size.
func (d *fileData) truncate(size int64) error {
	d.rw.Lock()
	defer d.rw.Unlock()
	if size > d.fs.maxSize() {
		return errTooBig
	}
	old := d.size.Load()
	if size > old {
		return d.grow(size)
	}
	if size == 0 && old == 0 && d.empty() {
		return nil
	}
	err := d.shrink(size)
	if err == nil && size == 0 && old > 0 {
		d.emptied.Store(true)
	}
	d.unlist()
	return err
}

// empty reports whether the file is known to hold no block at all.
func (d *fileData) empty() bool {
	d.n.mu.RLock()
	defer d.n.mu.RUnlock()
	return d.existing == 0 && d.status.DelayedBlocks() == 0 && d.flying == 0
}

// grow moves the size up without writing anything. The size in the inode follows
// at the next writeback. The caller holds rw.
func (d *fileData) grow(size int64) error {
	if err := d.zeroTail(size); err != nil {
		return err
	}
	if d.journal {
		return d.finishRange(size, false)
	}
	d.size.Store(size)
	d.touched()
	return nil
}

// zeroTail makes zeros of what the last block holds behind the size, before the
// size moves to a place behind that. The caller holds rw.
func (d *fileData) zeroTail(to int64) error {
	size, bs := d.size.Load(), d.blockSize()
	rest := size % bs
	if rest == 0 || to <= size || d.fs.files.faults.keepTail {
		return nil
	}
	if d.journal {
		return d.zeroJournaled(size, size-rest+bs)
	}
	l := format.LBlock(size / bs)
	x, err := d.lookup(l)
	if err != nil || x.Kind == extent.Hole || x.Kind == extent.Unwritten {
		return err
	}
	if x.Kind == extent.Delayed {
		return d.mapping().Zero(size, bs-rest)
	}
	// In memory these are zeros already, on the device they may be anything.
	if _, err := d.mapping().WriteAt(make([]byte, bs-rest), size); err != nil {
		return err
	}
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	d.tails = around(d.tails, l)
	return nil
}

// around returns the run that holds r and l.
func around(r cache.Run, l format.LBlock) cache.Run {
	if r.N == 0 {
		return cache.Run{First: l, N: 1}
	}
	first, end := min(r.First, l), max(r.First+format.LBlock(r.N), l+1)
	return cache.Run{First: first, N: int(end - first)}
}

// shrink moves the size down, or frees what lies behind it, in as many
// transactions as it takes. The caller holds rw.
func (d *fileData) shrink(size int64) error { return d.shrinkFrom(size, true, false) }

// shrinkRest is shrink when a transaction has done the first step of it.
func (d *fileData) shrinkRest(size int64, more bool) error { return d.shrinkFrom(size, more, more) }

func (d *fileData) shrinkFrom(size int64, more, orphan bool) error {
	d.n.wbMu.Lock()
	defer d.n.wbMu.Unlock()
	for more {
		t, err := d.fs.begin()
		if err != nil {
			return err
		}
		more, err = t.shrinkStep(d, size, &orphan)
		if err != nil {
			t.abort()
			d.forgetStatus(size)
			return err
		}
		d.dataTid.Store(uint32(t.tid))
	}
	return d.zeroEnd(size)
}

// shrinkStep is one transaction of shrink.
func (t *Tx) shrinkStep(d *fileData, size int64, orphan *bool) (more bool, err error) {
	more, err = t.truncate(d.n, d.n.ino, size)
	if err != nil {
		return false, err
	}
	if !*orphan {
		raw, err := t.changeInode(d.n.ino)
		if err != nil {
			return false, err
		}
		raw.SetMtime(t.time)
		raw.SetCtime(t.time)
		t.onMergeData(d.n.ino, (*fileData).unstamp)
	}
	switch {
	case more && !*orphan:
		err = t.addOrphan(d.n.ino)
	case !more && *orphan:
		err = t.removeOrphan(d.n.ino)
	}
	if err == nil {
		err = t.commit()
	}
	*orphan = more
	return more, err
}

// forgetStatus forgets what was said of the blocks behind size, after an error
// that may have left some of them.
func (d *fileData) forgetStatus(size int64) {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	from := d.blocksOf(size)
	for x := range d.status.All(from) {
		if x.Kind == extent.Delayed || x.Kind == extent.InFlight {
			return // nothing was cut
		}
	}
	d.status.Remove(from, format.MaxLBlock)
}

// zeroEnd makes zeros of what the last block holds behind the size, in the cache
// and at the next writeback on the device. The caller holds rw.
func (d *fileData) zeroEnd(size int64) error {
	bs := d.blockSize()
	if size%bs == 0 {
		return nil
	}
	if d.journal {
		return d.zeroJournaled(size, size-size%bs+bs)
	}
	l := format.LBlock(size / bs)
	x, err := d.lookup(l)
	if err != nil || x.Kind == extent.Hole || x.Kind == extent.Unwritten && d.pages.Load() == nil {
		return err
	}
	if err := d.mapping().Zero(size, bs-size%bs); err != nil {
		return err
	}
	d.cutBlock.Store(uint64(l) + 1)
	d.list()
	return nil
}

// cutPending reports whether the transaction that made the file shorter is not
// durable yet and the block that it left a part of waits to be written: doing so
// now would change the longer file that a crash may bring back.
func (d *fileData) cutPending() bool {
	l := d.cutBlock.Load()
	if l == 0 || d.fs.files.faults.cutAtOnce {
		return false
	}
	m := d.pages.Load()
	if m == nil || d.fs.j.Durable(format.Tid(d.dataTid.Load())) {
		d.cutBlock.CompareAndSwap(l, 0)
		return false
	}
	return len(m.DirtyRuns(format.LBlock(l-1), format.LBlock(l))) > 0
}

// waitCut makes the transaction durable that cutPending tells of. The caller
// holds wbMu at most.
func (d *fileData) waitCut() error {
	if !d.cutPending() {
		return nil
	}
	return d.fs.j.Sync(format.Tid(d.dataTid.Load()))
}
