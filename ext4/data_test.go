package ext4

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/internal/oracle"
)

// emptyFS makes a file system in memory.
func emptyFS(t testing.TB, size int64, args ...string) *device.Mem {
	t.Helper()
	image := filepath.Join(t.TempDir(), "img")
	args = append([]string{"-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0"}, args...)
	oracle.Run(t, "mke2fs", append(args, image, fmt.Sprintf("%dk", size>>10))...)
	b, err := os.ReadFile(image)
	require.NoError(t, err)
	return memDev(t, b)
}

// fsck has e2fsck judge a device.
func fsck(t testing.TB, dev device.Device) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "img")
	f, err := os.Create(image)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(dev.Size()))
	require.NoError(t, device.CopySparse(imageDev{f, dev.Size()}, dev, dev.Size()))
	require.NoError(t, f.Close())
	oracle.Fsck(t, image)
}

func openWith(t testing.TB, dev device.Device, o Options) *FS {
	t.Helper()
	o.ReadWrite = true
	fsys, err := Open(dev, o)
	require.NoError(t, err)
	return fsys
}

func openFile(t testing.TB, fsys *FS, name string, flag int) *File {
	t.Helper()
	f, err := fsys.OpenFile(name, flag, 0o644)
	require.NoError(t, err)
	return f
}

// model is what a file should be: its bytes, and nothing else.
type model struct{ b []byte }

func (m *model) resize(n int) {
	if n <= len(m.b) {
		clear(m.b[n:])
		m.b = m.b[:n]
		return
	}
	if n <= cap(m.b) {
		m.b = m.b[:n]
		return
	}
	b := make([]byte, n, 2*n)
	copy(b, m.b)
	m.b = b
}

func (m *model) write(p []byte, off int) {
	if off+len(p) > len(m.b) {
		m.resize(off + len(p))
	}
	copy(m.b[off:], p)
}

func (m *model) zero(off, n int) {
	if off < len(m.b) {
		clear(m.b[off:min(off+n, len(m.b))])
	}
}

// exerciser does random operations on a file and on its model.
type exerciser struct {
	t    testing.TB
	r    *rand.Rand
	fsys *FS
	f    *File
	name string
	m    model
	max  int
	log  []string
}

func (e *exerciser) fatal(format string, args ...any) {
	e.t.Helper()
	for _, l := range e.log[max(0, len(e.log)-40):] {
		e.t.Log(l)
	}
	e.t.Fatalf(format, args...)
}

func (e *exerciser) note(format string, args ...any) {
	e.log = append(e.log, fmt.Sprintf(format, args...))
}

func (e *exerciser) check(err error) {
	e.t.Helper()
	if err != nil {
		e.fatal("%v", err)
	}
}

// span is a random range inside the largest size.
func (e *exerciser) span() (off, n int) {
	off = e.r.IntN(e.max)
	if e.r.IntN(4) == 0 {
		off &^= 1023
	}
	n = 1 + e.r.IntN(min(e.max-off, 1<<(1+e.r.IntN(17))))
	if e.r.IntN(4) == 0 && off%1024 == 0 && n > 1024 {
		n &^= 1023
	}
	return off, n
}

func (e *exerciser) step() {
	off, n := e.span()
	switch e.r.IntN(20) {
	case 0, 1, 2, 3, 4:
		e.write(off, n)
	case 5, 6, 7, 8:
		e.compare(off, n)
	case 9:
		e.note("truncate %d", off)
		e.check(e.f.Truncate(int64(off)))
		e.m.resize(off)
	case 10:
		e.note("punch %d+%d", off, n)
		e.check(e.f.PunchHole(int64(off), int64(n)))
		e.m.zero(off, n)
	case 11:
		keep := e.r.IntN(2) == 0
		e.note("zero %d+%d keep %v", off, n, keep)
		e.check(e.f.ZeroRange(int64(off), int64(n), keep))
		e.m.zero(off, n)
		e.grow(off+n, keep)
	case 12:
		keep := e.r.IntN(2) == 0
		e.note("allocate %d+%d keep %v", off, n, keep)
		e.check(e.f.Allocate(int64(off), int64(n), keep))
		e.grow(off+n, keep)
	case 13:
		e.note("sync")
		e.check(e.f.Sync())
	case 14:
		e.note("datasync")
		e.check(e.f.Datasync())
	case 15:
		e.note("direct %d+%d", off, n)
		p := e.bytes(n)
		k, err := e.f.WriteDirect(p, int64(off))
		e.check(err)
		require.Equal(e.t, n, k)
		e.m.write(p, off)
	case 16:
		e.note("flush all")
		e.check(e.fsys.syncData())
	case 17:
		e.note("append %d", n)
		n = min(n, e.max-len(e.m.b))
		if n > 0 {
			e.write(len(e.m.b), n)
		}
	case 18:
		e.compare(0, e.max)
	case 19:
		e.tryWrite(off, n)
	}
}

func (e *exerciser) grow(size int, keep bool) {
	if !keep && size > len(e.m.b) {
		e.m.resize(size)
	}
}

func (e *exerciser) bytes(n int) []byte {
	p := make([]byte, n)
	v := byte(1 + e.r.IntN(255))
	for i := range p {
		p[i] = v + byte(i>>9)
	}
	return p
}

