package alloc

import (
	"fmt"

	"drydock/format"
	"drydock/journal"
)

// source is where the current version of a block comes from: *journal.Journal
// within View, or a *journal.Tx.
type source interface {
	Get(b format.Block) (*journal.Version, error)
}

// descPiece is how many bytes of descriptors are read at once.
const descPiece = 1 << 20

// readDescs fills in the state of all groups.
func (a *Allocator) readDescs() error {
	n := int(a.geo.Groups())
	a.groups = make([]groupState, n)
	free, inodes := make([]uint32, n), make([]uint32, n)
	zone := zoneBuilder{geo: &a.geo}
	err := a.eachDesc(func(g format.Group, d format.GroupDesc) {
		zone.base(g)
		a.space.sums.FreeBlocks += uint64(d.FreeBlocksCount())
		a.space.sums.FreeInodes += uint64(d.FreeInodesCount())
		a.space.sums.Dirs += uint64(d.UsedDirsCount())
		s := groupState{free: d.FreeBlocksCount(), dirs: d.UsedDirsCount(), inoHint: a.reservedInodes(g)}
		if err := a.checkDesc(g, d); err != nil {
			s = groupState{badBlock: true, badInode: true}
			a.warnings = append(a.warnings, err)
		} else {
			zone.add(d)
			inodes[g] = d.FreeInodesCount()
		}
		a.groups[g], free[g] = s, s.free
		a.space.free += int64(s.free)
		a.space.freeInodes += int64(inodes[g])
	})
	if err != nil {
		return err
	}
	a.longest, a.inodes = newMaxTree(free), newMaxTree(inodes)
	var overlap bool
	if a.zone, overlap = zone.done(); overlap {
		err = a.findOverlaps()
	}
	a.mu.Lock()
	a.unlock()
	return err
}

// findOverlaps takes the groups out of use whose bitmaps or inode tables share
// blocks with other metadata: writing to one would destroy the other.
func (a *Allocator) findOverlaps() error {
	var pieces []owned
	err := a.eachDesc(func(g format.Group, d format.GroupDesc) {
		z := zoneBuilder{geo: &a.geo}
		z.base(g)
		for _, s := range z.spans {
			pieces = append(pieces, owned{s, g, true})
		}
		if a.groups[g].badBlock {
			return
		}
		table := d.InodeTable()
		for _, s := range []span{
			{d.BlockBitmap(), d.BlockBitmap() + 1}, {d.InodeBitmap(), d.InodeBitmap() + 1},
			{table, table + format.Block(a.geo.InodeTableBlocks())},
		} {
			pieces = append(pieces, owned{s, g, false})
		}
	})
	for _, g := range overlaps(pieces) {
		why := a.descError(g, "bitmaps or inode table lie on other metadata")
		a.badBlocks(g, why)
		a.noInodesIn(g)
		a.groups[g].badInode = true
	}
	return err
}

// eachDesc reads the descriptors of all groups in order, in pieces as large as
// they lie together.
func (a *Allocator) eachDesc(visit func(format.Group, format.GroupDesc)) error {
	blocks, per, size := a.geo.DescBlocks(), a.geo.DescsPerBlock(), a.geo.BlockSize
	most := max(1, descPiece/size)
	buf := make([]byte, min(most, blocks)*size)
	for i := 0; i < blocks; {
		n := 1
		for i+n < blocks && n < most && a.geo.DescBlock(i+n) == a.geo.DescBlock(i)+format.Block(n) {
			n++
		}
		if err := a.journal.ReadData(a.geo.DescBlock(i), buf[:n*size]); err != nil {
			return err
		}
		for k := range min(n*per, int(a.geo.Groups())-i*per) {
			at := k/per*size + k%per*a.geo.DescSize
			visit(format.Group(i*per+k), format.GroupDesc(buf[at:at+a.geo.DescSize]))
		}
		i += n
	}
	return nil
}

// checkDesc checks what is relied on: the checksum, places inside the file
// system, and counts that are possible.
func (a *Allocator) checkDesc(g format.Group, d format.GroupDesc) error {
	table := d.InodeTable()
	switch {
	case !a.sums.VerifyGroupDesc(g, d):
		return a.descError(g, "wrong checksum")
	case !a.geo.ValidBlock(d.BlockBitmap()):
		return a.descError(g, "block bitmap in block %d, want %d to %d", d.BlockBitmap(), a.geo.FirstDataBlock, a.geo.BlocksCount-1)
	case !a.geo.ValidBlock(d.InodeBitmap()):
		return a.descError(g, "inode bitmap in block %d, want %d to %d", d.InodeBitmap(), a.geo.FirstDataBlock, a.geo.BlocksCount-1)
	case !a.geo.ValidBlock(table) || a.geo.BlocksCount-table < format.Block(a.geo.InodeTableBlocks()):
		return a.descError(g, "inode table in block %d, want %d to %d", table, a.geo.FirstDataBlock, a.geo.BlocksCount-format.Block(a.geo.InodeTableBlocks()))
	case d.FreeBlocksCount() > a.geo.GroupBlocks(g):
		return a.descError(g, "%d free blocks, want at most %d", d.FreeBlocksCount(), a.geo.GroupBlocks(g))
	case d.FreeInodesCount() > a.geo.InodesPerGroup:
		return a.descError(g, "%d free inodes, want at most %d", d.FreeInodesCount(), a.geo.InodesPerGroup)
	case a.lazy && d.ItableUnused() > a.geo.InodesPerGroup:
		return a.descError(g, "%d unused inodes, want at most %d", d.ItableUnused(), a.geo.InodesPerGroup)
	}
	return nil
}

func (a *Allocator) descError(g format.Group, detail string, args ...any) error {
	block, off := a.descPlace(g)
	return &format.DamagedError{
		Structure: fmt.Sprintf("descriptor of group %d", g), Block: block, Offset: off,
		Detail: fmt.Sprintf(detail, args...),
	}
}

// descPlace says where the descriptor of a group lies.
func (a *Allocator) descPlace(g format.Group) (b format.Block, off int) {
	per := format.Group(a.geo.DescsPerBlock())
	return a.geo.DescBlock(int(g / per)), int(g%per) * a.geo.DescSize
}

// desc returns the descriptor of a group, for reading.
func (a *Allocator) desc(src source, g format.Group) (format.GroupDesc, error) {
	b, off := a.descPlace(g)
	v, err := src.Get(b)
	if err != nil {
		return nil, err
	}
	d := format.GroupDesc(v.Bytes()[off : off+a.geo.DescSize])
	if v.Checked() {
		return d, nil
	}
	return d, a.checkDesc(g, d)
}

// changeDesc returns the descriptor of a group, to be changed and then sealed.
func (a *Allocator) changeDesc(tx *journal.Tx, g format.Group) (format.GroupDesc, error) {
	if _, err := a.desc(tx, g); err != nil {
		return nil, err
	}
	b, off := a.descPlace(g)
	p, err := tx.Change(b)
	if err != nil {
		return nil, err
	}
	return format.GroupDesc(p[off : off+a.geo.DescSize]), nil
}
