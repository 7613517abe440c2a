package format

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/internal/oracle"
)

// readImage returns an image and its superblock.
func readImage(t *testing.T, path string) ([]byte, Superblock) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data, Superblock(data[SuperblockOffset:][:SuperblockSize])
}

// The MMP block that mke2fs writes, and the one of a mounted file system.
func TestMke2fsMMP(t *testing.T) {
	t.Parallel()
	image := mkext4(t, "8M", "-b", "1024", "-O", "mmp", "-E", "mmp_update_interval=1")
	data, sb := readImage(t, image)
	block := data[int(sb.MMPBlock())*1024:][:1024]
	require.NoError(t, CheckMMP(block, Block(sb.MMPBlock())))
	require.True(t, ChecksumsOf(sb).VerifyMMP(block))
	require.True(t, MMP(block).Clean())
	require.GreaterOrEqual(t, MMP(block).CheckInterval(), sb.MMPInterval())

	want := make([]byte, 1024)
	PutMMP(want, MMP(block).CheckInterval())
	MMP(want).SetTime(MMP(block).Time())
	MMP(want).SetNodeName(MMP(block).NodeName())
	MMP(want).SetBdevName(MMP(block).BdevName())
	ChecksumsOf(sb).SealMMP(want)
	require.Equal(t, block, want)
	dump := oracle.Debugfs(t, image, "dump_mmp")
	require.Contains(t, dump, fmt.Sprint("check_interval: ", MMP(block).CheckInterval()))
	require.Contains(t, dump, "node_name: "+MMP(block).NodeName())

	oracle.Mount(t, image)
	data, sb = readImage(t, image)
	block = data[int(sb.MMPBlock())*1024:][:1024]
	require.NoError(t, CheckMMP(block, Block(sb.MMPBlock())))
	require.True(t, ChecksumsOf(sb).VerifyMMP(block))
	require.False(t, MMP(block).Clean())
	require.NotEmpty(t, MMP(block).NodeName())
}

// Blocks of the orphan file as mke2fs writes them, and with the orphans of a
// mounted file system.
func TestKernelOrphanFile(t *testing.T) {
	t.Parallel()
	oracle.Need(t, "fsfreeze")
	image := mkext4(t, "16M", "-b", "1024", "-O", "orphan_file,^resize_inode")
	data, sb := readImage(t, image)
	require.NotZero(t, sb.OrphanFileInum())
	inode := fmt.Sprintf("<%d>", sb.OrphanFileInum())
	gen := generation(t, image, inode)
	blocks := fileBlocks(t, image, inode)
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		want := make([]byte, 1024)
		PutOrphanBlock(want)
		ChecksumsOf(sb).SealOrphanBlock(Ino(sb.OrphanFileInum()), gen, b, want)
		require.True(t, bytes.Equal(want, data[int(b)*1024:][:1024]), "block %d", b)
	}

	dir := oracle.Mount(t, image)
	var want []Ino
	for i := range 20 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		require.NoError(t, err)
		defer f.Close()
		info, err := f.Stat()
		require.NoError(t, err)
		want = append(want, Ino(inodeNumber(info)))
		require.NoError(t, os.Remove(f.Name()))
	}
	oracle.Run(t, "fsfreeze", "--freeze", dir)
	dirty := copyImage(t, image)
	oracle.Run(t, "fsfreeze", "--unfreeze", dir)

	data, sb = readImage(t, dirty)
	var got []Ino
	for _, b := range blocks {
		block := data[int(b)*1024:][:1024]
		require.NoError(t, CheckOrphanBlock(block, b))
		require.True(t, ChecksumsOf(sb).VerifyOrphanBlock(Ino(sb.OrphanFileInum()), gen, b, block))
		for _, ino := range OrphanBlock(block).Orphans() {
			got = append(got, ino)
		}
	}
	require.ElementsMatch(t, want, got)
}

func generation(t *testing.T, image, inode string) uint32 {
	match := regexp.MustCompile(`Generation: (\d+)`).FindStringSubmatch(oracle.Debugfs(t, image, "stat "+inode))
	require.NotNil(t, match)
	n, err := strconv.ParseUint(match[1], 10, 32)
	require.NoError(t, err)
	return uint32(n)
}

func fileBlocks(t *testing.T, image, inode string) (blocks []Block) {
	for _, word := range bytes.Fields([]byte(oracle.Debugfs(t, image, "blocks "+inode))) {
		n, err := strconv.ParseUint(string(word), 10, 64)
		require.NoError(t, err)
		blocks = append(blocks, Block(n))
	}
	return blocks
}

func inodeNumber(info os.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }
