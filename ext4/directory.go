package ext4

import (
	"drydock/format"
	"drydock/internal/dir"
	"drydock/internal/extent"
)

// dirBlocks gives package dir the blocks of a directory.
type dirBlocks struct {
	reader
	mapped *extent.File
	count  format.LBlock
	known  []blockPair // looked up so far, the last few
}

// blockPair is where a block of a directory lies.
type blockPair struct {
	l format.LBlock
	b format.Block
}

// maxKnown bounds dirBlocks.known: a way through an index and a few leaves.
const maxKnown = 16

// where returns the place of a block that was looked up lately; 0: it was not.
func (d *dirBlocks) where(l format.LBlock) format.Block {
	for _, p := range d.known {
		if p.l == l {
			return p.b
		}
	}
	return 0
}

// know keeps the place of a block.
func (d *dirBlocks) know(l format.LBlock, b format.Block) {
	if len(d.known) == maxKnown {
		d.known = d.known[:0]
	}
	d.known = append(d.known, blockPair{l, b})
}

func newDirBlocks(in *inode, count format.LBlock) dirBlocks {
	return dirBlocks{reader: in.reader, mapped: in.blockMap(), count: count}
}

// NumBlocks implements dir.Blocks and dir.Space.
func (d *dirBlocks) NumBlocks() format.LBlock { return d.count }

// block returns where a block lies. It must be mapped and written: directories
// have no holes.
func (d *dirBlocks) block(l format.LBlock) (format.Block, error) {
	if b := d.where(l); b != 0 {
		return b, nil
	}
	x, err := d.mapped.Lookup(l)
	if err != nil {
		return 0, err
	}
	if x.Start == 0 || x.Unwritten {
		return 0, &format.DamagedError{Structure: "directory", Offset: -1, Detail: "has a hole"}
	}
	b := x.Start + format.Block(l-x.LBlock)
	d.know(l, b)
	return b, nil
}

// ReadLBlock implements dir.Blocks.
func (d *dirBlocks) ReadLBlock(l format.LBlock, p []byte) error {
	b, err := d.block(l)
	if err != nil {
		return err
	}
	return d.ReadBlock(b, p)
}

// Get implements dir.Shared and dir.Space.
func (d *dirBlocks) Get(l format.LBlock) (block []byte, verified bool, err error) {
	b, err := d.block(l)
	if err != nil {
		return nil, false, err
	}
	v, err := d.src.Get(b)
	if err != nil {
		return nil, false, err
	}
	return v.Bytes(), v.Checked(), nil
}

// SetVerified implements dir.Marker.
func (d *dirBlocks) SetVerified(l format.LBlock) {
	b, err := d.block(l)
	if err != nil {
		return // it was read before, so this cannot be
	}
	if v, err := d.src.Get(b); err == nil {
		v.SetChecked()
	}
}

// walkedBlocks is dirBlocks for a walk through all of them, which comes to no
// block a second time: one that turns up again is mapped twice, and without end if
// an image is made to.
type walkedBlocks struct {
	dirBlocks
	seen map[format.Block]struct{}
}

// Get implements dir.Shared.
func (d *walkedBlocks) Get(l format.LBlock) (block []byte, verified bool, err error) {
	b, err := d.block(l)
	if err != nil {
		return nil, false, err
	}
	if _, again := d.seen[b]; again {
		return nil, false, &format.DamagedError{Structure: "directory", Block: b, Offset: -1, Detail: "has this block twice"}
	}
	d.seen[b] = struct{}{}
	return d.dirBlocks.Get(l)
}

// directory is a directory that a transaction changes.
type directory struct {
	t      *Tx
	ino    format.Ino
	editor dir.Editor
	space  dirSpace
}

// dirSpace is where package dir reads and changes the blocks of a directory.
type dirSpace struct {
	t   *Tx
	ino format.Ino
	dirBlocks
}

