package ext4

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/internal/oracle"
)

// kinds of file systems that mke2fs makes and Linux mounts.
var mountable = []struct {
	name string
	args string
	tree treeOptions
}{
	{"ext2-1k", "-t ext2 -b 1024", treeOptions{oldTimes: true}},
	{"ext2-128-rev0", "-r 0 -b 1024 -I 128 -O none", treeOptions{oldTimes: true, plain: true}},
	{"ext3-4k", "-t ext3 -b 4096", treeOptions{}},
	{"ext3-128", "-t ext3 -b 2048 -I 128", treeOptions{oldTimes: true}},
	{"ext4-1k", "-t ext4 -b 1024", treeOptions{}},
	{"ext4-2k", "-t ext4 -b 2048", treeOptions{}},
	{"ext4-4k", "-t ext4 -b 4096", treeOptions{}},
	{"ext4-1.42", "-t ext4 -O none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,flex_bg,sparse_super,large_file,huge_file,uninit_bg,dir_nlink,extra_isize", treeOptions{}},
	{"no-64bit", "-t ext4 -O ^64bit", treeOptions{}},
	{"no-filetype", "-t ext4 -b 1024 -O ^filetype", treeOptions{}},
	{"no-index", "-t ext4 -O ^dir_index", treeOptions{}},
	{"no-flex", "-t ext4 -b 1024 -O ^flex_bg", treeOptions{}},
	{"meta_bg", "-t ext4 -b 1024 -g 1024 -O meta_bg,^resize_inode", treeOptions{}},
	{"sparse_super2", "-t ext4 -b 1024 -O sparse_super2,^resize_inode", treeOptions{}},
	{"no-sparse", "-t ext4 -b 1024 -O ^sparse_super,^resize_inode", treeOptions{}},
	{"csum_seed", "-t ext4 -O metadata_csum_seed,orphan_file", treeOptions{}},
	{"inline_data", "-t ext4 -O inline_data", treeOptions{}},
	{"inline_data-1k", "-t ext4 -b 1024 -I 1024 -O inline_data", treeOptions{}},
	{"ea_inode", "-t ext4 -O ea_inode", treeOptions{bigXattr: 60000}},
	{"bigalloc", "-t ext4 -O bigalloc -C 16384", treeOptions{}},
	{"bigalloc-1k", "-t ext4 -b 1024 -O bigalloc -C 8192", treeOptions{}},
	{"large_dir", "-t ext4 -O large_dir", treeOptions{}},
	{"inode-1024", "-t ext4 -I 1024 -O encrypt,verity,mmp", treeOptions{}},
}

// TestKernel has Linux fill file systems of many kinds, and compares every
// attribute and byte that we read with what Linux reads.
func TestKernel(t *testing.T) {
	oracle.Root(t)
	oracle.Need(t, "mke2fs")
	for _, k := range mountable {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			r := newRand(t)
			size := int64(24 << 20)
			k.tree.files, k.tree.maxFile = 50, 30000
			if oracle.IsLong() {
				k.tree.files, size = 1500, 200<<20
			}
			image := mke2fs(t, size, strings.Fields(k.args)...)
			dir := oracle.Mount(t, image)
			makeTree(t, r, dir, k.tree)
			oracle.Unmount(t, dir)
			compareMount(t, image)
		})
	}
}

// compareMount compares all of an image with what Linux shows.
func compareMount(t *testing.T, image string) {
	t.Helper()
	dir := oracle.Mount(t, image, "ro")
	fsys := openImage(t, image)
	require.Positive(t, requireSameTree(t, fsys, dir, sameAs{mount: true}))
	compareStatfs(t, fsys, dir)
}

func compareStatfs(t *testing.T, fsys *FS, dir string) {
	t.Helper()
	var want unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &want))
	got, err := fsys.Statfs()
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(want.Bsize, want.Blocks, want.Bfree, want.Files, want.Ffree),
		fmt.Sprint(got.BlockSize, got.Blocks, got.Free, got.Inodes, got.FreeNodes))
}

// fillable are kinds that only mke2fs fills: large blocks, and features that
// a kernel may lack.
var fillable = []struct {
	args string
	tree treeOptions
}{
	{"-t ext4 -b 8192", treeOptions{}},
	{"-t ext4 -b 16384", treeOptions{}},
	{"-t ext4 -b 32768 -I 4096", treeOptions{}},
	{"-t ext4 -b 65536", treeOptions{}},
	{"-t ext4 -b 65536 -O inline_data,^metadata_csum", treeOptions{dense: true}}, // mke2fs 1.47.0 gives those with holes a wrong size
	{"-t ext2 -b 16384", treeOptions{}},
	{"-t ext4 -b 1024 -O casefold,encrypt,verity,project,quota,mmp", treeOptions{}},
	{"-t ext4 -b 2048 -O stable_inodes,fast_commit,^metadata_csum,uninit_bg", treeOptions{}},
	{"-t ext4 -b 4096 -O bigalloc -C 65536", treeOptions{}},
	{"-t ext4 -b 1024 -O meta_bg,^resize_inode -g 256", treeOptions{}},
}

// TestMke2fs compares images that mke2fs filled from a directory with it.
func TestMke2fs(t *testing.T) {
	oracle.Root(t)
	for _, k := range fillable {
		t.Run(strings.ReplaceAll(k.args, " ", ""), func(t *testing.T) {
			t.Parallel()
			tree := t.TempDir()
			k.tree.files, k.tree.maxFile, k.tree.oldTimes = 40, 100_000, true
			k.tree.linkFiles = true // mke2fs makes copies of other links
			if oracle.IsLong() {
				k.tree.files = 600
			}
			makeTree(t, newRand(t), tree, k.tree)
			image := mke2fs(t, 64<<20, append(strings.Fields(k.args), "-d", tree)...)
			requireSameTree(t, openImage(t, image), tree, sameAs{mke2fs: true})
		})
	}
}

// TestShared opens the damaged images of the collection beside the repository and
// uses everything in them.
func TestShared(t *testing.T) {
	dir := oracle.Shared(t, "e2fsprogs-images")
	list, err := filepath.Glob(dir + "/*.img.gz")
	require.NoError(t, err)
	for _, path := range list {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".img.gz"), func(t *testing.T) {
			if size := gunzipSize(t, path); size > 8<<20 && !oracle.IsLong() {
				t.Skipf("skipped: %d MiB, set DRYDOCK_LONG=1", size>>20)
			}
			t.Parallel()
			b := gunzip(t, path)
			for _, o := range []Options{{}, {IgnoreChecksums: true, IgnoreJournal: true}} {
				fsys, err := Open(imageBytes(b), o)
				if err != nil {
					t.Log(err)
					continue
				}
				useAll(fsys)
			}
		})
	}
}
