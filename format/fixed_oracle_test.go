package format_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"drydock/format"
	"drydock/internal/oracle"

	"github.com/stretchr/testify/require"
)

// fixedImage is an image with its superblock and geometry read by this package.
type fixedImage struct {
	path string
	file *os.File
	sb   format.Superblock
	geo  format.Geometry
	sums format.Checksums
}

// makeImage makes an image of size (as mke2fs takes it) with the arguments of mke2fs.
func makeImage(t *testing.T, size string, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	oracle.Run(t, "mke2fs", append(append([]string{"-q", "-F"}, args...), path, size)...)
	return path
}

// openImage opens an image and checks its primary superblock.
func openImage(t *testing.T, path string) *fixedImage {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	im := &fixedImage{path: path, file: file, sb: make(format.Superblock, format.SuperblockSize)}
	im.readAt(t, im.sb, format.SuperblockOffset)
	require.NoError(t, format.ValidateSuperblock(im.sb))
	require.True(t, format.VerifySuperblock(im.sb), "checksum of the superblock")
	im.geo, err = format.GeometryOf(im.sb)
	require.NoError(t, err)
	im.sums = format.ChecksumsOf(im.sb)
	return im
}

func (im *fixedImage) readAt(t *testing.T, p []byte, off int64) {
	t.Helper()
	n, err := im.file.ReadAt(p, off)
	if err == io.EOF { // the last blocks of a sparse image
		clear(p[n:])
		err = nil
	}
	require.NoError(t, err)
}

func (im *fixedImage) block(t *testing.T, b format.Block) []byte {
	t.Helper()
	p := make([]byte, im.geo.BlockSize)
	im.readAt(t, p, int64(b)*int64(im.geo.BlockSize))
	return p
}

// desc is the descriptor of a group, from the primary table.
func (im *fixedImage) desc(t *testing.T, group format.Group) format.GroupDesc {
	t.Helper()
	per := im.geo.DescsPerBlock()
	block := im.block(t, im.geo.DescBlock(int(group)/per))
	off := int(group) % per * im.geo.DescSize
	return block[off : off+im.geo.DescSize]
}

// inode is the bytes of an inode and where they lie in the image.
func (im *fixedImage) inode(t *testing.T, ino format.Ino) (n format.Inode, off int64) {
	t.Helper()
	require.True(t, im.geo.ValidIno(ino))
	group, index := im.geo.InodeLocation(ino)
	table := im.desc(t, group).InodeTable()
	off = int64(table)*int64(im.geo.BlockSize) + int64(index)*int64(im.geo.InodeSize)
	n = make(format.Inode, im.geo.InodeSize)
	im.readAt(t, n, off)
	return n, off
}

// dumpedGroup is what dumpe2fs prints of a group.
type dumpedGroup struct {
	first, last         format.Block
	csum                uint16
	flags               string
	super               format.Block // 0 with hasSuper for block 0
	hasSuper            bool
	descFirst, descLast format.Block
	resvFirst, resvLast format.Block
	blockBitmap         format.Block
	inodeBitmap         format.Block
	table               format.Block
	tableLast           format.Block
	blockCsum           string
	inodeCsum           string
	free, freeInodes    uint32
	dirs, unused        uint32
}

