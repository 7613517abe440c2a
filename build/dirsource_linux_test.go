package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/format"
	"drydock/internal/mkfs"
	"drydock/internal/oracle"
)

func TestDirSourceKeepsWhatAnyUserCanMake(t *testing.T) {
	root := oracle.HardTree(t)
	c, src := dirContent(t, root, DirOptions{})
	sameTree(t, describeHost(t, root), describeContent(t, c, src))
}

// TestDirSourceLargeFiles is B037 and B076: sizes are not cut to 32 bits.
func TestDirSourceLargeFiles(t *testing.T) {
	root := t.TempDir()
	sizes := map[string]int64{"2G": 1<<31 - 1, "3G": 3 << 30, "4G": 1 << 32, "18G": 18159239168, "129G": 129 << 30, "8T": 8 << 40}
	for name, size := range sizes {
		oracle.WriteSparse(t, root+"/"+name, size, map[int64]string{size - 1: "e"})
	}
	c, src := dirContent(t, root, DirOptions{})
	for name, size := range sizes {
		n := c.Nodes[pathNodes(c)[name]]
		require.EqualValues(t, size, n.Size)
		require.True(t, n.Sparse)
		last := c.Ranges[n.First+n.Count-1]
		require.EqualValues(t, size, last.Off+last.Len)
		d, err := src.Open(n.Source)
		require.NoError(t, err)
		b := make([]byte, 2)
		_, err = d.ReadAt(b, size-2)
		require.NoError(t, err)
		require.Equal(t, "\x00e", string(b))
		require.NoError(t, d.Close())
	}
}

// TestDirSourceKeepsWhatRootCanMake is B016, B049, B058 (as root) and more.
func TestDirSourceKeepsWhatRootCanMake(t *testing.T) {
	oracle.Root(t)
	oracle.Need(t, "setfacl")
	root := oracle.HardTree(t)
	oracle.Privileged(t, root)
	c, src := dirContent(t, root, DirOptions{})
	sameTree(t, describeHost(t, root), describeContent(t, c, src))
}

// TestDirSourceOnOtherHosts reads the hard cases from other file systems: the
// types of names, holes and xattrs come in other ways there.
func TestDirSourceOnOtherHosts(t *testing.T) {
	oracle.Root(t)
	oracle.Need(t, "setfacl")
	for _, kind := range []string{"xfs", "btrfs", "tmpfs"} {
		t.Run(kind, func(t *testing.T) {
			var dir string
			if kind == "tmpfs" {
				dir = tmpfs(t)
			} else {
				dir = oracle.MkfsHost(t, kind, 320<<20)
			}
			t.Setenv("TMPDIR", dir)
			t.Run("tree", func(t *testing.T) { hostTree(t, dir, kind != "tmpfs") })
		})
	}
}

func hostTree(t *testing.T, dir string, xattrs bool) {
	root := oracle.HardTree(t)
	require.True(t, strings.HasPrefix(root, dir))
	if xattrs {
		oracle.Privileged(t, root)
	}
	c, src := dirContent(t, root, DirOptions{})
	sameTree(t, describeHost(t, root), describeContent(t, c, src))
	n := c.Nodes[pathNodes(c)["sparse-mid"]]
	require.True(t, n.Sparse)
	require.Equal(t, ranges(512<<10, 4096), c.Ranges[n.First:n.First+n.Count])
}

// tmpfs mounts a file system in memory.
func tmpfs(t testing.TB) string {
	dir := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	return dir
}

// TestDirSourceXattrFallbacks reads xattrs as older kernels, and hosts without
// /proc, make it necessary.
func TestDirSourceXattrFallbacks(t *testing.T) {
	oracle.Root(t)
	oracle.Need(t, "setfacl")
	root := oracle.HardTree(t)
	oracle.Privileged(t, root)
	for _, x := range []xattrReader{{proc: true}, {}} {
		src, err := NewDirSource(root, DirOptions{})
		require.NoError(t, err)
		defer src.Close()
		src.xattr = x
		c, _ := scanSource(t, src, TreeOptions{})
		sameTree(t, describeHost(t, root), describeContent(t, c, src))
	}
}

// TestDirSourceIsDeterministic is B070 and B071 as far as the source goes.
func TestDirSourceIsDeterministic(t *testing.T) {
	root := oracle.HardTree(t)
	for i := range 1300 { // a listing that is handed over in pieces
		oracle.WriteFile(t, fmt.Sprintf("%s/many/file-with-a-much-longer-name-%d", root, i), "", 0o644)
	}
	want, _ := dirContent(t, root, DirOptions{Workers: 1})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, workers := range []int{1, 2, 8} {
		src, err := NewDirSource(root, DirOptions{Workers: workers})
		require.NoError(t, err)
		defer src.Close()
		src.o.shuffle = func(n int, swap func(i, j int)) {
			rand.New(rand.NewPCG(seed, uint64(workers))).Shuffle(n, swap)
		}
		got, _ := scanSource(t, src, TreeOptions{})
		require.Equal(t, withoutPlaces(want), withoutPlaces(got))
	}
}

