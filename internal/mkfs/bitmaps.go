package mkfs

import (
	"drydock/format"
	"drydock/internal/alloc"
)

// groupData fills in the descriptors and writes the bitmaps that are not
// left uninitialised.
func (w *writer) groupData() error {
	out, iout := w.blockWriter(), w.blockWriter()
	defer w.release(out)
	defer w.release(iout)
	free := w.newFreeRuns()
	freeBlocks, dirs := uint64(0), w.dirsByGroup()
	for g := range int(w.groups.Groups()) {
		runs := free.in(w.groups.GroupFirst(format.Group(g)), w.groups.GroupBlocks(format.Group(g)))
		d := w.desc(g)
		d.SetBlockBitmap(w.groups.bitmaps[g])
		d.SetInodeBitmap(w.groups.ibitmaps[g])
		d.SetInodeTable(w.groups.tables[g])
		d.SetUsedDirsCount(dirs[g])
		n, err := w.blockBitmap(out, g, d, runs)
		if err != nil {
			return err
		}
		freeBlocks += n
		if err := w.inodeBitmap(iout, g, d); err != nil {
			return err
		}
		w.sums.SealGroupDesc(format.Group(g), d)
	}
	w.sb.SetFreeBlocksCount(freeBlocks)
	w.sb.SetFreeInodesCount(uint32(uint64(w.groups.InodesCount) - w.usedInodes()))
	if err := out.flush(); err != nil {
		return err
	}
	return iout.flush()
}

// lazy reports whether descriptors carry the uninit flags.
func (w *writer) lazy() bool {
	return w.groups.Features.ROCompat&(format.ROCompatMetadataCsum|format.ROCompatGDTCsum) != 0
}

// blockBitmap writes the block bitmap of group g, of which runs are free. It
// stays unwritten where it would show nothing but the group's own metadata,
// which the kernel works out by itself. The last group always has one.
func (w *writer) blockBitmap(out *blockWriter, g int, d format.GroupDesc, runs []blockRun) (free uint64, err error) {
	for _, r := range runs {
		free += r.n
	}
	d.SetFreeBlocksCount(uint32(free))
	used := uint64(w.groups.GroupBlocks(format.Group(g))) - free
	if w.lazy() && g+1 < int(w.groups.Groups()) && used == w.ownBlocks(g) {
		d.SetFlags(d.Flags() | format.BgBlockUninit)
		return free, nil
	}
	bitmap, err := out.grow(w.groups.bitmaps[g], 1)
	if err != nil {
		return 0, err
	}
	alloc.Bitmap(bitmap).SetRange(0, 8*len(bitmap))
	first := w.groups.GroupFirst(format.Group(g))
	for _, r := range runs {
		alloc.Bitmap(bitmap).ClearRange(int(r.start-first), int(r.n))
	}
	w.sums.SealBlockBitmap(d, bitmap[:w.groups.BlocksPerGroup/8])
	return free, nil
}

// ownBlocks counts the blocks of group g that hold its own metadata.
func (w *writer) ownBlocks(g int) uint64 {
	first := w.groups.GroupFirst(format.Group(g))
	end := first + format.Block(w.groups.GroupBlocks(format.Group(g)))
	own := uint64(w.groups.BaseMeta(format.Group(g)))
	for _, r := range []blockRun{
		{w.groups.bitmaps[g], 1}, {w.groups.ibitmaps[g], 1}, {w.groups.tables[g], uint64(w.groups.InodeTableBlocks())},
	} {
		from, to := max(r.start, first), min(r.start+format.Block(r.n), end)
		if to > from {
			own += uint64(to - from)
		}
	}
	return own
}

// inodeBitmap writes the inode bitmap of group g unless none of its inodes is
// in use.
func (w *writer) inodeBitmap(out *blockWriter, g int, d format.GroupDesc) error {
	used, per := w.inodesIn(g), int(w.groups.InodesPerGroup)
	d.SetFreeInodesCount(uint32(per - used))
	if w.lazy() {
		d.SetItableUnused(uint32(per - used))
		d.SetFlags(d.Flags() | format.BgInodeZeroed)
		if used == 0 {
			d.SetFlags(d.Flags() | format.BgInodeUninit)
			return nil
		}
	}
	bitmap, err := out.grow(w.groups.ibitmaps[g], 1)
	if err != nil {
		return err
	}
	alloc.Bitmap(bitmap).SetRange(0, used)
	alloc.Bitmap(bitmap).SetRange(per, 8*len(bitmap)-per)
	w.sums.SealInodeBitmap(d, bitmap[:per/8])
	return nil
}

// dirsByGroup counts the directories whose inodes lie in each group.
func (w *writer) dirsByGroup() []uint32 {
	counts := make([]uint32, w.groups.Groups())
	for _, node := range w.walk.dirs {
		counts[(uint32(w.walk.inos[node])-1)/w.groups.InodesPerGroup]++
	}
	return counts
}

// freeRuns yields the free blocks of one group after the other.
type freeRuns struct {
	stream *stream
	pos    uint64
	runs   []blockRun
}

func (p *Plan) newFreeRuns() *freeRuns {
	return &freeRuns{stream: p.groups.stream.clone(), pos: p.used}
}

// in returns the free runs from first on, n blocks long. Calls ascend.
func (f *freeRuns) in(first format.Block, n uint32) []blockRun {
	f.runs = f.runs[:0]
	end := first + format.Block(n)
	for f.pos < f.stream.size {
		b, left := f.stream.runAt(f.pos)
		if b >= end {
			break
		}
		take := min(left, uint64(end-b))
		f.runs = append(f.runs, blockRun{b, take})
		f.pos += take
	}
	return f.runs
}
