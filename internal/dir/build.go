package dir

import (
	"fmt"

	"drydock/format"
)

// Build makes the blocks of a directory, sealed with their checksums, and
// gives them to emit in ascending order of their numbers within the directory;
// emit must not keep the block. indexed says that the inode needs the flag
// format.InodeIndex. The error is that of emit or of Blocks, or says that an entry has no inode.
func (b *Builder) Build(h Head, entries Entries, emit func(n format.LBlock, block []byte) error) (indexed bool, err error) {
	s, err := b.plan(entries, h.MinBlocks)
	if err != nil {
		return false, err
	}
	w := &writer{Builder: b, head: h, entries: entries, shape: s, emit: emit}
	if s.indexed {
		return true, w.index()
	}
	return false, w.linear()
}

// writer is one run of Build. Entries are put into the block at hand until it
// is flushed.
type writer struct {
	*Builder
	head    Head
	entries Entries
	shape   shape
	emit    func(format.LBlock, []byte) error

	next format.LBlock // number of the block at hand
	used int           // bytes of it that have entries
	last int           // offset of its last entry
}

func (w *writer) linear() error {
	w.start()
	w.dots()
	for i := range w.entries.Len() {
		if w.used+format.DirentLen(len(w.entries.Name(i))) > w.room() {
			if err := w.flush(); err != nil {
				return err
			}
		}
		if err := w.entry(i); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	return w.empty(w.shape.blocks - int(w.next))
}

// empty adds n blocks without entries.
func (w *writer) empty(n int) error {
	for range n {
		if err := w.flush(); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) start() {
	clear(w.block)
	w.used, w.last = 0, 0
}

func (w *writer) dots() {
	w.put(w.head.Self, format.FTDir, []byte("."))
	w.put(w.head.Parent, format.FTDir, []byte(".."))
}

func (w *writer) entry(i int) error {
	ino, ft := w.entries.Target(i)
	if ino == 0 {
		return fmt.Errorf("entry %q of directory %d has no inode", w.entries.Name(i), w.head.Self)
	}
	w.put(ino, ft, w.entries.Name(i))
	return nil
}

func (w *writer) put(ino format.Ino, ft format.FileType, name []byte) {
	size := format.DirentLen(len(name))
	format.PutDirent(w.block, w.used, size, ino, w.fileType(ft), name)
	w.last = w.used
	w.used += size
}

func (w *writer) fileType(ft format.FileType) format.FileType {
	if w.opts.Filetype {
		return ft
	}
	return format.FTUnknown
}

// flush finishes the block at hand as one of entries and starts the next one.
func (w *writer) flush() error {
	w.stretch()
	if w.opts.Csum {
		format.PutDirTail(w.block)
	}
	w.opts.Checksums.SealDirBlock(w.head.Self, w.head.Generation, w.block)
	if err := w.send(); err != nil {
		return err
	}
	w.start()
	return nil
}

// stretch makes the last entry reach to the end of the block's room; a block
// without entries gets an unused one.
func (w *writer) stretch() {
	if w.used == 0 {
		format.PutDirent(w.block, 0, w.room(), 0, format.FTUnknown, nil)
		return
	}
	d, err := format.ReadDirent(w.block, w.last)
	if err != nil {
		panic("dir: " + err.Error()) // put wrote it
	}
	format.PutDirent(w.block, d.Off, w.room()-d.Off, d.Ino, d.Type, d.Name)
}

func (w *writer) send() error {
	err := w.emit(w.next, w.block)
	w.next++
	return err
}

func (w *writer) index() error {
	if err := w.root(); err != nil {
		return err
	}
	for row := w.shape.levels; row > 0; row-- {
		if err := w.nodes(row); err != nil {
			return err
		}
	}
	return w.leafBlocks()
}

func (w *writer) root() error {
	version := w.opts.HashVersion
	if version >= format.HashUnsigned {
		version -= format.HashUnsigned
	}
	r := format.PutDxRoot(w.block, w.head.Self, w.head.Parent, w.fileType(format.FTDir), version, w.shape.levels, w.opts.Csum)
	w.table(r.Entries(), w.shape.levels, 0, w.shape.rows[w.shape.levels])
	return w.sendIndex()
}

// nodes emits a row of nodes, each with as many entries of the row below as it holds.
func (w *writer) nodes(row int) error {
	limit := format.DxNodeLimit(w.opts.BlockSize, w.opts.Csum)
	below := w.shape.rows[row-1]
	for from := 0; from < below; from += limit {
		n := format.PutDxNode(w.block, w.opts.Csum)
		w.table(n.Entries(), row-1, from, min(from+limit, below))
		if err := w.sendIndex(); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) sendIndex() error {
	w.opts.Checksums.SealDxBlock(w.head.Self, w.head.Generation, w.block)
	return w.send()
}

// table fills e with the blocks from to to-1 of a row.
func (w *writer) table(e format.DxEntries, row, from, to int) {
	leavesEach := 1
	for range row {
		leavesEach *= format.DxNodeLimit(w.opts.BlockSize, w.opts.Csum)
	}
	for i := from; i < to; i++ {
		e.Set(i-from, w.leafHash(i*leavesEach), format.LBlock(w.shape.first(row)+i))
	}
	e.SetCount(to - from)
}

func (w *writer) leafBlocks() error {
	for leaf := range w.leaves {
		w.start()
		for _, k := range w.leafKeys(leaf) {
			if err := w.entry(int(k.index)); err != nil {
				return err
			}
		}
		if err := w.flush(); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) leafKeys(leaf int) []key {
	end := len(w.keys)
	if leaf+1 < len(w.leaves) {
		end = int(w.leaves[leaf+1])
	}
	return w.keys[w.leaves[leaf]:end]
}
