package build

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/ext4"
	"drydock/internal/mkfs"
)

// plainTree makes a directory that any host can hold.
func plainTree(t testing.TB, files int) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "tree")
	r := rand.New(rand.NewPCG(uint64(files), 7))
	for i := range files {
		dir := filepath.Join(root, fmt.Sprintf("d%d", i%17), fmt.Sprintf("e%d", i%5))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		data := make([]byte, r.IntN(1<<r.IntN(18)))
		for k := range data {
			data[k] = byte(r.Uint32())
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%d", i)), data, 0o644))
	}
	return root
}

func sumOf(t testing.TB, path string) [32]byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return sha256.Sum256(data)
}

// TestSameBytes builds with different numbers of workers (B071, B080).
func TestSameBytes(t *testing.T) {
	tree := plainTree(t, 300)
	dir := t.TempDir()
	var sums [][32]byte
	for i, workers := range []int{1, 2, 8, 1} {
		out := filepath.Join(dir, fmt.Sprint(i))
		_, err := Run(context.Background(), Options{Out: out, From: []string{tree}, Workers: workers, Reproducible: true})
		require.NoError(t, err)
		sums = append(sums, sumOf(t, out))
	}
	for _, s := range sums[1:] {
		require.Equal(t, sums[0], s)
	}
	require.NoError(t, os.WriteFile(filepath.Join(tree, "d0", "e0", "file0"), []byte("other data"), 0o644))
	out := filepath.Join(dir, "other")
	_, err := Run(context.Background(), Options{Out: out, From: []string{tree}, Reproducible: true})
	require.NoError(t, err)
	require.NotEqual(t, sums[0], sumOf(t, out))
}

// tarOf makes a tar of numbered files in the given order.
func tarOf(t testing.TB, order []int) string {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, i := range order {
		data := bytes.Repeat([]byte{byte(i)}, i*37)
		h := &tar.Header{
			Name: fmt.Sprintf("dir%d/file%d", i%7, i), Mode: 0o640, Uid: i, Gid: 2 * i, Size: int64(len(data)),
			ModTime: time.Unix(int64(1e9+i), int64(i)), Typeflag: tar.TypeReg, Format: tar.FormatPAX,
			PAXRecords: map[string]string{"SCHILY.xattr.user.n": fmt.Sprint(i % 3)},
		}
		require.NoError(t, w.WriteHeader(h))
		_, err := w.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	path := filepath.Join(t.TempDir(), "in.tar")
	require.NoError(t, os.WriteFile(path, buf.Bytes(), 0o644))
	return path
}

// TestShuffledTar builds from independent members in any order.
func TestShuffledTar(t *testing.T) {
	order := make([]int, 200)
	for i := range order {
		order[i] = i
	}
	var want [32]byte
	for seed := range uint64(5) {
		out := filepath.Join(t.TempDir(), "out.img")
		_, err := Run(context.Background(), Options{Out: out, From: []string{tarOf(t, order)}, Reproducible: true, Verify: true})
		require.NoError(t, err)
		got := sumOf(t, out)
		if seed == 0 {
			want = got
		}
		require.Equal(t, want, got, "seed %d", seed)
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
	}
}

// TestLargeXattr is B034: an attribute that no block holds is refused before
// anything is written, with file, attribute, size and limit.
func TestLargeXattr(t *testing.T) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	require.NoError(t, w.WriteHeader(&tar.Header{
		Name: "etc/file", Typeflag: tar.TypeReg, Mode: 0o644, Format: tar.FormatPAX,
		PAXRecords: map[string]string{"SCHILY.xattr.user.large": string(make([]byte, 5000))},
	}))
	require.NoError(t, w.Close())
	dir := t.TempDir()
	o := Options{Out: filepath.Join(dir, "out.img"), From: []string{"-"}, Stdin: bytes.NewReader(buf.Bytes())}
	_, err := Run(context.Background(), o)
	for _, part := range []string{"etc/file", "user.large", "5000", "4036"} {
		require.ErrorContains(t, err, part)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
	o.BlockSize, o.Stdin, o.Verify = 8192, bytes.NewReader(buf.Bytes()), true
	_, err = Run(context.Background(), o)
	require.NoError(t, err, "a larger block holds it")
}

// TestWriteErrors makes each write of a build fail in turn. Nothing must be
// left at the place of the image, and what was there before must stay.
func TestWriteErrors(t *testing.T) {
	tree := plainTree(t, 60)
	for _, before := range []bool{false, true} {
		n := 1
		for failWrite(t, tree, n, before) {
			n++
		}
		require.Greater(t, n, 5)
		t.Logf("%d writes failed in turn", n-1)
	}
}

// failWrite builds with the n-th write failing; false if there are less.
func failWrite(t *testing.T, tree string, n int, before bool) bool {
	t.Helper()
	dir := t.TempDir()
	out := filepath.Join(dir, "out.img")
	if before {
		require.NoError(t, os.WriteFile(out, []byte("the old image"), 0o644))
	}
	boom := errors.New("boom")
	var fault *device.Fault
	_, err := Run(context.Background(), Options{Out: out, From: []string{tree}, Force: before, Workers: 2, wrap: func(d device.Device) device.Device {
		fault = device.NewFault(d, device.FailNth(device.OpWrite, n, boom))
		return fault
	}})
	if err == nil {
		require.Less(t, fault.Count(device.OpWrite), n, "a failed write went unnoticed")
		return false
	}
	require.ErrorIs(t, err, boom, "write %d", n)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	if !before {
		require.Empty(t, entries, "write %d", n)
		return true
	}
	require.Len(t, entries, 1)
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, "the old image", string(data))
	return true
}

