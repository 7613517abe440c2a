package extent

import (
	"errors"
	"fmt"

	"drydock/format"
	"drydock/journal"
)

// Blocks is where an Editor reads and changes nodes; a *journal.Tx is one.
type Blocks interface {
	Get(b format.Block) (*journal.Version, error)
	Change(b format.Block) ([]byte, error)
	New(b format.Block) ([]byte, error)
}

// Nodes gives and takes the blocks of nodes. FreeNode also makes the
// transaction forget what it knows of the block.
type Nodes interface {
	AllocNode(goal format.Block) (format.Block, error)
	FreeNode(b format.Block) error
}

// ErrBlockMap is the error of Edit for an inode with the map of ext2 or ext3.
var ErrBlockMap = errors.New("the inode has a block map, not extents")

// Editor changes the extent tree of one inode within one transaction. A method
// that returns an error may leave the tree half changed: the transaction, or
// the part of it around the call, must be forgotten then. Only Lookup and
// the check of arguments change nothing.
//
// The caller seals the inode, and keeps its i_blocks by the data that it
// inserts or that is freed and by NodeDelta.
type Editor struct {
	file    *File // of the inode's own bytes
	blocks  blocks
	nodes   Nodes
	g       *format.Geometry
	inode   format.Inode
	delta   int
	touched int                                  // nodes changed so far, some twice
	known   map[format.Block]format.ExtentBounds // nodes that were checked in full
	levels  [format.MaxExtentDepth + 1]level     // the last path
}

// Edit returns the editor of the tree of inode ino, whose bytes, n, are a part
// of the transaction. For a block-mapped inode it returns an editor that can do
// FromBlockMap only, with ErrBlockMap.
func Edit(tx Blocks, nodes Nodes, g *format.Geometry, sums format.Checksums, ino format.Ino, n format.Inode) (*Editor, error) {
	return edit(txBlocks{tx}, nodes, g, sums, ino, n)
}

func edit(b blocks, nodes Nodes, g *format.Geometry, sums format.Checksums, ino format.Ino, n format.Inode) (*Editor, error) {
	e := &Editor{
		file: NewFile(reader{b}, *g, sums, ino, n), blocks: b, nodes: nodes, g: g, inode: n,
	}
	switch e.file.kind() {
	case treeMap:
		return e, nil
	case blockMap:
		return e, ErrBlockMap
	}
	return nil, e.file.wrap(&format.UnsupportedError{Detail: "a map of blocks where the inode has none"})
}

// NodeDelta returns the nodes allocated so far minus those freed: by how many
// blocks the map of the inode has grown. FromBlockMap counts indirect blocks.
func (e *Editor) NodeDelta() int { return e.delta }

// blocks is Blocks with a version that is an interface.
type blocks interface {
	get(b format.Block) (version, error)
	Change(b format.Block) ([]byte, error)
	New(b format.Block) ([]byte, error)
}

// version is what is needed of a *journal.Version.
type version interface {
	Bytes() []byte
	Checked() bool
	SetChecked()
}

type txBlocks struct{ Blocks }

func (t txBlocks) get(b format.Block) (version, error) { return t.Blocks.Get(b) }

// reader lets a File read what the transaction sees.
type reader struct{ blocks }

// ReadBlock copies block b to p.
func (r reader) ReadBlock(b format.Block, p []byte) error {
	v, err := r.get(b)
	if err == nil {
		copy(p, v.Bytes())
	}
	return err
}

// level is one node on a path from the root to a leaf.
type level struct {
	bd  format.ExtentBounds
	b   []byte
	h   format.ExtentHeader
	i   int  // the entry that leads on; in a leaf the last at or before what was looked for
	own bool // b may be changed
}

// count returns the entries in use.
func (lv *level) count() int { return int(lv.h.Entries) }

// last reports whether no node lies right of this one.
func (lv *level) last() bool { return lv.bd.End == format.MaxLBlock }

// descend returns the nodes from the root to the leaf that holds l, or would
// hold it. They are good until the tree changes.
func (e *Editor) descend(l format.LBlock) ([]level, error) {
	p := e.levels[:0]
	bd := format.RootBounds(e.file.min, e.file.max)
	for {
		lv, err := e.node(bd)
		if err != nil {
			return nil, err
		}
		lv.i = firstEntry(lv.b, lv.h, l)
		p = append(p, lv)
		if lv.h.Depth == 0 {
			return p, nil
		}
		bd = bd.Child(lv.b, lv.h, lv.i)
	}
}

// node reads and checks one node.
func (e *Editor) node(bd format.ExtentBounds) (level, error) {
	if bd.Block == 0 {
		h, err := e.file.checkNode(e.inode.IBlock(), bd)
		return level{bd: bd, b: e.inode.IBlock(), h: h, own: true}, err
	}
	v, err := e.blocks.get(bd.Block)
	if err != nil {
		return level{}, e.file.wrap(fmt.Errorf("block %d of the map: %w", bd.Block, err))
	}
	h, err := e.checked(v, bd)
	return level{bd: bd, b: v.Bytes(), h: h}, err
}

// checked checks a node in full unless this editor did so before. The header
// is looked at each time: a damaged file system may use the block twice.
func (e *Editor) checked(v version, bd format.ExtentBounds) (format.ExtentHeader, error) {
	b := v.Bytes()
	if e.known[bd.Block] == bd {
		h, err := format.ReadExtentHeader(b)
		if err == nil && int(h.Depth) == bd.Depth && h.Entries <= h.Max && int(h.Max) <= e.room() && (h.Entries > 0 || h.Depth == 0) {
			return h, nil
		}
	}
	if err := format.CheckExtentNode(b, bd); err != nil {
		return format.ExtentHeader{}, e.file.wrap(err)
	}
	if !v.Checked() {
		if _, err := e.file.checkNode(b, bd); err != nil {
			return format.ExtentHeader{}, err
		}
		v.SetChecked()
	}
	if e.known == nil {
		e.known = map[format.Block]format.ExtentBounds{}
	}
	e.known[bd.Block] = bd
	return format.ReadExtentHeader(b)
}

// room returns how many entries a node block holds.
func (e *Editor) room() int { return format.ExtentBlockMax(e.g.BlockSize) }

// Lookup returns the extent that holds file block l, as File.Lookup does, from
// what the transaction sees.
func (e *Editor) Lookup(l format.LBlock) (format.Extent, error) {
	if err := e.checkRange(uint64(l), uint64(l)+1); err != nil {
		return format.Extent{}, err
	}
	p, err := e.descend(l)
	if err != nil {
		return format.Extent{}, err
	}
	leaf := &p[len(p)-1]
	return lookupLeaf(leaf.b, leaf.h, leaf.bd, leaf.i, l), nil
}

// checkRange refuses file blocks that cannot be mapped.
func (e *Editor) checkRange(from, to uint64) error {
	if from > to || to > format.MaxLBlock {
		return e.file.wrap(fmt.Errorf("file blocks %d to %d: none can be mapped there", from, to))
	}
	return nil
}

// damage makes the error of a node that contradicts itself or the caller.
func (e *Editor) damage(b format.Block, detail string, args ...any) error {
	s := "extent node"
	if b == 0 {
		s = "extent root"
	}
	return e.file.wrap(&format.DamagedError{Structure: s, Block: b, Offset: -1, Detail: fmt.Sprintf(detail, args...)})
}
