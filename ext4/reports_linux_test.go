package ext4

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/format"
	"drydock/internal/oracle"
)

// staleImage makes an image on a file full of old bytes, none of which may
// ever be read from a file in it.
func staleImage(t testing.TB, size int64, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stale")
	require.NoError(t, os.WriteFile(path, noise(int(size), 99), 0o600))
	oracle.Run(t, "mke2fs", append(append([]string{"-q", "-F", "-E", "nodiscard"}, args...), path)...)
	return path
}

// fill mounts an image, calls fn with the mount point, and unmounts it.
func fill(t testing.TB, image string, fn func(dir string)) {
	t.Helper()
	dir := oracle.Mount(t, image)
	fn(dir)
	oracle.Unmount(t, dir)
}

// writeAt writes data at each of the offsets of a new file of the given size.
func writeAt(t testing.TB, path string, size int64, data []byte, offsets ...int64) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	for _, off := range offsets {
		_, err := f.WriteAt(data, off)
		require.NoError(t, err)
	}
	require.NoError(t, f.Truncate(size))
}

// B020: a file with data at blocks 512 and 1023 only, on a disk of old bytes.
func TestB020Holes(t *testing.T) {
	for _, kind := range []string{"ext2", "ext4"} {
		image := staleImage(t, 8<<20, "-t", kind, "-b", "1024")
		data := noise(1024, 1)
		fill(t, image, func(dir string) { writeAt(t, dir+"/sparse", 1<<20, data, 512<<10, 1023<<10) })
		want := make([]byte, 1<<20)
		copy(want[512<<10:], data)
		copy(want[1023<<10:], data)
		fsys := openImage(t, image)
		got, err := fsys.ReadFile("sparse")
		require.NoError(t, err)
		requireSame(t, want, got, kind)
		f, err := fsys.Open("sparse")
		require.NoError(t, err)
		got, err = io.ReadAll(io.NewSectionReader(f, 511<<10+5, 3<<10)) // across both borders
		require.NoError(t, err)
		requireSame(t, want[511<<10+5:][:3<<10], got, kind)
	}
}

// B121, B133: unwritten extents are zeros whatever lies there, also with blocks
// smaller than the device's sectors.
func TestB121B133Unwritten(t *testing.T) {
	for _, bs := range []string{"1024", "2048", "4096"} {
		image := staleImage(t, 8<<20, "-t", "ext4", "-b", bs)
		fill(t, image, func(dir string) {
			f, err := os.Create(dir + "/allocated")
			require.NoError(t, err)
			defer f.Close()
			require.NoError(t, unix.Fallocate(int(f.Fd()), 0, 0, 300_000))
			_, err = f.WriteAt([]byte("written"), 100_000)
			require.NoError(t, err)
			require.NoError(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 300_000, 100_000))
		})
		want := make([]byte, 300_000)
		copy(want[100_000:], "written")
		fsys := openImage(t, image)
		got, err := fsys.ReadFile("allocated")
		require.NoError(t, err)
		requireSame(t, want, got, bs)
		unwritten := 0
		for x, err := range fsys.Extents("allocated") {
			require.NoError(t, err)
			if x.Unwritten {
				unwritten++
			}
		}
		require.GreaterOrEqual(t, unwritten, 2)
	}
}