var dumpLines = []struct {
	re  *regexp.Regexp
	set func(g *dumpedGroup, v []string)
}{
	{regexp.MustCompile(`(?:Primary|Backup) superblock at (\d+)`), func(g *dumpedGroup, v []string) {
		g.hasSuper, g.super = true, dumpBlock(v[1])
	}},
	{regexp.MustCompile(`Group descriptors at (\d+)-(\d+)`), func(g *dumpedGroup, v []string) {
		g.descFirst, g.descLast = dumpBlock(v[1]), dumpBlock(v[2])
	}},
	{regexp.MustCompile(`Group descriptor at (\d+)`), func(g *dumpedGroup, v []string) {
		g.descFirst, g.descLast = dumpBlock(v[1]), dumpBlock(v[1])
	}},
	{regexp.MustCompile(`Reserved GDT blocks at (\d+)-(\d+)`), func(g *dumpedGroup, v []string) {
		g.resvFirst, g.resvLast = dumpBlock(v[1]), dumpBlock(v[2])
	}},
	{regexp.MustCompile(`Block bitmap at (\d+)[^,]*(?:, csum (0x\w+))?`), func(g *dumpedGroup, v []string) {
		g.blockBitmap, g.blockCsum = dumpBlock(v[1]), v[2]
	}},
	{regexp.MustCompile(`Inode bitmap at (\d+)[^,]*(?:, csum (0x\w+))?`), func(g *dumpedGroup, v []string) {
		g.inodeBitmap, g.inodeCsum = dumpBlock(v[1]), v[2]
	}},
	{regexp.MustCompile(`Inode table at (\d+)-(\d+)`), func(g *dumpedGroup, v []string) {
		g.table, g.tableLast = dumpBlock(v[1]), dumpBlock(v[2])
	}},
	{regexp.MustCompile(`(\d+) free (?:blocks|clusters), (\d+) free inodes, (\d+) directories(?:, (\d+) unused inodes)?`),
		func(g *dumpedGroup, v []string) {
			g.free, g.freeInodes = uint32(dumpBlock(v[1])), uint32(dumpBlock(v[2]))
			g.dirs, g.unused = uint32(dumpBlock(v[3])), uint32(dumpBlock(v[4]))
		}},
}

var dumpGroup = regexp.MustCompile(`^Group \d+: \(Blocks (\d+)-(\d+)\)(?: csum 0x(\w+))?(?: \[(.*)\])?`)

func dumpBlock(s string) format.Block {
	n, _ := strconv.ParseUint(s, 10, 64)
	return format.Block(n)
}

// dumpImage is what dumpe2fs says: the lines of its header and the groups.
func dumpImage(t *testing.T, path string) (header map[string]string, groups []dumpedGroup) {
	t.Helper()
	header = map[string]string{}
	scan := bufio.NewScanner(strings.NewReader(oracle.Run(t, "dumpe2fs", path)))
	for scan.Scan() {
		line := scan.Text()
		if v := dumpGroup.FindStringSubmatch(line); v != nil {
			sum, _ := strconv.ParseUint(v[3], 16, 16)
			groups = append(groups, dumpedGroup{
				first: dumpBlock(v[1]), last: dumpBlock(v[2]), csum: uint16(sum), flags: v[4],
			})
			continue
		}
		if len(groups) == 0 {
			name, value, _ := strings.Cut(line, ":")
			header[name] = strings.TrimSpace(value)
			continue
		}
		for _, dump := range dumpLines {
			if v := dump.re.FindStringSubmatch(line); v != nil {
				dump.set(&groups[len(groups)-1], v)
			}
		}
	}
	return header, groups
}

// fixedCase is one kind of image of the matrix.
type fixedCase struct {
	size string
	args string
}

// fixedCases is the matrix. The plain one stands for each feature once; with
// DRYDOCK_ORACLES=require block sizes, features and sizes are crossed.
func fixedCases() (list []fixedCase) {
	features := []string{
		"-t ext4", "-t ext4 -O ^64bit", "-t ext4 -O ^metadata_csum,uninit_bg", "-t ext4 -O ^metadata_csum,uninit_bg,^64bit",
		"-t ext4 -O metadata_csum_seed,orphan_file", "-t ext4 -O sparse_super2", "-t ext4 -O meta_bg,^resize_inode",
		"-t ext4 -O meta_bg,^resize_inode,^sparse_super", "-t ext4 -O ^resize_inode", "-t ext4 -O ^sparse_super,^resize_inode",
		"-t ext4 -O ^flex_bg", "-t ext4 -O bigalloc -C 65536", "-t ext2", "-t ext3", "-t ext4 -I 512 -G 64",
		"-t ext4 -O sparse_super2 -E num_backup_sb=1", "-t ext2 -I 128 -r 0",
	}
	sizes := []string{"9M", "200000K", "2G", "20G"}
	for i, feature := range features {
		for j, size := range sizes {
			for k, block := range []string{"1024", "2048", "4096", "65536"} {
				if !thorough() && (j != i%4 || k != (i+i/4)%4) {
					continue
				}
				if skipCase(feature, block, size) {
					continue
				}
				list = append(list, fixedCase{size, feature + " -b " + block})
			}
		}
	}
	return list
}