func TestDirSourceHoles(t *testing.T) {
	root := t.TempDir()
	block := strings.Repeat("d", 4096)
	zero := strings.Repeat("\x00", 65536)
	oracle.WriteSparse(t, root+"/holes", 1<<20, map[int64]string{256 << 10: block, 512 << 10: zero})
	oracle.WriteFile(t, root+"/zeros", zero+block+zero[:100], 0o644)
	oracle.WriteFile(t, root+"/all-zero", zero[:5000], 0o644)
	require.NoError(t, preallocate(root+"/ahead", 0, 0, 2<<20))
	oracle.WriteSparse(t, root+"/behind", 1<<20, map[int64]string{0: block})
	require.NoError(t, preallocate(root+"/behind", unix.FALLOC_FL_KEEP_SIZE, 1<<20, 2<<20))
	if !hasHoles(t, root+"/holes") {
		t.Skip("skipped: the temporary directory's file system has no holes")
	}
	get := func(o DirOptions, tree TreeOptions, name string) (bool, []mkfs.Range) {
		src, err := NewDirSource(root, o)
		require.NoError(t, err)
		defer src.Close()
		c, _ := scanSource(t, src, tree)
		n := c.Nodes[pathNodes(c)[name]]
		describeContent(t, c, src)
		if !n.Sparse {
			return false, nil
		}
		return true, append([]mkfs.Range{}, c.Ranges[n.First:n.First+n.Count]...)
	}
	for _, x := range []struct {
		mode   HoleMode
		block  int
		name   string
		sparse bool
		want   []mkfs.Range
	}{
		{"", 0, "holes", true, ranges(256<<10, 4096, 512<<10, 65536)},
		{"", 0, "zeros", false, nil},
		{"", 0, "ahead", false, nil}, // allocated, if not written
		{"", 0, "behind", true, ranges(0, 4096)},
		{HolesDig, 4096, "ahead", true, ranges()},
		{HolesDig, 4096, "holes", true, ranges(256<<10, 4096)},
		{HolesDig, 1024, "zeros", true, ranges(65536, 4096)},
		{HolesDig, 65536, "zeros", true, ranges(65536, 4196)},
		{HolesDig, 65536, "holes", true, ranges(256<<10, 65536)},
		{HolesDig, 4096, "all-zero", true, ranges()},
		{HolesFill, 4096, "holes", false, nil},
		{HolesFill, 4096, "ahead", false, nil},
	} {
		sparse, got := get(DirOptions{Holes: x.mode}, TreeOptions{BlockSize: x.block}, x.name)
		require.Equal(t, x.sparse, sparse, "%v", x)
		require.Equal(t, x.want, got, "%v", x)
	}
}

// ranges makes ranges of pairs of offset and length.
func ranges(numbers ...uint64) []mkfs.Range {
	list := []mkfs.Range{}
	for i := 0; i < len(numbers); i += 2 {
		list = append(list, mkfs.Range{Off: numbers[i], Len: numbers[i+1]})
	}
	return list
}

func preallocate(path string, mode uint32, off, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fallocate(int(f.Fd()), mode, off, size)
}

func hasHoles(t testing.TB, path string) bool {
	var st syscall.Stat_t
	require.NoError(t, syscall.Stat(path, &st))
	return st.Blocks*512 < st.Size
}

func TestDirSourceSkipsAndExcludes(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"rootfs.img", "a/keep.o", "a/drop.tmp", "cache/x/y", "b/cache", "b/deep/drop.tmp"} {
		oracle.WriteFile(t, root+"/"+name, "data", 0o644)
	}
	require.NoError(t, os.Link(root+"/a/drop.tmp", root+"/b/kept-link"))
	image, err := os.Stat(root + "/rootfs.img")
	require.NoError(t, err)
	src, err := NewDirSource(root, DirOptions{Skip: []os.FileInfo{image}})
	require.NoError(t, err)
	defer src.Close()
	exclude, err := NewExclude([]string{"**/*.tmp", "cache/"})
	require.NoError(t, err)
	c, _ := scanSource(t, src, TreeOptions{Exclude: exclude})
	var paths []string
	for path := range describeContent(t, c, src) {
		paths = append(paths, path)
	}
	require.ElementsMatch(t, []string{".", "a", "a/keep.o", "b", "b/cache", "b/deep", "b/kept-link"}, paths)
	require.EqualValues(t, 1, c.Nodes[pathNodes(c)["b/kept-link"]].Links)
}