// TestCancel cancels builds at random moments.
func TestCancel(t *testing.T) {
	tree := plainTree(t, 400)
	for i := range 40 {
		dir := t.TempDir()
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*500*time.Microsecond)
		_, err := Run(ctx, Options{Out: filepath.Join(dir, "out.img"), From: []string{tree}, Verify: true})
		cancel()
		entries, dirErr := os.ReadDir(dir)
		require.NoError(t, dirErr)
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Empty(t, entries)
		} else {
			require.Len(t, entries, 1)
		}
	}
}

// TestExisting refuses to replace without Force, and never anything but a
// regular file.
func TestExisting(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out.img")
	require.NoError(t, os.WriteFile(out, []byte("precious"), 0o600))
	_, err := Run(context.Background(), Options{Out: out})
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = Run(context.Background(), Options{Out: dir, Force: true})
	require.ErrorContains(t, err, "neither a regular file nor a block device")
	_, err = Run(context.Background(), Options{Out: filepath.Join(dir, "no", "where")})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Run(context.Background(), Options{Out: out, Force: true})
	require.NoError(t, err)
	dev, err := device.Open(out, device.Options{ReadOnly: true})
	require.NoError(t, err)
	defer dev.Close()
	_, err = ext4.Open(dev, ext4.Options{})
	require.NoError(t, err)
}

// TestGivenSizes compares the size that works with the one below it.
func TestGivenSizes(t *testing.T) {
	tree := plainTree(t, 200)
	for _, bs := range []int{1024, 4096, 65536} {
		out := filepath.Join(t.TempDir(), "out.img")
		r, err := Run(context.Background(), Options{Out: out, From: []string{tree}, BlockSize: bs, DryRun: true})
		require.NoError(t, err)
		_, err = os.Stat(out)
		require.ErrorIs(t, err, fs.ErrNotExist, "a dry run writes nothing")
		_, err = Run(context.Background(), Options{Out: out, From: []string{tree}, BlockSize: bs, Size: r.Bytes - 1})
		var small *mkfs.SizeError
		require.ErrorAs(t, err, &small)
		require.Equal(t, r.Blocks, small.NeedBlocks)
		require.Regexp(t, `^needs [0-9,]+ blocks and [0-9,]+ inodes, has [0-9,]+ blocks and [0-9,]+ inodes; smallest size that works: \d+[KM]$`, err.Error())
		for _, size := range []int64{r.Bytes, r.Bytes + 1, 2 * r.Bytes} {
			got, err := Run(context.Background(), Options{Out: out, From: []string{tree}, BlockSize: bs, Size: size, Force: true, Verify: true})
			require.NoError(t, err)
			info, err := os.Stat(out)
			require.NoError(t, err)
			require.Equal(t, size, info.Size())
			require.Equal(t, size, got.Size)
		}
	}
}

// TestAtOffset puts a file system into an existing file and leaves the rest
// alone (B008).
func TestAtOffset(t *testing.T) {
	tree := plainTree(t, 30)
	out := filepath.Join(t.TempDir(), "disk.img")
	disk := bytes.Repeat([]byte("outside!"), 1<<20)
	require.NoError(t, os.WriteFile(out, disk, 0o644))
	r, err := Run(context.Background(), Options{Out: out, From: []string{tree}, Force: true, Offset: 1 << 20, Verify: true})
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, r.Offset)
	after, err := os.ReadFile(out)
	require.NoError(t, err)
	require.True(t, bytes.Equal(disk[:1<<20], after[:1<<20]), "in front")
	end := r.Offset + r.Bytes
	require.True(t, bytes.Equal(disk[end:], after[end:]), "behind")
}