func (e *exerciser) write(off, n int) {
	p := e.bytes(n)
	e.note("write %d+%d %#x", off, n, p[0])
	k, err := e.f.WriteAt(p, int64(off))
	e.check(err)
	require.Equal(e.t, n, k)
	e.m.write(p, off)
}

func (e *exerciser) tryWrite(off, n int) {
	p := e.bytes(n)
	k, err := e.f.TryWriteAt(p, int64(off))
	e.note("try write %d+%d %#x: %d %v", off, n, p[0], k, err)
	if k < n && err == nil {
		e.fatal("%d bytes of %d without an error", k, n)
	}
	if k > 0 {
		e.m.write(p[:k], off)
	}
}

func (e *exerciser) compare(off, n int) {
	e.note("read %d+%d", off, n)
	p := make([]byte, n)
	k, err := e.f.ReadAt(p, int64(off))
	want := e.m.b[min(off, len(e.m.b)):min(off+n, len(e.m.b))]
	if k != len(want) {
		e.fatal("read %d+%d: %d bytes, want %d (%v)", off, n, k, len(want), err)
	}
	if !bytes.Equal(p[:k], want) {
		for i := range want {
			if p[i] != want[i] {
				e.fatal("read %d+%d: byte %d is %#x, want %#x", off, n, off+i, p[i], want[i])
			}
		}
	}
	info, err := e.f.Stat()
	e.check(err)
	if info.Size() != int64(len(e.m.b)) {
		e.fatal("size %d, want %d", info.Size(), len(e.m.b))
	}
}

func TestDataModel(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		o    Options
	}{
		{"4K", []string{"-b", "4096"}, Options{Memory: 1 << 20}},
		{"1K", []string{"-b", "1024"}, Options{Memory: 512 << 10}},
		{"1K folios of 4K", []string{"-b", "1024"}, Options{Memory: 512 << 10, FolioSize: 4096}},
		{"no journal", []string{"-b", "1024", "-O", "^has_journal"}, Options{Memory: 1 << 20}},
		{"data journal", []string{"-b", "1024"}, Options{Memory: 1 << 20, Data: DataJournal}},
		{"64K", []string{"-b", "65536"}, Options{Memory: 4 << 20}},
	} {
		t.Run(c.name, func(t *testing.T) { exercise(t, c.args, c.o) })
	}
}

func exercise(t *testing.T, args []string, o Options) {
	r := newRand(t)
	dev := emptyFS(t, 48<<20, args...)
	steps := 600
	if oracle.IsLong() {
		steps = 100_000
	}
	var files []*exerciser
	fsys := openWith(t, dev, o)
	for i := range 3 {
		name := fmt.Sprintf("f%d", i)
		files = append(files, &exerciser{t: t, r: r, fsys: fsys, name: name, f: openFile(t, fsys, name, os.O_RDWR|os.O_CREATE), max: 1 << 20})
	}
	for i := range steps {
		e := files[r.IntN(3)]
		e.step()
		if i%200 != 199 {
			continue
		}
		require.NoError(t, fsys.Close())
		fsck(t, dev)
		fsys = openWith(t, dev, o)
		for _, e := range files {
			e.fsys, e.f = fsys, openFile(t, fsys, e.name, os.O_RDWR)
			e.note("opened again")
			e.compare(0, e.max)
		}
	}
	require.NoError(t, fsys.Close())
}

func TestNoSpaceKeepsWhatWasWritten(t *testing.T) {
	for _, bs := range []string{"1024", "4096"} {
		t.Run(bs, func(t *testing.T) { fillUp(t, bs) })
	}
}

// fillUp writes tiny pieces to several files until nothing more fits, and looks
// whether all that was taken is there afterwards.
func fillUp(t *testing.T, bs string) {
	r := newRand(t)
	dev := emptyFS(t, 6<<20, "-b", bs, "-O", "^has_journal", "-N", "64")
	fsys := openWith(t, dev, Options{Memory: 1 << 20})
	var models [4]model
	for i := range 4 {
		require.NoError(t, openFile(t, fsys, fmt.Sprintf("f%d", i), os.O_WRONLY|os.O_CREATE).Close())
	}
	full := 0
	for full < 40 {
		i := r.IntN(4)
		f := openFile(t, fsys, fmt.Sprintf("f%d", i), os.O_WRONLY)
		off := len(models[i].b)
		if r.IntN(3) == 0 {
			off += r.IntN(20_000)
		}
		p := bytes.Repeat([]byte{byte(1 + r.IntN(255))}, 1+r.IntN(3000))
		n, err := f.WriteAt(p, int64(off))
		if n > 0 {
			models[i].write(p[:n], off)
		}
		if err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			full++
		} else {
			require.Equal(t, len(p), n)
		}
		require.NoError(t, f.Close())
	}
	require.NoError(t, fsys.Close())
	fsck(t, dev)
	fsys = openWith(t, dev, Options{})
	for i, m := range models {
		b, err := fsys.ReadFile(fmt.Sprintf("f%d", i))
		require.NoError(t, err)
		requireSame(t, m.b, b, fmt.Sprintf("f%d", i))
	}
	st, err := fsys.Statfs()
	require.NoError(t, err)
	require.LessOrEqual(t, st.Free, uint64(12), "blocks that are left")
	require.NoError(t, fsys.Close())
}
