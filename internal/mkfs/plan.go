package mkfs

import (
	"fmt"
	"sort"

	"drydock/format"
	"drydock/internal/extent"
)

// Plan is a new file system that has not been written yet. It is read-only
// once made, but for the identity that Write is given.
type Plan struct {
	Content *Content
	Options Options // with the defaults filled in

	walk    *walk
	needs   needs
	groups  *groups
	journal uint64 // blocks; 0: none
	used    uint64 // positions of the stream in use

	resizeAt, journalAt, orphanAt, xattrAt uint64   // positions
	dirAt                                  []uint64 // position of each directory, in walk order
	at                                     []uint64 // position of each node's first block; of a directory its index in walk order
}

// SizeError says that the content does not fit into the size given.
type SizeError struct {
	NeedBlocks, HaveBlocks uint64
	NeedInodes, HaveInodes uint64
	BlockSize              int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("needs %s blocks and %s inodes, has %s blocks and %s inodes; smallest size that works: %s",
		commas(e.NeedBlocks), commas(e.NeedInodes), commas(e.HaveBlocks), commas(e.HaveInodes), roundedSize(e.Smallest()))
}

// Smallest is the smallest size in bytes that works.
func (e *SizeError) Smallest() uint64 { return e.NeedBlocks * uint64(e.BlockSize) }

// New plans a file system that holds c. It adds lost+found to c where that is
// missing. Errors: a value of o out of range; content that ext4 cannot hold
// (naming path, value and limit); *SizeError where o.Blocks is too small.
func New(c *Content, o Options) (*Plan, error) {
	o, err := o.normal()
	if err != nil {
		return nil, err
	}
	if len(c.Nodes) == 0 || !c.isDir(0) {
		return nil, fmt.Errorf("content: the first node is not a directory")
	}
	if !o.NoLostFound {
		c.addLostFound(o.Time)
	}
	p := &Plan{Content: c, Options: o}
	if p.walk, err = newWalk(c, format.FirstNonReservedIno); err != nil {
		return nil, err
	}
	if err := p.measure(); err != nil {
		return nil, err
	}
	p.at = make([]uint64, len(c.Nodes))
	p.dirAt = make([]uint64, len(p.walk.dirs))
	return p, p.settle()
}

// settle finds the size, or fits the plan to the one that is given.
func (p *Plan) settle() error {
	if p.Options.Blocks != 0 {
		return p.fit(p.Options.Blocks)
	}
	if err := p.shrink(); err != nil {
		return err
	}
	if o := p.Options.Inodes; o != 0 && o < p.needed() {
		return p.tooSmall(uint64(p.groups.BlocksCount), o)
	}
	return nil
}

// shrink finds the smallest size that holds the content and what shall stay
// free. For a number of groups and a size of the journal the end of the
// content is fixed, so the first of these that holds itself is the smallest.
func (p *Plan) shrink() error {
	per := blocksPerGroup(p.Options.BlockSize)
	most := maxInodesPerGroup(p.Options.BlockSize, p.Options.InodeSize)
	n := max(1, (p.inodes()+most-1)/most, (p.needs.least+p.Options.FreeBlocks)/per)
	for n*per < 1<<48+per {
		step := uint64(1)
		for _, j := range p.journalSizes(n) {
			over, ok := p.tryGroups(n, j)
			if ok {
				return nil
			}
			step = max(step, over/per)
		}
		n += step
	}
	return fmt.Errorf("content: needs more than the %d blocks that ext4 has at most", uint64(1)<<48)
}

// tryGroups lays the content into n groups. It reports how many blocks are
// missing, or settles the plan on the smallest size with n groups.
func (p *Plan) tryGroups(n uint64, j journalSize) (over uint64, ok bool) {
	o := p.Options
	full := uint64(firstDataBlock(o.BlockSize)) + n*blocksPerGroup(o.BlockSize)
	p.journal = j.blocks
	perGroup := inodesPerGroup(o, p.inodes(), n)
	if perGroup > maxInodesPerGroup(o.BlockSize, o.InodeSize) || !p.layGroups(full, n, perGroup) {
		return 0, false
	}
	blocks := max(p.end(), j.from, p.leastBlocks(n))
	if blocks > full {
		return blocks - full, false
	}
	if blocks >= j.to || blocks > maxBlocks32 && o.Features.Incompat&format.Incompat64Bit == 0 {
		return 0, false
	}
	if blocks == uint64(p.groups.metaEnd) {
		blocks = p.squeeze(max(j.from, p.leastBlocks(n)), blocks, n, perGroup)
	}
	return 0, p.layGroups(blocks, n, perGroup)
}

