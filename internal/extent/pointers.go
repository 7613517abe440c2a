package extent

import (
	"fmt"

	"drydock/format"
)

// run gathers pointers into extents.
type run struct{ format.Extent }

// pointers visits an ext2 map.
func (w *walker) pointers() error {
	var r run
	first := uint64(0)
	for slot := range format.BlockMapSlots {
		levels := format.BlockMapLevelsOf(slot)
		if err := w.pointer(&r, w.inode.IBlock(), 0, slot, levels, first); err != nil {
			return err
		}
		first += format.BlockMapSpan(levels, w.blockSize)
	}
	return w.flush(&r)
}

// pointer visits pointer i of b, which is block at (0: the inode), and all
// below it: levels indirect blocks, then file blocks from first on.
func (w *walker) pointer(r *run, b []byte, at format.Block, i, levels int, first uint64) error {
	p := format.BlockPointer(b, i)
	span := format.BlockMapSpan(levels, w.blockSize)
	if p == 0 || first+span <= uint64(w.from) {
		return nil
	}
	if err := w.checkPointer(p, at, i, first); err != nil {
		return err
	}
	if levels == 0 {
		return w.add(r, format.LBlock(first), p)
	}
	below, err := w.enter(p, levels-1)
	if err != nil {
		return err
	}
	span = format.BlockMapSpan(levels-1, w.blockSize)
	for k := range format.BlockPointers(w.blockSize) {
		if err := w.pointer(r, below, p, k, levels-1, first+uint64(k)*span); err != nil {
			return err
		}
	}
	return nil
}

// checkPointer checks where pointer i of block at leads.
func (f *File) checkPointer(p, at format.Block, i int, first uint64) error {
	detail := ""
	switch {
	case p < f.min || p >= f.max:
		detail = fmt.Sprintf("pointer %d to block %d, want %d to %d", i, p, f.min, f.max-1)
	case first >= format.MaxLBlock:
		detail = fmt.Sprintf("pointer %d to file block %d, want below %d", i, first, uint64(format.MaxLBlock))
	default:
		return nil
	}
	s := "indirect block"
	if at == 0 {
		s = "block map"
	}
	return f.wrap(&format.DamagedError{Structure: s, Block: at, Offset: 4 * i, Detail: detail})
}

// add lengthens the run by one block or begins the next.
func (w *walker) add(r *run, l format.LBlock, p format.Block) error {
	next := format.Extent{LBlock: l, Len: 1, Start: p}
	if r.Len > 0 && r.Len < format.MaxExtentLen && follows(r.Extent, next) {
		r.Len++
		return nil
	}
	err := w.flush(r)
	r.Extent = next
	return err
}

func (w *walker) flush(r *run) error {
	if r.Len == 0 {
		return nil
	}
	return w.visitExtent(r.Extent)
}

// lookupPointers looks for l in an ext2 map; buf is a block of scratch memory.
func (f *File) lookupPointers(l format.LBlock, buf []byte) (format.Extent, error) {
	path, ok := format.BlockPathOf(l, f.blockSize)
	if !ok {
		return hole(l, format.MaxLBlock), nil
	}
	b, at := f.inode.IBlock(), format.Block(0)
	for level := 0; ; level++ {
		i := path.Index[level]
		p := format.BlockPointer(b, i)
		if p == 0 {
			return f.pointerHole(l, path.Levels-level), nil
		}
		if err := f.checkPointer(p, at, i, uint64(l)); err != nil {
			return format.Extent{}, err
		}
		if level == path.Levels {
			return f.pointerRun(b, level, i, l), nil
		}
		if err := f.read(p, buf); err != nil {
			return format.Extent{}, err
		}
		b, at = buf, p
	}
}

// pointerRun returns the run that begins with pointer i of b, for l; level is
// 0 in the inode.
func (f *File) pointerRun(b []byte, level, i int, l format.LBlock) format.Extent {
	end := format.BlockPointers(f.blockSize)
	if level == 0 {
		end = format.BlockMapDirect
	}
	e := format.Extent{LBlock: l, Len: 1, Start: format.BlockPointer(b, i)}
	for i++; i < end && e.Len < format.MaxExtentLen; i++ {
		next := e.Start + format.Block(e.Len)
		if format.BlockPointer(b, i) != next || next >= f.max {
			break
		}
		e.Len++
	}
	return e
}

// pointerHole returns the hole from l on below a pointer that is 0 and levels
// indirect blocks away from the data.
func (f *File) pointerHole(l format.LBlock, levels int) format.Extent {
	start := uint64(0)
	for slot := range format.BlockMapSlots {
		span := format.BlockMapSpan(format.BlockMapLevelsOf(slot), f.blockSize)
		if uint64(l) < start+span {
			break
		}
		start += span
	}
	span := format.BlockMapSpan(levels, f.blockSize)
	end := start + ((uint64(l)-start)/span+1)*span
	return hole(l, min(end, format.MaxLBlock))
}