// asUser runs a test again as a user without rights, if it runs as root.
func asUser(t *testing.T, setup func(root string), test func(root string)) {
	root := t.TempDir()
	require.NoError(t, os.Chmod(root, 0o755))
	for dir := filepath.Dir(root); strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	setup(root)
	if os.Geteuid() != 0 {
		test(root)
		return
	}
	require.NoError(t, chownTree(root, 12345))
	done := make(chan struct{})
	go func() { // the thread ends with the goroutine: it stays locked
		defer close(done)
		lockThreadAs(t, 12345)
		test(root)
	}()
	<-done
}

// TestDirSourceListsUnreadable is B058: all that cannot be read is listed.
func TestDirSourceListsUnreadable(t *testing.T) {
	setup := func(root string) {
		oracle.WriteFile(t, root+"/etc/gshadow", "secret", 0)
		oracle.WriteFile(t, root+"/etc/empty-0000", "", 0)
		oracle.WriteFile(t, root+"/etc/ok", "data", 0o400)
		oracle.WriteFile(t, root+"/z", "data", 0o200)
		oracle.WriteFile(t, root+"/locked/x", "data", 0o644)
		require.NoError(t, os.Chmod(root+"/locked", 0o300))
		t.Cleanup(func() { os.Chmod(root+"/locked", 0o700) })
	}
	asUser(t, setup, func(root string) {
		// one worker on this thread: others would have other rights
		src, err := NewDirSource(root, DirOptions{Workers: 1})
		if err != nil {
			t.Error(err)
			return
		}
		defer src.Close()
		tree := NewTree(TreeOptions{})
		err = scanHere(src, tree)
		var unreadable *UnreadableError
		if !errors.As(err, &unreadable) || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("got %v", err)
			return
		}
		want := "3 of the source's files cannot be read:\n" +
			"  \"etc/gshadow\": data: permission denied\n  \"locked\": directory: permission denied\n  \"z\": data: permission denied"
		if err.Error() != want {
			t.Errorf("got %v", err)
		}
	})
	asUser(t, setup, func(root string) {
		src, err := NewDirSource(root, DirOptions{Workers: 1, SkipUnreadable: true})
		if err != nil {
			t.Error(err)
			return
		}
		defer src.Close()
		tree := NewTree(TreeOptions{})
		if err := scanHere(src, tree); err != nil {
			t.Error(err)
			return
		}
		c, err := tree.Finish()
		if err != nil || len(tree.Skipped()) != 3 {
			t.Error(err, tree.Skipped())
			return
		}
		paths := pathNodes(c)
		if n := c.Nodes[paths["etc/empty-0000"]]; len(paths) != 4 || n.Mode != format.ModeRegular {
			t.Errorf("%v %v", paths, n)
		}
	})
}

func TestDirSourceNoticesChanges(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"longer":   func(p string) error { return os.WriteFile(p, []byte("longer data"), 0o644) },
		"touched":  func(p string) error { return os.Chtimes(p, time.Time{}, time.Unix(5, 0)) },
		"gone":     os.Remove,
		"symlink":  func(p string) error { return errors.Join(os.Remove(p), os.Symlink("other", p)) },
		"fifo":     func(p string) error { return errors.Join(os.Remove(p), syscall.Mkfifo(p, 0o644)) },
		"replaced": func(p string) error { return errors.Join(os.Remove(p), os.WriteFile(p, []byte("data"), 0o644)) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			oracle.WriteFile(t, root+"/d/f", "data", 0o644)
			oracle.WriteFile(t, root+"/d/other", "data", 0o644)
			c, src := dirContent(t, root, DirOptions{})
			handle := c.Nodes[pathNodes(c)["d/f"]].Source
			d, err := src.Open(handle)
			require.NoError(t, err)
			require.NoError(t, change(root+"/d/f"))
			_, err = src.Open(handle)
			require.ErrorIs(t, err, ErrChanged)
			require.ErrorContains(t, err, `"d/f"`)
			if name == "longer" || name == "touched" {
				require.ErrorIs(t, d.Close(), ErrChanged)
			} else {
				d.Close()
			}
		})
	}
}

