package device_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
)

func BenchmarkIsZero(b *testing.B) {
	for _, n := range []int{512, 4096, 1 << 20} {
		p := make([]byte, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				device.IsZero(p)
			}
		})
	}
}

// BenchmarkCopy compares the ways of putting a host file on an image file.
func BenchmarkCopy(b *testing.B) {
	for _, n := range []int64{4 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20} {
		dir := b.TempDir()
		require.NoError(b, os.WriteFile(filepath.Join(dir, "source"), bytes.Repeat([]byte{5}, int(n)), 0o666))
		src, err := os.Open(filepath.Join(dir, "source"))
		require.NoError(b, err)
		defer src.Close()
		d, err := device.Create(filepath.Join(dir, "a.img"), 1<<30)
		require.NoError(b, err)
		defer d.Close()
		run := func(name string, copy func(off int64) error) {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(n)
				at := int64(0)
				for b.Loop() {
					require.NoError(b, copy(at))
					at = (at + n) % (256 << 20)
				}
			})
		}
		buf := make([]byte, n)
		run("kernel", func(off int64) error { _, err := d.CopyRange(off, src, 0, n); return err })
		run("readwrite", func(off int64) error {
			if _, err := src.ReadAt(buf, 0); err != nil {
				return err
			}
			_, err := d.WriteAt(buf, off)
			return err
		})
	}
}

func BenchmarkMemWrite(b *testing.B) {
	d := device.NewMem(1 << 30)
	p := make([]byte, 4096)
	b.SetBytes(4096)
	for i := int64(0); b.Loop(); i++ {
		d.WriteAt(p, i%(1<<16)*4096)
	}
}
