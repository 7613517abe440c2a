package ext4

import (
	"cmp"
	"errors"
	"sync"
	"syscall"
	"time"

	"drydock/cache"
	"drydock/format"
	"drydock/internal/extent"
)

// SetSizeHint says how large the file will get, in bytes, so that room is kept
// for it in one place. It changes nothing else; 0 takes it back.
func (f *File) SetSizeHint(size int64) {
	if d, err := f.n.fileData(); err == nil {
		d.hint.Store(max(size, 0))
	}
}

// WriteDirect is WriteAt for bulk data: whole blocks are written to the device
// at once, past the cache. Files that are written this way at the same time take
// turns, so that the device sees one ascending stream and each file lies in
// one piece; blocks that the file has already are overwritten without that.
func (f *File) WriteDirect(p []byte, off int64) (int, error) {
	d, err := f.writable("write")
	if err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, f.error("write", syscall.EINVAL)
	}
	n, err := d.writeDirect(p, off)
	return n, f.written(err)
}

// writeDirect writes what is not a whole block through the cache.
func (d *fileData) writeDirect(p []byte, off int64) (n int, err error) {
	bs := d.blockSize()
	head := int(min((bs-off%bs)%bs, int64(len(p))))
	whole := (len(p) - head) / int(bs) * int(bs)
	if d.journal || whole == 0 || off > d.fs.maxSize()-int64(len(p)) {
		n, _, err = d.write(p, off, false)
		return n, err
	}
	if head > 0 {
		if n, _, err = d.write(p[:head], off, false); err != nil {
			return n, err
		}
	}
	k, err := d.writeBlocks(p[head:head+whole], off+int64(head))
	if n += k; err != nil || n == len(p) {
		return n, err
	}
	k, _, err = d.write(p[n:], off+int64(n), false)
	return n + k, err
}

// writeBlocks writes whole blocks past the cache.
func (d *fileData) writeBlocks(p []byte, off int64) (n int, err error) {
	if done, err := d.overwrite(p, off); done || err != nil {
		if err == nil {
			n = len(p)
		}
		return n, err
	}
	d.rw.Lock()
	defer d.rw.Unlock()
	for range 2 {
		var k int
		k, err = d.writeNew(p[n:], off+int64(n))
		if n += k; !errors.Is(err, syscall.ENOSPC) {
			break
		}
		d.fs.makeRoom()
	}
	d.unlist()
	return n, err
}

// overwrite writes to blocks that the file has already, if all are and the cache
// holds nothing of the file. Many may do so at the same time.
func (d *fileData) overwrite(p []byte, off int64) (done bool, err error) {
	d.rw.RLock()
	defer d.rw.RUnlock()
	if d.pages.Load() != nil || off+int64(len(p)) > d.size.Load() {
		return false, nil
	}
	d.io.RLock()
	defer d.io.RUnlock()
	mapped := true
	err = d.eachPiece(off, len(p), func(x extent.StatusExtent, _, _ int, _ int64) error {
		mapped = mapped && x.Kind == extent.Written
		return nil
	})
	if err != nil || !mapped {
		return false, err
	}
	ours := d.fs.files.stream.enter(d, d.fs.opts.Compare.OverwriteLock)
	defer d.fs.files.stream.leave(ours, d, turnBytes)
	err = d.eachPiece(off, len(p), func(_ extent.StatusExtent, from, to int, at int64) error {
		_, err := d.fs.dev.WriteAt(p[from:to], at)
		return err
	})
	if err == nil {
		d.touched()
	}
	return true, err
}

// writeNew writes whole blocks of which some are new. The caller holds rw.
func (d *fileData) writeNew(p []byte, off int64) (n int, err error) {
	if err := d.zeroTail(off); err != nil {
		return 0, err
	}
	d.n.wbMu.Lock()
	defer d.n.wbMu.Unlock()
	if err := d.settleTails(); err != nil {
		return 0, err
	}
	for n < len(p) && err == nil {
		part := p[n:min(len(p), n+batchBytes)]
		if err = d.writePart(part, off+int64(n)); err == nil {
			n += len(part)
		}
	}
	return n, err
}

// settleTails writes the ends of blocks that have to be on the device before the
// size moves past them. The caller holds wbMu.
func (d *fileData) settleTails() error {
	d.n.mu.RLock()
	todo := d.tails.N > 0
	d.n.mu.RUnlock()
	if !todo {
		return nil
	}
	return d.flushHeld(false)
}

