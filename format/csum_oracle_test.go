package format_test

import (
	"compress/gzip"
	"encoding/binary"
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

// treeForSums fills a directory with what makes every kind of metadata block: a large
// directory, files with many extents, and attributes too large for an inode.
func treeForSums(t *testing.T, blockSize int) string {
	t.Helper()
	source := t.TempDir()
	large := filepath.Join(source, "large")
	require.NoError(t, os.Mkdir(large, 0o755))
	for i := range 60 {
		name := fmt.Sprintf("%s-%d", strings.Repeat("n", 200), i)
		require.NoError(t, os.WriteFile(filepath.Join(large, name), nil, 0o600))
	}
	file, err := os.Create(filepath.Join(source, "extents"))
	require.NoError(t, err)
	defer file.Close()
	for i := range int64(12) {
		_, err = file.WriteAt([]byte("data"), i*2*int64(blockSize))
		require.NoError(t, err)
	}
	return source
}

// sumsImage is an image of such a tree with indexed directories.
func sumsImage(t *testing.T, blockSize int, features string) *fixedImage {
	t.Helper()
	size := strconv.Itoa(16*1024*blockSize/1024) + "K"
	path := makeImage(t, size, "-t", "ext4", "-b", strconv.Itoa(blockSize), "-O", features, "-d", treeForSums(t, blockSize))
	value := filepath.Join(t.TempDir(), "value")
	require.NoError(t, os.WriteFile(value, []byte(strings.Repeat("v", 700)), 0o600))
	oracle.Run(t, "debugfs", "-w", "-R", "ea_set -f "+value+" /extents user.large", path)
	// e2fsck -D makes the index; it exits with 1 because it changed something.
	oracle.Run(t, "sh", "-c", `e2fsck -fyD "$0" || test $? -le 1`, path)
	oracle.Fsck(t, path)
	return openImage(t, path)
}

var statNumber = regexp.MustCompile(`Inode: (\d+)`)

// find is the inode of a path.
func (im *fixedImage) find(t *testing.T, path string) (format.Ino, format.Inode) {
	t.Helper()
	m := statNumber.FindStringSubmatch(oracle.Debugfs(t, im.path, "stat "+path))
	require.NotNil(t, m, path)
	ino, err := strconv.ParseUint(m[1], 10, 32)
	require.NoError(t, err)
	n, _ := im.inode(t, format.Ino(ino))
	return format.Ino(ino), n
}

// blocks is the data blocks of a path, in order.
func (im *fixedImage) blocks(t *testing.T, path string) (list []format.Block) {
	t.Helper()
	for _, word := range strings.Fields(oracle.Debugfs(t, im.path, "blocks "+path)) {
		list = append(list, dumpBlock(word))
	}
	require.NotEmpty(t, list)
	return list
}

// flips reports whether verify is true of b, and false of b with any of some bits changed.
func flips(b []byte, verify func([]byte) bool, at ...int) bool {
	ok := verify(b)
	for _, i := range at {
		b[i] ^= 4
		ok = ok && !verify(b)
		b[i] ^= 4
	}
	return ok
}

// Checksums of blocks that belong to an inode, as e2fsprogs writes them.
func TestOracleBlockSums(t *testing.T) {
	oracle.Need(t, "mke2fs", "debugfs", "e2fsck")
	for _, blockSize := range []int{1024, 2048, 4096, 65536} {
		for _, features := range []string{"metadata_csum", "metadata_csum,metadata_csum_seed,orphan_file", "metadata_csum,^64bit"} {
			if blockSize != 4096 && features != "metadata_csum" && !thorough() {
				continue
			}
			t.Run(fmt.Sprint(blockSize, features), func(t *testing.T) {
				t.Parallel()
				im := sumsImage(t, blockSize, features)
				checkDirSums(t, im)
				checkFileSums(t, im)
				if strings.Contains(features, "orphan_file") {
					checkOrphanSums(t, im)
				}
				verifyImage(t, im)
			})
		}
	}
}

// checkDirSums verifies the root directory, which is one leaf, and the index and
// leaves of the large one.
func checkDirSums(t *testing.T, im *fixedImage) {
	t.Helper()
	sums, bs := im.sums, im.geo.BlockSize
	ino, n := im.find(t, "/")
	leaf := im.block(t, im.blocks(t, "/")[0])
	require.True(t, flips(leaf, func(b []byte) bool { return sums.VerifyDirBlock(ino, n.Generation(), b) }, 0, bs-13, bs-1))

	ino, n = im.find(t, "/large")
	blocks := im.blocks(t, "/large")
	require.Equal(t, bs < 65536, n.HasFlags(format.InodeIndex))
	if !n.HasFlags(format.InodeIndex) {
		return
	}
	root := im.block(t, blocks[0])
	require.True(t, flips(root, func(b []byte) bool { return sums.VerifyDxBlock(ino, n.Generation(), b) }, 0, 40, bs-1))
	for _, b := range blocks[1:] {
		block := im.block(t, b)
		isNode := binary.LittleEndian.Uint32(block) == 0 && int(binary.LittleEndian.Uint16(block[4:])) == bs
		if isNode {
			require.True(t, sums.VerifyDxBlock(ino, n.Generation(), block), "index node in block %d", b)
		} else {
			require.True(t, sums.VerifyDirBlock(ino, n.Generation(), block), "leaf in block %d", b)
		}
	}
}

// checkFileSums verifies the extent block and the attribute block of a file.
func checkFileSums(t *testing.T, im *fixedImage) {
	t.Helper()
	sums := im.sums
	ino, n := im.find(t, "/extents")
	require.NotZero(t, binary.LittleEndian.Uint16(n.IBlock()[6:]), "depth of the extent tree")
	child := format.Block(binary.LittleEndian.Uint32(n.IBlock()[16:]))
	block := im.block(t, child)
	require.True(t, flips(block, func(b []byte) bool { return sums.VerifyExtentBlock(ino, n.Generation(), b) }, 0, 30, 500))
	require.False(t, sums.VerifyExtentBlock(ino+1, n.Generation(), block))

	require.NotZero(t, n.FileACL())
	attrs := im.block(t, n.FileACL())
	require.True(t, flips(attrs, func(b []byte) bool { return sums.VerifyXattrBlock(n.FileACL(), b) }, 0, 16, 40, im.geo.BlockSize-1))
}

func checkOrphanSums(t *testing.T, im *fixedImage) {
	t.Helper()
	ino := format.Ino(im.sb.OrphanFileInum())
	n, _ := im.inode(t, ino)
	for _, b := range im.blocks(t, fmt.Sprintf("<%d>", ino)) {
		block := im.block(t, b)
		require.True(t, flips(block, func(p []byte) bool { return im.sums.VerifyOrphanBlock(ino, n.Generation(), b, p) }, 0, 16))
	}
}

func TestOracleMMPSum(t *testing.T) {
	oracle.Need(t, "mke2fs")
	im := openImage(t, makeImage(t, "16M", "-t", "ext4", "-O", "mmp"))
	block := im.block(t, format.Block(im.sb.MMPBlock()))
	require.True(t, flips(block, im.sums.VerifyMMP, 0, 100, 1020))
}

// What this package seals, e2fsck takes: an inode, its descriptor, the superblock.
func TestOracleSealed(t *testing.T) {
	oracle.Need(t, "mke2fs", "e2fsck")
	for _, features := range []string{"metadata_csum", "metadata_csum,^64bit", "^metadata_csum,uninit_bg", "metadata_csum,metadata_csum_seed"} {
		im := openImage(t, makeImage(t, "16M", "-t", "ext4", "-O", features))
		n, off := im.inode(t, format.RootIno)
		n.SetUID(123456)
		im.sums.SealInode(format.RootIno, n)
		_, err := im.file.WriteAt(n, off)
		require.NoError(t, err)

		d := im.desc(t, 0)
		d.SetFlags(d.Flags() | format.BgInodeZeroed)
		d.SetItableUnused(d.ItableUnused() - 8)
		im.sums.SealGroupDesc(0, d)
		_, err = im.file.WriteAt(d, int64(im.geo.DescBlock(0))*int64(im.geo.BlockSize))
		require.NoError(t, err)

		im.sb.SetVolumeName("sealed")
		format.SealSuperblock(im.sb)
		_, err = im.file.WriteAt(im.sb, format.SuperblockOffset)
		require.NoError(t, err)
		oracle.Fsck(t, im.path)
		require.Contains(t, oracle.Run(t, "dumpe2fs", "-h", im.path), "sealed")
	}
}

// The unusual and damaged images: each has a geometry, or the error says why not.
func TestSharedImagesGeometry(t *testing.T) {
	refused := map[string]string{
		"f_desc_size_zero":        "s_desc_size is 0",
		"f_first_meta_bg_too_big": "s_first_meta_bg is ",
		"f_zero_inode_size":       "s_inode_size is 0",
		"f_zero_super":            "s_magic is 0x0",
		"i_zero_super":            "s_magic is 0x0",
		"j_ext_dumpe2fs":          "an external journal",
	}
	list, err := filepath.Glob(filepath.Join(oracle.Shared(t, "e2fsprogs-images"), "*.img.gz"))
	require.NoError(t, err)
	for _, path := range list {
		name := strings.TrimSuffix(filepath.Base(path), ".img.gz")
		err := format.ValidateSuperblock(gunzipSuper(t, path))
		if want, ok := refused[name]; ok {
			require.ErrorContains(t, err, want, name)
		} else {
			require.NoError(t, err, name)
		}
	}
}

// gunzipSuper is the superblock of a packed image.
func gunzipSuper(t *testing.T, path string) format.Superblock {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	unpack, err := gzip.NewReader(file)
	require.NoError(t, err)
	head := make([]byte, format.SuperblockOffset+format.SuperblockSize)
	_, err = io.ReadFull(unpack, head)
	require.NoError(t, err)
	return head[format.SuperblockOffset:]
}
