package mkfs

import (
	"drydock/format"
)

// Summary is a plan in figures. The JSON names are a contract.
type Summary struct {
	Bytes           int64          `json:"bytes"`
	BlockSize       int            `json:"block_size"`
	Blocks          uint64         `json:"blocks"`
	FreeBlocks      uint64         `json:"free_blocks"`
	AvailableBlocks uint64         `json:"available_blocks"` // free for users once Linux has mounted it
	ReservedBlocks  uint64         `json:"reserved_blocks"`  // for root
	Inodes          uint64         `json:"inodes"`
	FreeInodes      uint64         `json:"free_inodes"`
	InodeSize       int            `json:"inode_size"`
	Groups          uint32         `json:"groups"`
	BlocksPerGroup  uint32         `json:"blocks_per_group"`
	InodesPerGroup  uint32         `json:"inodes_per_group"`
	JournalBlocks   uint64         `json:"journal_blocks"`
	GrowthBlocks    int            `json:"reserved_gdt_blocks"` // for more descriptors, in each group with a copy
	MetadataBlocks  uint64         `json:"metadata_blocks"`     // of the groups
	DirectoryBlocks uint64         `json:"directory_blocks"`
	DataBlocks      uint64         `json:"data_blocks"` // of regular files, with their extent nodes
	Directories     int            `json:"directories"`
	Files           int            `json:"files"` // inodes other than directories
	Features        []string       `json:"features"`
	Backups         []format.Group `json:"backups"` // groups with a copy of the superblock
}

// Linux keeps some free blocks back for metadata of delayed writes, whoever
// wants them: a fiftieth of the file system, 4096 blocks at most.
const (
	kernelShare   = 50
	kernelReserve = 4096
)

// Summary returns the plan's figures.
func (p *Plan) Summary() Summary {
	g := p.Geometry()
	s := Summary{
		Bytes: p.Bytes(), BlockSize: g.BlockSize, InodeSize: g.InodeSize,
		Blocks: uint64(g.BlocksCount), FreeBlocks: p.groups.stream.size - p.used,
		ReservedBlocks: p.reservedBlocks(),
		Inodes:         uint64(g.InodesCount), FreeInodes: uint64(g.InodesCount) - p.usedInodes(),
		Groups: g.Groups(), BlocksPerGroup: g.BlocksPerGroup, InodesPerGroup: g.InodesPerGroup,
		JournalBlocks: p.journal, GrowthBlocks: g.ReservedGDTBlocks,
		MetadataBlocks: uint64(g.BlocksCount) - uint64(g.FirstDataBlock) - p.groups.stream.size,
		DataBlocks:     p.used - p.xattrAt - uint64(len(p.needs.shared.Blocks())),
		Directories:    len(p.walk.dirs), Files: len(p.walk.order) + 1 - len(p.walk.dirs),
		Features: g.Features.Names(), Backups: p.backupGroups(),
	}
	s.AvailableBlocks = s.FreeBlocks - min(s.FreeBlocks, max(s.ReservedBlocks, min(s.Blocks/kernelShare, kernelReserve)))
	for _, n := range p.needs.dirBlocks {
		s.DirectoryBlocks += uint64(n)
	}
	return s
}

// GroupPlan is where the metadata of one group lies. Lengths are in blocks;
// what a group does not have has length 0.
type GroupPlan struct {
	Group         format.Group `json:"group"`
	First         format.Block `json:"first_block"`
	Blocks        uint32       `json:"blocks"`
	Super         bool         `json:"superblock"`
	Descs         format.Block `json:"descriptors"`
	DescBlocks    int          `json:"descriptor_blocks"`
	Reserved      format.Block `json:"reserved_gdt"`
	ReservedCount int          `json:"reserved_gdt_blocks"`
	BlockBitmap   format.Block `json:"block_bitmap"`
	InodeBitmap   format.Block `json:"inode_bitmap"`
	InodeTable    format.Block `json:"inode_table"`
	TableBlocks   int          `json:"inode_table_blocks"`
	FreeBlocks    uint64       `json:"free_blocks"`
	FreeInodes    uint64       `json:"free_inodes"`
}

// Groups yields the plan of each group in order.
func (p *Plan) Groups(yield func(GroupPlan) bool) {
	free := p.newFreeRuns()
	for i := range p.groups.Groups() {
		g := format.Group(i)
		plan := GroupPlan{
			Group: g, First: p.groups.GroupFirst(g), Blocks: p.groups.GroupBlocks(g), Super: p.groups.HasSuper(g),
			BlockBitmap: p.groups.bitmaps[i], InodeBitmap: p.groups.ibitmaps[i], InodeTable: p.groups.tables[i],
			TableBlocks: p.groups.InodeTableBlocks(), FreeInodes: uint64(p.groups.InodesPerGroup) - uint64(p.inodesIn(int(i))),
		}
		plan.Descs, plan.DescBlocks = p.groups.GroupDescBlocks(g)
		plan.Reserved, plan.ReservedCount = p.groups.ReservedGDT(g)
		for _, r := range free.in(plan.First, plan.Blocks) {
			plan.FreeBlocks += r.n
		}
		if !yield(plan) {
			return
		}
	}
}
