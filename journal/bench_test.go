package journal

import (
	"testing"

	"drydock/device"
	"drydock/format"
)

// sink is a device that takes no time: what is measured is the journal.
type sink struct {
	device.Device
	written int64
}

func (s *sink) WriteAt(p []byte, off int64) (int, error) {
	s.written += int64(len(p))
	return len(p), nil
}

// WritevAt implements device.VectorWriter.
func (s *sink) WritevAt(bufs [][]byte, off int64) (n int, err error) {
	for _, b := range bufs {
		n += len(b)
	}
	s.written += int64(n)
	return n, nil
}

// WriteFUA implements device.FUAWriter.
func (s *sink) WriteFUA(p []byte, off int64) (int, error) { return s.WriteAt(p, off) }

// benchJournal has 8,192 log blocks of 4 KiB, as a file system of 1 GiB.
func benchJournal(b testing.TB) (*Journal, *sink) {
	const size, home, log = 4096, 1 << 16, 8192
	mem := device.NewMem((home + log) * size)
	p := make([]byte, size)
	format.PutEmptyJournalSuperblock(p, size, log, [16]byte{})
	if _, err := mem.WriteAt(p, home*size); err != nil {
		b.Fatal(err)
	}
	s := &sink{Device: mem}
	area, err := NewArea(s, size, []format.Extent{{Start: home, Len: log}})
	if err != nil {
		b.Fatal(err)
	}
	j, err := Open(Options{Device: s, BlockSize: size, Blocks: home, Area: area, Csum: true, Wide: true})
	if err != nil {
		b.Fatal(err)
	}
	return j, s
}

// BenchmarkTx is what a file creation asks of the journal: five blocks changed,
// most of them as those of the last.
func BenchmarkTx(b *testing.B) {
	j, _ := benchJournal(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		tx, err := j.Begin()
		if err != nil {
			b.Fatal(err)
		}
		for _, block := range [...]int{2, 3, 4, 1000 + i/16, 20000 + i/40} {
			p, err := tx.Change(format.Block(block))
			if err != nil {
				b.Fatal(err)
			}
			p[i%4096]++
		}
		if _, err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
		i = (i + 1) % 600000
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(j.Stats().LogBlocks)/float64(b.N), "logblocks/op")
}

// BenchmarkTxOneBlock is the least that a Tx can do.
func BenchmarkTxOneBlock(b *testing.B) {
	j, _ := benchJournal(b)
	b.ReportAllocs()
	for b.Loop() {
		tx, _ := j.Begin()
		if _, err := tx.Change(7); err != nil {
			b.Fatal(err)
		}
		if _, err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCommit is one small Tx and its commit.
func BenchmarkCommit(b *testing.B) {
	j, _ := benchJournal(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := set(j, func(b format.Block, p []byte) { p[0]++ }, 7, 8, 9); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGet is a block that is in memory.
func BenchmarkGet(b *testing.B) {
	j, _ := benchJournal(b)
	for b.Loop() {
		if _, err := j.Get(7); err != nil {
			b.Fatal(err)
		}
	}
}
