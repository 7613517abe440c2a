package ext4

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/oracle"
)

// ext3 makes an image whose files have block maps.
func ext3(t testing.TB, files map[string][]byte) *device.Mem {
	t.Helper()
	dir, image := t.TempDir(), filepath.Join(t.TempDir(), "img")
	for name, data := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	oracle.Run(t, "mke2fs", "-q", "-F", "-t", "ext3", "-b", "1024", "-d", dir, image, "32768k")
	oracle.Run(t, "tune2fs", "-O", "extents", image)
	b, err := os.ReadFile(image)
	require.NoError(t, err)
	return memDev(t, b)
}

// A block map becomes a tree at the first write; until then it is read as it is.
func TestBlockMapsBecomeTrees(t *testing.T) {
	data := map[string][]byte{"big": noise(3_000_000, 1), "small": noise(5000, 2), "cut": noise(2_000_000, 3), "gone": noise(1_000_000, 4), "empty": nil}
	dev := ext3(t, data)
	fsys := openWith(t, dev, Options{})
	before, err := fsys.Stat("small")
	require.NoError(t, err)
	require.Zero(t, StatOf(before).Flags&format.InodeExtents)
	for name := range data {
		f := openFile(t, fsys, name, os.O_RDWR)
		m := model{data[name]}
		switch name {
		case "cut":
			require.NoError(t, f.Truncate(300_001))
			m.resize(300_001)
		case "gone":
			require.NoError(t, f.Close())
			require.NoError(t, fsys.Remove(name))
			delete(data, name)
			continue
		default:
			p := noise(3000, 9)
			_, err := f.WriteAt(p, 2_000)
			require.NoError(t, err)
			m.write(p, 2_000)
			require.NoError(t, f.PunchHole(500, 3000))
			m.zero(500, 3000)
		}
		data[name] = m.b
		info, err := f.Stat()
		require.NoError(t, err)
		require.NotZero(t, StatOf(info).Flags&format.InodeExtents, name)
		require.NoError(t, f.Close())
	}
	closeAndFsck(t, fsys, dev)
	fsys = openWith(t, dev, Options{})
	for name, want := range data {
		b, err := fsys.ReadFile(name)
		require.NoError(t, err)
		requireSame(t, want, b, name)
	}
	require.NoError(t, fsys.Close())
}

// crashes calls check with random states that a crash can leave, recovered.
func crashes(t *testing.T, base *device.Mem, rec *device.Recorder, states int, check func(fsys *FS, at int)) {
	t.Helper()
	r := newRand(t)
	events := rec.Trace().Events
	for range states {
		n := r.IntN(len(events) + 1)
		dev := crashState(r, base, events[:n])
		fsys, err := Open(dev, Options{ReadWrite: true})
		require.NoError(t, err, "crash after event %d", n)
		check(fsys, n)
		require.NoError(t, fsys.Close())
		if r.IntN(10) == 0 {
			fsck(t, dev)
		}
	}
}

// K21: a file that is written and put in the place of another is never found
// empty, and neither is one that is cut to nothing, written and closed.
func TestReplacedFilesAreWhole(t *testing.T) {
	base := staleFS(t, 16<<20, "-b", "1024")
	rec := device.NewRecorder(base.Clone())
	fsys := openWith(t, rec, Options{})
	versions := map[string]bool{}
	put := func(name string, v int) {
		p := bytes.Repeat([]byte{byte(v)}, 3000+v)
		versions[string(p)] = true
		require.NoError(t, fsys.WriteFile(name, p, 0o644))
	}
	put("a", 1)
	put("b", 1)
	require.NoError(t, fsys.Sync())
	first := len(rec.Trace().Events)
	for v := 2; v < 12; v++ {
		put("a.new", v)
		require.NoError(t, fsys.Rename("a.new", "a"))
		put("b", v)
		fsys.j.StartCommit()
	}
	require.NoError(t, fsys.Sync())
	crashes(t, base, rec, 100, func(fsys *FS, n int) {
		if n < first {
			return
		}
		a, err := fsys.ReadFile("a")
		require.NoError(t, err)
		require.True(t, versions[string(a)], "a holds %d bytes after event %d", len(a), n)
		b, err := fsys.ReadFile("b")
		require.NoError(t, err)
		require.True(t, versions[string(b)] || len(b) == 0, "b holds %d bytes after event %d", len(b), n)
	})
	require.NoError(t, fsys.Close())
}