// squeeze returns the smallest size from low to high at which n groups hold
// the content. Where metadata lies last, and not content, there may be room
// for it elsewhere.
func (p *Plan) squeeze(low, high, n, perGroup uint64) uint64 {
	return low + uint64(sort.Search(int(high-low), func(i int) bool {
		blocks := low + uint64(i)
		return p.layGroups(blocks, n, perGroup) && p.end() <= blocks
	}))
}

// end is the number of blocks up to the end of the content and of what shall
// stay free behind it.
func (p *Plan) end() uint64 {
	free := p.Options.FreeBlocks
	for {
		end := max(uint64(p.groups.metaEnd), uint64(p.groups.stream.block(p.used+free-min(1, p.used+free)))+1)
		want := max(free, uint64(p.Options.FreePercent/100*float64(end)+0.999999))
		if want <= free {
			return end
		}
		free = want
	}
}

// leastBlocks is the smallest size that has n groups: the last one holds its
// own metadata and a block.
func (p *Plan) leastBlocks(n uint64) uint64 {
	last := format.Group(n - 1)
	least := uint64(p.groups.GroupFirst(last)) + uint64(p.groups.BaseMeta(last)) + 1
	if p.Options.Features.Incompat&format.IncompatFlexBg == 0 {
		least += 2 + uint64(p.groups.InodeTableBlocks())
	}
	return least
}

// layGroups places the metadata and lays the content; false where the
// metadata alone does not fit.
func (p *Plan) layGroups(blocks, n, perGroup uint64) bool {
	o := p.Options
	if p.journal == 0 {
		o.Features.Compat &^= format.CompatHasJournal | format.CompatOrphanFile
	}
	p.groups = place(newGeometry(o, blocks, n, perGroup))
	if p.groups == nil {
		return false
	}
	p.lay()
	return true
}

// fit settles the plan on a size. Where the usual number of inodes leaves too
// little room there are fewer, but never fewer than are needed.
func (p *Plan) fit(blocks uint64) error {
	p.journal = p.journalFor(blocks)
	needed := p.inodes()
	if p.Options.Inodes != 0 && p.Options.Inodes < p.needed() {
		return p.tooSmall(blocks, p.Options.Inodes)
	}
	best := max(needed, p.usualInodes(blocks))
	if p.tryInodes(blocks, best) {
		return nil
	}
	if !p.tryInodes(blocks, needed) {
		return p.tooSmall(blocks, needed)
	}
	unit := uint64(max(8, p.Options.BlockSize/p.Options.InodeSize)) * groupCount(p.Options.BlockSize, blocks)
	for low, high := needed, best; high-low > unit; {
		mid := low + (high-low)/2
		if p.tryInodes(blocks, mid) {
			low = mid
		} else {
			high = mid
		}
		needed = low
	}
	if !p.tryInodes(blocks, needed) {
		return fmt.Errorf("plan: %d inodes fit and then did not", needed)
	}
	return nil
}

// tryInodes lays the content into a file system of so many blocks and at
// least so many inodes. A last group too short for its own metadata is left
// out.
func (p *Plan) tryInodes(blocks, inodes uint64) bool {
	n := groupCount(p.Options.BlockSize, blocks)
	for ; n > 0; n-- {
		full := uint64(firstDataBlock(p.Options.BlockSize)) + n*blocksPerGroup(p.Options.BlockSize)
		blocks = min(blocks, full)
		perGroup := inodesPerGroup(p.Options, inodes, n)
		if perGroup > maxInodesPerGroup(p.Options.BlockSize, p.Options.InodeSize) || perGroup*n > maxInodes {
			return false
		}
		g := newGeometry(p.Options, blocks, n, perGroup)
		least := (&Plan{Options: p.Options, groups: &groups{Geometry: g}}).leastBlocks(n)
		if blocks >= least {
			break
		}
		if least > full || n == 1 {
			return false
		}
		blocks = full - blocksPerGroup(p.Options.BlockSize)
	}
	p.journal = p.journalFor(blocks)
	return p.layGroups(blocks, n, inodesPerGroup(p.Options, inodes, n)) && p.end() <= blocks
}

// tooSmall describes the smallest plan beside the size that was given.
func (p *Plan) tooSmall(blocks, inodes uint64) error {
	small := *p // shares at and dirAt, which p has no use for any more
	small.Options.Blocks, small.Options.Inodes = 0, 0
	if err := small.shrink(); err != nil {
		return err
	}
	n := max(1, groupCount(p.Options.BlockSize, blocks))
	has := inodesPerGroup(p.Options, inodes, n) * n
	if p.Options.Inodes != 0 {
		has = p.Options.Inodes
	}
	return &SizeError{
		NeedBlocks: uint64(small.groups.BlocksCount), HaveBlocks: blocks,
		NeedInodes: small.needed(), HaveInodes: has,
		BlockSize: p.Options.BlockSize,
	}
}

