package ext4

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"syscall"

	"drydock/cache"
	"drydock/device"
	"drydock/format"
	"drydock/internal/extent"
)

var (
	_ io.WriterAt   = (*File)(nil)
	_ io.Writer     = (*File)(nil)
	_ io.ReaderFrom = (*File)(nil)
)

// writable returns the data of a file that may be written.
func (f *File) writable(op string) (*fileData, error) {
	if err := f.check(op); err != nil {
		return nil, err
	}
	if !writing(f.flag) {
		return nil, f.error(op, syscall.EBADF)
	}
	d, err := f.n.fileData()
	if err == nil && !f.wrote.Load() {
		if err = d.prepare(); err == nil {
			f.wrote.Store(true)
		}
	}
	if err == nil {
		err = d.fs.writeFailed()
	}
	return d, f.error(op, err)
}

// writeFailed says why nothing that is written now could reach the device.
func (fsys *FS) writeFailed() error {
	if err := fsys.mayWrite(); err != nil {
		return err
	}
	return readOnly(fsys.j.Err())
}

// prepare makes a file ready for its first write: a block map of ext2 becomes a
// tree of extents.
func (d *fileData) prepare() error {
	if err := d.fs.mayWrite(); err != nil {
		return err
	}
	d.rw.Lock()
	defer d.rw.Unlock()
	if d.ready {
		return nil
	}
	mapped := false
	err := d.fs.view(func(r reader) error {
		in, err := r.inode(d.n.ino)
		mapped = err == nil && !in.raw.HasFlags(format.InodeExtents)
		return err
	})
	if err == nil && mapped {
		err = d.change(func(t *Tx, raw format.Inode) error { return t.mapByExtents(d, raw) })
	}
	d.ready = err == nil
	return err
}

// mapByExtents turns the block map of a file into a tree.
func (t *Tx) mapByExtents(d *fileData, raw format.Inode) error {
	ed, err := t.editTree(d.n.ino, raw, txNodes{t})
	if err != nil {
		return err
	}
	return t.raiseBlocks(d, raw, int64(ed.NodeDelta()))
}

// errAppend is the error of WriteAt to a file that was opened for appending.
var errAppend = errors.New("WriteAt to a file opened with O_APPEND")

// WriteAt writes p at off. The data is in memory when it returns, and durable
// after the next Sync; space for it is set aside, so that ENOSPC comes from here
// and never later. With an error, n bytes were written.
func (f *File) WriteAt(p []byte, off int64) (n int, err error) {
	switch {
	case off < 0:
		return 0, f.error("write", syscall.EINVAL)
	case f.flag&os.O_APPEND != 0:
		return 0, f.error("write", errAppend)
	}
	d, err := f.writable("write")
	if err != nil {
		return 0, err
	}
	n, _, err = d.write(p, off, false)
	return n, f.written(err)
}

// TryWriteAt is WriteAt that does not wait: it takes as much of p as it can
// without reading, and without waiting for a lock or for memory. Where that is
// less than all of it, the error is cache.ErrWouldWait; WriteAt does the rest.
func (f *File) TryWriteAt(p []byte, off int64) (n int, err error) {
	if f.closed.Load() || !f.wrote.Load() || off < 0 || f.flag&os.O_APPEND != 0 {
		return 0, cache.ErrWouldWait
	}
	d := f.n.loaded()
	if d == nil {
		return 0, cache.ErrWouldWait
	}
	return d.tryWrite(p, off)
}

// Write writes p at the file's position, or with O_APPEND at its end.
func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writeHere(p)
}

// writeHere is Write for a caller that holds mu.
func (f *File) writeHere(p []byte) (int, error) {
	d, err := f.writable("write")
	if err != nil {
		return 0, err
	}
	n, off, err := d.write(p, f.off, f.flag&os.O_APPEND != 0)
	if n > 0 || f.flag&os.O_APPEND != 0 {
		f.off = off + int64(n)
	}
	return n, f.written(err)
}

