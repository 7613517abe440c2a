package alloc_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/mkfs"
	"drydock/internal/oracle"
	"drydock/journal"
)

// mke2fs makes a file system of so many KiB and loads it into memory.
func mke2fs(t testing.TB, kib int64, args ...string) *device.Mem {
	t.Helper()
	path := filepath.Join(t.TempDir(), "new.img")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, kib<<10))
	if !slices.Contains(args, "-t") {
		args = append(args, "-t", "ext4")
	}
	oracle.Run(t, "mke2fs", slices.Concat([]string{"-q", "-F"}, args, []string{path})...)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	dev := device.NewMem(kib << 10)
	for s, err := range device.FileSegments(f, 0, kib<<10) {
		require.NoError(t, err)
		buf := make([]byte, s.Len)
		_, err = f.ReadAt(buf, s.Off)
		require.NoError(t, err)
		_, err = dev.WriteAt(buf, s.Off)
		require.NoError(t, err)
	}
	require.NoError(t, os.Remove(path))
	return dev
}

// store writes a device to a file.
func store(t testing.TB, dev *device.Mem) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fs.img")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(dev.Size()))
	for s, err := range dev.Segments(0, dev.Size()) {
		require.NoError(t, err)
		_, err = f.Seek(s.Off, io.SeekStart)
		require.NoError(t, err)
		_, err = io.Copy(f, io.NewSectionReader(dev, s.Off, s.Len))
		require.NoError(t, err)
	}
	return path
}

// owner takes and frees blocks and inodes at random.
type owner struct {
	*fileSystem
	rng    *rand.Rand
	runs   []alloc.Run
	inodes map[format.Ino]bool // and whether it is a directory
}

// churn does so many Txs.
func (o *owner) churn(txs int) {
	for range txs {
		if o.rng.IntN(10) == 0 {
			o.sync()
		}
		o.change()
	}
	o.sync()
}

// change changes a few things in a Tx, which is aborted at times.
func (o *owner) change() {
	tx := o.begin()
	runs, inodes := slices.Clone(o.runs), map[format.Ino]bool{}
	var dropped []format.Ino
	for range o.rng.IntN(4) {
		runs = append(runs, o.take(tx)...)
		dir := o.rng.IntN(2) == 0
		ino, err := o.a.NewInode(tx, format.Ino(o.rng.IntN(int(o.geo.InodesCount))), dir)
		require.NoError(o.t, err)
		inodes[ino] = dir
	}
	for len(runs) > 0 && o.rng.IntN(3) > 0 {
		i := o.rng.IntN(len(runs))
		require.NoError(o.t, o.a.Free(tx, runs[i].Start, runs[i].N))
		runs = slices.Delete(runs, i, i+1)
	}
	for ino, dir := range o.inodes {
		if o.rng.IntN(20) == 0 {
			require.NoError(o.t, o.a.FreeInode(tx, ino, dir))
			dropped = append(dropped, ino)
		}
	}
	if o.rng.IntN(4) == 0 {
		tx.Abort()
		return
	}
	_, err := tx.Commit()
	require.NoError(o.t, err)
	o.runs = runs
	for ino, dir := range inodes {
		o.inodes[ino] = dir
	}
	for _, ino := range dropped {
		delete(o.inodes, ino)
	}
}

// take picks and marks a few runs; an abort gives them back.
func (o *owner) take(tx *journal.Tx) []alloc.Run {
	var runs []alloc.Run
	for range 1 + o.rng.IntN(5) {
		goal, want := o.rng.Uint64N(uint64(o.geo.BlocksCount)), 1+o.rng.IntN(1<<o.rng.IntN(10))
		start, n, err := o.a.Find(format.Block(goal), uint32(want), false)
		if errors.Is(err, syscall.ENOSPC) {
			break // much is freed, but not durably
		}
		require.NoError(o.t, err)
		tx.OnAbort(func() { o.a.Release(start, n, false) })
		runs = append(runs, alloc.Run{Start: start, N: n})
	}
	require.NoError(o.t, o.a.MarkMany(tx, runs))
	return runs
}

// giveBack frees all but some.
func (o *owner) giveBack(keep bool) {
	o.update(func(tx *journal.Tx) {
		o.runs = slices.DeleteFunc(o.runs, func(r alloc.Run) bool {
			if keep && o.rng.IntN(4) == 0 {
				return false
			}
			require.NoError(o.t, o.a.Free(tx, r.Start, r.N))
			return true
		})
		for ino, dir := range o.inodes {
			if !keep || o.rng.IntN(4) > 0 {
				require.NoError(o.t, o.a.FreeInode(tx, ino, dir))
				delete(o.inodes, ino)
			}
		}
	})
}

// differences are the numbers that e2fsck says are marked but not used, and the
// other way round.
func differences(t testing.TB, out, what string) (marked, lacking []uint64) {
	line := regexp.MustCompile(`(?m)^` + what + ` bitmap differences:(.*)$`).FindStringSubmatch(out)
	if line == nil {
		return nil, nil
	}
	for _, word := range strings.Fields(line[1]) {
		list := &lacking
		if word[0] == '-' {
			list = &marked
		}
		first, last, isRange := strings.Cut(strings.Trim(word[1:], "()"), "--")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 64)
		require.NoError(t, err, word)
		to, err := strconv.ParseUint(last, 10, 64)
		require.NoError(t, err, word)
		for ; from <= to; from++ {
			*list = append(*list, from)
		}
	}
	return marked, lacking
}