// openDir opens a directory for changes.
func (t *Tx) openDir(ino format.Ino) (*directory, error) {
	in, err := t.inode(ino)
	if err != nil {
		return nil, err
	}
	blocks, err := in.dirLength()
	if err != nil {
		return nil, err
	}
	fsys := t.fs
	d := &directory{t: t, ino: ino}
	d.space = dirSpace{t: t, ino: ino, dirBlocks: newDirBlocks(in, blocks)}
	d.editor = dir.Editor{
		Space: &d.space, BlockSize: fsys.geo.BlockSize, Ino: ino, Generation: in.raw.Generation(),
		Indexed:      in.raw.HasFlags(format.InodeIndex),
		DirIndex:     fsys.geo.Features.HasCompat(format.CompatDirIndex),
		LargeDir:     fsys.geo.Features.HasIncompat(format.IncompatLargeDir),
		Filetype:     fsys.geo.Features.HasIncompat(format.IncompatFiletype),
		HashVersion:  fsys.super.DefHashVersion(),
		HashUnsigned: fsys.super.Flags()&format.FlagUnsignedHash != 0,
		HashSeed:     fsys.super.HashSeed(),
		Checksums:    fsys.csum,
		Hint:         fsys.dirs.hint(ino),
	}
	return d, nil
}

// insert adds a name.
func (d *directory) insert(name string, ino format.Ino, mode uint16) error {
	was := d.editor.Indexed
	if err := d.editor.Insert([]byte(name), ino, format.FileTypeOf(mode)); err != nil {
		return err
	}
	if d.editor.Indexed == was {
		return nil
	}
	raw, err := d.t.changeInode(d.ino)
	if err != nil {
		return err
	}
	flags := raw.Flags() &^ format.InodeIndex
	if d.editor.Indexed {
		flags |= format.InodeIndex
	}
	raw.SetFlags(flags)
	return nil
}

// Change implements dir.Space.
func (s *dirSpace) Change(l format.LBlock) ([]byte, error) {
	b, err := s.block(l)
	if err != nil {
		return nil, err
	}
	return s.t.j.Change(b)
}

// Append implements dir.Space.
func (s *dirSpace) Append() (format.LBlock, []byte, error) {
	goal, err := s.goal()
	if err != nil {
		return 0, nil, err
	}
	b, err := s.t.addBlock(s.ino, s.count, goal)
	if err != nil {
		return 0, nil, err
	}
	block, err := s.t.j.New(b)
	if err != nil {
		return 0, nil, err
	}
	raw, err := s.t.changeInode(s.ino)
	if err != nil {
		return 0, nil, err
	}
	l := s.count
	s.count++
	s.know(l, b)
	raw.SetSize(uint64(s.count) * uint64(s.t.fs.geo.BlockSize))
	return l, block, nil
}

// goal is where the next block of the directory had best lie.
func (s *dirSpace) goal() (format.Block, error) {
	if s.count == 0 {
		return s.t.fs.alloc.GoalFor(s.ino), nil
	}
	last, err := s.block(s.count - 1)
	return last + 1, err
}

// addBlock gives a file one block more, at file block l, which is a hole. What
// the block holds is for the caller to write.
func (t *Tx) addBlock(ino format.Ino, l format.LBlock, goal format.Block) (format.Block, error) {
	b, err := t.fs.alloc.AllocBlock(t.j, goal)
	if err != nil {
		return 0, err
	}
	raw, err := t.changeInode(ino)
	if err != nil {
		return 0, err
	}
	e, err := t.editTree(ino, raw, txNodes{t})
	if err != nil {
		return 0, err
	}
	if err := e.Insert(format.Extent{LBlock: l, Len: 1, Start: b}); err != nil {
		return 0, err
	}
	return b, t.addBlocks(raw, int64(1+e.NodeDelta()))
}

// AllocBlock implements xattr.Space.
func (s txNodes) AllocBlock(goal format.Block) (format.Block, error) { return s.AllocNode(goal) }

// FreeBlock implements xattr.Space.
func (s txNodes) FreeBlock(b format.Block) error { return s.FreeNode(b) }

// maxDirStates bounds dirStates.
const maxDirStates = 256

// dirStates keeps hints on directories that were changed lately. It belongs to
// the transaction at work.
type dirStates map[format.Ino]*dir.Hint

// hint returns the hint of a directory.
func (s dirStates) hint(ino format.Ino) *dir.Hint {
	h := s[ino]
	if h == nil {
		if len(s) >= maxDirStates {
			clear(s)
		}
		h = new(dir.Hint)
		s[ino] = h
	}
	return h
}