// B140: pointers that are zero at every level of a block map, and B145: a last
// block of zeros that mke2fs made a hole.
func TestB140B145ZeroPointers(t *testing.T) {
	const kib = 1024
	starts := []int64{3, 11, 12, 267, 268, 269, 268 + 255, 65804 - 1, 65804, 65804 + 70000} // direct, single, double, triple
	image := staleImage(t, 8<<20, "-t", "ext2", "-b", "1024")
	data := noise(kib, 4)
	fill(t, image, func(dir string) {
		for i, s := range starts {
			writeAt(t, fmt.Sprintf("%s/%d", dir, i), (s+1)*kib+100, data, s*kib)
		}
		offsets := make([]int64, len(starts))
		for i, s := range starts {
			offsets[i] = s * kib
		}
		writeAt(t, dir+"/all", 140<<20, data, offsets...)
	})
	fsys := openImage(t, image)
	for i, s := range starts {
		requireOnlyAt(t, fsys, fmt.Sprint(i), data, s*kib)
	}
	f, err := fsys.Open("all")
	require.NoError(t, err)
	for i, s := range starts {
		p := make([]byte, 3*kib)
		_, err := f.ReadAt(p, (s-1)*kib)
		require.NoError(t, err)
		want := make([]byte, 3*kib)
		for _, other := range starts {
			if d := other - s + 1; d >= 0 && d < 3 {
				copy(want[d*kib:], data)
			}
		}
		requireSame(t, want, p, fmt.Sprint("all ", i))
	}

	tree := t.TempDir()
	tail := append(noise(4096, 3), make([]byte, 904)...)
	require.NoError(t, os.WriteFile(tree+"/tail", tail, 0o644))
	fsys = openImage(t, mke2fs(t, 8<<20, "-t", "ext4", "-b", "4096", "-d", tree))
	got, err := fsys.ReadFile("tail")
	require.NoError(t, err)
	requireSame(t, tail, got, "tail")
}

// requireOnlyAt reads a file that holds data at one place and zeros elsewhere.
func requireOnlyAt(t testing.TB, fsys *FS, name string, data []byte, off int64) {
	t.Helper()
	f, err := fsys.Open(name)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	require.Equal(t, off+int64(len(data))+100, info.Size())
	p, zero := make([]byte, 1<<20), make([]byte, 1<<20)
	for pos := int64(0); pos < info.Size(); pos += int64(len(p)) {
		n, err := f.ReadAt(p, pos)
		if err != io.EOF {
			require.NoError(t, err)
		}
		if from := off - pos; from > -int64(len(data)) && from < int64(n) {
			part := data[max(-from, 0):min(int64(n)-from, int64(len(data)))]
			requireSame(t, part, p[max(from, 0):][:len(part)], name)
			clear(p[max(from, 0):][:len(part)])
		}
		requireSame(t, zero[:n], p[:n], name)
	}
}

// B134: inline files and directories of every size up to where they leave the inode.
func TestB134Inline(t *testing.T) {
	image := mke2fs(t, 8<<20, "-t", "ext4", "-b", "1024", "-I", "512", "-O", "inline_data")
	sizes := []int{0, 1, 59, 60, 61, 100, 159, 160, 161, 250, 300, 350, 400, 600}
	fill(t, image, func(dir string) {
		for _, n := range sizes {
			require.NoError(t, os.WriteFile(fmt.Sprintf("%s/f%d", dir, n), noise(n, 7), 0o644))
			sub := fmt.Sprintf("%s/d%d", dir, n)
			require.NoError(t, os.Mkdir(sub, 0o755))
			for i := range n / 16 {
				require.NoError(t, os.WriteFile(fmt.Sprintf("%s/%04d", sub, i), nil, 0o644))
			}
		}
	})
	compareMount(t, image)
	fsys := openImage(t, image)
	inline := 0
	for _, n := range sizes {
		for _, name := range []string{fmt.Sprint("f", n), fmt.Sprint("d", n)} {
			info, err := fsys.Stat(name)
			require.NoError(t, err)
			if StatOf(info).Flags&format.InodeInlineData != 0 {
				inline++
			}
		}
	}
	require.Greater(t, inline, 15)
}

// B139: the hash families, of signed and unsigned bytes, in old and new file
// systems, in directories of two levels.
func TestB139Hashes(t *testing.T) {
	oracle.Need(t, "tune2fs", "debugfs")
	kinds := []string{"-t ext3 -I 128", "-t ext4"}
	for i, hash := range []string{"legacy", "half_md4", "tea"} {
		for k, flags := range []string{"1", "2"} {
			name := hash + "-" + flags
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				image := mke2fs(t, 8<<20, append(strings.Fields(kinds[(i+k)%2]), "-b", "1024")...)
				oracle.Run(t, "tune2fs", "-E", "hash_alg="+hash, image)
				oracle.Run(t, "debugfs", "-w", "-R", "ssv flags "+flags, image)
				fill(t, image, func(dir string) { manyNames(t, dir, 300) })
				requireNames(t, image, 300)
			})
		}
	}
}