// written ends a write: with O_SYNC it is durable then.
func (f *File) written(err error) error {
	if err == nil && f.flag&os.O_SYNC == os.O_SYNC {
		err = f.makeDurable(true)
	}
	return f.error("write", err)
}

const (
	readFromChunk = 2 << 20 // bytes that ReadFrom writes at once
	directMin     = 1 << 20 // from so many bytes on it writes past the cache
)

// ReadFrom writes all that r has at the file's position, large data past the
// cache; io.Copy uses it.
func (f *File) ReadFrom(r io.Reader) (total int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	buf := make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			k, werr := f.writeBulk(buf[:n])
			total += int64(k)
			if werr != nil {
				return total, werr
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		if len(buf) < readFromChunk {
			buf = make([]byte, len(buf)*4)
		}
	}
}

// writeBulk writes at the file's position, directly if that pays.
func (f *File) writeBulk(p []byte) (int, error) {
	if len(p) < directMin || f.flag&os.O_APPEND != 0 {
		return f.writeHere(p)
	}
	n, err := f.WriteDirect(p, f.off)
	f.off += int64(n)
	return n, err
}

// clip shortens p to what a file can hold, and says whether something is left over.
func (d *fileData) clip(p []byte, off int64) ([]byte, error) {
	limit := d.fs.maxSize()
	if off+int64(len(p)) <= limit && off+int64(len(p)) >= off {
		return p, nil
	}
	return p[:max(limit-off, 0)], errTooBig
}

// write writes p at off, or at the end, and returns where that was.
func (d *fileData) write(p []byte, off int64, atEnd bool) (n int, at int64, err error) {
	d.rw.Lock()
	defer d.rw.Unlock()
	if atEnd {
		off = d.size.Load()
	}
	p, tooBig := d.clip(p, off)
	if len(p) == 0 {
		return 0, off, tooBig
	}
	if d.journal {
		n, err = d.writeJournaled(p, off)
		return n, off, cmp.Or(err, tooBig)
	}
	if err = d.zeroTail(off); err == nil {
		n, err = d.writePages(p, off)
	}
	if err == nil && d.fs.opts.Compare.TxPerWrite {
		err = d.touchInTx()
	}
	return n, off, cmp.Or(err, tooBig)
}

// writePages writes to the cache; where space is short a second time, and in
// single blocks then, so that the last free block is used. The caller holds rw.
func (d *fileData) writePages(p []byte, off int64) (n int, err error) {
	n, err = d.writeOnce(p, off)
	if !errors.Is(err, syscall.ENOSPC) {
		return n, err
	}
	d.fs.makeRoom()
	k, err := d.writeOnce(p[n:], off+int64(n))
	if n += k; !errors.Is(err, syscall.ENOSPC) {
		return n, err
	}
	k, err = d.writeSingly(p[n:], off+int64(n))
	return n + k, err
}

func (d *fileData) writeOnce(p []byte, off int64) (n int, err error) {
	if n, err = d.mapping().WriteAt(p, off); n > 0 {
		d.took(off + int64(n))
	}
	return n, err
}

// writeSingly writes block by block.
func (d *fileData) writeSingly(p []byte, off int64) (n int, err error) {
	bs := d.blockSize()
	for n < len(p) && err == nil {
		at := off + int64(n)
		var k int
		k, err = d.writeOnce(p[n:min(int64(len(p)), int64(n)+bs-at%bs)], at)
		n += k
	}
	return n, err
}

// took notes that the file was written up to end. The caller holds rw.
func (d *fileData) took(end int64) {
	if end > d.size.Load() {
		d.size.Store(end)
	}
	d.touched()
}

// tryWrite is write that does not wait.
func (d *fileData) tryWrite(p []byte, off int64) (n int, err error) {
	m := d.pages.Load()
	if m == nil || d.journal || !d.rw.TryLock() {
		return 0, cache.ErrWouldWait
	}
	defer d.rw.Unlock()
	size := d.size.Load()
	if off > size && size%d.blockSize() != 0 || off > d.fs.maxSize()-int64(len(p)) {
		return 0, cache.ErrWouldWait
	}
	if n, err = m.TryWriteAt(p, off); n > 0 {
		d.took(off + int64(n))
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = cache.ErrWouldWait // WriteAt can do more about it
	}
	return n, err
}

