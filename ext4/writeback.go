package ext4

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"drydock/cache"
	"drydock/device"
	"drydock/format"
	"drydock/internal/extent"
)

// files is what a file system keeps of the data of its files in use.
type files struct {
	once   sync.Once
	memory *cache.Budget
	wake   chan struct{} // there is more dirty data than there should be

	all  sync.Mutex // one writeback of all files at a time
	room sync.Mutex // one search for space at a time, see makeRoom

	mu      sync.Mutex
	dirty   map[*fileData]struct{} // each with a reference to its node
	stop    chan struct{}          // closed to end the writer
	stopped chan struct{}          // closed by the writer at its end; nil: it does not run
	ended   bool

	stream stream // of direct writes
	faults dataFaults
}

// dataFaults break the rules of ordering, one each, so that tests can show that
// they would notice.
type dataFaults struct {
	recordFirst bool // blocks become part of a file before its data is on the device
	keepTail    bool // what lies behind the old end of a file stays when that moves
	cutAtOnce   bool // the end of a file that was cut is changed before the cut is durable
	stayEmpty   bool // closing a file that was cut to nothing and written starts nothing
}

const (
	defaultDataMemory = 32 << 20 // bytes of cached file data
	batchBytes        = 8 << 20  // written back at once
	batchFiles        = 512      // with new blocks recorded in one transaction
	maxWritev         = 1 << 20  // bytes in one write to the device
	maxBufs           = 512      // buffers in one write
)

func (s *files) init(fsys *FS) {
	s.once.Do(func() {
		limit := fsys.opts.Memory / 2
		if limit <= 0 {
			limit = defaultDataMemory
		}
		s.wake = make(chan struct{}, 1)
		s.dirty = map[*fileData]struct{}{}
		s.memory = cache.NewBudget(cache.BudgetOptions{Limit: limit, Wake: func() { s.wakeUp(fsys) }})
	})
}

// budget is the memory for the data of files.
func (s *files) budget(fsys *FS) *cache.Budget {
	s.init(fsys)
	return s.memory
}

// list puts the file on the list of those that have something to be written; a
// listed file keeps its node. The caller uses the node.
func (d *fileData) list() {
	if d.listed.Load() || d.listed.Swap(true) {
		return
	}
	s := &d.fs.files
	s.init(d.fs)
	n := d.fs.peekNode(d.n.ino)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == d.n {
		s.dirty[d] = struct{}{}
	}
}

// unlist takes the file off the list if nothing of it is left to be written. The
// caller has neither a Tx nor a lock.
func (d *fileData) unlist() {
	s := &d.fs.files
	s.init(d.fs)
	d.listed.Store(false)
	if !d.clean() && !d.listed.Swap(true) {
		return
	}
	s.mu.Lock()
	_, has := s.dirty[d]
	if has && !d.listed.Load() {
		delete(s.dirty, d)
	} else {
		has = false
	}
	s.mu.Unlock()
	if has {
		d.fs.putNode(d.n)
	}
}

// wakeUp starts the writer, or tells it that there is work.
func (s *files) wakeUp(fsys *FS) {
	select {
	case s.wake <- struct{}{}:
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped == nil && !s.ended {
		s.stop, s.stopped = make(chan struct{}), make(chan struct{})
		go fsys.writer(s.stop, s.stopped)
	}
}

// retryPause is how long the writer waits after it could not write.
const retryPause = 50 * time.Millisecond

// writer writes dirty data back whenever there is too much of it.
func (fsys *FS) writer(stop, stopped chan struct{}) {
	defer close(stopped)
	for {
		select {
		case <-stop:
			return
		case <-fsys.files.wake:
		}
		err := fsys.writeAll(false)
		fsys.files.memory.Fail(err) // who waits for memory cannot get it now
		if err == nil {
			continue
		}
		select {
		case <-stop:
			return
		case <-time.After(retryPause):
		}
	}
}

// endWriter ends the writer and waits for it; it does not start again.
func (s *files) endWriter() {
	s.mu.Lock()
	running := s.stopped
	if !s.ended && running != nil {
		close(s.stop)
	}
	s.ended = true
	s.mu.Unlock()
	if running != nil {
		<-running
	}
}

// syncData writes all dirty data back and records it; it does not make it
// durable. The caller has no Tx.
func (fsys *FS) syncData() error { return fsys.writeAll(true) }

// closeData is syncData for the last time.
func (fsys *FS) closeData() error {
	fsys.files.endWriter()
	return fsys.syncData()
}

// writeAll writes the dirty data of all files back, small ones many at a time;
// with times, times that changed and nothing else are recorded, too.
func (fsys *FS) writeAll(times bool) error {
	s := &fsys.files
	s.init(fsys)
	s.all.Lock()
	defer s.all.Unlock()
	list := s.snapshot()
	var failed error
	for len(list) > 0 {
		b := newBatch(fsys, times)
		n := b.gather(list)
		failed = cmp.Or(failed, b.run())
		failed = cmp.Or(failed, b.finish())
		list = list[n:]
	}
	return failed
}

// snapshot returns the files that have something to be written, in the order of
// their inodes, which is that of their creation more often than not.
func (s *files) snapshot() []*fileData {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*fileData, 0, len(s.dirty))
	for d := range s.dirty {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b *fileData) int { return cmp.Compare(a.n.ino, b.n.ino) })
	return list
}