// manyNames makes n names of many bytes each, all of one file.
func manyNames(t testing.TB, dir string, n int) {
	t.Helper()
	require.NoError(t, os.Mkdir(dir+"/many", 0o755))
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o644))
	for i := range n {
		name := fmt.Sprintf("%s/many/\xe9\x80%d-%s", dir, i, strings.Repeat("\xff", i%200))
		require.NoError(t, os.Link(dir+"/file", name))
	}
}

// requireNames looks up each of the names through the index.
func requireNames(t testing.TB, image string, n int) {
	t.Helper()
	fsys := openImage(t, image)
	in, err := fsys.merged().resolve("many", true)
	require.NoError(t, err)
	require.True(t, in.raw.HasFlags(format.InodeIndex))
	list, err := fsys.ReadDir("many")
	require.NoError(t, err)
	require.Len(t, list, n)
	for _, d := range list {
		view, err := in.dirView()
		require.NoError(t, err)
		e, found, err := view.Lookup([]byte(d.Name())) // no fallback here
		require.NoError(t, err)
		require.True(t, found, "%q", d.Name())
		require.Equal(t, d.(*DirEntry).Ino(), e.Ino)
	}
	view, err := in.dirView()
	require.NoError(t, err)
	_, found, err := view.Lookup([]byte("nobody"))
	require.NoError(t, err)
	require.False(t, found)
}

// TestDeepIndex looks names up in indexes of two, and with large_dir three, levels.
func TestDeepIndex(t *testing.T) {
	n, features := 1500, "large_dir"
	if oracle.IsLong() {
		n = 60000
	}
	image := mke2fs(t, 64<<20, "-t", "ext4", "-b", "1024", "-O", features)
	fill(t, image, func(dir string) { manyNames(t, dir, n) })
	requireNames(t, image, n)
}

// TestDeepExtents reads a file of so many extents that the tree has inner nodes.
func TestDeepExtents(t *testing.T) {
	extents, depth := 600, 2
	if oracle.IsLong() {
		extents, depth = 40000, 3
	}
	image := mke2fs(t, 64<<20, "-t", "ext4", "-b", "1024", "-O", "^has_journal")
	fill(t, image, func(dir string) {
		f, err := os.Create(dir + "/file")
		require.NoError(t, err)
		defer f.Close()
		for i := range extents {
			_, err := f.WriteAt([]byte(fmt.Sprint(i)), int64(i)*2048)
			require.NoError(t, err)
		}
	})
	fsys := openImage(t, image)
	in, err := fsys.merged().resolve("file", true)
	require.NoError(t, err)
	h, err := format.ReadExtentHeader(in.raw.IBlock())
	require.NoError(t, err)
	require.GreaterOrEqual(t, int(h.Depth), depth)
	compareMount(t, image)
	f, err := fsys.Open("file")
	require.NoError(t, err)
	r := newRand(t)
	for range 200 {
		i := r.IntN(extents)
		p := make([]byte, len(fmt.Sprint(i)))
		_, err := f.ReadAt(p, int64(i)*2048)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), string(p))
	}
}

// B010, 1.42: descriptors of 32, 64 and 128 bytes in several groups.
func TestDescSizes(t *testing.T) {
	tree := t.TempDir()
	makeTree(t, newRand(t), tree, treeOptions{files: 60, maxFile: 9000, oldTimes: true, plain: true, linkFiles: true})
	for _, args := range []string{"-O ^64bit", "-O 64bit", "-O 64bit -E desc-size=128"} {
		image := mke2fs(t, 16<<20, append(strings.Fields("-t ext4 -b 1024 -g 1024 -d "+tree), strings.Fields(args)...)...)
		requireSameTree(t, openImage(t, image), tree, sameAs{mke2fs: true})
	}
}
