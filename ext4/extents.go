package ext4

import (
	"errors"
	"iter"
	"syscall"

	"drydock/format"
	"drydock/internal/extent"
)

// Extents yields the mapped ranges of a file in ascending order, those that
// are allocated but not written included; what lies between them are holes.
// Data in the inode itself has no ranges. Neighbours are not joined. A symbolic
// link is followed.
func (fsys *FS) Extents(name string) iter.Seq2[format.Extent, error] {
	return func(yield func(format.Extent, error) bool) {
		if err := fsys.flushName(name); err != nil {
			yield(format.Extent{}, pathError("extents", name, err))
			return
		}
		yieldExtents(name, yield, func(fn func(*inode) error) error { return fsys.lookup(name, true, fn) })
	}
}

// flushName writes back what a name leads to, if that is in use.
func (fsys *FS) flushName(name string) error {
	var n *node
	err := fsys.lookup(name, true, func(in *inode) error {
		n = fsys.peekNode(in.num)
		return nil
	})
	if err != nil || n == nil {
		return err
	}
	defer fsys.putNode(n)
	return n.flush()
}

// Extents is FS.Extents of an open file, of any type. What was written to it gets
// its place first.
func (f *File) Extents() iter.Seq2[format.Extent, error] {
	return func(yield func(format.Extent, error) bool) {
		if err := f.check("extents"); err != nil {
			yield(format.Extent{}, err)
			return
		}
		if err := f.n.flush(); err != nil {
			yield(format.Extent{}, f.error("extents", err))
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

// txNodes gives the trees of a transaction their nodes.
type txNodes struct{ t *Tx }

// AllocNode takes a block that is promised to nobody.
func (s txNodes) AllocNode(goal format.Block) (format.Block, error) {
	return s.t.fs.alloc.AllocBlock(s.t.j, goal)
}

// FreeNode gives a block back that held metadata.
func (s txNodes) FreeNode(b format.Block) error {
	s.t.j.Forget(b)
	return s.t.fs.alloc.Free(s.t.j, b, 1)
}

// promisedNodes takes nodes out of what was promised to a file, and counts them.
// When that is used up, they are blocks that are promised to nobody.
type promisedNodes struct {
	txNodes
	left int
	used *int
}

// AllocNode takes a block that was promised, if there is one left.
func (s *promisedNodes) AllocNode(goal format.Block) (format.Block, error) {
	if *s.used >= s.left {
		return s.txNodes.AllocNode(goal)
	}
	b, err := s.t.fs.alloc.AllocReserved(s.t.j, goal)
	if err == nil {
		*s.used++
	}
	return b, err
}

// editTree returns the editor of an inode's tree; a block map of ext2 becomes a
// tree. raw is what changeInode returned.
func (t *Tx) editTree(ino format.Ino, raw format.Inode, nodes extent.Nodes) (*extent.Editor, error) {
	ed, err := extent.Edit(t.j, nodes, &t.fs.geo, t.fs.csum, ino, raw)
	if errors.Is(err, extent.ErrBlockMap) {
		err = ed.FromBlockMap()
	}
	return ed, err
}

// addBlocks changes the number of blocks that an inode holds. It fails with
// EFBIG where that cannot be stored.
func (t *Tx) addBlocks(raw format.Inode, delta int64) error {
	if delta == 0 {
		return nil
	}
	geo := &t.fs.geo
	unit := int64(geo.BlockSize / 512)
	sectors := int64(raw.Sectors(geo.Features, geo.BlockSize)) + delta*unit
	if sectors < 0 {
		return &format.DamagedError{Structure: "i_blocks", Offset: -1, Detail: "holds fewer blocks than the inode has"}
	}
	if !raw.SetSectors(geo.Features, geo.BlockSize, uint64(sectors)) {
		return errTooBig
	}
	return nil
}

// errTooBig is the error of a file that would get larger than it can be.
var errTooBig = syscall.EFBIG

// maxSize is the largest size of a file in bytes: what the tree can map, and what
// the inode can count (fs/ext4/super.c: ext4_max_size).
func (fsys *FS) maxSize() int64 {
	bs := int64(fsys.geo.BlockSize)
	limit := int64(format.MaxLBlock) * bs
	if !fsys.geo.Features.HasROCompat(format.ROCompatHugeFile) {
		limit = min(limit, (1<<32-1)/(bs/512)*bs)
	}
	return limit
}

// largeFile is the size from which on the feature large_file has to be set.
const largeFile = 1 << 31

// setSize stores the size of a regular file.
func (t *Tx) setSize(raw format.Inode, size int64) error {
	raw.SetSize(uint64(size))
	if size >= largeFile && !t.fs.geo.Features.HasROCompat(format.ROCompatLargeFile) {
		return t.useLargeFile()
	}
	return nil
}