func TestDirSourceErrors(t *testing.T) {
	_, err := NewDirSource(t.TempDir()+"/none", DirOptions{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	file := t.TempDir() + "/file"
	oracle.WriteFile(t, file, "x", 0o644)
	_, err = NewDirSource(file, DirOptions{})
	require.ErrorIs(t, err, unix.ENOTDIR)

	src, err := NewDirSource(filepath.Dir(file), DirOptions{})
	require.NoError(t, err)
	defer src.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, src.Scan(ctx, NewTree(TreeOptions{})), context.Canceled)
	_, err = src.Open(77)
	require.Error(t, err)
}

// TestDirSourceDeepTree has a path of more than PATH_MAX bytes and more
// directories than are kept open.
func TestDirSourceDeepTree(t *testing.T) {
	root := t.TempDir()
	dir, err := os.OpenRoot(root)
	require.NoError(t, err)
	name := strings.Repeat("d", 100)
	const depth = 300
	for range depth {
		require.NoError(t, dir.Mkdir(name, 0o755))
		next, err := dir.OpenRoot(name)
		require.NoError(t, err)
		dir.Close()
		dir = next
		require.NoError(t, dir.WriteFile("file", []byte("deep"), 0o644))
	}
	dir.Close()
	t.Cleanup(func() { removeDeep(t, root, name) })
	c, src := dirContent(t, root, DirOptions{Workers: 3})
	require.Len(t, c.Nodes, 1+2*depth)
	data := make([]byte, 4)
	for i := len(c.Nodes) - 1; i >= 0; i-- {
		if c.Nodes[i].Size == 0 {
			continue
		}
		d, err := src.Open(c.Nodes[i].Source)
		require.NoError(t, err)
		_, err = d.ReadAt(data, 0)
		require.NoError(t, err)
		require.Equal(t, "deep", string(data))
		require.NoError(t, d.Close())
	}
	require.LessOrEqual(t, len(src.cache.dirs), maxDirs)
}

// removeDeep removes a tree that os.RemoveAll may not reach into.
func removeDeep(t testing.TB, root, name string) {
	for {
		var st syscall.Stat_t
		if syscall.Lstat(root+"/"+name+"/"+name, &st) != nil {
			return
		}
		require.NoError(t, os.Rename(root+"/"+name+"/"+name, root+"/next"))
		require.NoError(t, os.RemoveAll(root+"/"+name))
		require.NoError(t, os.Rename(root+"/next", root+"/"+name))
	}
}

func TestDirSourceOpensInParallel(t *testing.T) {
	root := oracle.HardTree(t)
	c, src := dirContent(t, root, DirOptions{Workers: 4})
	errs := make(chan error, 4)
	for range 4 {
		go func() {
			for i := range c.Nodes {
				if c.Nodes[i].Source == 0 || c.Nodes[i].Mode&format.ModeType != format.ModeRegular {
					continue
				}
				d, err := src.Open(c.Nodes[i].Source)
				if err == nil {
					err = d.Close()
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range 4 {
		require.NoError(t, <-errs)
	}
}

func TestXattrFilterOnADirectory(t *testing.T) {
	root := t.TempDir()
	oracle.WriteFile(t, root+"/f", "x", 0o644)
	for _, name := range []string{"user.a", "user.b.c"} {
		if err := unix.Setxattr(root+"/f", name, []byte("v"), 0); err != nil {
			t.Skip("skipped: the temporary directory's file system has no xattrs")
		}
	}
	for spec, want := range map[string]string{"keep": "user.a user.b.c", "none": "", "user.b*": "user.b.c", "!user.a": "user.b.c", "user.*,!*.c": "user.a"} {
		filter, err := NewXattrFilter(spec)
		require.NoError(t, err)
		src, err := NewDirSource(root, DirOptions{})
		require.NoError(t, err)
		c, _ := scanSource(t, src, TreeOptions{Xattrs: filter})
		var names []string
		if x := c.Nodes[1].Xattrs; x != 0 {
			for _, a := range c.Xattrs[x-1] {
				names = append(names, a.FullName())
			}
		}
		require.Equal(t, want, strings.Join(names, " "), spec)
		src.Close()
	}
}

func TestDigRanges(t *testing.T) {
	data := make([]byte, digBuffer+10000)
	data[digBuffer-1] = 1
	data[digBuffer] = 1
	data[len(data)-1] = 1
	size := uint64(len(data))
	got, err := digRanges(bytes.NewReader(data), ranges(0, size), size, 1024, make([]byte, digBuffer))
	require.NoError(t, err)
	require.Equal(t, ranges(digBuffer-1024, 2048, digBuffer+9216, 784), got)
	got, err = digRanges(bytes.NewReader(data), ranges(5, 5, 100, 7), size, 1024, make([]byte, digBuffer))
	require.NoError(t, err)
	require.Empty(t, got)
}

// BenchmarkDirSource scans a directory of 20,000 files.
func BenchmarkDirSource(b *testing.B) {
	root := b.TempDir()
	for i := range 20_000 {
		oracle.WriteFile(b, fmt.Sprintf("%s/%d/file-%06d", root, i/1000, i), "data", 0o644)
	}
	for b.Loop() {
		src, err := NewDirSource(root, DirOptions{})
		require.NoError(b, err)
		c, _ := scanSource(b, src, TreeOptions{})
		require.Len(b, c.Nodes, 20_021)
		src.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/20_000, "ns/file")
}