// needed is the number of inodes in use and of those that shall stay free.
func (p *Plan) needed() uint64 { return p.usedInodes() + p.Options.FreeInodes }

// inodes is how many inodes there shall be at least.
func (p *Plan) inodes() uint64 { return max(p.needed(), p.Options.Inodes) }

// usedInodes counts the reserved inodes, those of the content and the orphan
// file.
func (p *Plan) usedInodes() uint64 {
	n := uint64(format.FirstNonReservedIno) - 1 + uint64(len(p.walk.order))
	if p.hasOrphanFile() {
		n++
	}
	return n
}

// usualInodes is the number of inodes for a size that was given: one for
// every so many bytes, and at least two for every one in use.
func (p *Plan) usualInodes(blocks uint64) uint64 {
	if p.Options.Inodes != 0 {
		return p.Options.Inodes
	}
	size := blocks * uint64(p.Options.BlockSize)
	ratio := uint64(defaultInodeRatio)
	switch {
	case size >= 16<<40:
		ratio = hugeInodeRatio
	case size >= 4<<40:
		ratio = bigInodeRatio
	}
	ratio = max(ratio, uint64(p.Options.BlockSize))
	return min(maxInodes-1<<16, max(size/ratio, 2*p.usedInodes()))
}

// lay lays everything along the stream.
func (p *Plan) lay() {
	pos := uint64(0)
	p.resizeAt = pos
	if p.hasResizeInode() {
		pos++
	}
	p.journalAt = pos
	pos = p.span(pos, p.journal)
	p.orphanAt = pos
	pos = p.span(pos, p.orphanBlocks())
	for i, dir := range p.walk.dirs {
		p.at[dir] = uint64(i)
		p.dirAt[i] = pos
		pos = p.span(pos, uint64(p.needs.dirBlocks[i]))
	}
	for _, link := range p.needs.links {
		p.at[link] = pos
		pos++
	}
	p.xattrAt = pos
	pos += uint64(len(p.needs.shared.Blocks()))
	for _, file := range p.needs.files {
		p.at[file] = pos
		pos = p.layFile(file, pos)
	}
	p.used = pos
}

// span is the position behind n blocks of a file and its extent nodes.
func (p *Plan) span(pos, n uint64) uint64 {
	if n <= format.MaxExtentLen {
		if _, left := p.groups.stream.runAt(pos); n <= left {
			return pos + n
		}
	}
	return pos + n + uint64(extent.NodesNeeded(p.groups.stream.pieces(pos, n), p.Options.BlockSize))
}

// layFile is span for a regular file, holes left out.
func (p *Plan) layFile(file uint32, pos uint64) uint64 {
	if !p.Content.Nodes[file].Sparse {
		return p.span(pos, p.blocksOf(p.Content.Nodes[file].Size))
	}
	pieces := 0
	p.eachRange(file, func(_ format.LBlock, n uint64) {
		pieces += p.groups.stream.pieces(pos, n)
		pos += n
	})
	return pos + uint64(extent.NodesNeeded(pieces, p.Options.BlockSize))
}

// eachRange calls fn for every run of logical blocks of a file that holds
// data, in order. Ranges that share or touch a block are one run.
func (p *Plan) eachRange(file uint32, fn func(lb format.LBlock, n uint64)) {
	node := &p.Content.Nodes[file]
	if !node.Sparse {
		if n := p.blocksOf(node.Size); n > 0 {
			fn(0, n)
		}
		return
	}
	size := uint64(p.Options.BlockSize)
	var start, end uint64
	for _, r := range p.Content.Ranges[node.First : node.First+node.Count] {
		from, to := r.Off/size, (r.Off+r.Len+size-1)/size
		if from > end {
			if end > start {
				fn(format.LBlock(start), end-start)
			}
			start = from
		}
		end = max(end, to)
	}
	if end > start {
		fn(format.LBlock(start), end-start)
	}
}

// blocksOf is the number of blocks that hold so many bytes.
func (p *Plan) blocksOf(bytes uint64) uint64 {
	size := uint64(p.Options.BlockSize)
	return bytes/size + min(1, bytes%size)
}

func (p *Plan) hasResizeInode() bool {
	return p.groups.Features.Compat&format.CompatResizeInode != 0
}

func (p *Plan) hasOrphanFile() bool {
	return p.Options.Features.Compat&format.CompatOrphanFile != 0 && p.journal > 0
}

// orphanBlocks is the size of the orphan file; it grows with the file system.
func (p *Plan) orphanBlocks() uint64 {
	if !p.hasOrphanFile() {
		return 0
	}
	return min(maxOrphanBlocks, max(1, uint64(p.groups.Groups())*uint64(p.groups.BlocksPerGroup)/orphanRatio))
}