// O15: a power cut between the transactions that free a large file.
func TestCrashWhileCutting(t *testing.T) {
	base := device.NewMem(24 << 20)
	require.NoError(t, Format(base, FormatOptions{BlockSize: 1024, JournalBlocks: 1024, Clean: true}))
	fsys := openWith(t, base, Options{})
	f := openFile(t, fsys, "f", os.O_RDWR|os.O_CREATE)
	for l := range int64(6000) {
		_, err := f.WriteAt([]byte{1}, 2*l*1024)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	require.NoError(t, fsys.Close())
	for _, how := range []string{"truncate", "remove"} {
		rec := device.NewRecorder(base.Clone())
		fsys := openWith(t, rec, Options{})
		if how == "remove" {
			require.NoError(t, fsys.Remove("f"))
		} else {
			require.NoError(t, fsys.Truncate("f", 5000))
		}
		require.NoError(t, fsys.Close())
		crashes(t, base, rec, 40, func(fsys *FS, n int) {
			info, err := fsys.Stat("f")
			if how == "remove" && err != nil {
				return
			}
			require.NoError(t, err)
			require.Contains(t, []int64{5000, 2*5999*1024 + 1}, info.Size())
			if info.Size() == 5000 {
				require.LessOrEqual(t, StatOf(info).Blocks, uint64(3*2))
			}
		})
	}
}

// Blocks that were freed are not used again before that is durable: what was
// durable before is still whole then.
func TestFreedBlocksWait(t *testing.T) {
	base := staleFS(t, 4<<20, "-b", "1024", "-N", "32")
	rec := device.NewRecorder(base.Clone())
	fsys := openWith(t, rec, Options{})
	big := noise(1_500_000, 1)
	require.NoError(t, fsys.WriteFile("old", big, 0o644))
	require.NoError(t, fsys.Sync())
	first := len(rec.Trace().Events)
	require.NoError(t, fsys.Remove("old"))
	f := openFile(t, fsys, "new", os.O_RDWR|os.O_CREATE)
	n, err := f.WriteAt(noise(1_500_000, 2), 0)
	require.NoError(t, err, "after %d bytes", n)
	require.NoError(t, fsys.syncData())
	crashes(t, base, rec, 60, func(fsys *FS, n int) {
		if n < first {
			return
		}
		if b, err := fsys.ReadFile("old"); err == nil {
			requireSame(t, big, b, fmt.Sprintf("old after event %d", n))
		}
	})
	require.NoError(t, fsys.Close())
}

// Extending writes of any form leave zeros between the old end and the new data,
// on the device too, whatever was there.
func TestGapsAreZeros(t *testing.T) {
	dev := staleFS(t, 16<<20, "-b", "4096")
	fsys := openWith(t, dev, Options{})
	require.NoError(t, fsys.WriteFile("f", []byte("abc"), 0o644))
	require.NoError(t, fsys.Sync())
	x := extentsOf(t, fsys, "f")[0]
	require.NoError(t, fsys.Close())
	_, err := dev.WriteAt(bytes.Repeat([]byte{staleByte}, 4093), int64(x.Start)*4096+3) // as mmap may leave it
	require.NoError(t, err)
	for how, extend := range map[string]func(f *File) error{
		"write":    func(f *File) error { _, err := f.WriteAt([]byte{1}, 9000); return err },
		"same":     func(f *File) error { _, err := f.WriteAt([]byte{1}, 2000); return err },
		"direct":   func(f *File) error { _, err := f.WriteDirect(make([]byte, 4096), 8192); return err },
		"truncate": func(f *File) error { return f.Truncate(9000) },
		"allocate": func(f *File) error { return f.Allocate(8192, 10, false) },
		"zero":     func(f *File) error { return f.ZeroRange(8192, 10, false) },
		"update":   func(f *File) error { return f.fs.Update(func(t *Tx) error { return t.Truncate("f", 9000) }) },
	} {
		for _, mode := range []DataMode{DataOrdered, DataJournal} {
			clone := dev.Clone()
			fsys := openWith(t, clone, Options{Data: mode})
			f := openFile(t, fsys, "f", os.O_RDWR)
			_, err := f.ReadAt(make([]byte, 3), 0)
			require.NoError(t, err)
			require.NoError(t, extend(f))
			require.NoError(t, f.Datasync())
			again := openWith(t, clone.Clone(), Options{})
			b, err := again.ReadFile("f")
			require.NoError(t, err)
			require.Equal(t, "abc", string(b[:3]), how)
			require.Equal(t, make([]byte, 1997), b[3:2000], how)
			require.True(t, len(b) < 2010 || device.IsZero(b[2001:min(len(b), 9000)]), how)
			require.NoError(t, again.Close())
			closeAndFsck(t, fsys, clone)
		}
	}
}

// Random writes of tiny pieces, with the space nearly full all the time: what was
// acknowledged stays, and promises come out even.
func TestNearlyFull(t *testing.T) {
	dev := emptyFS(t, 8<<20, "-b", "1024", "-N", "64")
	fsys := openWith(t, dev, Options{Memory: 1 << 20})
	seed := newRand(t).Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	files := map[string]*model{}
	for i := range 600 {
		name := fmt.Sprintf("f%d", r.IntN(12))
		m := files[name]
		if m == nil {
			m = &model{}
			files[name] = m
		}
		f := openFile(t, fsys, name, os.O_RDWR|os.O_CREATE)
		switch r.IntN(8) {
		case 0:
			n := r.IntN(len(m.b) + 1)
			require.NoError(t, f.Truncate(int64(n)))
			m.resize(n)
		case 1:
			off, n := r.IntN(1_000_000), 1+r.IntN(300_000)
			if f.PunchHole(int64(off), int64(n)) == nil {
				m.zero(off, n)
			}
		case 2:
			_ = f.Allocate(int64(r.IntN(1_000_000)), 1+int64(r.IntN(300_000)), true)
		default:
			off := r.IntN(1_200_000)
			p := bytes.Repeat([]byte{byte(i)}, 1+r.IntN(100_000))
			n, err := f.WriteAt(p, int64(off))
			if err == nil {
				require.Equal(t, len(p), n)
			}
			if n > 0 {
				m.write(p[:n], off)
			}
		}
		require.NoError(t, f.Close())
	}
	require.NoError(t, fsys.Sync())
	for name, m := range files {
		b, err := fsys.ReadFile(name)
		require.NoError(t, err)
		requireSame(t, m.b, b, name)
	}
	_, reserved, _, _ := fsys.alloc.Totals()
	require.Zero(t, reserved)
	closeAndFsck(t, fsys, dev)
	fsys = openWith(t, dev, Options{})
	for name, m := range files {
		b, err := fsys.ReadFile(name)
		require.NoError(t, err)
		requireSame(t, m.b, b, name+" opened again")
	}
	require.NoError(t, fsys.Close())
}