// flush writes the file's dirty data back, moves its size and stores its times.
// It does not make anything durable. The caller has no Tx.
func (n *node) flush() error {
	n.mu.RLock()
	d := n.data
	n.mu.RUnlock()
	if d == nil {
		return nil
	}
	return d.flush(true)
}

// flush writes all dirty data back and records it.
func (d *fileData) flush(times bool) error {
	d.n.wbMu.Lock()
	err := d.flushHeld(times)
	d.n.wbMu.Unlock()
	d.unlist()
	return err
}

// flushHeld is flush for a caller that holds wbMu.
func (d *fileData) flushHeld(times bool) error {
	if err := d.waitCut(); err != nil {
		return err
	}
	end := d.blocksOf(d.size.Load())
	for from := format.LBlock(0); ; {
		b := newBatch(d.fs, times)
		p := b.take(d, from)
		if p == nil {
			return nil
		}
		if err := b.run(); err != nil {
			return err
		}
		if from = p.next; p.complete || from >= end {
			return nil
		}
	}
}

// writeErrors remembers the last error of a file's writeback, so that each open
// file is told of it once.
type writeErrors struct {
	mu   sync.Mutex
	last uint64
	err  error
}

func (e *writeErrors) add(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last, e.err = e.last+1, err
}

// since returns the last error if it is newer than seen, and the number that
// the next call takes for seen.
func (e *writeErrors) since(seen uint64) (uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last == seen {
		return seen, nil
	}
	return e.last, e.err
}

// flight is a run of blocks on its way to the device.
type flight struct {
	l     format.LBlock
	n     uint32
	start format.Block
	kind  extent.Kind // what the run was: Written, Unwritten or Delayed
}

// share is one file's share in a batch. The batch holds its wbMu, and io until
// the data is on the device.
type share struct {
	d        *fileData
	wb       *cache.Writeback // nil: no data of the cache is to be written
	direct   []byte           // data of a direct write, for the blocks of run
	run      cache.Run
	grow     int64 // of a direct write: the size it makes at least
	flights  []flight
	next     format.LBlock // where to go on
	size     int64         // of the file before its blocks were taken
	cuts     int           // how often the file had been cut then
	complete bool          // no dirty block is left before size
	done     int           // flights that are recorded
	err      error         // why no more is recorded
	lost     []cache.Run   // for which no place was found ...
	missing  error         // ... and why
}

// batch is data of one or many files that is written to the device together and
// then recorded in as few transactions as possible.
type batch struct {
	fs     *FS
	times  bool
	shares []*share
	bytes  int64
	last   format.Block // behind the block chosen last
}

func newBatch(fsys *FS, times bool) *batch { return &batch{fs: fsys, times: times} }

