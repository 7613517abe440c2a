package format

import (
	"fmt"
	"math"
	"math/bits"
)

// Limits of the geometry.
const (
	maxBlocksCount    = 1 << 48 // what the extent tree can address
	maxLogClusterSize = 30      // of a cluster's size in bytes
	maxDescSize       = 1024    // bytes
	maxLogFlex        = 31
)

// superError is an error about the field at off of a superblock.
func superError(off int, detail string, args ...any) error {
	return &DamagedError{Structure: "superblock", Offset: off, Detail: fmt.Sprintf(detail, args...)}
}

// wrong is an error about a field of a superblock, its value and what it should be.
func wrong(off int, name string, value uint64, limit string, args ...any) error {
	return superError(off, "%s is %d, want %s", name, value, fmt.Sprintf(limit, args...))
}

// CheckGeometry checks all that Geometry stands on: sizes, counts and how they
// agree. The error names the field, its value and the limit: a DamagedError, or
// an UnsupportedError for what is not a file system of a known revision.
func CheckGeometry(sb Superblock) error {
	_, err := GeometryOf(sb)
	return err
}

// GeometryOf is the geometry that sb describes. Errors are those of CheckGeometry.
func GeometryOf(sb Superblock) (Geometry, error) {
	if err := checkKind(sb); err != nil {
		return Geometry{}, err
	}
	// Each check stands on the ones before it.
	for _, check := range []func(Superblock) error{
		checkBlockSize, checkClusterSize, checkBlocksPerGroup, checkBlocksCount, checkInodes, checkDescs,
	} {
		if err := check(sb); err != nil {
			return Geometry{}, err
		}
	}
	g := geometryFields(sb)
	return g, checkTable(&g)
}

// checkKind checks that sb is long enough and of a file system of a known revision.
func checkKind(sb Superblock) error {
	if len(sb) < SuperblockSize {
		return superError(0, "%d bytes, want %d", len(sb), SuperblockSize)
	}
	if sb.RevLevel() > RevDynamic {
		return &UnsupportedError{Detail: fmt.Sprintf("revision %d, want at most %d", sb.RevLevel(), RevDynamic)}
	}
	if sb.FeatureIncompat()&IncompatJournalDev != 0 {
		return &UnsupportedError{Features{Incompat: IncompatJournalDev}, "an external journal, not a file system"}
	}
	return nil
}

func checkBlockSize(sb Superblock) error {
	if sb.BlockSize() == 0 {
		return wrong(int(sbLogBlockSize), "s_log_block_size", uint64(sb.LogBlockSize()),
			"at most %d", maxLogBlockSize-minLogBlockSize)
	}
	return nil
}

// checkClusterSize checks that clusters are as large as blocks, or larger with bigalloc.
func checkClusterSize(sb Superblock) error {
	least, most := sb.LogBlockSize(), sb.LogBlockSize()
	if sb.FeatureROCompat()&ROCompatBigalloc != 0 {
		most = maxLogClusterSize - minLogBlockSize
	}
	if log := sb.LogClusterSize(); log < least || log > most {
		return wrong(int(sbLogClusterSize), "s_log_cluster_size", uint64(log), "%d to %d", least, most)
	}
	return nil
}

// checkBlocksPerGroup checks that a group has as many clusters as one bitmap block has bits at most.
func checkBlocksPerGroup(sb Superblock) error {
	clusters, limit := sb.ClustersPerGroup(), uint32(8*sb.BlockSize())
	if clusters == 0 || clusters > limit || clusters%8 != 0 {
		return wrong(int(sbClustersPerGroup), "s_clusters_per_group", uint64(clusters), "a multiple of 8 up to %d", limit)
	}
	blocks := uint64(clusters) << (sb.LogClusterSize() - sb.LogBlockSize())
	if uint64(sb.BlocksPerGroup()) != blocks {
		return wrong(int(sbBlocksPerGroup), "s_blocks_per_group", uint64(sb.BlocksPerGroup()), "%d", blocks)
	}
	return nil
}

// checkBlocksCount checks where the first group starts and how many blocks there are.
func checkBlocksCount(sb Superblock) error {
	first := uint32(0)
	if sb.BlockSize() == SuperblockOffset && sb.LogClusterSize() == 0 {
		first = 1
	}
	if sb.FirstDataBlock() != first {
		return wrong(int(sbFirstDataBlock), "s_first_data_block", uint64(sb.FirstDataBlock()), "%d", first)
	}
	most := uint64(maxBlocksCount)
	if sb.FeatureIncompat()&Incompat64Bit == 0 {
		most = math.MaxUint32
	}
	if n := sb.BlocksCount(); n <= SuperblockOffset/uint64(sb.BlockSize()) || n > most {
		return wrong(int(sbBlocksCountLo), "s_blocks_count", n, "%d to %d",
			SuperblockOffset/sb.BlockSize()+1, most)
	}
	return nil
}