// skipCase leaves out what mke2fs cannot make, or what takes it long.
func skipCase(feature, block, size string) bool {
	large := size == "20G"
	switch {
	case strings.Contains(feature, "bigalloc") && (block == "65536" || size == "9M"):
		return true // clusters of one block; too few clusters
	case strings.Contains(feature, "-r 0") && block == "65536":
		return false
	case large && block == "1024" && !strings.Contains(feature, "ext4"):
		return true // zeroes all inode tables
	}
	return large && strings.Contains(feature, "^sparse_super") && block == "1024"
}

// Everything of fixed place is where dumpe2fs says, in each copy, and every
// checksum that mke2fs wrote is right.
func TestOracleFixedPlaces(t *testing.T) {
	oracle.Need(t, "mke2fs", "dumpe2fs")
	for _, test := range fixedCases() {
		t.Run(strings.ReplaceAll(test.args+" "+test.size, " ", "_"), func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(test.args)
			if !strings.Contains(test.args, "ext2") && !strings.Contains(test.args, "orphan_file") {
				args = append(args, "-O", "^has_journal")
			}
			im := openImage(t, makeImage(t, test.size, args...))
			header, groups := dumpImage(t, im.path)
			compareHeader(t, im, header)
			require.Len(t, groups, int(im.geo.Groups()))
			for i := range groups {
				compareGroup(t, im, format.Group(i), &groups[i])
			}
			verifyImage(t, im)
		})
	}
}

func compareHeader(t *testing.T, im *fixedImage, header map[string]string) {
	t.Helper()
	sb, g := im.sb, &im.geo
	fields := map[string]any{
		"Filesystem features": sb.Features().String(), "Inode count": sb.InodesCount(), "Block count": sb.BlocksCount(),
		"Reserved block count": sb.RBlocksCount(), "Free blocks": sb.FreeBlocksCount(), "Free inodes": sb.FreeInodesCount(),
		"First block": g.FirstDataBlock, "Block size": g.BlockSize, "Blocks per group": g.BlocksPerGroup,
		"Inodes per group": g.InodesPerGroup, "Inode blocks per group": g.InodeTableBlocks(), "Inode size": g.InodeSize,
	}
	if g.Features.HasIncompat(format.Incompat64Bit) {
		fields["Group descriptor size"] = g.DescSize
	}
	if g.ReservedGDTBlocks > 0 {
		fields["Reserved GDT blocks"] = g.ReservedGDTBlocks
	}
	if g.LogGroupsPerFlex > 0 {
		fields["Flex block group size"] = g.FlexGroups()
	}
	if g.ClusterBits > 0 {
		fields["Cluster size"] = g.BlockSize << g.ClusterBits
		fields["Blocks per group"] = g.BlocksPerGroup
	} else if header["Overhead clusters"] != "" && !g.Features.HasCompat(format.CompatHasJournal) {
		fields["Overhead clusters"] = g.Overhead()
	}
	if sb.RevLevel() == format.RevGoodOld { // dumpe2fs leaves these out
		delete(fields, "Inode size")
		delete(fields, "Filesystem features")
		require.Equal(t, format.Features{}, g.Features)
		require.Equal(t, format.GoodOldInodeSize, g.InodeSize)
	}
	for name, value := range fields {
		require.Equal(t, header[name], fmt.Sprint(value), name)
	}
}

