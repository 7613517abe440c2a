package mkfs

import (
	"drydock/format"
)

// groups is one candidate for the block groups of a file system: where all
// metadata lies that depends on the number of groups, and the stream that is
// left.
type groups struct {
	format.Geometry
	bitmaps  []format.Block // block bitmap of each group
	ibitmaps []format.Block // inode bitmap of each group
	tables   []format.Block // first block of each inode table
	metaEnd  format.Block   // behind the last metadata block of any group
	stream   stream
}

// blocksPerGroup is the most that one bitmap block counts and e2fsck accepts.
func blocksPerGroup(blockSize int) uint64 { return uint64(min(8*blockSize, maxGroupBlocks)) }

// firstDataBlock is 1 where the boot block fills block 0, else 0.
func firstDataBlock(blockSize int) format.Block {
	if blockSize == 1024 {
		return 1
	}
	return 0
}

// groupCount is the number of groups of a file system of so many blocks.
func groupCount(blockSize int, blocks uint64) uint64 {
	per := blocksPerGroup(blockSize)
	return (blocks - uint64(firstDataBlock(blockSize)) + per - 1) / per
}

// maxInodesPerGroup is the most that one bitmap block and a 16-bit count hold.
func maxInodesPerGroup(blockSize, inodeSize int) uint64 {
	return min(uint64(8*blockSize), 1<<16-uint64(blockSize/inodeSize))
}

// inodesPerGroup spreads at least so many inodes over n groups: whole blocks
// of the inode table and whole bytes of the bitmap.
func inodesPerGroup(o Options, inodes, n uint64) uint64 {
	unit := max(8, uint64(o.BlockSize/o.InodeSize))
	per := (inodes + n - 1) / n
	return max(unit, (per+unit-1)/unit*unit)
}

// newGeometry is the geometry of a file system of so many blocks and groups.
// Where the descriptors would fill most of a group they are spread by meta_bg,
// which leaves no room for a resize inode.
func newGeometry(o Options, blocks, n, perGroup uint64) format.Geometry {
	g := format.Geometry{
		BlockSize:      o.BlockSize,
		BlocksCount:    format.Block(blocks),
		FirstDataBlock: firstDataBlock(o.BlockSize),
		BlocksPerGroup: uint32(blocksPerGroup(o.BlockSize)),
		InodesPerGroup: uint32(perGroup),
		InodesCount:    uint32(perGroup * n),
		InodeSize:      o.InodeSize,
		DescSize:       32,
		Features:       o.Features,
	}
	if g.Features.Incompat&format.Incompat64Bit != 0 {
		g.DescSize = 64
	}
	if g.Features.Incompat&format.IncompatFlexBg != 0 {
		g.LogGroupsPerFlex = defaultFlexLog
	}
	if g.Features.Compat&format.CompatSparseSuper2 != 0 {
		g.BackupBGs = backupGroups(n)
	}
	if uint64(g.DescBlocks())*4 > blocksPerGroup(o.BlockSize)*3 {
		g.Features.Incompat |= format.IncompatMetaBg
	} else {
		g.ReservedGDTBlocks = reservedDescBlocks(g, n)
	}
	if g.ReservedGDTBlocks == 0 {
		g.Features.Compat &^= format.CompatResizeInode
	}
	return g
}

// backupGroups are the two groups that sparse_super2 keeps backups in: the
// second and the last.
func backupGroups(n uint64) [2]uint32 {
	switch n {
	case 1:
		return [2]uint32{}
	case 2:
		return [2]uint32{1, 0}
	}
	return [2]uint32{1, uint32(n - 1)}
}

// reservedDescBlocks is the room for more descriptors: for growthFactor times
// the groups, as mke2fs reckons it, and never more than one block of pointers
// can list.
func reservedDescBlocks(g format.Geometry, n uint64) int {
	if g.Features.Compat&format.CompatResizeInode == 0 {
		return 0
	}
	per := uint64(g.BlocksPerGroup)
	most := min(n*growthFactor, (maxGrowthBlocks+per-1)/per)
	descs := uint64(g.BlockSize / g.DescSize)
	want := int64((most+descs-1)/descs) - int64((n+descs-1)/descs)
	return int(max(0, min(want, int64(g.BlockSize/4))))
}

