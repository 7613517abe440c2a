package ext4

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
)

// newFS makes an empty file system in memory, without any other program.
func newFS(t testing.TB, size int64, f FormatOptions, o Options) (*FS, *device.Mem) {
	t.Helper()
	dev := device.NewMem(size)
	f.Clean = true
	require.NoError(t, Format(dev, f))
	return openWith(t, dev, o), dev
}

func closeAndFsck(t testing.TB, fsys *FS, dev device.Device) {
	t.Helper()
	require.NoError(t, fsys.Close())
	fsck(t, dev)
}

func segmentsOf(t testing.TB, f *File, off, n int64) (list []device.Segment) {
	t.Helper()
	for s, err := range f.Segments(off, n) {
		require.NoError(t, err)
		list = append(list, s)
	}
	return list
}

func TestSegments(t *testing.T) {
	fsys, dev := newFS(t, 16<<20, FormatOptions{}, Options{})
	f := openFile(t, fsys, "f", os.O_RDWR|os.O_CREATE)
	_, err := f.WriteAt(noise(100, 1), 8192)
	require.NoError(t, err)
	require.NoError(t, f.Allocate(40960, 8192, false))
	_, err = f.WriteAt(noise(10, 1), 45056)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(100_000))
	want := []device.Segment{{Off: 8192, Len: 4096}, {Off: 45056, Len: 4096}}
	require.Equal(t, want, segmentsOf(t, f, 0, 1<<40))
	require.NoError(t, f.Sync())
	require.Equal(t, want, segmentsOf(t, f, 0, 1<<40))
	require.Equal(t, []device.Segment{{Off: 9000, Len: 8}}, segmentsOf(t, f, 9000, 8))
	require.Empty(t, segmentsOf(t, f, 200_000, 8))
	closeAndFsck(t, fsys, dev)
}