func compareGroup(t *testing.T, im *fixedImage, group format.Group, want *dumpedGroup) {
	t.Helper()
	g, d := &im.geo, im.desc(t, group)
	got := dumpedGroup{
		first: g.GroupFirst(group), last: g.GroupFirst(group) + format.Block(g.GroupBlocks(group)) - 1,
		csum: d.Checksum(), flags: want.flags, hasSuper: g.HasSuper(group),
		blockBitmap: d.BlockBitmap(), inodeBitmap: d.InodeBitmap(), table: d.InodeTable(),
		tableLast: d.InodeTable() + format.Block(g.InodeTableBlocks()) - 1,
		free:      d.FreeBlocksCount(), freeInodes: d.FreeInodesCount(), dirs: d.UsedDirsCount(), unused: d.ItableUnused(),
	}
	if got.hasSuper {
		got.super = g.SuperBlock(group)
	}
	if first, n := g.GroupDescBlocks(group); n > 0 {
		got.descFirst, got.descLast = first, first+format.Block(n)-1
	}
	if first, n := g.ReservedGDT(group); n > 0 {
		got.resvFirst, got.resvLast = first, first+format.Block(n)-1
	}
	if im.sums.Meta {
		got.blockCsum, got.inodeCsum = fmt.Sprintf("0x%08x", d.BlockBitmapCsum()), fmt.Sprintf("0x%08x", d.InodeBitmapCsum())
	}
	require.Equal(t, *want, got, "group %d", group)
	if im.sums.Meta || im.sums.GDT {
		flags := fmt.Sprint(strings.Contains(want.flags, "INODE_UNINIT"), strings.Contains(want.flags, "BLOCK_UNINIT"),
			strings.Contains(want.flags, "ITABLE_ZEROED"))
		f := d.Flags()
		require.Equal(t, flags, fmt.Sprint(f&format.BgInodeUninit != 0, f&format.BgBlockUninit != 0, f&format.BgInodeZeroed != 0))
	}
}

// verifyImage verifies the superblock and descriptors in all copies, and bitmaps
// and inodes of the first groups.
func verifyImage(t *testing.T, im *fixedImage) {
	t.Helper()
	g := &im.geo
	for group := range g.SuperGroups() {
		at := int64(g.SuperBlock(group)) * int64(g.BlockSize)
		if group == 0 {
			at = format.SuperblockOffset
		}
		backup := make(format.Superblock, format.SuperblockSize)
		im.readAt(t, backup, at)
		require.NoError(t, format.ValidateSuperblock(backup), "backup in group %d", group)
		require.True(t, format.VerifySuperblock(backup), "backup in group %d", group)
		require.Equal(t, uint16(group), backup.BlockGroupNr())
		require.Equal(t, im.sb.UUID(), backup.UUID())
	}
	for group := range format.Group(g.Groups()) {
		if first, n := g.GroupDescBlocks(group); n > 0 {
			last := im.block(t, first+format.Block(n)-1)
			require.NotZero(t, format.GroupDesc(last).InodeTable(), "copy of the descriptors in group %d", group)
		}
		require.True(t, im.sums.VerifyGroupDesc(group, im.desc(t, group)), "descriptor %d", group)
		verifyGroup(t, im, group)
	}
}

// verifyGroup verifies the bitmaps and the inodes of a group as far as they were written.
func verifyGroup(t *testing.T, im *fixedImage, group format.Group) {
	t.Helper()
	g, d := &im.geo, im.desc(t, group)
	if d.Flags()&format.BgBlockUninit == 0 {
		bitmap := im.block(t, d.BlockBitmap())
		require.True(t, im.sums.VerifyBlockBitmap(d, bitmap[:g.BlockBitmapBytes()]), "block bitmap %d", group)
	}
	if d.Flags()&format.BgInodeUninit != 0 {
		return
	}
	bitmap := im.block(t, d.InodeBitmap())
	require.True(t, im.sums.VerifyInodeBitmap(d, bitmap[:g.InodeBitmapBytes()]), "inode bitmap %d", group)
	first := g.GroupFirstIno(group)
	for ino := first; ino < first+format.Ino(min(g.InodesPerGroup, 50)); ino++ {
		n, _ := im.inode(t, ino)
		require.True(t, im.sums.VerifyInode(ino, n), "inode %d", ino)
	}
}
