package format

import (
	"cmp"
	"iter"
	"slices"
)

// Geometry says where everything of fixed place lies. GeometryOf makes one whose
// numbers have been checked, so no method overflows; the methods take groups,
// blocks and inodes that exist. Source: kernel doc: ext4/overview.rst.
type Geometry struct {
	BlockSize         int    // bytes
	BlocksCount       Block  // blocks of the file system
	FirstDataBlock    Block  // first block of group 0
	BlocksPerGroup    uint32 // of each group but the last
	InodesPerGroup    uint32
	InodesCount       uint32
	InodeSize         int       // bytes
	DescSize          int       // bytes of a group descriptor
	ReservedGDTBlocks int       // blocks after each full descriptor table
	FirstMetaBg       uint32    // first metagroup laid out by meta_bg
	LogGroupsPerFlex  int       // a flex group is 1 << this groups; 0 without flex_bg
	BackupBGs         [2]uint32 // groups with a backup, with sparse_super2
	Features          Features
	ClusterBits       int // a cluster is 1 << this blocks
}

// ceilDiv is a/b rounded up.
func ceilDiv(a, b uint64) uint64 {
	n := a / b
	if a%b != 0 {
		n++
	}
	return n
}

// Groups is the number of groups.
func (g *Geometry) Groups() uint32 {
	return uint32(ceilDiv(uint64(g.BlocksCount-g.FirstDataBlock), uint64(g.BlocksPerGroup)))
}

// GroupFirst is the first block of a group.
func (g *Geometry) GroupFirst(group Group) Block {
	return g.FirstDataBlock + Block(group)*Block(g.BlocksPerGroup)
}

// GroupBlocks is the number of blocks of a group; the last one may be short.
func (g *Geometry) GroupBlocks(group Group) uint32 {
	return uint32(min(g.BlocksCount-g.GroupFirst(group), Block(g.BlocksPerGroup)))
}

// GroupOf is the group of block b, which is not before FirstDataBlock.
func (g *Geometry) GroupOf(b Block) Group {
	return Group((b - g.FirstDataBlock) / Block(g.BlocksPerGroup))
}

// ValidBlock reports whether b is a block that a structure can lie in: within
// the file system and not before its first group.
func (g *Geometry) ValidBlock(b Block) bool { return b >= g.FirstDataBlock && b < g.BlocksCount }

// ClusterSize is the number of blocks that one bit of a block bitmap stands for.
func (g *Geometry) ClusterSize() uint32 { return 1 << g.ClusterBits }

// ClustersPerGroup is the number of clusters of each group but the last.
func (g *Geometry) ClustersPerGroup() uint32 { return g.BlocksPerGroup >> g.ClusterBits }

// BlockBitmapBytes is how many bytes of a block bitmap count, for checksums too.
func (g *Geometry) BlockBitmapBytes() int { return int(g.ClustersPerGroup() / 8) }

// InodeBitmapBytes is how many bytes of an inode bitmap count, for checksums too.
func (g *Geometry) InodeBitmapBytes() int { return int(g.InodesPerGroup / 8) }

// AddrPerBlock is how many 32-bit block numbers a block holds.
func (g *Geometry) AddrPerBlock() int { return g.BlockSize / 4 }

// InodesPerBlock is how many inodes a block of the inode table holds.
func (g *Geometry) InodesPerBlock() int { return g.BlockSize / g.InodeSize }

// InodeTableBlocks is how many blocks the inode table of a group takes.
func (g *Geometry) InodeTableBlocks() int {
	return int(ceilDiv(uint64(g.InodesPerGroup)*uint64(g.InodeSize), uint64(g.BlockSize)))
}

// ValidIno reports whether there is such an inode.
func (g *Geometry) ValidIno(ino Ino) bool { return ino != 0 && uint32(ino) <= g.InodesCount }

// InodeLocation is the group of an inode and its index in the group's table and bitmap.
func (g *Geometry) InodeLocation(ino Ino) (group Group, index uint32) {
	n := uint32(ino) - 1
	return Group(n / g.InodesPerGroup), n % g.InodesPerGroup
}

// GroupFirstIno is the first inode of a group.
func (g *Geometry) GroupFirstIno(group Group) Ino { return Ino(uint32(group)*g.InodesPerGroup) + 1 }

// DescsPerBlock is how many group descriptors a block holds.
func (g *Geometry) DescsPerBlock() int { return g.BlockSize / g.DescSize }

// DescBlocks is how many blocks the descriptors of all groups take.
func (g *Geometry) DescBlocks() int {
	return int(ceilDiv(uint64(g.Groups()), uint64(g.DescsPerBlock())))
}

// FlexGroups is the number of groups whose bitmaps and inode tables lie together.
func (g *Geometry) FlexGroups() uint32 { return 1 << g.LogGroupsPerFlex }

// metaBg reports whether the meta_bg feature is set.
func (g *Geometry) metaBg() bool { return g.Features.HasIncompat(IncompatMetaBg) }

// fullDescBlocks is how many descriptor blocks stand together after each superblock.
func (g *Geometry) fullDescBlocks() int {
	if g.metaBg() {
		return int(g.FirstMetaBg)
	}
	return g.DescBlocks()
}

// inMetaBg reports whether the descriptors of a group lie in its metagroup.
func (g *Geometry) inMetaBg(group Group) bool {
	return g.metaBg() && uint32(group)/uint32(g.DescsPerBlock()) >= g.FirstMetaBg
}