// gather takes files from the list until the batch is full, and returns how many.
// What is large is written by itself, and what is being written waited for.
func (b *batch) gather(list []*fileData) (n int) {
	for _, d := range list {
		if len(b.shares) >= batchFiles || b.bytes >= batchBytes {
			break
		}
		n++
		m := d.pages.Load()
		if m != nil && m.Dirty() > batchBytes/2 || d.cutPending() || !d.n.wbMu.TryLock() {
			b.shares = append(b.shares, &share{d: d, err: errAlone})
			continue
		}
		if b.take(d, 0) == nil {
			d.n.wbMu.Unlock()
			b.shares = append(b.shares, &share{d: d, err: errAlone})
		}
	}
	return n
}

// errAlone marks a file that a batch leaves to finish.
var errAlone = errors.New("written alone")

// finish gives up the locks of the files of a batch made by gather and writes
// what the batch could not take.
func (b *batch) finish() (failed error) {
	for _, p := range b.shares {
		if p.err == errAlone {
			continue
		}
		if p.err == nil && p.missing == nil && !p.complete {
			failed = cmp.Or(failed, p.d.flushHeld(b.times))
		}
		p.d.n.wbMu.Unlock()
	}
	for _, p := range b.shares {
		if p.err == errAlone {
			failed = cmp.Or(failed, p.d.flush(b.times))
		} else {
			p.d.unlist()
		}
	}
	return failed
}

// take adds dirty blocks of a file, from the given one on, to the batch. It
// returns nil if there is nothing to write or to record. The caller holds wbMu.
func (b *batch) take(d *fileData, from format.LBlock) *share {
	p := &share{d: d}
	p.size, p.cuts = d.sizeAndCuts()
	end := d.blocksOf(p.size)
	m := d.pages.Load()
	if m != nil {
		from = d.tailFirst(m, from)
		d.io.RLock()
		p.wb = m.Begin(from, end, max(batchBytes-b.bytes, d.blockSize()))
		if p.choose(b); len(p.flights) == 0 {
			d.io.RUnlock()
		}
		p.complete = p.missing == nil && len(m.DirtyRuns(0, end)) == 0
	} else {
		p.complete = true
	}
	if len(p.flights) == 0 && p.missing == nil && !p.behind(b.times) {
		return nil
	}
	b.shares = append(b.shares, p)
	return p
}

// tailFirst moves from down to blocks whose ends must be written before the size
// can move past them, if that is still to be done.
func (d *fileData) tailFirst(m *cache.Mapping, from format.LBlock) format.LBlock {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	if d.tails.N == 0 {
		return from
	}
	if len(m.DirtyRuns(d.tails.First, d.tails.First+format.LBlock(d.tails.N))) == 0 {
		d.tails = cache.Run{}
		return from
	}
	return min(from, d.tails.First)
}

// behind reports whether the inode has to be changed for what is known already.
func (p *share) behind(times bool) bool {
	d := p.d
	d.n.mu.RLock()
	defer d.n.mu.RUnlock()
	if d.gone {
		return false
	}
	return p.complete && d.disk < p.size || times && d.stamped
}

// choose finds out where the blocks taken go on the device; those that are
// delayed get their place now.
func (p *share) choose(b *batch) {
	p.d.n.mu.Lock()
	defer p.d.n.mu.Unlock()
	for _, r := range p.wb.Runs {
		p.chooseRun(b, r)
	}
}

// chooseRun is choose for one run. The caller holds mu.
func (p *share) chooseRun(b *batch, r cache.Run) {
	b.bytes += int64(r.N) * p.d.blockSize()
	p.next = r.First + format.LBlock(r.N)
	for l := r.First; l < p.next; {
		f, err := p.d.place(b, l, uint32(p.next-l))
		if err != nil {
			p.missing = p.report(err)
			p.lost = append(p.lost, cache.Run{First: l, N: int(p.next - l)})
			return
		}
		p.flights = append(p.flights, f)
		l += format.LBlock(f.n)
	}
}

// bufs is the data of a flight.
func (p *share) bufs(f flight) [][]byte {
	if p.direct == nil {
		return p.wb.Bufs(cache.Run{First: f.l, N: int(f.n)})
	}
	bs := int(p.d.blockSize())
	from := int(f.l-p.run.First) * bs
	return [][]byte{p.direct[from : from+int(f.n)*bs]}
}

// fail notes why the share cannot be recorded.
func (p *share) fail(err error) {
	if p.err == nil {
		p.err = p.report(err)
	}
}