// writePart writes whole blocks, and records them. The caller holds rw and wbMu.
func (d *fileData) writePart(p []byte, off int64) error {
	bs := d.blockSize()
	first := format.LBlock(off / bs)
	run := cache.Run{First: first, N: len(p) / int(bs)}
	if err := d.clearCache(run); err != nil {
		return err
	}
	if err := d.Reserve(first, run.N); err != nil {
		return err
	}
	s := &share{d: d, direct: p, run: run, grow: off + int64(len(p))}
	s.size, s.cuts = d.sizeAndCuts()
	s.size = max(s.size, s.grow)
	s.writeDirect()
	if m := d.pages.Load(); m != nil {
		m.Discard(first, first+format.LBlock(run.N)) // what was read meanwhile
	}
	if err := cmp.Or(s.err, s.missing); err != nil {
		d.undelay(run)
		return err
	}
	if s.grow > d.size.Load() {
		d.size.Store(s.grow)
	}
	d.touched()
	return nil
}

// clearCache takes blocks out of the cache that are to be written past it.
func (d *fileData) clearCache(r cache.Run) error {
	m := d.pages.Load()
	if m == nil {
		return nil
	}
	end := r.First + format.LBlock(r.N)
	if len(m.DirtyRuns(r.First, end)) > 0 {
		if err := d.flushHeld(false); err != nil {
			return err
		}
	}
	m.Discard(r.First, end)
	return nil
}

// undelay makes holes of blocks that were to be written and could not be.
func (d *fileData) undelay(r cache.Run) {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	end := uint64(r.First) + uint64(r.N)
	for at := uint64(r.First); at < end; {
		x, ok := d.status.Next(format.LBlock(at), extent.Delayed)
		if !ok || uint64(x.LBlock) >= end {
			break
		}
		x = clip(x, format.LBlock(at), end)
		d.status.Set(x.LBlock, x.Len, extent.Hole, 0)
		at = x.End()
	}
	d.settle()
}

// writeDirect writes and records a share whose data is not in the cache.
func (p *share) writeDirect() {
	d := p.d
	b := newBatch(d.fs, false)
	b.shares = append(b.shares, p)
	s := &d.fs.files.stream
	ours := s.enter(d, p.needsPlace() && !d.fs.opts.Compare.UnserialisedAlloc)
	d.io.RLock()
	if p.chooseDirect(b); len(p.flights) == 0 {
		d.io.RUnlock()
	}
	b.write()
	s.leave(ours, d, int64(len(p.direct)))
	b.record()
	p.end()
}

// needsPlace reports whether blocks have to be chosen for a direct write.
func (p *share) needsPlace() bool {
	d := p.d
	d.n.mu.RLock()
	defer d.n.mu.RUnlock()
	x, ok := d.status.Next(p.run.First, extent.Delayed)
	return ok && x.LBlock < p.run.First+format.LBlock(p.run.N)
}

// chooseDirect is choose for a direct write.
func (p *share) chooseDirect(b *batch) {
	p.d.n.mu.Lock()
	defer p.d.n.mu.Unlock()
	p.chooseRun(b, p.run)
}

// stream is the order of direct writes to new blocks. A file that writes keeps its
// turn until it has written turnBytes, or as much as it is expected to, or until
// it has not written for a while.
type stream struct {
	mu    sync.Mutex
	free  *sync.Cond
	owner *fileData
	busy  bool  // the owner is in a write
	left  int64 // bytes of its turn
	pause time.Duration
	turn  int // changes with each use
}

// How long a turn is in bytes, and how long others wait for a file that does not
// go on: longer if it is known to have more to come.
const (
	turnBytes = 16 << 20
	turnPause = 5 * time.Millisecond
	hintPause = 100 * time.Millisecond
)

// enter waits for the file's turn if new blocks are to be written, and reports
// whether it has taken it.
func (s *stream) enter(d *fileData, fresh bool) bool {
	if !fresh {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == nil {
		s.free = sync.NewCond(&s.mu)
	}
	for s.busy || s.owner != nil && s.owner != d {
		s.free.Wait()
	}
	if s.owner == nil {
		s.left, s.pause = turnBytes, turnPause
		if hint := d.hint.Load() - d.size.Load(); hint > 0 {
			s.left, s.pause = hint, hintPause
		}
	}
	s.owner, s.busy = d, true
	s.turn++
	return true
}

// leave ends a write of n bytes that enter let begin.
func (s *stream) leave(ours bool, d *fileData, n int64) {
	if !ours {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	if s.left -= n; s.left <= 0 {
		s.owner = nil
	} else {
		turn := s.turn
		time.AfterFunc(s.pause, func() { s.expire(turn) })
	}
	s.free.Broadcast()
}

// expire ends a turn that nobody has made use of.
func (s *stream) expire(turn int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == turn && !s.busy && s.owner != nil {
		s.owner = nil
		s.free.Broadcast()
	}
}

// yield ends the turn of a file that will not write for now.
func (s *stream) yield(d *fileData) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner == d && !s.busy {
		s.owner = nil
		s.free.Broadcast()
	}
}
