package ext4

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
)

// extentsOf returns the extents of a file, neighbours joined.
func extentsOf(t testing.TB, fsys *FS, name string) (list []format.Extent) {
	t.Helper()
	for x, err := range fsys.Extents(name) {
		require.NoError(t, err)
		if i := len(list) - 1; i >= 0 && list[i].End() == uint64(x.LBlock) && list[i].Start+format.Block(list[i].Len) == x.Start {
			list[i].Len += x.Len
			continue
		}
		list = append(list, x)
	}
	return list
}

// Ten files written directly at the same time lie in one piece each, and the
// device sees one ascending stream.
func TestDirectWritersTakeTurns(t *testing.T) {
	const files, size, piece = 10, 1 << 20, 128 << 10
	rec := device.NewRecorder(emptyFS(t, 64<<20))
	fsys := openWith(t, rec, Options{})
	var all sync.WaitGroup
	for i := range files {
		f := openFile(t, fsys, fmt.Sprintf("f%d", i), os.O_RDWR|os.O_CREATE)
		f.SetSizeHint(size)
		all.Go(func() {
			defer f.Close()
			p := noise(size, uint64(i))
			for off := 0; off < size; off += piece {
				n, err := f.WriteDirect(p[off:off+piece], int64(off))
				if err != nil || n != piece {
					t.Errorf("write: %d, %v", n, err)
				}
			}
		})
	}
	all.Wait()
	for i := range files {
		name := fmt.Sprintf("f%d", i)
		b, err := fsys.ReadFile(name)
		require.NoError(t, err)
		requireSame(t, noise(size, uint64(i)), b, name)
		require.Len(t, extentsOf(t, fsys, name), 1, name)
	}
	var at []int64
	for _, e := range rec.Trace().Events {
		if e.Kind == device.EventWrite && e.Len == piece {
			at = append(at, e.Off)
		}
	}
	require.Len(t, at, files*size/piece)
	require.True(t, slices.IsSorted(at), "the stream of the device: %v", at)
	require.NoError(t, fsys.Close())
	fsck(t, rec)
}

// Many may overwrite a file at the same time; nothing moves.
func TestDirectOverwrite(t *testing.T) {
	dev := emptyFS(t, 64<<20)
	fsys := openWith(t, dev, Options{})
	f := openFile(t, fsys, "f", os.O_RDWR|os.O_CREATE)
	p := noise(2<<20, 1)
	_, err := f.WriteDirect(p, 0)
	require.NoError(t, err)
	before := extentsOf(t, fsys, "f")
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			q := noise(4096, uint64(100+w))
			for k := range 16 {
				off := (w*16 + k) * 4096
				if _, err := f.WriteDirect(q, int64(off)); err != nil {
					t.Error(err)
				}
				copy(p[off:], q)
			}
		})
	}
	all.Wait()
	b, err := fsys.ReadFile("f")
	require.NoError(t, err)
	requireSame(t, p, b, "f")
	require.Equal(t, before, extentsOf(t, fsys, "f"))
	require.NoError(t, f.Close())
	require.NoError(t, fsys.Close())
	fsck(t, dev)
}