// report tells the file's users of an error.
func (p *share) report(err error) error {
	err = fmt.Errorf("inode %d: %w", p.d.n.ino, err)
	p.d.errs.add(err)
	return err
}

// place returns where up to n dirty blocks from l on go. The caller holds mu.
func (d *fileData) place(b *batch, l format.LBlock, n uint32) (flight, error) {
	x, err := d.find(l, d.fs.view)
	if err == nil && x.Kind == extent.Hole {
		x, err = d.delayLate(x, l, n)
	}
	if err != nil {
		return flight{}, err
	}
	f := flight{l: l, n: uint32(min(x.End()-uint64(l), uint64(n))), kind: x.Kind}
	switch x.Kind {
	case extent.Written, extent.Unwritten:
		f.start = x.Start + format.Block(l-x.LBlock)
		return f, nil
	case extent.Delayed:
		f.start, f.n, err = d.allocate(b, l, f.n)
		if err != nil {
			return flight{}, err
		}
		d.status.Set(l, f.n, extent.InFlight, f.start)
		d.flying += uint64(f.n)
		d.promised -= min(d.promised, uint64(f.n))
		return f, nil
	}
	return flight{}, fmt.Errorf("file block %d is to be written but is %v", l, x.Kind)
}

// delayLate makes delayed what was dirtied while the blocks were being cut off.
func (d *fileData) delayLate(x extent.StatusExtent, l format.LBlock, n uint32) (extent.StatusExtent, error) {
	x = clip(x, l, uint64(l)+uint64(n))
	if err := d.promise(uint64(x.Len), 0); err != nil {
		return x, err
	}
	d.status.Set(x.LBlock, x.Len, extent.Delayed, 0)
	x.Kind = extent.Delayed
	return x, nil
}

// smallFile is the number of blocks below which the first blocks of a file go
// right behind those of the file before.
const smallFile = 16

// allocate chooses up to n blocks for the delayed file block l. The caller holds mu.
func (d *fileData) allocate(b *batch, l format.LBlock, n uint32) (start format.Block, got uint32, err error) {
	goal := d.goalIn(l, d.fs.view)
	if goal == 0 && d.goal != 0 {
		goal = d.goal
	}
	if goal == 0 {
		goal = d.fs.alloc.GoalFor(d.n.ino)
		if n <= smallFile && b.last != 0 && d.fs.geo.ValidBlock(b.last) && d.fs.geo.GroupOf(b.last) == d.fs.geo.GroupOf(goal) {
			goal = b.last
		}
	}
	start, got, err = d.fs.alloc.FindIn(&d.window, goal, n, d.expected(l, n), true)
	if err == nil {
		d.goal = start + format.Block(got)
		b.last = d.goal
	}
	return start, got, err
}

// goalIn is the block behind the one of file block l-1; 0 if that has none.
func (d *fileData) goalIn(l format.LBlock, view viewer) format.Block {
	if l == 0 {
		return 0
	}
	x, err := d.find(l-1, view)
	if err != nil || !x.Kind.HasBlocks() {
		return 0
	}
	return x.Start + format.Block(l-x.LBlock)
}

// expected is how many blocks the file will take from l on, as far as known:
// no more than n if it does not grow any more, or not there. The caller holds mu.
func (d *fileData) expected(l format.LBlock, n uint32) uint32 {
	end := l + format.LBlock(n)
	if hint := d.blocksOf(d.hint.Load()); hint > end {
		return uint32(hint - l)
	}
	if behind, ok := d.status.Lookup(end); !d.growing() || ok && behind.Kind.HasBlocks() {
		return n
	}
	bs := d.fs.geo.BlockSize
	if int(n)*bs < growingMin {
		return 0
	}
	free, _, _, _ := d.fs.alloc.Totals()
	return n + uint32(min(growingRoom/uint64(bs), free/growingShare))
}

// A file that is being written and has growingMin bytes gets room for growingRoom
// bytes more, or one in growingShare of the free blocks.
const (
	growingMin   = 16 << 10
	growingRoom  = 16 << 20
	growingShare = 128
)

// growing reports whether somebody has the file open, and may go on writing.
func (d *fileData) growing() bool {
	d.fs.nodes.mu.Lock()
	defer d.fs.nodes.mu.Unlock()
	return d.n.opens > 0
}

