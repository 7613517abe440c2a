package build

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/internal/oracle"
)

// The tests of this file repeat reports of users of other tools
// (../shared/cases/user-reports.tsv); the B numbers are theirs.

// image builds an image into a directory of the test's own.
func image(t *testing.T, o Options) (string, *Result) {
	t.Helper()
	o.Out = filepath.Join(t.TempDir(), "case.img")
	r, err := Run(context.Background(), o)
	require.NoError(t, err)
	return o.Out, r
}

// diskBytes is what a file takes on its host.
func diskBytes(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Stat(path, &st))
	return st.Blocks * 512
}

// TestEmptySizes formats sizes that other tools fail on: B110 (200,000,000
// bytes), B005 (a journal of
// more than one extent), B046 (the last group's bitmap), B104 (padding, free
// counts), B017 (the journal's length), B019, B155 and B166 (sparse output).
func TestEmptySizes(t *testing.T) {
	oracle.Need(t, "e2fsck", "dumpe2fs")
	for _, size := range []int64{200_000_000, 512 << 20, 600 << 20, 2 << 30, 5 << 30, 8 << 30, 20 << 30, 100 << 30} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			img, r := image(t, Options{Size: size})
			oracle.Fsck(t, img)
			require.Less(t, diskBytes(t, img), int64(7<<20))
			info := oracle.Run(t, "dumpe2fs", img)
			require.Contains(t, info, fmt.Sprintf("Total journal blocks:     %d\n", r.JournalBlocks))
			free := uint64(0)
			for _, m := range regexp.MustCompile(`(?m)^  (\d+) free blocks, `).FindAllStringSubmatch(info, -1) {
				n, err := strconv.ParseUint(m[1], 10, 64)
				require.NoError(t, err)
				free += n
			}
			require.Equal(t, r.FreeBlocks, free, "groups and totals")
			// B152: nothing for the kernel to zero in the background.
			require.NotRegexp(t, `(?m)^Group .*csum 0x[0-9a-f]+( \[[A-Z_, ]*UNINIT\])?$`, info)
		})
	}
}

// TestHugeGroupsZeroed is B152 at its size: the inode tables of a 2.9 TB image
// are holes that count as zeroed.
func TestHugeGroupsZeroed(t *testing.T) {
	oracle.Need(t, "dumpe2fs")
	img, r := image(t, Options{Size: 2_900_000_000_000})
	require.Less(t, diskBytes(t, img), int64(64<<20))
	groups := oracle.Run(t, "dumpe2fs", img)
	require.Equal(t, int(r.Groups), strings.Count(groups, "ITABLE_ZEROED"))
}

// TestDefaultFeatures is what older kernels and tools read: B061 (4 KiB blocks
// at any size), B097 and B098 (no orphan_file, no metadata_csum_seed), B136
// (the inode count is a multiple of the groups').
func TestDefaultFeatures(t *testing.T) {
	for _, size := range []int64{0, 4 << 20, 1 << 30} {
		_, r := image(t, Options{Size: size})
		require.Equal(t, 4096, r.BlockSize)
		require.NotContains(t, r.Features, "orphan_file")
		require.NotContains(t, r.Features, "metadata_csum_seed")
		require.EqualValues(t, r.Inodes, r.Groups*r.InodesPerGroup)
	}
}

// TestTinyFiles is B059 and B062: thousands of tiny files, in few and in many
// directories, never outgrow the size that was worked out for them.
func TestTinyFiles(t *testing.T) {
	oracle.Need(t, "e2fsck")
	tree := t.TempDir()
	for i := range 6000 {
		dir := filepath.Join(tree, []string{"one", fmt.Sprintf("many/%d/%d", i%40, i%7)}[i%2])
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, strings.Repeat("x", i%200)+strconv.Itoa(i)), []byte("tiny"), 0o644))
	}
	for _, bs := range []int{1024, 2048, 4096} { // B094
		img, r := image(t, Options{From: []string{tree}, BlockSize: bs, Verify: true})
		oracle.Fsck(t, img)
		require.Zero(t, r.FreeBlocks)
	}
}

// TestInodesByDefault is B064: a large image has inodes in plenty, one for
// 16 KiB and two for each one in use, and as many as are asked for.
func TestInodesByDefault(t *testing.T) {
	_, r := image(t, Options{Size: 18 << 30})
	require.GreaterOrEqual(t, r.Inodes, uint64(18<<30/16384))
	tree := plainTree(t, 3000)
	_, r = image(t, Options{From: []string{tree}, Size: 64 << 20})
	require.GreaterOrEqual(t, r.Inodes, uint64(6000))
	_, r = image(t, Options{From: []string{tree}, FreeInodes: 5000})
	require.GreaterOrEqual(t, r.FreeInodes, uint64(5000))
}

