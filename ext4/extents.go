package ext4

import (
	"iter"

	"drydock/format"
	"drydock/internal/extent"
)

// Extents yields the mapped ranges of a file in ascending order, those that
// are allocated but not written included; what lies between them are holes.
// Data in the inode itself has no ranges. Neighbours are not joined. A symbolic
// link is followed.
func (fsys *FS) Extents(name string) iter.Seq2[format.Extent, error] {
	return func(yield func(format.Extent, error) bool) {
		yieldExtents(name, yield, func(fn func(*inode) error) error { return fsys.lookup(name, true, fn) })
	}
}

// Extents is FS.Extents of an open file, of any type.
func (f *File) Extents() iter.Seq2[format.Extent, error] {
	return func(yield func(format.Extent, error) bool) {
		if err := f.check("extents"); err != nil {
			yield(format.Extent{}, err)
			return
		}
		yieldExtents(f.name, yield, f.withInode)
	}
}

// extentBatch is how many extents are read at once: none is held while the
// caller works with them.
const extentBatch = 512

// yieldExtents yields the extents of the inode that with calls its argument
// with. A file cannot have more of them than the file system has blocks.
func yieldExtents(name string, yield func(format.Extent, error) bool, with func(func(*inode) error) error) {
	next, total := uint64(0), format.Block(0)
	for more := true; more && next < format.MaxLBlock; {
		var batch []format.Extent
		err := with(func(in *inode) (err error) {
			batch, err = in.someExtents(format.LBlock(next))
			if total += format.Block(len(batch)); err == nil && total > in.fs.geo.BlocksCount {
				err = in.damaged("maps more extents than the file system has blocks")
			}
			return err
		})
		for _, x := range batch {
			if next = x.End(); !yield(x, nil) {
				return
			}
		}
		if err != nil {
			yield(format.Extent{}, pathError("extents", name, err))
			return
		}
		more = len(batch) == extentBatch
	}
}

// someExtents returns the next extents that end after file block from, with an
// error those before it.
func (in *inode) someExtents(from format.LBlock) (batch []format.Extent, err error) {
	for x, err := range in.extents(from) {
		if err != nil {
			return batch, err
		}
		if batch = append(batch, x); len(batch) == extentBatch {
			break
		}
	}
	return batch, nil
}

// extents yields the mapped ranges that end after file block from. An error,
// which names the inode, ends them.
func (in *inode) extents(from format.LBlock) iter.Seq2[format.Extent, error] {
	return in.blockMap().MapFrom(from)
}

func (in *inode) blockMap() *extent.File {
	sums := in.fs.csum
	if in.fs.opts.IgnoreChecksums {
		sums.Meta = false
	}
	return extent.NewFile(in.reader, in.fs.geo, sums, in.num, in.raw)
}

// dirBlocks gives package dir the blocks of a directory, for one walk or
// lookup. None of those reads a block twice: one that turns up again is mapped
// twice, and without end if an image is made to.
type dirBlocks struct {
	reader
	blocks *extent.File
	count  format.LBlock
	seen   map[format.Block]struct{}
}

func (d *dirBlocks) NumBlocks() format.LBlock { return d.count }

// ReadLBlock reads a block, which must be mapped and written: directories have no holes.
func (d *dirBlocks) ReadLBlock(n format.LBlock, p []byte) error {
	x, err := d.blocks.Lookup(n)
	if err != nil {
		return err
	}
	if x.Start == 0 || x.Unwritten {
		return &format.DamagedError{Structure: "directory", Offset: -1, Detail: "has a hole"}
	}
	b := x.Start + format.Block(n-x.LBlock)
	if _, again := d.seen[b]; again {
		return &format.DamagedError{Structure: "directory", Block: b, Offset: -1, Detail: "has this block twice"}
	}
	d.seen[b] = struct{}{}
	return d.ReadBlock(b, p)
}