// Only the blocks that were written are written to the device.
func TestWriteAmplification(t *testing.T) {
	mem := device.NewMem(64 << 20)
	require.NoError(t, Format(mem, FormatOptions{Clean: true}))
	rec := device.NewRecorder(mem)
	fsys := openWith(t, rec, Options{FolioSize: 64 << 10})
	f := openFile(t, fsys, "f", os.O_RDWR|os.O_CREATE)
	_, err := f.WriteAt(noise(4<<20, 1), 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	extents := extentsOf(t, fsys, "f")
	require.Len(t, extents, 1)
	first, end := int64(extents[0].Start)*4096, int64(extents[0].Start)*4096+4<<20
	before := len(rec.Trace().Events)
	r := newRand(t)
	const writes = 200
	for range writes {
		_, err := f.WriteAt(noise(4096, r.Uint64()), int64(r.IntN(1024))*4096)
		require.NoError(t, err)
		require.NoError(t, f.Datasync())
	}
	var written, flushes int64
	for _, e := range rec.Trace().Events[before:] {
		switch {
		case e.Kind == device.EventFlush:
			flushes++
		case e.Kind == device.EventWrite:
			require.True(t, e.Off >= first && e.Off+e.Len <= end, "a write of %d bytes at %d, which is not the file's data", e.Len, e.Off)
			written += e.Len
		}
	}
	require.EqualValues(t, writes*4096, written)
	require.EqualValues(t, writes, flushes)
	require.NoError(t, fsys.Close())
}

// Files that grow at the same time lie in one piece each, or nearly so: the first
// ones meet while room is still given out.
func TestGrowingFilesLieInOnePiece(t *testing.T) {
	fsys, dev := newFS(t, 256<<20, FormatOptions{}, Options{Memory: 4 << 20})
	var all sync.WaitGroup
	const files, size = 10, 3 << 19
	for i := range files {
		all.Go(func() {
			f := openFile(t, fsys, fmt.Sprintf("f%d", i), os.O_RDWR|os.O_CREATE)
			defer f.Close()
			p := noise(size, uint64(i))
			for off := 0; off < size; off += 48 << 10 {
				if _, err := f.WriteAt(p[off:min(off+48<<10, size)], int64(off)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.NoError(t, fsys.Sync())
	pieces := 0
	for i := range files {
		name := fmt.Sprintf("f%d", i)
		pieces += len(extentsOf(t, fsys, name))
		b, err := fsys.ReadFile(name)
		require.NoError(t, err)
		requireSame(t, noise(size, uint64(i)), b, name)
	}
	require.LessOrEqual(t, pieces, files+2, "extents of all files")
	closeAndFsck(t, fsys, dev)
}

var errDevice = errors.New("device is broken")

// What cannot be written stays dirty, each open file is told of it once, and
// when the device works again nothing is lost.
func TestWritebackErrors(t *testing.T) {
	mem := device.NewMem(32 << 20)
	require.NoError(t, Format(mem, FormatOptions{Clean: true}))
	fault := device.NewFault(mem, nil)
	fsys := openWith(t, fault, Options{})
	f, g := openFile(t, fsys, "f", os.O_RDWR|os.O_CREATE), openFile(t, fsys, "f", os.O_RDWR)
	p := noise(100_000, 1)
	_, err := f.WriteAt(p, 0)
	require.NoError(t, err)
	fault.SetRule(device.FailFrom(device.OpWrite, 1, errDevice))
	require.ErrorIs(t, f.Sync(), errDevice)
	fault.SetRule(nil)
	require.NoError(t, f.Sync())
	require.ErrorIs(t, g.Sync(), errDevice, "the other file")
	require.NoError(t, g.Sync())
	require.NoError(t, openFile(t, fsys, "f", os.O_RDWR).Sync(), "a file opened later")
	b, err := fsys.ReadFile("f")
	require.NoError(t, err)
	requireSame(t, p, b, "f")
	closeAndFsck(t, fsys, mem)
	fsys = openWith(t, mem, Options{})
	b, err = fsys.ReadFile("f")
	require.NoError(t, err)
	requireSame(t, p, b, "f")
	require.NoError(t, fsys.Close())
}

// A writer does not wait for ever for memory that a broken device keeps.
func TestBrokenDeviceEndsWriters(t *testing.T) {
	mem := device.NewMem(64 << 20)
	require.NoError(t, Format(mem, FormatOptions{Clean: true}))
	fault := device.NewFault(mem, nil)
	fsys := openWith(t, fault, Options{Memory: 4 << 20})
	f := openFile(t, fsys, "f", os.O_RDWR|os.O_CREATE)
	fault.SetRule(device.FailFrom(device.OpWrite, 1, errDevice))
	p := noise(1<<20, 1)
	var err error
	for off := int64(0); off < 16<<20 && err == nil; off += 1 << 20 {
		_, err = f.WriteAt(p, off)
	}
	require.ErrorIs(t, err, errDevice)
	require.Error(t, fsys.Close())
}

// Punching, truncating and writing files of thousands of extents takes several
// transactions.
func TestManyExtents(t *testing.T) {
	fsys, dev := newFS(t, 64<<20, FormatOptions{BlockSize: 1024, JournalBlocks: 1024}, Options{})
	f := openFile(t, fsys, "f", os.O_RDWR|os.O_CREATE)
	const blocks = 12_000
	for l := range int64(blocks) {
		_, err := f.WriteAt([]byte{byte(l), 1}, 2*l*1024)
		require.NoError(t, err)
	}
	require.NoError(t, f.Sync())
	n := 0
	for _, err := range f.Extents() {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, blocks, n)
	require.NoError(t, f.PunchHole(blocks/2*1024, blocks/2*1024))
	p := make([]byte, 2)
	for l := range int64(blocks) {
		_, err := f.ReadAt(p, 2*l*1024)
		require.NoError(t, err)
		want := []byte{byte(l), 1}
		if l >= blocks/4 && l < blocks/2 {
			want = []byte{0, 0}
		}
		require.Equal(t, want, p, "block %d", 2*l)
	}
	require.NoError(t, f.Truncate(5*1024+10))
	require.NoError(t, f.ZeroRange(0, 100*1024, false))
	require.NoError(t, f.Truncate(0))
	info, err := f.Stat()
	require.NoError(t, err)
	require.Zero(t, StatOf(info).Blocks)
	closeAndFsck(t, fsys, dev)
}

// K35: space behind the end that Datasync was told of survives a crash.
func TestDatasyncOfAllocation(t *testing.T) {
	base := device.NewMem(16 << 20)
	require.NoError(t, Format(base, FormatOptions{Clean: true}))
	mem := base.Clone()
	fsys := openWith(t, mem, Options{})
	f := openFile(t, fsys, "f", os.O_RDWR|os.O_CREATE)
	_, err := f.WriteAt(noise(10, 1), 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Allocate(4096, 40960, true))
	require.NoError(t, f.Datasync())
	crash := mem.Clone()
	again := openWith(t, crash, Options{})
	info, err := again.Stat("f")
	require.NoError(t, err)
	require.EqualValues(t, 10, info.Size())
	require.EqualValues(t, 11*8, StatOf(info).Blocks)
	require.NoError(t, again.Close())
	require.NoError(t, fsys.Close())
}

// K33: zeroing a range that is delayed neither loses the promise nor the data
// around it.
func TestZeroRangeOfDelayed(t *testing.T) {
	fsys, dev := newFS(t, 16<<20, FormatOptions{}, Options{})
	f := openFile(t, fsys, "f", os.O_RDWR|os.O_CREATE)
	p := noise(64<<10, 1)
	_, err := f.WriteAt(p, 0)
	require.NoError(t, err)
	require.NoError(t, f.ZeroRange(10_000, 30_000, true))
	clear(p[10_000:40_000])
	_, reserved, _, _ := fsys.alloc.Totals()
	require.LessOrEqual(t, reserved, uint64(2))
	require.NoError(t, f.Sync())
	b, err := fsys.ReadFile("f")
	require.NoError(t, err)
	requireSame(t, p, b, "f")
	_, reserved, _, _ = fsys.alloc.Totals()
	require.Zero(t, reserved)
	closeAndFsck(t, fsys, dev)
}

// B002: reads of any length at any offset over many extents.
func TestReadsOverManyExtents(t *testing.T) {
	fsys, dev := newFS(t, 16<<20, FormatOptions{BlockSize: 1024}, Options{})
	for i := range 20 {
		require.NoError(t, fsys.WriteFile(fmt.Sprintf("f%d", i), noise(1024, uint64(i)), 0o644))
	}
	require.NoError(t, fsys.Sync())
	for i := 0; i < 20; i += 2 {
		require.NoError(t, fsys.Remove(fmt.Sprintf("f%d", i)))
	}
	require.NoError(t, fsys.Sync())
	p := noise(40_000, 99)
	require.NoError(t, fsys.WriteFile("big", p, 0o644))
	closeAndFsck(t, fsys, dev)
	fsys = openWith(t, dev, Options{})
	f := openFile(t, fsys, "big", os.O_RDONLY)
	for _, size := range []int{1, 511, 512, 1023, 1025, 5000} {
		q := make([]byte, size)
		for off := 0; off < len(p); off += size {
			n, err := f.ReadAt(q, int64(off))
			if err != nil && err != io.EOF {
				t.Fatal(err)
			}
			requireSame(t, p[off:min(off+size, len(p))], q[:n], fmt.Sprintf("%d at %d", size, off))
		}
	}
	require.NoError(t, fsys.Close())
}

// B121: allocated space reads as zeros, whatever the device holds there.
func TestUnwrittenReadsAsZeros(t *testing.T) {
	dev := staleFS(t, 16<<20, "-b", "2048")
	fsys := openWith(t, dev, Options{})
	f := openFile(t, fsys, "f", os.O_RDWR|os.O_CREATE)
	require.NoError(t, f.Allocate(0, 100_000, false))
	_, err := f.WriteAt([]byte("x"), 50_000)
	require.NoError(t, err)
	want := make([]byte, 100_000)
	want[50_000] = 'x'
	for range 2 {
		b, err := fsys.ReadFile("f")
		require.NoError(t, err)
		requireSame(t, want, b, "f")
		require.NoError(t, f.Sync())
	}
	closeAndFsck(t, fsys, dev)
}

func TestFlagsAndLimits(t *testing.T) {
	fsys, dev := newFS(t, 16<<20, FormatOptions{}, Options{})
	f := openFile(t, fsys, "f", os.O_RDWR|os.O_CREATE)
	_, err := f.WriteAt([]byte("abc"), 0)
	require.NoError(t, err)
	r := openFile(t, fsys, "f", os.O_RDONLY)
	_, err = r.WriteAt([]byte("x"), 0)
	require.ErrorIs(t, err, syscall.EBADF)
	require.ErrorIs(t, r.Truncate(0), syscall.EINVAL)
	require.ErrorIs(t, r.Allocate(0, 1, false), syscall.EBADF)
	w := openFile(t, fsys, "f", os.O_WRONLY)
	_, err = w.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, syscall.EBADF)
	a := openFile(t, fsys, "f", os.O_WRONLY|os.O_APPEND)
	_, err = a.Write([]byte("def"))
	require.NoError(t, err)
	_, err = a.WriteAt([]byte("x"), 0)
	require.ErrorIs(t, err, errAppend)
	b, err := fsys.ReadFile("f")
	require.NoError(t, err)
	require.Equal(t, "abcdef", string(b))
	limit := fsys.maxSize()
	n, err := f.WriteAt([]byte("12345"), limit-2)
	require.Equal(t, 2, n)
	require.ErrorIs(t, err, syscall.EFBIG)
	n, err = f.WriteAt([]byte("12345"), limit)
	require.Zero(t, n)
	require.ErrorIs(t, err, syscall.EFBIG)
	require.ErrorIs(t, f.Truncate(limit+1), syscall.EFBIG)
	require.ErrorIs(t, f.Truncate(-1), syscall.EINVAL)
	require.ErrorIs(t, f.Allocate(limit, 1, false), syscall.EFBIG)
	require.ErrorIs(t, f.Allocate(0, 0, false), syscall.EINVAL)
	closeAndFsck(t, fsys, dev)
}

// With O_SYNC what was written is there after a crash.
func TestSynchronousWrites(t *testing.T) {
	fsys, dev := newFS(t, 16<<20, FormatOptions{}, Options{})
	f := openFile(t, fsys, "f", os.O_RDWR|os.O_CREATE|os.O_SYNC)
	for i, write := range []func(p []byte) (int, error){
		f.Write,
		func(p []byte) (int, error) { return f.WriteAt(p, 10_000) },
		func(p []byte) (int, error) { return f.WriteDirect(p, 20_480) },
	} {
		p := noise(8192, uint64(i))
		_, err := write(p)
		require.NoError(t, err)
		again := openWith(t, dev.Clone(), Options{})
		b, err := again.ReadFile("f")
		require.NoError(t, err)
		requireSame(t, p, b[len(b)-len(p):], "the end of f")
		require.NoError(t, again.Close())
	}
	closeAndFsck(t, fsys, dev)
}

// Files of one directory that are written back together lie behind one another,
// and take few transactions and writes.
func TestSmallFilesAreWrittenTogether(t *testing.T) {
	mem := device.NewMem(64 << 20)
	require.NoError(t, Format(mem, FormatOptions{Clean: true}))
	rec := device.NewRecorder(mem)
	fsys := openWith(t, rec, Options{})
	const files = 300
	for i := range files {
		require.NoError(t, fsys.WriteFile(fmt.Sprintf("f%d", i), noise(100, uint64(i)), 0o644))
	}
	before := len(rec.Trace().Events)
	require.NoError(t, fsys.syncData())
	writes := rec.Trace().Events[before:]
	require.LessOrEqual(t, len(writes), 6)
	require.True(t, slices.IsSortedFunc(writes, func(a, b device.Event) int { return int(a.Off - b.Off) }))
	closeAndFsck(t, fsys, mem)
}

// Several goroutines use files, sync and remove them while memory is short.
func TestManyGoroutines(t *testing.T) {
	fsys, dev := newFS(t, 128<<20, FormatOptions{BlockSize: 1024}, Options{Memory: 2 << 20})
	seed := newRand(t).Uint64()
	var all sync.WaitGroup
	for w := range 6 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			for round := range 3 {
				name := fmt.Sprintf("f%d", w)
				e := &exerciser{t: t, r: r, fsys: fsys, name: name, f: openFile(t, fsys, name, os.O_RDWR|os.O_CREATE|os.O_TRUNC), max: 300_000}
				for range 60 {
					e.step()
				}
				e.compare(0, e.max)
				require.NoError(t, e.f.Close())
				if round == 1 {
					require.NoError(t, fsys.Remove(name))
				}
			}
		})
	}
	all.Wait()
	_, reserved, _, _ := fsys.alloc.Totals()
	t.Log("reserved before the last sync:", reserved)
	require.NoError(t, fsys.Sync())
	_, reserved, _, _ = fsys.alloc.Totals()
	require.Zero(t, reserved, "promises that are left")
	closeAndFsck(t, fsys, dev)
}

// Several operations of one transaction change data together, or not at all.
func TestUpdateOfData(t *testing.T) {
	tb := t
	fsys, dev := newFS(t, 16<<20, FormatOptions{}, Options{})
	f := openFile(t, fsys, "f", os.O_RDWR|os.O_CREATE)
	p := noise(50_000, 1)
	_, err := f.WriteAt(p, 0)
	require.NoError(t, err)
	boom := errors.New("boom")
	err = fsys.Update(func(t *Tx) error {
		return errors.Join(t.Truncate("f", 100), t.WriteFile("g", []byte("new"), 0o644), boom)
	})
	require.ErrorIs(t, err, boom)
	b, err := fsys.ReadFile("f")
	require.NoError(t, err)
	requireSame(t, p, b, "f after a transaction that failed")
	_, err = fsys.Stat("g")
	require.ErrorIs(t, err, syscall.ENOENT)

	q := noise(9000, 2)
	require.NoError(t, fsys.Update(func(t *Tx) error {
		require.ErrorIs(tb, errors.Join(t.Truncate("f", 9000), t.Truncate("f", 20_000)), format.ErrUnsupported)
		return errors.Join(t.Truncate("f", 8192), t.Truncate("f", 20_000), t.WriteFile("g", q, 0o644), t.WriteFile("h", p, 0o644), t.WriteFile("h", q[:3], 0o644))
	}))
	want := append(slices.Clone(p[:8192]), make([]byte, 20_000-8192)...)
	for range 2 {
		for name, data := range map[string][]byte{"f": want, "g": q, "h": q[:3]} {
			b, err := fsys.ReadFile(name)
			require.NoError(t, err)
			requireSame(t, data, b, name)
		}
		require.NoError(t, fsys.Sync())
	}
	_, err = f.WriteAt([]byte("end"), 30_000)
	require.NoError(t, err)
	closeAndFsck(t, fsys, dev)
	fsys = openWith(t, dev, Options{})
	b, err = fsys.ReadFile("f")
	require.NoError(t, err)
	requireSame(t, append(append(want, make([]byte, 10_000)...), "end"...), b, "f in the end")
	require.NoError(t, fsys.Close())
}

// The stamps of a write reach the inode, and those that are set later win.
func TestStamps(t *testing.T) {
	fsys, dev := newFS(t, 16<<20, FormatOptions{}, Options{})
	require.NoError(t, fsys.WriteFile("f", []byte("x"), 0o644))
	written, err := fsys.Stat("f")
	require.NoError(t, err)
	old := format.Time{Sec: 1000}
	require.NoError(t, fsys.Chtimes("f", old.Time(), old.Time()))
	for range 2 {
		info, err := fsys.Stat("f")
		require.NoError(t, err)
		require.Equal(t, old, StatOf(info).Mtime)
		require.NotEqual(t, old, StatOf(written).Mtime)
		require.NoError(t, fsys.Sync())
	}
	closeAndFsck(t, fsys, dev)
}
