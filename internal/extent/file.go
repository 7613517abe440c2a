package extent

import (
	"errors"
	"fmt"
	"iter"
	"sync"

	"drydock/format"
)

// BlockReader reads block b of the file system into p, one block long.
type BlockReader interface {
	ReadBlock(b format.Block, p []byte) error
}

// File reads the map of one inode. It may be used by several goroutines.
type File struct {
	r         BlockReader
	sums      format.Checksums
	ino       format.Ino
	inode     format.Inode
	blockSize int
	min, max  format.Block // usable blocks: min to max-1
}

// NewFile returns the map of inode ino of a file system with geometry g. The
// bytes of n are read at each call and must not change during one.
func NewFile(r BlockReader, g format.Geometry, sums format.Checksums, ino format.Ino, n format.Inode) *File {
	return &File{
		r: r, sums: sums, ino: ino, inode: n, blockSize: g.BlockSize,
		min: g.FirstDataBlock + 1, max: g.BlocksCount,
	}
}

// kind says what i_block holds.
type kind int

const (
	noMap    kind = iota // a device number, a short symlink, inline data, nothing
	treeMap              // an extent tree
	blockMap             // pointers of ext2
)

func (f *File) kind() kind {
	n := f.inode
	switch {
	case n.HasFlags(format.InodeInlineData):
		return noMap
	case n.HasDevice() || n.IsType(format.ModeFifo) || n.IsType(format.ModeSocket):
		return noMap
	case n.HasFlags(format.InodeExtents):
		return treeMap
	case n.IsFastSymlink():
		return noMap
	}
	return blockMap
}

// Map yields the extents of the file in ascending order; what lies between
// them is a hole. Runs of an ext2 map come as extents of at most
// format.MaxExtentLen blocks. An error ends the sequence; those about the map
// itself match format.ErrDamaged.
func (f *File) Map() iter.Seq2[format.Extent, error] { return f.MapFrom(0) }

// MapFrom is Map without the extents that end at or before file block from.
func (f *File) MapFrom(from format.LBlock) iter.Seq2[format.Extent, error] {
	return func(yield func(format.Extent, error) bool) {
		err := f.walk(from, visitor{extent: func(e format.Extent) bool { return yield(e, nil) }})
		if err != nil {
			yield(format.Extent{}, err)
		}
	}
}

// Nodes yields the blocks that the map itself takes: nodes of the tree, or
// indirect blocks; each before what lies below it. An error ends the sequence.
func (f *File) Nodes() iter.Seq2[format.Block, error] {
	return func(yield func(format.Block, error) bool) {
		err := f.walk(0, visitor{node: func(b format.Block) bool { return yield(b, nil) }})
		if err != nil {
			yield(0, err)
		}
	}
}

// Blocks counts the blocks of the file: those of its data, unwritten ones too,
// and those of its map.
func (f *File) Blocks() (data, nodes uint64, err error) {
	err = f.walk(0, visitor{
		extent: func(e format.Extent) bool { data += uint64(e.Len); return true },
		node:   func(format.Block) bool { nodes++; return true },
	})
	return data, nodes, err
}

// visitor is told what a walk finds, as far as it wants to know; false ends
// the walk.
type visitor struct {
	extent func(format.Extent) bool
	node   func(format.Block) bool
}

func (v visitor) visitExtent(e format.Extent) error {
	if v.extent == nil || v.extent(e) {
		return nil
	}
	return errStop
}

func (v visitor) visitNode(b format.Block) error {
	if v.node == nil || v.node(b) {
		return nil
	}
	return errStop
}

// errStop ends a walk early.
var errStop = errors.New("stop")

// walk visits all that ends after file block from.
func (f *File) walk(from format.LBlock, v visitor) error {
	w := &walker{File: f, visitor: v, from: from}
	defer w.release()
	err := w.all()
	if err == errStop {
		return nil
	}
	return err
}

// walker is one walk.
type walker struct {
	*File
	visitor
	from  format.LBlock
	nodes format.Block // read so far
	bufs  [format.MaxExtentDepth]*[]byte
}

func (w *walker) all() error {
	switch w.kind() {
	case treeMap:
		return w.tree(w.inode.IBlock(), format.RootBounds(w.min, w.max))
	case blockMap:
		return w.pointers()
	}
	return nil
}

// enter reads node b into the scratch memory of its level. A file cannot have
// more nodes than the file system has blocks, which bounds the work that a
// damaged map can cause.
func (w *walker) enter(b format.Block, level int) ([]byte, error) {
	if w.nodes++; w.nodes > w.max {
		return nil, w.wrap(&format.DamagedError{Structure: "map", Offset: -1, Detail: "more nodes than the file system has blocks"})
	}
	if err := w.visitNode(b); err != nil {
		return nil, err
	}
	if w.bufs[level] == nil {
		w.bufs[level] = borrow(w.blockSize)
	}
	return *w.bufs[level], w.read(b, *w.bufs[level])
}

func (w *walker) release() {
	for _, p := range w.bufs {
		if p != nil {
			scratch.Put(p)
		}
	}
}

// scratch holds blocks that are not in use.
var scratch sync.Pool

// borrow returns a block of scratch memory, to be put back when done.
func borrow(size int) *[]byte {
	if p, ok := scratch.Get().(*[]byte); ok && cap(*p) >= size {
		*p = (*p)[:size]
		return p
	}
	b := make([]byte, size)
	return &b
}

// read reads node b into p.
func (f *File) read(b format.Block, p []byte) error {
	if err := f.r.ReadBlock(b, p); err != nil {
		return f.wrap(fmt.Errorf("block %d of the map: %w", b, err))
	}
	return nil
}

// wrap says which inode an error is about.
func (f *File) wrap(err error) error { return fmt.Errorf("inode %d: %w", f.ino, err) }
