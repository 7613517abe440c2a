package mkfs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"drydock/device"
	"drydock/format"
	"drydock/internal/dir"
	"golang.org/x/sync/errgroup"
)

// WriteOptions says how a plan is written.
type WriteOptions struct {
	UUID    [16]byte // of the file system
	Workers int      // goroutines; 0: 1
	Dirty   bool     // the device may hold old data: what has to read as zeros is zeroed
}

const writeBuffer = 256 << 10 // bytes gathered before a write

// Write writes everything but the data of regular files, which must be in
// place where Extents says: directories, symlinks, xattrs, extent nodes,
// inode tables, bitmaps, descriptors, the journal's first block, backups and,
// last and alone, the superblock. Until then the device holds no file system.
// It does not flush. The bytes do not depend on the number of workers.
func (p *Plan) Write(ctx context.Context, dev device.Device, o WriteOptions) error {
	w := newWriter(p, dev, o)
	if err := w.clear(); err != nil {
		return err
	}
	if err := w.each(ctx, len(p.walk.dirs), dirsAtOnce, w.dirs); err != nil {
		return err
	}
	if err := w.each(ctx, int(p.groups.Groups()), 1, w.inodeTables); err != nil {
		return err
	}
	for _, step := range []func() error{w.blocks, w.groupData, w.backups, w.super} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

const dirsAtOnce = 64 // directories a worker takes at a time

// writer is one run of Write.
type writer struct {
	*Plan
	dev     device.Device
	opts    WriteOptions
	sb      format.Superblock
	sums    format.Checksums
	indexed []bool // directories with an htree, in walk order
	descs   []byte // the descriptor table
	desc    func(int) format.GroupDesc

	mu   sync.Mutex // guards what follows
	idle []*blockWriter
}

func newWriter(p *Plan, dev device.Device, o WriteOptions) *writer {
	w := &writer{Plan: p, dev: dev, opts: o, sb: p.superblock(o.UUID)}
	w.sums = format.ChecksumsOf(w.sb)
	w.indexed = make([]bool, len(p.walk.dirs))
	size := p.groups.DescSize
	w.descs = make([]byte, p.groups.DescBlocks()*p.groups.BlockSize)
	w.desc = func(g int) format.GroupDesc { return w.descs[g*size : (g+1)*size] }
	return w
}

// each calls fn for pieces of 0..n-1, on all workers.
func (w *writer) each(ctx context.Context, n, piece int, fn func(out *blockWriter, from, to int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range max(1, min(w.opts.Workers, (n+piece-1)/piece)) {
		group.Go(func() error {
			out := w.blockWriter()
			defer w.release(out)
			for {
				from := int(next.Add(int64(piece))) - piece
				if from >= n {
					return out.flush()
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := fn(out, from, min(from+piece, n)); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// blockWriter gathers neighbouring blocks and writes them together. Each
// goroutine has its own, with its own view of the stream.
type blockWriter struct {
	dev    device.Device
	stream *stream
	dir    *dir.Builder
	size   int
	start  format.Block // of buf
	buf    []byte
	exts   []format.Extent
}

// blockWriter returns one that is not in use.
func (w *writer) blockWriter() *blockWriter {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.idle) - 1
	if last < 0 {
		return w.newBlockWriter()
	}
	out := w.idle[last]
	w.idle = w.idle[:last]
	return out
}

// release takes one back that holds nothing any more.
func (w *writer) release(out *blockWriter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = append(w.idle, out)
}

func (w *writer) newBlockWriter() *blockWriter {
	o := w.dirOptions()
	o.Checksums = w.sums
	return &blockWriter{
		dev: w.dev, stream: w.groups.stream.clone(), size: w.Options.BlockSize,
		buf: make([]byte, 0, max(writeBuffer, w.Options.BlockSize)), dir: dir.NewBuilder(o),
	}
}

// grow returns room for n blocks at b, to be filled before the next call.
func (o *blockWriter) grow(b format.Block, n int) ([]byte, error) {
	end := o.start + format.Block(len(o.buf)/o.size)
	if b != end || len(o.buf)+n*o.size > cap(o.buf) {
		if err := o.flush(); err != nil {
			return nil, err
		}
		o.start = b
	}
	at := len(o.buf)
	if at+n*o.size > cap(o.buf) {
		return nil, fmt.Errorf("write of %d blocks at %d: larger than the buffer", n, b)
	}
	o.buf = o.buf[:at+n*o.size]
	room := o.buf[at:]
	clear(room)
	return room, nil
}

// put writes a block.
func (o *blockWriter) put(b format.Block, data []byte) error {
	room, err := o.grow(b, 1)
	copy(room, data)
	return err
}

func (o *blockWriter) flush() error {
	if len(o.buf) == 0 {
		return nil
	}
	_, err := o.dev.WriteAt(o.buf, int64(o.start)*int64(o.size))
	o.buf = o.buf[:0]
	return err
}

// dirs writes directories from..to-1 in walk order.
func (w *writer) dirs(out *blockWriter, from, to int) error {
	for i := from; i < to; i++ {
		node := w.walk.dirs[i]
		head := dir.Head{Self: w.walk.inos[node], Parent: w.walk.parents[i], MinBlocks: w.minBlocks(node)}
		indexed, err := out.dir.Build(head, w.dirEntries(node), func(lb format.LBlock, block []byte) error {
			return out.put(out.stream.block(w.dirAt[i]+uint64(lb)), block)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", w.Content.Path(node), err)
		}
		w.indexed[i] = indexed
	}
	return nil
}

// blocks writes the blocks that belong to single inodes: symlink targets,
// xattr blocks, the orphan file, the journal's first block and what the
// resize inode lists.
func (w *writer) blocks() error {
	out := w.blockWriter()
	defer w.release(out)
	for _, step := range []func(*blockWriter) error{w.resizeBlocks, w.journalBlock, w.orphanFile, w.symlinks, w.xattrBlocks} {
		if err := step(out); err != nil {
			return err
		}
	}
	return out.flush()
}

func (w *writer) symlinks(out *blockWriter) error {
	for _, node := range w.needs.links {
		if err := out.put(out.stream.block(w.at[node]), w.target(node)); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) xattrBlocks(out *blockWriter) error {
	for i, x := range w.needs.shared.Blocks() {
		at := out.stream.block(w.xattrAt + uint64(i))
		block, err := out.grow(at, 1)
		if err != nil {
			return err
		}
		if err := format.EncodeXattrBlock(block, w.needs.shared.Attrs(x.Set), x.Refs); err != nil {
			return err
		}
		w.sums.SealXattrBlock(at, block)
	}
	return nil
}

func (w *writer) journalBlock(out *blockWriter) error {
	if w.journal == 0 {
		return nil
	}
	block, err := out.grow(out.stream.block(w.journalAt), 1)
	if err != nil {
		return err
	}
	format.PutEmptyJournalSuperblock(block, w.Options.BlockSize, uint32(w.journal), w.opts.UUID)
	return nil
}

func (w *writer) orphanFile(out *blockWriter) error {
	for i := range w.orphanBlocks() {
		at := out.stream.block(w.orphanAt + i)
		block, err := out.grow(at, 1)
		if err != nil {
			return err
		}
		format.PutOrphanBlock(block)
		w.sums.SealOrphanBlock(w.orphanIno(), 0, at, block)
	}
	return nil
}

// orphanIno is the last inode in use.
func (p *Plan) orphanIno() format.Ino { return format.Ino(p.usedInodes()) }

// bootBytes is what an old file system is known by: boot block and superblock.
const bootBytes = 4096

// clear zeroes what has to read as zeros although nothing is written there:
// the inode tables and the journal; and before that what an old file system
// is known by, so that a failure leaves none.
func (w *writer) clear() error {
	if !w.opts.Dirty {
		return nil
	}
	if err := device.Zero(w.dev, 0, bootBytes); err != nil {
		return err
	}
	for _, table := range w.groups.tables {
		if err := w.zeroBlocks(table, uint64(w.groups.InodeTableBlocks())); err != nil {
			return err
		}
	}
	var err error
	for _, e := range w.groups.stream.extents(nil, 0, w.journalAt, w.journal) {
		if err == nil {
			err = w.zeroBlocks(e.Start, uint64(e.Len))
		}
	}
	return err
}

func (w *writer) zeroBlocks(b format.Block, n uint64) error {
	size := int64(w.Options.BlockSize)
	return device.Zero(w.dev, int64(b)*size, int64(n)*size)
}
