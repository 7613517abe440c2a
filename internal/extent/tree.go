package extent

import (
	"fmt"
	"sort"

	"drydock/format"
)

// tree visits the node b and all below it.
func (w *walker) tree(b []byte, bd format.ExtentBounds) error {
	h, err := w.checkNode(b, bd)
	if err != nil {
		return err
	}
	for i := firstEntry(b, h, w.from); i < int(h.Entries); i++ {
		if err := w.entry(b, h, bd, i); err != nil {
			return err
		}
	}
	return nil
}

// entry visits entry i of a node that was checked.
func (w *walker) entry(b []byte, h format.ExtentHeader, bd format.ExtentBounds, i int) error {
	if h.Depth == 0 {
		e := format.GetExtent(b, i)
		if e.End() <= uint64(w.from) {
			return nil
		}
		return w.visitExtent(e)
	}
	below := bd.Child(b, h, i)
	child, err := w.enter(below.Block, below.Depth)
	if err != nil {
		return err
	}
	return w.tree(child, below)
}

// checkNode checks a node in full and returns its header. The root has no
// checksum of its own.
func (f *File) checkNode(b []byte, bd format.ExtentBounds) (format.ExtentHeader, error) {
	if err := format.CheckExtentNode(b, bd); err != nil {
		return format.ExtentHeader{}, f.wrap(err)
	}
	if bd.Block != 0 && !f.sums.VerifyExtentBlock(f.ino, f.inode.Generation(), b) {
		err := &format.DamagedError{Structure: "extent node", Block: bd.Block, Offset: -1, Detail: "checksum does not match"}
		return format.ExtentHeader{}, f.wrap(err)
	}
	return format.ReadExtentHeader(b)
}

// firstEntry returns the last entry that begins at or before file block l, 0
// if there is none: what covers l cannot lie before it. Both kinds of entries
// have their file block at the same place.
func firstEntry(b []byte, h format.ExtentHeader, l format.LBlock) int {
	after := sort.Search(int(h.Entries), func(i int) bool { return format.GetExtentIndex(b, i).LBlock > l })
	return max(0, after-1)
}

// Lookup returns the extent that holds file block l. Where l is in a hole it
// returns the hole, with Start 0, from l on as far as the part of the map that
// was read tells, at least one block.
func (f *File) Lookup(l format.LBlock) (format.Extent, error) {
	if uint64(l) >= format.MaxLBlock {
		return format.Extent{}, f.wrap(fmt.Errorf("file block %d: none can be mapped there", l))
	}
	p := borrow(f.blockSize)
	defer scratch.Put(p)
	switch f.kind() {
	case treeMap:
		return f.lookupTree(l, *p)
	case blockMap:
		return f.lookupPointers(l, *p)
	}
	return hole(l, format.MaxLBlock), nil
}

// hole returns the hole from l to end-1.
func hole(l format.LBlock, end uint64) format.Extent {
	return format.Extent{LBlock: l, Len: uint32(end - uint64(l))}
}

// lookupTree looks for l in a tree; buf is a block of scratch memory.
func (f *File) lookupTree(l format.LBlock, buf []byte) (format.Extent, error) {
	b, bd := f.inode.IBlock(), format.RootBounds(f.min, f.max)
	for {
		h, err := f.checkNode(b, bd)
		if err != nil {
			return format.Extent{}, err
		}
		i := firstEntry(b, h, l)
		if h.Depth == 0 {
			return lookupLeaf(b, h, bd, i, l), nil
		}
		if first := format.GetExtentIndex(b, i).LBlock; first > l {
			return hole(l, uint64(first)), nil
		}
		bd = bd.Child(b, h, i)
		if err := f.read(bd.Block, buf); err != nil {
			return format.Extent{}, err
		}
		b = buf
	}
}

// lookupLeaf looks for l in a leaf whose entry i is firstEntry of l.
func lookupLeaf(b []byte, h format.ExtentHeader, bd format.ExtentBounds, i int, l format.LBlock) format.Extent {
	for ; i < int(h.Entries); i++ {
		e := format.GetExtent(b, i)
		if e.LBlock > l {
			return hole(l, uint64(e.LBlock))
		}
		if uint64(l) < e.End() {
			return e
		}
	}
	return hole(l, bd.End)
}
