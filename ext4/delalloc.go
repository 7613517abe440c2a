package ext4

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"drydock/cache"
	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/extent"
)

// fileData is what is known in memory of the data of a regular file. Locks, from
// the outside to the inside:
//
//	rw       one writer, or one change of the size, at a time; readers do not take it
//	wbMu     of the node: one writeback at a time
//	the Tx   blocks are mapped and unmapped, and the size in the inode moves, in a Tx only
//	io       shared while blocks that were looked up are read or written on the device
//	mu       of the node: guards the fields below
//
// A block that is written goes through these states:
//
//	hole -> delayed -> in flight -> written        status, and the tree when written
//	        Reserve    Find         Insert         what is asked of the allocator
//	dirty  ----------> writeback -> clean          the cache
type fileData struct {
	fs *FS
	n  *node

	rw sync.RWMutex
	io sync.RWMutex

	size    atomic.Int64                  // bytes, as all see it; changed under rw
	pages   atomic.Pointer[cache.Mapping] // nil until it is needed
	listed  atomic.Bool                   // on the list of files with something to write
	journal bool                          // data goes into the journal
	ready   bool                          // may be written; guarded by rw
	hint    atomic.Int64                  // the size that the file is expected to get, in bytes
	emptied atomic.Bool                   // cut to nothing since it was written back last
	errs    writeErrors

	// Guarded by n.mu.
	status   extent.Status
	existing int         // extents in the tree, or more
	promised uint64      // blocks of the allocator's promises that are for this file
	flying   uint64      // blocks that are in flight
	convert  uint64      // dirty blocks that are unwritten on the device, or more
	disk     int64       // the size in the inode, bytes
	tails    cache.Run   // blocks whose ends have to be zero on the device before the size in the inode moves past them
	cuts     int         // how often the file was made shorter
	stamp    format.Time // of the last write
	stamped  bool        // stamp is not in the inode yet
	gone     bool        // the inode is deleted, or the node out of use
	window   alloc.Window
	goal     format.Block // behind the block chosen last

	cutBlock atomic.Uint64 // 1 more than the block that a cut left a part of, see cutPending; 0: none
	dataTid  atomic.Uint32 // the transaction that changed size or blocks last
}

// maxStatus is how many ranges of a file are kept in memory, about, besides
// those that exist nowhere else.
const maxStatus = 4096

// fileData returns the data of a regular file, and makes it when there is none.
// Errors are those of reading the inode, and of an inode without such data.
func (n *node) fileData() (*fileData, error) { return n.fileDataBy(n.fs.view) }

