package format

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testSuperblock is a valid superblock: 4 KiB blocks, 64-byte descriptors, 3 groups,
// the last of 1000 blocks.
func testSuperblock() Superblock {
	sb := Superblock(make([]byte, SuperblockSize))
	sb.SetMagic(SuperMagic)
	sb.SetRevLevel(RevDynamic)
	sb.SetLogBlockSize(2)
	sb.SetLogClusterSize(2)
	sb.SetBlocksPerGroup(32768)
	sb.SetClustersPerGroup(32768)
	sb.SetInodesPerGroup(8192)
	sb.SetInodesCount(3 * 8192)
	sb.SetBlocksCount(2*32768 + 1000)
	sb.SetInodeSize(256)
	sb.SetDescSize(64)
	sb.SetReservedGDTBlocks(500)
	sb.SetLogGroupsPerFlex(4)
	sb.SetFeatures(Features{
		Incompat: Incompat64Bit | IncompatFlexBg | IncompatExtents,
		ROCompat: ROCompatSparseSuper | ROCompatMetadataCsum,
	})
	return sb
}

func TestGeometryFields(t *testing.T) {
	sb := testSuperblock()
	sb.SetBackupBGs([2]uint32{1, 9})
	sb.SetFirstMetaBg(7)
	g, err := GeometryOf(sb)
	require.NoError(t, err)
	require.Equal(t, Geometry{
		BlockSize: 4096, BlocksCount: 2*32768 + 1000, BlocksPerGroup: 32768, InodesPerGroup: 8192, InodesCount: 3 * 8192,
		InodeSize: 256, DescSize: 64, ReservedGDTBlocks: 500, FirstMetaBg: 7, LogGroupsPerFlex: 4,
		BackupBGs: [2]uint32{1, 9}, Features: sb.Features(),
	}, g)
	require.Equal(t, uint32(3), g.Groups())
	require.Equal(t, uint32(32768), g.GroupBlocks(1))
	require.Equal(t, uint32(1000), g.GroupBlocks(2))
	require.Equal(t, Block(65536), g.GroupFirst(2))
	require.Equal(t, Group(1), g.GroupOf(65535))
	require.Equal(t, 512, g.InodeTableBlocks())
	require.Equal(t, 16, g.InodesPerBlock())
	require.Equal(t, 64, g.DescsPerBlock())
	require.Equal(t, 1, g.DescBlocks())
	require.Equal(t, 1024, g.AddrPerBlock())
	require.Equal(t, 4096, g.BlockBitmapBytes())
	require.Equal(t, 1024, g.InodeBitmapBytes())
	require.Equal(t, uint32(16), g.FlexGroups())
	require.Equal(t, 502, g.BaseMeta(0))
	require.Equal(t, 502, g.BaseMeta(1))
	require.Equal(t, 0, g.BaseMeta(2))
	require.True(t, g.ValidBlock(0) && g.ValidBlock(66535) && !g.ValidBlock(66536))
	require.True(t, g.ValidIno(1) && g.ValidIno(24576) && !g.ValidIno(0) && !g.ValidIno(24577))
}

func TestInodeLocation(t *testing.T) {
	g, err := GeometryOf(testSuperblock())
	require.NoError(t, err)
	for _, test := range []struct {
		ino   Ino
		group Group
		index uint32
	}{{1, 0, 0}, {2, 0, 1}, {8192, 0, 8191}, {8193, 1, 0}, {24576, 2, 8191}} {
		group, index := g.InodeLocation(test.ino)
		require.Equal(t, test.group, group)
		require.Equal(t, test.index, index)
		require.Equal(t, test.ino, g.GroupFirstIno(group)+Ino(index))
	}
}

// Every number that could mislead is refused, and the error names it.
func TestGeometryOfRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(Superblock)
		want   string
	}{
		{"block size", func(s Superblock) { s.SetLogBlockSize(7) },
			"superblock at 0x18: s_log_block_size is 7, want at most 6"},
		{"block size overflow", func(s Superblock) { s.SetLogBlockSize(0xffffffff) },
			"s_log_block_size is 4294967295"},
		{"cluster below block", func(s Superblock) { s.SetLogClusterSize(1) },
			"s_log_cluster_size is 1, want 2 to 2"},
		{"cluster without bigalloc", func(s Superblock) { s.SetLogClusterSize(3) },
			"s_log_cluster_size is 3, want 2 to 2"},
		{"cluster too large", func(s Superblock) { s.SetFeatureROCompat(ROCompatBigalloc); s.SetLogClusterSize(21) },
			"s_log_cluster_size is 21, want 2 to 20"},
		{"no clusters", func(s Superblock) { s.SetClustersPerGroup(0) },
			"superblock at 0x24: s_clusters_per_group is 0, want a multiple of 8 up to 32768"},
		{"clusters too many", func(s Superblock) { s.SetClustersPerGroup(32776) },
			"s_clusters_per_group is 32776, want a multiple of 8 up to 32768"},
		{"clusters odd", func(s Superblock) { s.SetClustersPerGroup(32764) },
			"s_clusters_per_group is 32764"},
		{"blocks per group", func(s Superblock) { s.SetBlocksPerGroup(0) },
			"superblock at 0x20: s_blocks_per_group is 0, want 32768"},
		{"blocks per group overflow", func(s Superblock) {
			s.SetFeatureROCompat(ROCompatBigalloc)
			s.SetLogClusterSize(20)
			s.SetBlocksPerGroup(0) // 32768 << 18 is 2^33
		}, "s_blocks_per_group is 0, want 8589934592"},
		{"first data block", func(s Superblock) { s.SetFirstDataBlock(1) },
			"superblock at 0x14: s_first_data_block is 1, want 0"},
		{"first data block of 1 KiB", func(s Superblock) {
			s.SetLogBlockSize(0)
			s.SetLogClusterSize(0)
			s.SetClustersPerGroup(8192)
			s.SetBlocksPerGroup(8192)
		}, "s_first_data_block is 0, want 1"},
		{"no blocks", func(s Superblock) { s.SetBlocksCount(0) },
			"superblock at 0x4: s_blocks_count is 0, want 1 to 281474976710656"},
		{"blocks beyond 48 bits", func(s Superblock) { s.SetBlocksCount(1<<48 + 1) },
			"s_blocks_count is 281474976710657"},
		{"blocks beyond 64 bits less one", func(s Superblock) { s.SetBlocksCount(math.MaxUint64) },
			"s_blocks_count is 18446744073709551615"},
		{"blocks without 64bit", func(s Superblock) {
			s.SetFeatureIncompat(0)
			s.SetBlocksCount(1 << 32)
		}, "s_blocks_count is 4294967296, want 1 to 4294967295"},
		{"groups times inodes", func(s Superblock) { s.SetBlocksCount(1 << 48) },
			"s_blocks_count is 281474976710656, want at most 524287 groups of 32768 blocks"},
		{"inode size zero", func(s Superblock) { s.SetInodeSize(0) },
			"superblock at 0x58: s_inode_size is 0, want a power of two from 128 to 4096"},
		{"inode size odd", func(s Superblock) { s.SetInodeSize(192) }, "s_inode_size is 192"},
		{"inode size small", func(s Superblock) { s.SetInodeSize(64) }, "s_inode_size is 64"},
		{"inode size large", func(s Superblock) { s.SetInodeSize(8192) }, "s_inode_size is 8192"},
		{"no inodes", func(s Superblock) { s.SetInodesPerGroup(0) },
			"superblock at 0x28: s_inodes_per_group is 0, want a multiple of 8 from 16 to 32768"},
		{"inodes few", func(s Superblock) { s.SetInodesPerGroup(8) }, "s_inodes_per_group is 8,"},
		{"inodes many", func(s Superblock) { s.SetInodesPerGroup(32776) }, "s_inodes_per_group is 32776"},
		{"inodes odd", func(s Superblock) { s.SetInodesPerGroup(8190) }, "s_inodes_per_group is 8190"},
		{"inodes count", func(s Superblock) { s.SetInodesCount(24577) },
			"superblock at 0x0: s_inodes_count is 24577, want 24576 (3 groups of 8192)"},
		{"desc size zero", func(s Superblock) { s.SetDescSize(0) },
			"superblock at 0xfe: s_desc_size is 0, want a power of two from 64 to 1024"},
		{"desc size 32", func(s Superblock) { s.SetDescSize(32) }, "s_desc_size is 32"},
		{"desc size odd", func(s Superblock) { s.SetDescSize(96) }, "s_desc_size is 96"},
		{"desc size large", func(s Superblock) { s.SetDescSize(2048) }, "s_desc_size is 2048"},
		{"reserved", func(s Superblock) { s.SetReservedGDTBlocks(1025) },
			"superblock at 0xce: s_reserved_gdt_blocks is 1025, want at most 1024"},
		{"first meta bg", func(s Superblock) {
			s.SetFeatureIncompat(Incompat64Bit | IncompatMetaBg)
			s.SetFirstMetaBg(2)
		}, "superblock at 0x104: s_first_meta_bg is 2, want at most 1"},
		{"last group without room", func(s Superblock) { s.SetBlocksCount(32768 + 8); s.SetInodesCount(2 * 8192) },
			"group 1 has 8 blocks, want at least 502 for superblock and descriptors"},
		{"group 0 without room", func(s Superblock) { s.SetBlocksCount(100); s.SetInodesCount(8192) },
			"group 0 has 100 blocks"},
		{"revision", func(s Superblock) { s.SetRevLevel(2) }, "not supported: revision 2, want at most 1"},
		{"external journal", func(s Superblock) { s.SetFeatureIncompat(IncompatJournalDev) },
			"not supported: features journal_dev: an external journal, not a file system"},
	}
	for _, test := range tests {
		sb := testSuperblock()
		test.change(sb)
		_, err := GeometryOf(sb)
		require.ErrorContains(t, err, test.want, test.name)
		require.Equal(t, err, CheckGeometry(sb))
	}
	require.NoError(t, CheckGeometry(testSuperblock()))
}