// place lays out the metadata of all groups and gathers what is left. It
// returns nil where the metadata does not fit.
func place(g format.Geometry) *groups {
	n := int(g.Groups())
	p := &groups{
		Geometry: g,
		bitmaps:  make([]format.Block, n),
		ibitmaps: make([]format.Block, n),
		tables:   make([]format.Block, n),
	}
	free := p.baseRuns()
	flex := 1 << g.LogGroupsPerFlex
	cursor := runCursor{runs: free}
	for first := 0; first < n; first += flex {
		if !p.placeFlex(&cursor, first, min(first+flex, n)) {
			return nil
		}
	}
	for _, r := range cursor.rest() {
		p.stream.add(r.start, r.n)
	}
	p.stream.end = max(p.stream.end, g.BlocksCount)
	return p
}

// blockRun is a run of neighbouring blocks.
type blockRun struct {
	start format.Block
	n     uint64
}

// baseRuns returns what superblocks and descriptors leave of each group.
// Groups that touch make one run where metadata may lie anywhere (flex_bg).
func (p *groups) baseRuns() []blockRun {
	var runs []blockRun
	merge := p.Features.Incompat&format.IncompatFlexBg != 0
	for i := range p.Groups() {
		g := format.Group(i)
		base := format.Block(p.BaseMeta(g))
		start, n := p.GroupFirst(g)+base, uint64(p.GroupBlocks(g))-uint64(base)
		if base > 0 {
			p.metaEnd = start
		}
		if last := len(runs) - 1; merge && last >= 0 && runs[last].start+format.Block(runs[last].n) == start {
			runs[last].n += n
			continue
		}
		runs = append(runs, blockRun{start, n})
	}
	return runs
}

// placeFlex places the bitmaps and inode tables of the groups first..end-1:
// the block bitmaps, then the inode bitmaps, then the tables.
func (p *groups) placeFlex(c *runCursor, first, end int) bool {
	c.seek(p.GroupFirst(format.Group(first)))
	table := uint64(p.InodeTableBlocks())
	for _, kind := range []struct {
		at   []format.Block
		size uint64
	}{{p.bitmaps, 1}, {p.ibitmaps, 1}, {p.tables, table}} {
		for g := first; g < end; g++ {
			b, ok := c.take(kind.size)
			if !ok {
				return false
			}
			kind.at[g] = b
			p.metaEnd = max(p.metaEnd, b+format.Block(kind.size))
		}
	}
	return p.metaEnd <= p.BlocksCount && (p.LogGroupsPerFlex > 0 || p.inOwnGroup(first))
}

// inOwnGroup reports whether group g holds its own metadata, as it must
// without flex_bg.
func (p *groups) inOwnGroup(g int) bool {
	if p.Features.Incompat&format.IncompatFlexBg != 0 {
		return true
	}
	end := p.GroupFirst(format.Group(g)) + format.Block(p.GroupBlocks(format.Group(g)))
	return p.tables[g]+format.Block(p.InodeTableBlocks()) <= end
}

// runCursor takes pieces out of ascending runs, never backwards. Pieces it
// steps over stay in rest.
type runCursor struct {
	runs []blockRun // not yet reached; the first may be partly taken
	left []blockRun // stepped over
}

// seek steps over what lies before b.
func (c *runCursor) seek(b format.Block) {
	for len(c.runs) > 0 && c.runs[0].start < b {
		r := &c.runs[0]
		n := min(r.n, uint64(b-r.start))
		c.skip(n)
	}
}

// skip steps over the first n blocks of the first run.
func (c *runCursor) skip(n uint64) {
	r := &c.runs[0]
	if n > 0 {
		c.left = append(c.left, blockRun{r.start, n})
	}
	c.drop(n)
}

func (c *runCursor) drop(n uint64) {
	r := &c.runs[0]
	r.start += format.Block(n)
	r.n -= n
	if r.n == 0 {
		c.runs = c.runs[1:]
	}
}

// take returns the first n neighbouring blocks that are left; where there are
// none ahead, the last that were stepped over.
func (c *runCursor) take(n uint64) (format.Block, bool) {
	for len(c.runs) > 0 && c.runs[0].n < n {
		c.skip(c.runs[0].n)
	}
	if len(c.runs) == 0 {
		return c.takeBehind(n)
	}
	b := c.runs[0].start
	c.drop(n)
	return b, true
}

// takeBehind takes the end of the last run behind that is long enough.
func (c *runCursor) takeBehind(n uint64) (format.Block, bool) {
	for i := len(c.left) - 1; i >= 0; i-- {
		if r := &c.left[i]; r.n >= n {
			r.n -= n
			return r.start + format.Block(r.n), true
		}
	}
	return 0, false
}

func (c *runCursor) rest() []blockRun { return append(c.left, c.runs...) }
