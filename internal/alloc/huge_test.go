package alloc_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/mkfs"
	"drydock/internal/oracle"
	"drydock/journal"
)

// huge is a file system of so many TiB, with 8,192 groups each.
func huge(t testing.TB, tib int64) *device.Mem {
	t.Helper()
	return formatted(t, tib<<40, mkfs.Options{NoJournal: true, Inodes: uint64(tib) * 8192 * 16})
}

// TestHuge opens 1 TiB, or 16 in a long run, picks a group's worth in many places
// and spreads directories, in bounded memory and time.
func TestHuge(t *testing.T) {
	tib := int64(1)
	if oracle.IsLong() {
		tib = 16
	}
	dev := huge(t, tib)
	before := heap()
	began := time.Now()
	f := open(t, dev, alloc.Options{})
	opened := time.Since(began)
	require.Less(t, opened, time.Duration(tib)*time.Second)
	groups := int(f.geo.Groups())
	began = time.Now()
	for g := 0; g < groups; g += 64 {
		start, n, err := f.a.Find(f.geo.GroupFirst(format.Group(g)), 30000, false)
		require.NoError(t, err)
		require.EqualValues(t, 30000, n)
		f.a.Release(start, n, false)
	}
	found := time.Since(began)
	f.update(func(tx *journal.Tx) {
		for range 1000 {
			_, err := f.a.NewInode(tx, format.RootIno, true)
			require.NoError(t, err)
		}
	})
	more := heap() - before
	t.Logf("open %v, %d finds %v, heap %d KiB", opened, groups/64, found, more>>10)
	require.Less(t, more, 40<<20+int64(groups)*80)
	runtime.KeepAlive(f)
}

// heap is what is in use of it, in bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestNearlyFull looks for long runs in a file system of 1,600 groups of which
// each has a few single blocks left.
func TestNearlyFull(t *testing.T) {
	dev := formatted(t, 200<<30, mkfs.Options{NoJournal: true, Inodes: 1600 * 16})
	f := open(t, dev, alloc.Options{})
	for g := range format.Group(f.geo.Groups()) {
		f.leaveHoles(g, 3)
	}
	f.close()
	f = open(t, dev, alloc.Options{Memory: 1 << 20})
	free, _, _, _ := f.a.Totals()
	require.EqualValues(t, 3*f.geo.Groups(), free)
	began := time.Now()
	for range free {
		_, n, err := f.a.Find(f.geo.GroupFirst(800), 1<<20, false)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
	}
	t.Logf("%d finds: %v", free, time.Since(began))
	_, _, err := f.a.Find(0, 1, false)
	require.ErrorIs(t, err, syscall.ENOSPC)
}

// leaveHoles takes all of a group but a few single blocks at its end.
func (f *fileSystem) leaveHoles(g format.Group, holes int) {
	first, n := f.geo.GroupFirst(g), f.geo.GroupBlocks(g)
	f.update(func(tx *journal.Tx) {
		require.NoError(f.t, f.a.Claim(tx, first, n))
		for i := range holes {
			require.NoError(f.t, f.a.Free(tx, first+format.Block(n)-1-format.Block(2*i), 1))
		}
	})
}

func BenchmarkOpen16TiB(b *testing.B) {
	dev := huge(b, 16)
	for b.Loop() {
		open(b, dev, alloc.Options{})
	}
}

func BenchmarkOpen10GB(b *testing.B) {
	dev := formatted(b, 10<<30, mkfs.Options{})
	for b.Loop() {
		open(b, dev, alloc.Options{})
	}
}

// BenchmarkSmallFiles picks one block a file and marks a thousand at once.
func BenchmarkSmallFiles(b *testing.B) {
	dev := formatted(b, 64<<30, mkfs.Options{NoJournal: true})
	f := open(b, dev, alloc.Options{})
	b.ReportAllocs()
	var runs []alloc.Run
	mark := func() {
		f.update(func(tx *journal.Tx) {
			if err := f.a.MarkMany(tx, runs); err != nil {
				b.Fatal(err)
			}
		})
		runs = runs[:0]
	}
	for i := 0; b.Loop(); i++ {
		ino := format.Ino(12 + i/8)
		start, n, err := f.a.Find(f.a.GoalFor(ino), 1, false)
		if err != nil {
			b.Fatal(err)
		}
		if runs = append(runs, alloc.Run{Start: start, N: n}); len(runs) == 1000 {
			mark()
		}
	}
}

// BenchmarkNewInode takes inodes one after the other, a thousand a Tx.
func BenchmarkNewInode(b *testing.B) {
	dev := formatted(b, 64<<30, mkfs.Options{NoJournal: true})
	f := open(b, dev, alloc.Options{})
	b.ReportAllocs()
	tx := f.begin()
	for i := 0; b.Loop(); i++ {
		if _, err := f.a.NewInode(tx, format.RootIno, false); err != nil {
			b.Fatal(err)
		}
		if i%1000 == 999 {
			if _, err := tx.Commit(); err != nil {
				b.Fatal(err)
			}
			tx = f.begin()
		}
	}
	tx.Abort()
}

// BenchmarkAllocBlock takes blocks of metadata, one a Tx.
func BenchmarkAllocBlock(b *testing.B) {
	dev := formatted(b, 64<<30, mkfs.Options{NoJournal: true})
	f := open(b, dev, alloc.Options{})
	b.ReportAllocs()
	for b.Loop() {
		f.update(func(tx *journal.Tx) {
			if _, err := f.a.AllocBlock(tx, 100000); err != nil {
				b.Fatal(err)
			}
		})
	}
}
