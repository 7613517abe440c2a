package alloc_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/oracle"
	"drydock/journal"
)

// TestCorpus takes and frees at random on damaged images that e2fsprogs tests
// itself with. Errors are fine; panics and endless loops are not.
func TestCorpus(t *testing.T) {
	images, err := filepath.Glob(filepath.Join(oracle.Shared(t, "e2fsprogs-images"), "*.img.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, images)
	rng, opened := newRand(t), 0
	for _, path := range images {
		dev := gunzip(t, path)
		if dev == nil {
			continue
		}
		f := tryOpen(t, dev)
		if f == nil {
			continue
		}
		opened++
		o := &owner{fileSystem: f, rng: rng, inodes: map[format.Ino]bool{}}
		for range 10 {
			o.roughly()
		}
	}
	require.Greater(t, opened, len(images)/3)
}

// gunzip loads an image; nil if it is large.
func gunzip(t *testing.T, path string) *device.Mem {
	t.Helper()
	packed, err := os.ReadFile(path)
	require.NoError(t, err)
	size := int64(binary.LittleEndian.Uint32(packed[len(packed)-4:]))
	if size > 9<<20 {
		return nil
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	b := make([]byte, size)
	_, err = io.ReadFull(z, b)
	require.NoError(t, err)
	dev := device.NewMem(size)
	_, err = dev.WriteAt(b, 0)
	require.NoError(t, err)
	return dev
}

// tryOpen opens an allocator on what may be no file system at all.
func tryOpen(t *testing.T, dev *device.Mem) *fileSystem {
	t.Helper()
	sb := make(format.Superblock, format.SuperblockSize)
	if _, err := dev.ReadAt(sb, format.SuperblockOffset); err != nil {
		return nil
	}
	geo, err := format.GeometryOf(sb)
	if err != nil || int64(geo.BlocksCount)*int64(geo.BlockSize) > dev.Size() {
		return nil
	}
	f := &fileSystem{t: t, dev: dev, geo: geo, sums: format.ChecksumsOf(sb)}
	f.j, err = journal.Open(journal.Options{Device: dev, BlockSize: geo.BlockSize, Blocks: uint64(geo.BlocksCount), Poison: true})
	require.NoError(t, err)
	f.a, err = alloc.New(alloc.Options{Geometry: &f.geo, Checksums: f.sums, Super: sb, Journal: f.j})
	if err != nil {
		return nil
	}
	return f
}