// TestRoomToWrite is B068 and B067: what --free asks for is there when the
// kernel writes.
func TestRoomToWrite(t *testing.T) {
	oracle.Root(t)
	tree := plainTree(t, 50)
	img, r := image(t, Options{From: []string{tree}, FreeBytes: 48 << 20, FreeInodes: 100})
	dir := oracle.Mount(t, img)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "new"), make([]byte, r.AvailableBlocks*4096-1<<20), 0o644))
	for i := range 100 - 1 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644))
	}
}

// TestGrow is B161, B029 and B092: resize2fs grows images, and preening exits
// 0. (Growing while mounted takes CAP_SYS_RESOURCE, which test machines lack.)
func TestGrow(t *testing.T) {
	oracle.Need(t, "e2fsck", "resize2fs")
	oracle.Root(t)
	tree := plainTree(t, 50)
	for _, o := range []Options{{}, {BlockSize: 1024}, {Profile: "meta_bg"}, {Profile: "compat"}, {Features: "-flex_bg"}} {
		t.Run(fmt.Sprintf("%s%d%s", o.Profile, o.BlockSize, o.Features), func(t *testing.T) {
			o.From, o.FreeBytes, o.FreeInodes = []string{tree}, 24<<20, 100
			img, r := image(t, o)
			oracle.Run(t, "e2fsck", "-p", img)
			for _, more := range []int64{128 << 20, 512 << 20} {
				oracle.Run(t, "resize2fs", img, strconv.FormatInt((r.Size+more)>>10, 10)+"K")
				oracle.Fsck(t, img)
			}
			oracle.Mount(t, img)
		})
	}
}

// TestSectors is B160: the device's sectors may be as large as its blocks.
func TestSectors(t *testing.T) {
	oracle.Need(t, "e2fsck")
	oracle.Root(t)
	file := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.NoError(t, os.Truncate(file, 64<<20))
	loop := oracle.Loop(t, file, "-b", "4096")
	for _, bs := range []int{1024, 4096} {
		_, err := Run(context.Background(), Options{Out: loop, Force: true, BlockSize: bs, From: []string{plainTree(t, 20)}})
		require.NoError(t, err)
		oracle.Fsck(t, loop)
	}
}

// TestInPartition is B107, B008 and B007: a file system at the offset of a
// partition keeps to it, the secondary GPT and the neighbours stay.
func TestInPartition(t *testing.T) {
	oracle.Need(t, "e2fsck", "sfdisk")
	disk := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(disk, bytes.Repeat([]byte{0xA5}, 200<<20), 0o644))
	script := filepath.Join(t.TempDir(), "table")
	require.NoError(t, os.WriteFile(script, []byte("label: gpt\nstart=2048, size=20480\nstart=22528, size=40960\n"), 0o644))
	oracle.Run(t, "sh", "-c", "sfdisk --quiet --wipe never "+disk+" < "+script)
	before, err := os.ReadFile(disk)
	require.NoError(t, err)
	const start, size = 22528 * 512, 40960 * 512
	r, err := Run(context.Background(), Options{Out: disk, Force: true, Offset: start, From: []string{plainTree(t, 20)}})
	require.NoError(t, err)
	require.EqualValues(t, size, r.Bytes, "all of the partition")
	after, err := os.ReadFile(disk)
	require.NoError(t, err)
	require.True(t, bytes.Equal(before[:start], after[:start]))
	require.True(t, bytes.Equal(before[start+size:], after[start+size:]))
	part := filepath.Join(t.TempDir(), "part")
	require.NoError(t, os.WriteFile(part, after[start:start+size], 0o644))
	oracle.Fsck(t, part)
	_, err = Run(context.Background(), Options{Out: disk, Force: true, Offset: start, Size: size + 4096})
	require.ErrorContains(t, err, fmt.Sprint(size))
	_, err = Run(context.Background(), Options{Out: disk, Force: true, Offset: 4096 * 1000})
	require.ErrorContains(t, err, "no partition of it begins at byte 4096000")
}