func TestGeometryOldRevision(t *testing.T) {
	sb := testSuperblock()
	sb.SetRevLevel(RevGoodOld)
	sb.SetInodeSize(0)
	sb.SetFeatureIncompat(0)
	sb.SetDescSize(0)
	g, err := GeometryOf(sb)
	require.NoError(t, err)
	require.Equal(t, 128, g.InodeSize)
	require.Equal(t, 32, g.DescSize)
	require.Zero(t, g.LogGroupsPerFlex)
}

// Without 64bit the descriptor has 32 bytes, whatever s_desc_size says.
func TestGeometryDescSizeWithout64bit(t *testing.T) {
	sb := testSuperblock()
	sb.SetFeatureIncompat(IncompatFlexBg)
	for _, size := range []uint16{0, 31, 64, 0xffff} {
		sb.SetDescSize(size)
		g, err := GeometryOf(sb)
		require.NoError(t, err)
		require.Equal(t, 32, g.DescSize)
	}
}

func TestHasSuper(t *testing.T) {
	sparse := Geometry{Features: Features{ROCompat: ROCompatSparseSuper}}
	var groups []Group
	for group := range Group(130) {
		if sparse.HasSuper(group) {
			groups = append(groups, group)
		}
	}
	require.Equal(t, []Group{0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125}, groups)
	require.True(t, sparse.HasSuper(3486784401), "3^20")
	require.True(t, sparse.HasSuper(1220703125), "5^13")
	require.True(t, sparse.HasSuper(1977326743), "7^11")
	require.False(t, sparse.HasSuper(15))
	require.False(t, sparse.HasSuper(math.MaxUint32))

	every := Geometry{}
	require.True(t, every.HasSuper(2) && every.HasSuper(6))
	two := Geometry{Features: Features{Compat: CompatSparseSuper2}, BackupBGs: [2]uint32{1, 7}}
	require.True(t, two.HasSuper(0) && two.HasSuper(1) && two.HasSuper(7))
	require.False(t, two.HasSuper(3) || two.HasSuper(9))
	none := Geometry{Features: Features{Compat: CompatSparseSuper2}}
	require.True(t, none.HasSuper(0))
	require.False(t, none.HasSuper(1))
}

// slowOverhead is Overhead, counted group by group.
func slowOverhead(g *Geometry) Block {
	n := g.FirstDataBlock + Block(g.Groups())*Block(2+g.InodeTableBlocks())
	for group := range Group(g.Groups()) {
		n += Block(g.BaseMeta(group))
	}
	return n
}