// checkKept checks that e2fsck finds nothing but what the owner still has.
func (o *owner) checkKept(path string) {
	o.t.Helper()
	oracle.Need(o.t, "e2fsck")
	out := oracle.Run(o.t, "sh", "-c", "PATH=$PATH:/sbin:/usr/sbin e2fsck -fn "+path+"; test $? -le 4")
	var blocks, inodes []uint64
	for _, r := range o.runs {
		for i := range uint64(r.N) {
			blocks = append(blocks, uint64(r.Start)+i)
		}
	}
	for ino := range o.inodes {
		inodes = append(inodes, uint64(ino))
	}
	slices.Sort(blocks)
	slices.Sort(inodes)
	marked, lacking := differences(o.t, out, "Block")
	require.Equal(o.t, blocks, marked, "blocks; e2fsck says\n%s", out)
	require.Empty(o.t, lacking, "blocks")
	marked, lacking = differences(o.t, out, "Inode")
	require.Equal(o.t, inodes, marked, "inodes; e2fsck says\n%s", out)
	require.Empty(o.t, lacking, "inodes")
	for _, odd := range []string{"invalid", "checksum", "Padding", "corrupt", "uninit", "Pass 1B"} {
		require.NotContains(o.t, strings.ReplaceAll(out, path, ""), odd)
	}
}

// images are file systems of many kinds.
var images = []struct {
	name string
	make func(t testing.TB) *device.Mem
}{
	{"4K", func(t testing.TB) *device.Mem { return mke2fs(t, 400<<10) }},
	{"4K short last group", func(t testing.TB) *device.Mem { return mke2fs(t, 131<<10+4) }},
	{"1K", func(t testing.TB) *device.Mem { return mke2fs(t, 60<<10, "-b", "1024") }},
	{"2K", func(t testing.TB) *device.Mem { return mke2fs(t, 100<<10+2, "-b", "2048") }},
	{"64K", func(t testing.TB) *device.Mem { return mke2fs(t, 200<<10, "-b", "65536") }},
	{"small groups", func(t testing.TB) *device.Mem { return mke2fs(t, 40<<10, "-b", "1024", "-g", "1024", "-N", "2000") }},
	{"32-byte descriptors", func(t testing.TB) *device.Mem { return mke2fs(t, 60<<10, "-b", "1024", "-O", "^64bit") }},
	{"uninit_bg", func(t testing.TB) *device.Mem {
		return mke2fs(t, 70<<10, "-b", "1024", "-O", "^64bit,^metadata_csum,uninit_bg")
	}},
	{"uninit_bg, 64-byte descriptors", func(t testing.TB) *device.Mem {
		return mke2fs(t, 300<<10, "-O", "64bit,^metadata_csum,uninit_bg")
	}},
	{"no checksums", func(t testing.TB) *device.Mem {
		return mke2fs(t, 60<<10, "-b", "1024", "-O", "^metadata_csum,^uninit_bg")
	}},
	{"no flex_bg", func(t testing.TB) *device.Mem { return mke2fs(t, 60<<10, "-b", "1024", "-O", "^flex_bg") }},
	{"no flex_bg, uninit_bg", func(t testing.TB) *device.Mem {
		return mke2fs(t, 60<<10, "-b", "1024", "-O", "^flex_bg,^metadata_csum,^64bit,uninit_bg")
	}},
	{"flex groups of 64", func(t testing.TB) *device.Mem { return mke2fs(t, 400<<10, "-b", "1024", "-G", "64") }},
	{"meta_bg", func(t testing.TB) *device.Mem {
		return mke2fs(t, 80<<10, "-b", "1024", "-g", "1024", "-O", "meta_bg,^resize_inode")
	}},
	{"sparse_super2", func(t testing.TB) *device.Mem { return mke2fs(t, 80<<10, "-b", "1024", "-O", "sparse_super2") }},
	{"ext3", func(t testing.TB) *device.Mem { return mke2fs(t, 60<<10, "-t", "ext3", "-I", "128", "-b", "1024") }},
	{"ext2 revision 0", func(t testing.TB) *device.Mem { return mke2fs(t, 60<<10, "-t", "ext2", "-r", "0", "-b", "1024") }},
	{"ours", func(t testing.TB) *device.Mem { return formatted(t, 400<<20, mkfs.Options{}) }},
	{"ours 1K meta_bg", func(t testing.TB) *device.Mem { return profiled(t, "meta_bg", 1024) }},
	{"ours 2K compat", func(t testing.TB) *device.Mem { return profiled(t, "compat", 2048) }},
	{"ours 8K modern", func(t testing.TB) *device.Mem { return profiled(t, "modern", 8192) }},
}

func profiled(t testing.TB, profile string, blockSize int) *device.Mem {
	t.Helper()
	features, err := mkfs.Profile(profile)
	require.NoError(t, err)
	return formatted(t, 99<<20, mkfs.Options{BlockSize: blockSize, Features: features})
}

// TestImages takes and frees blocks and inodes of file systems of all kinds, and
// has e2fsck judge: once all is given back, and once some of it is not.
func TestImages(t *testing.T) {
	oracle.Need(t, "mke2fs", "e2fsck")
	txs := 120
	if oracle.IsLong() {
		txs = 3000
	}
	for _, c := range images {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := newRand(t)
			dev := c.make(t)
			for _, keep := range []bool{false, true} {
				f := open(t, dev, alloc.Options{Memory: 1})
				if f.lazy() {
					f.litter()
					f = open(t, dev, alloc.Options{Memory: 1})
				}
				o := &owner{fileSystem: f, rng: rng, inodes: map[format.Ino]bool{}}
				o.churn(txs)
				o.giveBack(keep)
				o.used()
				o.close()
				require.Empty(t, f.warn)
				if path := store(t, dev); keep {
					o.checkKept(path)
				} else {
					oracle.Fsck(t, path)
				}
			}
		})
	}
}
