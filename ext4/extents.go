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
		in, err := fsys.resolve(name, true)
		if err != nil {
			yield(format.Extent{}, pathError("extents", name, err))
			return
		}
		in.yieldExtents(name, yield)
	}
}

// Extents is FS.Extents of an open file, of any type.
func (f *File) Extents() iter.Seq2[format.Extent, error] {
	return func(yield func(format.Extent, error) bool) {
		if err := f.check("extents"); err != nil {
			yield(format.Extent{}, err)
			return
		}
		f.in.yieldExtents(f.name, yield)
	}
}

func (in *inode) yieldExtents(name string, yield func(format.Extent, error) bool) {
	for x, err := range in.extents(0) {
		if !yield(x, pathError("extents", name, err)) || err != nil {
			return
		}
	}
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
	return extent.NewFile(in.fs.meta, in.fs.geo, sums, in.num, in.raw)
}

// dirBlocks gives package dir the blocks of a directory, for one walk or
// lookup. None of those reads a block twice: one that turns up again is mapped
// twice, and without end if an image is made to.
type dirBlocks struct {
	fs     *FS
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
	return d.fs.meta.ReadBlock(b, p)
}