// The quick ways to list and count give what the group by group way gives.
func TestGeometryQuickCounts(t *testing.T) {
	for _, groups := range []uint64{1, 2, 3, 4, 64, 65, 66, 127, 128, 129, 500, 3000} {
		for _, f := range []Features{
			{}, {ROCompat: ROCompatSparseSuper}, {Compat: CompatSparseSuper2},
			{Incompat: IncompatMetaBg, ROCompat: ROCompatSparseSuper}, {Incompat: IncompatMetaBg},
			{Incompat: IncompatMetaBg, Compat: CompatSparseSuper2},
		} {
			for _, descSize := range []uint16{64, 1024} {
				sb := testSuperblock()
				f.Incompat |= Incompat64Bit
				sb.SetFeatures(f)
				sb.SetDescSize(descSize)
				sb.SetBackupBGs([2]uint32{1, uint32(groups) - 1})
				sb.SetBlocksCount(groups * 32768)
				sb.SetInodesCount(uint32(groups) * 8192)
				for _, first := range []uint32{0, 1} {
					sb.SetFirstMetaBg(first)
					g, err := GeometryOf(sb)
					require.NoError(t, err)
					require.Equal(t, slowOverhead(&g), g.Overhead(), "%d groups, %v, first_meta_bg %d", groups, f, first)
					var slow []Group
					for group := range Group(groups) {
						if g.HasSuper(group) {
							slow = append(slow, group)
						}
					}
					require.Equal(t, slow, slices.Collect(g.SuperGroups()))
				}
			}
		}
	}
}

// SuperGroups stops when its reader does.
func TestSuperGroupsStop(t *testing.T) {
	g := Geometry{BlocksCount: 1 << 40, BlocksPerGroup: 8192}
	for group := range g.SuperGroups() {
		if group == 5 {
			break
		}
		require.Less(t, group, Group(5))
	}
}

// FuzzSuperblock: of any bytes comes an error or a geometry whose methods hold together.
func FuzzSuperblock(f *testing.F) {
	f.Add([]byte(testSuperblock()))
	f.Add(fieldBytes(SuperblockSize))
	for _, change := range []func(Superblock){
		func(s Superblock) { s.SetFeatureIncompat(Incompat64Bit | IncompatMetaBg); s.SetReservedGDTBlocks(0) },
		func(s Superblock) { s.SetFeatureROCompat(0) },
		func(s Superblock) { s.SetRevLevel(0) },
		func(s Superblock) { s.SetFeatureCompat(CompatSparseSuper2); s.SetBackupBGs([2]uint32{1, 2}) },
		func(s Superblock) {
			s.SetBlocksCount(1 << 46)
			s.SetInodesPerGroup(16)
			s.SetInodesCount(1 << 35 >> 4)
		},
		func(s Superblock) {
			s.SetFeatureROCompat(ROCompatBigalloc)
			s.SetLogClusterSize(6)
			s.SetBlocksPerGroup(32768 << 4)
			s.SetInodesCount(8192)
		},
	} {
		sb := testSuperblock()
		change(sb)
		f.Add([]byte(sb))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		readSuperblock(b)
		g, err := GeometryOf(b)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		checkGeometry(t, &g)
	})
}

// readSuperblock reads the parts of a superblock that are not geometry.
func readSuperblock(b []byte) {
	if len(b) < SuperblockSize {
		return
	}
	sb := Superblock(b)
	VerifySuperblock(sb)
	ChecksumsOf(sb)
	_ = sb.Features().String()
	_ = sb.VolumeName() + sb.LastMounted() + sb.MountOpts() + sb.FirstErrorFunc()
	_ = sb.Features().Unknown()
}

// checkGeometry checks what has to hold for any geometry, at some of its groups.
func checkGeometry(t *testing.T, g *Geometry) {
	start := time.Now()
	groups := g.Groups()
	require.NotZero(t, groups)
	require.Equal(t, g.InodesCount, groups*g.InodesPerGroup)
	require.GreaterOrEqual(t, g.Overhead(), Block(1))
	require.Less(t, g.DescBlock(g.DescBlocks()-1), g.BlocksCount)
	for _, group := range []Group{0, 1, 2, Group(groups / 2), Group(groups - 1)} {
		if uint32(group) >= groups {
			continue
		}
		first, blocks := g.GroupFirst(group), g.GroupBlocks(group)
		require.NotZero(t, blocks)
		require.LessOrEqual(t, uint64(first)+uint64(blocks), uint64(g.BlocksCount))
		require.Equal(t, group, g.GroupOf(first))
		require.Equal(t, group, g.GroupOf(first+Block(blocks)-1))
		require.LessOrEqual(t, uint64(g.BaseMeta(group)), uint64(blocks))
		if descs, n := g.GroupDescBlocks(group); n > 0 {
			require.Equal(t, group, g.GroupOf(descs))
			require.Equal(t, group, g.GroupOf(descs+Block(n)-1))
		}
	}
	groupOfLast, index := g.InodeLocation(Ino(g.InodesCount))
	require.Equal(t, Group(groups-1), groupOfLast)
	require.Equal(t, g.InodesPerGroup-1, index)
	require.Less(t, time.Since(start), 5*time.Second)
}