// Sync makes durable all that was written to the file, and all of its inode.
func (f *File) Sync() error { return f.sync("sync", true) }

// Datasync is Sync without times that changed and nothing else.
func (f *File) Datasync() error { return f.sync("datasync", false) }

func (f *File) sync(op string, times bool) error {
	if err := f.check(op); err != nil {
		return err
	}
	if !f.fs.opts.ReadWrite {
		return nil
	}
	if err := f.makeDurable(times); err != nil {
		return f.error(op, err)
	}
	if d := f.n.loaded(); d != nil {
		return f.error(op, f.told(d))
	}
	return nil
}

// makeDurable writes the file back and waits until that is durable.
func (f *File) makeDurable(times bool) error {
	d := f.n.loaded()
	if d == nil {
		return readOnly(f.fs.j.SyncData(format.Tid(f.n.tid.Load())))
	}
	f.fs.files.stream.yield(d)
	if err := d.flush(times); err != nil {
		_ = f.told(d) // now it is
		return err
	}
	tid := format.Tid(f.n.tid.Load())
	if !times {
		tid = format.Tid(d.dataTid.Load())
	}
	return readOnly(f.fs.j.SyncData(tid))
}

// told returns the last error of writing the file back, if this open file was not
// told of it.
func (f *File) told(d *fileData) error {
	last, err := d.errs.since(f.seen.Load())
	f.seen.Store(last)
	return err
}

// Segments yields the ranges with data among the n bytes from off on, as far as
// the file goes; what lies between them reads as zeros: holes, and what is
// allocated but not written.
func (f *File) Segments(off, n int64) iter.Seq2[device.Segment, error] {
	return func(yield func(device.Segment, error) bool) {
		list, err := f.segments(off, n)
		if err != nil {
			yield(device.Segment{}, f.error("seek", err))
			return
		}
		for _, s := range list {
			if !yield(s, nil) {
				return
			}
		}
	}
}

func (f *File) segments(off, n int64) ([]device.Segment, error) {
	switch {
	case f.closed.Load() || f.fs.closed.Load():
		return nil, fs.ErrClosed
	case off < 0 || n < 0:
		return nil, syscall.EINVAL
	}
	d, err := f.data()
	if err != nil {
		return nil, err
	}
	if d != nil {
		return d.segments(off, n)
	}
	size, _, err := f.size()
	n = min(n, size-off)
	if err != nil || n <= 0 {
		return nil, err
	}
	return []device.Segment{{Off: off, Len: n}}, nil
}

// segments returns the ranges with data.
func (d *fileData) segments(off, n int64) (list []device.Segment, err error) {
	bs, m := d.blockSize(), d.pages.Load()
	end := off + min(n, d.size.Load()-off)
	for at := off; at < end; {
		l := format.LBlock(min(at/bs, format.MaxLBlock))
		x, err := d.lookup(l)
		if err != nil || l == format.MaxLBlock {
			return list, err
		}
		x = clip(x, l, uint64(d.blocksOf(end)))
		to := min(int64(x.End())*bs, end)
		switch {
		case x.Kind == extent.Unwritten && m != nil:
			for _, r := range m.DirtyRuns(l, format.LBlock(x.End())) {
				from := max(int64(r.First)*bs, off)
				list = joinSegment(list, from, min((int64(r.First)+int64(r.N))*bs, end)-from)
			}
		case x.Kind != extent.Hole && x.Kind != extent.Unwritten:
			list = joinSegment(list, at, to-at)
		}
		at = to
	}
	return list, nil
}

// joinSegment appends a range, to the last one if it goes on there.
func joinSegment(list []device.Segment, off, n int64) []device.Segment {
	if i := len(list) - 1; i >= 0 && list[i].Off+list[i].Len == off {
		list[i].Len += n
		return list
	}
	return append(list, device.Segment{Off: off, Len: n})
}