// TestSameGeometry is B106: an image is made again with the features and the
// geometry of a given one, almost full.
func TestSameGeometry(t *testing.T) {
	oracle.Need(t, "e2fsck", "dumpe2fs")
	tree := plainTree(t, 100)
	o := Options{From: []string{tree}, Features: "-64bit,-resize_inode,-metadata_csum,-has_journal", Inodes: 320}
	_, small := image(t, o)
	o.Size = small.Bytes + 9*4096
	img, r := image(t, o)
	oracle.Fsck(t, img)
	require.EqualValues(t, 9, r.FreeBlocks)
	info := oracle.Run(t, "dumpe2fs", "-h", img)
	require.NotContains(t, info, "64bit")
	require.Contains(t, info, "Inode count:              320\n")
}

// TestSizeLimits is B095 and B037: absurd sizes fail at once, large ones work.
func TestSizeLimits(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.img")
	_, err := Run(context.Background(), Options{Out: out, Size: 7 << 60, DryRun: true})
	require.ErrorContains(t, err, "ext4 has at most")
	tree := t.TempDir()
	f, err := os.Create(filepath.Join(tree, "sparse"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(130<<30))
	_, err = f.WriteAt([]byte("end"), 129<<30)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	img, _ := image(t, Options{From: []string{tree}, Verify: true})
	oracle.Need(t, "e2fsck")
	oracle.Fsck(t, img)
}

// TestBigFiles is B076: files past 2 and 4 GiB, mostly holes.
func TestBigFiles(t *testing.T) {
	oracle.Need(t, "e2fsck")
	oracle.Root(t)
	tree := t.TempDir()
	for _, size := range []int64{2<<30 - 1, 2 << 30, 3 << 30, 4<<30 + 1, 18159239168} {
		f, err := os.Create(filepath.Join(tree, fmt.Sprint(size)))
		require.NoError(t, err)
		require.NoError(t, f.Truncate(size))
		for _, off := range []int64{0, size / 2, size - 7} {
			_, err = f.WriteAt([]byte("content"), off)
			require.NoError(t, err)
		}
		require.NoError(t, f.Close())
	}
	checkAgainstKernel(t, tree, Options{FreeBytes: 32 << 20, FreeInodes: 8})
}

// TestHashSeedFixed is B073: the same hash seed gives the same htrees.
func TestHashSeedFixed(t *testing.T) {
	tree := t.TempDir()
	for i := range 2000 {
		require.NoError(t, os.WriteFile(filepath.Join(tree, fmt.Sprintf("a name that is long enough to fill blocks %d", i)), nil, 0o644))
	}
	epoch := int64(1e9)
	o := Options{From: []string{tree}, UUID: &[16]byte{1}, HashSeed: &[16]byte{2}, Epoch: &epoch}
	first, _ := image(t, o)
	second, _ := image(t, o)
	require.Equal(t, sumOf(t, first), sumOf(t, second))
	o.HashSeed = &[16]byte{3}
	third, _ := image(t, o)
	require.NotEqual(t, sumOf(t, first), sumOf(t, third))
}

// TestFeatureMatrix combines features at random: what is accepted is clean.
func TestFeatureMatrix(t *testing.T) {
	oracle.Need(t, "e2fsck")
	tree := plainTree(t, 60)
	names := []string{"has_journal", "ext_attr", "resize_inode", "dir_index", "64bit", "flex_bg", "sparse_super", "sparse_super2", "large_file", "huge_file", "dir_nlink", "extra_isize", "metadata_csum", "uninit_bg", "meta_bg", "metadata_csum_seed", "orphan_file", "large_dir"}
	accepted := 0
	for i := range 300 {
		var spec []string
		for k, name := range names {
			if h := uint32(i*31+k*17) * 2654435761 >> 28; h < 4 {
				spec = append(spec, []string{"+", "-"}[(i+k)%2]+name)
			}
		}
		o := Options{Out: filepath.Join(t.TempDir(), "f.img"), From: []string{tree}, Features: strings.Join(spec, ","), BlockSize: 1024 << (i % 3), FreeBytes: int64(i%4) << 20, Workers: runtime.NumCPU()}
		if i%5 == 0 {
			o.Size = 40 << 20
		}
		_, err := Run(context.Background(), o)
		if err != nil {
			require.Regexp(t, "feature|size", err.Error(), o.Features)
			continue
		}
		accepted++
		oracle.Fsck(t, o.Out)
	}
	require.Greater(t, accepted, 50)
	t.Logf("%d of 300 sets of features accepted", accepted)
}