// run writes the data of the batch and records it. It returns the first error;
// what it is about stays dirty.
func (b *batch) run() (failed error) {
	if b.fs.files.faults.recordFirst {
		b.record()
		_ = b.fs.j.SyncAll() // as somebody else may do any time
	}
	b.write()
	b.record()
	for _, p := range b.shares {
		if p.err == errAlone {
			continue
		}
		p.end()
		failed = cmp.Or(failed, p.err, p.missing)
	}
	return failed
}

// chunk is a piece of a write to the device.
type chunk struct {
	at   int64 // bytes
	n    int64
	bufs [][]byte
	p    *share
}

// write writes all data in ascending order, what lies together in one piece.
func (b *batch) write() {
	var chunks []chunk
	for _, p := range b.shares {
		bs := p.d.blockSize()
		for _, f := range p.flights {
			chunks = append(chunks, chunk{int64(f.start) * bs, int64(f.n) * bs, p.bufs(f), p})
		}
	}
	slices.SortFunc(chunks, func(a, b chunk) int { return cmp.Compare(a.at, b.at) })
	for len(chunks) > 0 {
		n := together(chunks)
		if err := writeChunks(b.fs.dev, chunks[:n]); err != nil {
			for _, c := range chunks[:n] {
				c.p.fail(err)
			}
		}
		chunks = chunks[n:]
	}
	for _, p := range b.shares {
		if len(p.flights) > 0 {
			p.d.io.RUnlock()
		}
	}
}

// together returns how many of the first chunks one write can take.
func together(chunks []chunk) int {
	bytes, bufs := int64(0), 0
	for i, c := range chunks {
		if i > 0 && (c.at != chunks[i-1].at+chunks[i-1].n || bytes+c.n > maxWritev || bufs+len(c.bufs) > maxBufs) {
			return i
		}
		bytes, bufs = bytes+c.n, bufs+len(c.bufs)
	}
	return len(chunks)
}

func writeChunks(dev device.Device, chunks []chunk) error {
	bufs := chunks[0].bufs
	if len(chunks) > 1 {
		bufs = slices.Clip(bufs)
		for _, c := range chunks[1:] {
			bufs = append(bufs, c.bufs...)
		}
	}
	_, err := device.Writev(dev, bufs, chunks[0].at)
	return err
}

// end ends the writeback of a share: what was not recorded becomes delayed, and
// dirty, again.
func (p *share) end() {
	d := p.d
	d.n.mu.Lock()
	if p.err != nil {
		p.takeBack()
	}
	d.settle()
	d.n.mu.Unlock()
	if p.wb != nil && len(p.wb.Runs) > 0 {
		p.wb.End(p.err, p.lost...)
	}
	if p.complete {
		d.recount()
	}
}

// takeBack makes blocks that are still in flight delayed again. The caller holds mu.
func (p *share) takeBack() {
	d := p.d
	for _, f := range p.flights[p.done:] {
		if f.kind != extent.Delayed {
			continue
		}
		for _, x := range d.inFlight(f.l, uint64(f.l)+uint64(f.n)) {
			d.fs.alloc.Release(x.Start, x.Len, true)
			d.status.Set(x.LBlock, x.Len, extent.Delayed, 0)
			d.flying -= uint64(x.Len)
			d.promised += uint64(x.Len)
		}
	}
}

// inFlight returns what of [from, to) is in flight. The caller holds mu.
func (d *fileData) inFlight(from format.LBlock, to uint64) (list []extent.StatusExtent) {
	for x := range d.status.All(from) {
		if uint64(x.LBlock) >= to {
			break
		}
		if x.Kind == extent.InFlight {
			list = append(list, clip(x, from, to))
		}
	}
	return list
}

// clip returns the part of x in [from, to).
func clip(x extent.StatusExtent, from format.LBlock, to uint64) extent.StatusExtent {
	if from > x.LBlock {
		skip := from - x.LBlock
		x.LBlock, x.Len = from, x.Len-uint32(skip)
		if x.Kind.HasBlocks() {
			x.Start += format.Block(skip)
		}
	}
	if x.End() > to {
		x.Len = uint32(to - uint64(x.LBlock))
	}
	return x
}