// HasSuper reports whether a group holds a superblock: group 0, and for the
// backups the two groups named by sparse_super2, or group 1 and the powers of 3,
// 5 and 7 with sparse_super, or every group.
func (g *Geometry) HasSuper(group Group) bool {
	switch {
	case group == 0:
		return true
	case g.Features.HasCompat(CompatSparseSuper2):
		return uint32(group) == g.BackupBGs[0] || uint32(group) == g.BackupBGs[1]
	case group == 1 || !g.Features.HasROCompat(ROCompatSparseSuper):
		return true
	}
	return isPower(group, 3) || isPower(group, 5) || isPower(group, 7)
}

// isPower reports whether n, at least 1, is a power of base.
func isPower(n, base Group) bool {
	for n%base == 0 {
		n /= base
	}
	return n == 1
}

// sparseSupers is the groups that HasSuper knows, in ascending order, when not
// every group holds a superblock.
func (g *Geometry) sparseSupers() []Group {
	list := []Group{0}
	if g.Features.HasCompat(CompatSparseSuper2) {
		list = append(list, Group(g.BackupBGs[0]), Group(g.BackupBGs[1]))
	} else {
		for _, base := range []uint64{3, 5, 7} {
			for n := uint64(1); n < uint64(g.Groups()); n *= base {
				list = append(list, Group(n))
			}
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	end, _ := slices.BinarySearch(list, Group(g.Groups()))
	return list[:end]
}

// everySuper reports whether every group holds a superblock.
func (g *Geometry) everySuper() bool {
	return !g.Features.HasROCompat(ROCompatSparseSuper) && !g.Features.HasCompat(CompatSparseSuper2)
}

// SuperGroups yields the groups that hold a superblock, in ascending order.
func (g *Geometry) SuperGroups() iter.Seq[Group] {
	if !g.everySuper() {
		return slices.Values(g.sparseSupers())
	}
	return func(yield func(Group) bool) {
		for group := range Group(g.Groups()) {
			if !yield(group) {
				return
			}
		}
	}
}

// countSupers is how many groups before end hold a superblock.
func (g *Geometry) countSupers(end uint64) Block {
	if g.everySuper() {
		return Block(end)
	}
	list := g.sparseSupers()
	n, _ := slices.BinarySearchFunc(list, end, func(group Group, end uint64) int {
		return cmp.Compare(uint64(group), end)
	})
	return Block(n)
}

// SuperBlock is the block that holds the superblock of a group, which has one.
// With 1 KiB blocks that of group 0 is block 1, also when the group starts at 0.
func (g *Geometry) SuperBlock(group Group) Block {
	if group == 0 && g.BlockSize == SuperblockOffset {
		return 1
	}
	return g.GroupFirst(group)
}

// DescBlock is the block that holds the i-th block of group descriptors; with
// meta_bg the first of its three copies.
func (g *Geometry) DescBlock(i int) Block {
	group := Group(i * g.DescsPerBlock())
	if !g.inMetaBg(group) {
		return g.SuperBlock(0) + 1 + Block(i)
	}
	first, _ := g.GroupDescBlocks(group)
	return first
}

// GroupDescBlocks is the blocks of a group that hold descriptors: the table after
// its superblock, or the one block of its metagroup, in the first, second and
// last group of it. n is 0 if there is none.
func (g *Geometry) GroupDescBlocks(group Group) (first Block, n int) {
	if !g.inMetaBg(group) {
		if !g.HasSuper(group) {
			return 0, 0
		}
		return g.SuperBlock(group) + 1, g.fullDescBlocks()
	}
	per := Group(g.DescsPerBlock())
	if i := group % per; i > 1 && i != per-1 {
		return 0, 0
	}
	if !g.HasSuper(group) {
		return g.GroupFirst(group), 1
	}
	return g.SuperBlock(group) + 1, 1
}

// ReservedGDT is the blocks of a group kept free after its descriptor table.
// n is 0 if there are none.
func (g *Geometry) ReservedGDT(group Group) (first Block, n int) {
	if g.metaBg() || !g.HasSuper(group) || g.ReservedGDTBlocks == 0 {
		return 0, 0
	}
	return g.SuperBlock(group) + 1 + Block(g.fullDescBlocks()), g.ReservedGDTBlocks
}

// BaseMeta is how many blocks at the start of a group the superblock, the
// descriptors and the reserved blocks take. Block 0 before the superblock of
// 1 KiB blocks counts when it belongs to the group.
func (g *Geometry) BaseMeta(group Group) int {
	_, descs := g.GroupDescBlocks(group)
	_, reserved := g.ReservedGDT(group)
	n := descs + reserved
	if g.HasSuper(group) {
		n += 1 + int(g.SuperBlock(group)-g.GroupFirst(group))
	}
	return n
}

// Overhead is how many blocks hold metadata of fixed size: what is before the
// first group, and superblocks, descriptors, reserved blocks, bitmaps and inode
// tables of all groups; not the journal. It is not counted group by group.
func (g *Geometry) Overhead() Block {
	groups, per := uint64(g.Groups()), uint64(g.DescsPerBlock())
	oldGroups := groups // those whose descriptors follow a superblock
	reserved := g.ReservedGDTBlocks
	if g.metaBg() {
		oldGroups, reserved = min(groups, uint64(g.FirstMetaBg)*per), 0
	}
	metaBgs, rest := (groups-oldGroups)/per, (groups-oldGroups)%per
	n := g.SuperBlock(0) + g.countSupers(groups)
	n += g.countSupers(oldGroups) * Block(g.fullDescBlocks()+reserved)
	n += Block(metaBgs*min(per, 3) + min(rest, 2))
	return n + Block(groups)*Block(2+g.InodeTableBlocks())
}