// checkInodes checks size and number of the inodes of a group and of all.
func checkInodes(sb Superblock) error {
	size := inodeSizeOf(sb)
	if size < GoodOldInodeSize || size > sb.BlockSize() || !isPowerOf2(size) {
		return wrong(int(sbInodeSize), "s_inode_size", uint64(size), "a power of two from %d to %d",
			GoodOldInodeSize, sb.BlockSize())
	}
	per, least, most := sb.InodesPerGroup(), uint32(sb.BlockSize()/size), uint32(8*sb.BlockSize())
	if per < least || per > most || per%8 != 0 {
		return wrong(int(sbInodesPerGroup), "s_inodes_per_group", uint64(per), "a multiple of 8 from %d to %d", least, most)
	}
	blocks := sb.BlocksCount() - uint64(sb.FirstDataBlock())
	groups := ceilDiv(blocks, uint64(sb.BlocksPerGroup()))
	if groups > math.MaxUint32/uint64(per) {
		return wrong(int(sbBlocksCountLo), "s_blocks_count", sb.BlocksCount(),
			"at most %d groups of %d blocks", math.MaxUint32/per, sb.BlocksPerGroup())
	}
	if uint64(sb.InodesCount()) != groups*uint64(per) {
		return wrong(int(sbInodesCount), "s_inodes_count", uint64(sb.InodesCount()),
			"%d (%d groups of %d)", groups*uint64(per), groups, per)
	}
	return nil
}

// inodeSizeOf is the inode size in bytes, fixed in revision 0.
func inodeSizeOf(sb Superblock) int {
	if sb.RevLevel() == RevGoodOld {
		return GoodOldInodeSize
	}
	return int(sb.InodeSize())
}

// descSizeOf is the descriptor size in bytes, fixed without 64bit whatever s_desc_size says.
func descSizeOf(sb Superblock) int {
	if sb.FeatureIncompat()&Incompat64Bit == 0 {
		return DescSize32
	}
	return int(sb.DescSize())
}

func isPowerOf2(n int) bool { return bits.OnesCount(uint(n)) == 1 }

// checkDescs checks the size of descriptors and what is reserved for more of them.
func checkDescs(sb Superblock) error {
	size := descSizeOf(sb)
	if size != DescSize32 && (size < DescSize64 || size > maxDescSize || !isPowerOf2(size)) ||
		size == DescSize32 && sb.FeatureIncompat()&Incompat64Bit != 0 {
		return wrong(int(sbDescSize), "s_desc_size", uint64(size), "a power of two from %d to %d", DescSize64, maxDescSize)
	}
	if n := int(sb.ReservedGDTBlocks()); n > sb.BlockSize()/4 {
		return wrong(int(sbReservedGDTBlocks), "s_reserved_gdt_blocks", uint64(n), "at most %d", sb.BlockSize()/4)
	}
	return nil
}

// geometryFields takes the numbers of a checked superblock.
func geometryFields(sb Superblock) Geometry {
	g := Geometry{
		BlockSize:         sb.BlockSize(),
		BlocksCount:       Block(sb.BlocksCount()),
		FirstDataBlock:    Block(sb.FirstDataBlock()),
		BlocksPerGroup:    sb.BlocksPerGroup(),
		InodesPerGroup:    sb.InodesPerGroup(),
		InodesCount:       sb.InodesCount(),
		InodeSize:         inodeSizeOf(sb),
		DescSize:          descSizeOf(sb),
		ReservedGDTBlocks: int(sb.ReservedGDTBlocks()),
		FirstMetaBg:       sb.FirstMetaBg(),
		BackupBGs:         sb.BackupBGs(),
		Features:          sb.Features(),
		ClusterBits:       int(sb.LogClusterSize() - sb.LogBlockSize()),
	}
	// As the kernel does, take a flex group that is too large as none.
	if log := sb.LogGroupsPerFlex(); g.Features.HasIncompat(IncompatFlexBg) && log <= maxLogFlex {
		g.LogGroupsPerFlex = int(log)
	}
	return g
}

// checkTable checks that the descriptor table fits in the groups that hold it.
func checkTable(g *Geometry) error {
	if g.metaBg() && uint64(g.FirstMetaBg) > uint64(g.DescBlocks()) {
		return wrong(int(sbFirstMetaBg), "s_first_meta_bg", uint64(g.FirstMetaBg), "at most %d", g.DescBlocks())
	}
	for _, group := range []Group{0, Group(g.Groups() - 1)} {
		if base, blocks := g.BaseMeta(group), g.GroupBlocks(group); uint64(base) > uint64(blocks) {
			return superError(int(sbBlocksCountLo), "group %d has %d blocks, want at least %d for superblock and descriptors",
				group, blocks, base)
		}
	}
	return nil
}