func (n *node) fileDataBy(view viewer) (*fileData, error) {
	n.mu.RLock()
	d := n.data
	n.mu.RUnlock()
	if d != nil {
		return d, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.data != nil {
		return n.data, nil
	}
	err := view(func(r reader) error {
		in, err := r.inode(n.ino)
		if err == nil {
			d, err = newFileData(n, in)
		}
		return err
	})
	if err == nil {
		n.data = d
	}
	return d, err
}

var (
	_ cache.Source   = (*fileData)(nil)
	_ cache.NoWaiter = (*fileData)(nil)
	_ cache.Sizer    = (*fileData)(nil)
)

// errInline is what newFileData says of data that lies in the inode.
var errInline = &format.UnsupportedError{Features: format.Features{Incompat: format.IncompatInlineData}, Detail: "writing to a file whose data is in its inode"}

func newFileData(n *node, in *inode) (*fileData, error) {
	if err := in.readable(); err != nil {
		return nil, err
	}
	if in.inline() {
		return nil, in.wrap(errInline)
	}
	d := &fileData{fs: n.fs, n: n, disk: int64(in.size())}
	d.size.Store(d.disk)
	d.existing = n.fs.maxExtents(in.raw)
	d.journal = n.fs.opts.Data == DataJournal || in.raw.HasFlags(format.InodeJournalData)
	// What happened to the inode before is not known: it may not be durable yet.
	if n.fs.j != nil && n.fs.opts.ReadWrite {
		d.dataTid.Store(uint32(n.fs.j.Running()))
	}
	return d, nil
}

// maxExtents is a number that the extents of a file do not exceed.
func (fsys *FS) maxExtents(raw format.Inode) int {
	data := raw.Sectors(fsys.geo.Features, fsys.geo.BlockSize) / uint64(fsys.geo.BlockSize/512)
	if raw.HasFlags(format.InodeExtents) {
		data = extent.MaxExtents(raw.IBlock(), fsys.geo.BlockSize, data)
	}
	return int(min(data, math.MaxInt32))
}

// blockSize is that of the file system, in bytes.
func (d *fileData) blockSize() int64 { return int64(d.fs.geo.BlockSize) }

// blocksOf returns how many blocks hold n bytes.
func (d *fileData) blocksOf(n int64) format.LBlock { return d.fs.blocksFor(n) }

// sizeAndCuts returns the size and how often the file was made shorter.
func (d *fileData) sizeAndCuts() (int64, int) {
	d.n.mu.RLock()
	defer d.n.mu.RUnlock()
	return d.size.Load(), d.cuts
}

// viewer calls a function with a reader of the merged state. In a transaction
// that is no View, which would wait for itself.
type viewer func(fn func(r reader) error) error

// seen is the viewer inside a transaction: nothing else can be merged meanwhile.
func (t *Tx) seen(fn func(r reader) error) error { return fn(t.fs.merged()) }

// lookup returns what is known of file block l.
func (d *fileData) lookup(l format.LBlock) (extent.StatusExtent, error) {
	d.n.mu.RLock()
	x, ok := d.status.Lookup(l)
	d.n.mu.RUnlock()
	if ok {
		return x, nil
	}
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	return d.find(l, d.fs.view)
}

// find is lookup for a caller that holds mu.
func (d *fileData) find(l format.LBlock, view viewer) (extent.StatusExtent, error) {
	if x, ok := d.status.Lookup(l); ok {
		return x, nil
	}
	if uint64(l) >= format.MaxLBlock {
		return extent.StatusExtent{LBlock: l, Len: 1, Kind: extent.Hole}, nil
	}
	d.status.Shrink(maxStatus)
	err := view(func(r reader) error {
		in, err := r.inode(d.n.ino)
		if err != nil {
			return err
		}
		return d.load(in, uint64(l))
	})
	x, ok := d.status.Lookup(l)
	if err == nil && !ok {
		err = fmt.Errorf("inode %d: nothing is known of file block %d", d.n.ino, l)
	}
	return x, err
}

// loadBatch is how many extents are taken over from the tree at once.
const loadBatch = 64

// load takes over what the tree says from block at on, of which nothing is known,
// to the next block of which something is. The caller holds mu.
func (d *fileData) load(in *inode, at uint64) error {
	first, end := at, uint64(format.MaxLBlock)
	if x, ok := d.status.Next(format.LBlock(at)); ok {
		end = uint64(x.LBlock)
	}
	count := 0
	for x, err := range in.extents(format.LBlock(at)) {
		if err != nil && at > first {
			return nil // what was read is good for now
		}
		if err != nil {
			return err
		}
		if uint64(x.LBlock) >= end {
			break
		}
		d.note(at, uint64(x.LBlock), format.Extent{})
		d.note(max(at, uint64(x.LBlock)), min(x.End(), end), x)
		at = min(x.End(), end)
		if count++; count == loadBatch {
			return nil
		}
	}
	d.note(at, end, format.Extent{})
	return nil
}

// note takes over that [from, to) is a part of x, or a hole if x is empty.
func (d *fileData) note(from, to uint64, x format.Extent) {
	if from >= to {
		return
	}
	kind := extent.Hole
	if x.Unwritten {
		kind = extent.Unwritten
	} else if x.Len > 0 {
		kind = extent.Written
	}
	start := x.Start + format.Block(from-uint64(x.LBlock))
	d.status.Set(format.LBlock(from), uint32(to-from), kind, start)
}

// mapping returns the cache of the file, which it makes when there is none.
func (d *fileData) mapping() *cache.Mapping {
	if m := d.pages.Load(); m != nil {
		return m
	}
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	if m := d.pages.Load(); m != nil {
		return m
	}
	o := cache.MappingOptions{FolioSize: d.fs.opts.FolioSize, WholeFolio: d.fs.opts.Compare.WholeFolio}
	m := cache.NewMapping(d.fs.files.budget(d.fs), d.fs.geo.BlockSize, d, o)
	d.pages.Store(m)
	return m
}

// Fill implements cache.Source: what the device holds. What is beyond the end of the
// file, and blocks whose data is not on the device yet, are zeros.
func (d *fileData) Fill(l format.LBlock, p []byte) error {
	d.io.RLock()
	defer d.io.RUnlock()
	return d.readDevice(p, int64(l)*d.blockSize())
}

// Mapped implements cache.Source.
func (d *fileData) Mapped(l format.LBlock) (bool, error) {
	x, err := d.lookup(l)
	return x.Kind == extent.Written || x.Kind == extent.InFlight, err
}

// Reserve implements cache.Source: blocks that have no place on the device yet
// become delayed, and space is promised for them, and for the nodes of the tree
// that they and a conversion of unwritten blocks can take.
func (d *fileData) Reserve(l format.LBlock, n int) error {
	if uint64(l)+uint64(n) > format.MaxLBlock {
		return errTooBig
	}
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	return d.reserve(l, l+format.LBlock(n))
}

// reserve is Reserve of [l, end) for a caller that holds mu.
func (d *fileData) reserve(l, end format.LBlock) error {
	var fresh, convert uint64
	for at := l; at < end; {
		x, err := d.find(at, d.fs.view)
		if err != nil {
			return err
		}
		to := format.LBlock(min(x.End(), uint64(end)))
		switch x.Kind {
		case extent.Hole:
			fresh += uint64(to - at)
		case extent.Unwritten:
			convert += uint64(to - at)
		}
		at = to
	}
	if fresh == 0 && convert == 0 {
		return nil
	}
	if err := d.promise(fresh, convert); err != nil {
		return err
	}
	d.delay(l, end)
	return nil
}

// Size implements cache.Sizer.
func (d *fileData) Size() int64 { return d.size.Load() }

// TryMapped implements cache.NoWaiter.
func (d *fileData) TryMapped(l format.LBlock) (mapped, known bool) {
	if !d.n.mu.TryRLock() {
		return false, false
	}
	defer d.n.mu.RUnlock()
	x, ok := d.status.Lookup(l)
	return x.Kind == extent.Written || x.Kind == extent.InFlight, ok
}

// TryReserve implements cache.NoWaiter: it is Reserve where all is known already.
func (d *fileData) TryReserve(l format.LBlock, n int) (done bool, err error) {
	if uint64(l)+uint64(n) > format.MaxLBlock || !d.n.mu.TryLock() {
		return false, nil
	}
	defer d.n.mu.Unlock()
	end := uint64(l) + uint64(n)
	for at := uint64(l); at < end; {
		x, ok := d.status.Lookup(format.LBlock(at))
		if !ok {
			return false, nil
		}
		at = x.End()
	}
	return true, d.reserve(l, format.LBlock(end))
}

// delay makes the holes of [l, end) delayed; all of it is known. The caller holds mu.
func (d *fileData) delay(l, end format.LBlock) {
	for l < end {
		x, ok := d.status.Lookup(l)
		if !ok {
			return
		}
		to := format.LBlock(min(x.End(), uint64(end)))
		if x.Kind == extent.Hole {
			d.status.Set(l, uint32(to-l), extent.Delayed, 0)
		}
		l = to
	}
}

// need is what has to be promised to the file when it has so many more blocks
// that are delayed or to be converted. The caller holds mu.
func (d *fileData) need(fresh, convert uint64) uint64 {
	delayed := d.status.DelayedBlocks() + fresh
	added := delayed + d.flying + 2*(d.convert+convert)
	if added == 0 {
		return 0
	}
	return delayed + uint64(extent.NodesFor(d.existing, added, d.fs.geo.BlockSize))
}

// promise gets promises for more blocks. The caller holds mu.
func (d *fileData) promise(fresh, convert uint64) error {
	if want := d.need(fresh, convert); want > d.promised {
		if err := d.fs.alloc.Reserve(want - d.promised); err != nil {
			return err
		}
		d.promised = want
	}
	d.convert += convert
	return nil
}

// promiseExtent gets promises for the case that the tree gets one more extent by
// something else, as punching a hole into one does.
func (d *fileData) promiseExtent() error {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	d.existing++
	err := d.promise(0, 0)
	d.existing--
	return err
}

// raise takes, if it can, what need has grown by since the tree got more extents
// by something else than what was promised for. The caller holds mu.
func (d *fileData) raise() {
	_ = d.promise(0, 0) // without it, nodes are taken from what nobody was promised
}

// promisedNodes is how many nodes the file was promised and has not used.
func (d *fileData) promisedNodes() int {
	d.n.mu.RLock()
	defer d.n.mu.RUnlock()
	return int(max(int64(d.promised)-int64(d.status.DelayedBlocks()), 0))
}

// recount forgets what convert counts too much, if nothing of the file is dirty.
func (d *fileData) recount() {
	m := d.pages.Load()
	if m == nil || m.Dirty() > 0 || !d.rw.TryLock() {
		return
	}
	defer d.rw.Unlock()
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	if m.Dirty() == 0 && d.flying == 0 {
		d.convert = 0
		d.settle()
	}
}

// settle gives back what is promised beyond need. The caller holds mu.
func (d *fileData) settle() {
	if want := d.need(0, 0); d.promised > want {
		d.fs.alloc.Unreserve(d.promised - want)
		d.promised = want
	}
}

// overlay puts over what the inode says of a file what is known better.
func (n *node) overlay(st *Stat) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	d := n.data
	if d == nil || d.gone {
		return
	}
	st.Size = d.size.Load()
	st.Blocks += (d.status.DelayedBlocks() + d.flying) * uint64(d.blockSize()/512)
	if d.stamped {
		st.Mtime, st.Ctime = d.stamp, d.stamp
	}
}

