package ext4

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
)

// benchFS makes an empty file system in memory.
func benchFS(b testing.TB, size int64, o Options) *FS {
	b.Helper()
	dev := device.NewMem(size)
	require.NoError(b, Format(dev, FormatOptions{Clean: true}))
	return openWith(b, dev, o)
}

// BenchmarkWrite is a write to memory: no transaction, no device.
func BenchmarkWrite(b *testing.B) {
	for _, n := range []int{256, 1024, 4096, 65536} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			fsys := benchFS(b, 256<<20, Options{})
			f := openFile(b, fsys, "f", os.O_RDWR|os.O_CREATE)
			p := noise(n, 1)
			b.SetBytes(int64(n))
			off := int64(0)
			for b.Loop() {
				if _, err := f.WriteAt(p, off); err != nil {
					b.Fatal(err)
				}
				if off += int64(n); off >= 4<<20 {
					off = 0
				}
			}
		})
	}
}

// BenchmarkTryWrite is a write of 4 KiB that does not wait.
func BenchmarkTryWrite(b *testing.B) {
	fsys := benchFS(b, 256<<20, Options{})
	f := openFile(b, fsys, "f", os.O_RDWR|os.O_CREATE)
	p := noise(4096, 1)
	_, err := f.WriteAt(p, 0)
	require.NoError(b, err)
	b.SetBytes(4096)
	off := int64(0)
	for b.Loop() {
		if _, err := f.TryWriteAt(p, off); err != nil {
			_, err = f.WriteAt(p, off)
			require.NoError(b, err)
		}
		if off += 4096; off >= 4<<20 {
			off = 0
		}
	}
}

// BenchmarkSmallFiles makes files of 100 bytes and writes all of them back.
func BenchmarkSmallFiles(b *testing.B) {
	const files = 10_000
	for b.Loop() {
		b.StopTimer()
		fsys := benchFS(b, 512<<20, Options{Memory: 256 << 20})
		p := noise(100, 1)
		for i := range files {
			f := openFile(b, fsys, fmt.Sprintf("f%d", i), os.O_RDWR|os.O_CREATE)
			if _, err := f.WriteAt(p, 0); err != nil {
				b.Fatal(err)
			}
			if err := f.Close(); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		if err := fsys.syncData(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		require.NoError(b, fsys.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/files, "ns/file")
}