// foldTimes puts the time of the last write into an inode that is being changed
// for another reason, so that what comes now is later.
func (n *node) foldTimes(t *Tx, raw format.Inode) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.data != nil && n.data.stamped {
		n.data.stampInode(t, raw)
	}
}

// stampInode puts the time of the last write into the inode. The caller holds mu.
func (d *fileData) stampInode(t *Tx, raw format.Inode) {
	stamp := d.stamp
	raw.SetMtime(stamp)
	raw.SetCtime(stamp)
	t.j.OnMerge(func() {
		d.n.mu.Lock()
		defer d.n.mu.Unlock()
		if d.stamp == stamp {
			d.stamped = false
		}
	})
}

// touched notes that data was written, and puts the file on the list of those
// that have something to be written.
func (d *fileData) touched() {
	now := d.fs.now()
	d.n.mu.Lock()
	d.stamp, d.stamped = now, true
	d.n.mu.Unlock()
	d.list()
}

// clean reports whether nothing of the file waits to be written.
func (d *fileData) clean() bool {
	if m := d.pages.Load(); m != nil && m.Dirty() > 0 {
		return false
	}
	d.n.mu.RLock()
	defer d.n.mu.RUnlock()
	return d.gone || !d.stamped && d.disk == d.size.Load()
}

// drop forgets the data of a file that is deleted: nothing of it is written any
// more. The caller has no Tx.
func (n *node) drop() {
	n.mu.RLock()
	d := n.data
	n.mu.RUnlock()
	if d == nil {
		return
	}
	n.wbMu.Lock()
	d.forget()
	n.wbMu.Unlock()
	d.unlist()
}

// forget gives back all that the file has of the cache and the allocator. The
// caller holds wbMu.
func (d *fileData) forget() {
	if m := d.pages.Load(); m != nil {
		m.Close()
	}
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	if d.gone {
		return
	}
	d.gone, d.stamped, d.tails = true, false, cache.Run{}
	d.convert = 0
	d.status.Remove(0, format.MaxLBlock)
	if d.fs.alloc != nil {
		d.settle()
		d.fs.alloc.Drop(&d.window)
	}
}

// gone is called when the node of a file that lives on goes out of use.
func (n *node) gone() {
	n.mu.RLock()
	d := n.data
	n.mu.RUnlock()
	if d != nil {
		n.wbMu.Lock()
		defer n.wbMu.Unlock()
		d.forget()
	}
}
