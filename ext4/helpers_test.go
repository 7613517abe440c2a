package ext4

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
)

// newRand returns a generator and prints the seed that repeats it.
func newRand(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// imageDev is an image file as a device, without any lock, so that the kernel
// may have it mounted at the same time.
type imageDev struct {
	*os.File
	size int64
}

func (d imageDev) Size() int64  { return d.size }
func (d imageDev) Flush() error { return nil }

func openDev(t testing.TB, path string) device.Device {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	require.NoError(t, err)
	return imageDev{f, info.Size()}
}

// openImage opens the file system in an image file.
func openImage(t testing.TB, path string) *FS {
	t.Helper()
	fsys, err := Open(openDev(t, path), Options{})
	require.NoError(t, err)
	return fsys
}

func memDev(t testing.TB, b []byte) *device.Mem {
	t.Helper()
	m := device.NewMem(int64(len(b)))
	_, err := m.WriteAt(b, 0)
	require.NoError(t, err)
	return m
}

// gunzip returns the bytes of a compressed file.
func gunzip(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	b, err := io.ReadAll(z)
	require.NoError(t, err)
	return b
}

// gunzipSize returns the size of what is in a compressed file, which its last
// four bytes tell.
func gunzipSize(t testing.TB, path string) uint32 {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return binary.LittleEndian.Uint32(b[len(b)-4:])
}

// testImage opens an image in testdata.
func testImage(t testing.TB, name string) (*FS, *device.Mem) {
	t.Helper()
	dev := memDev(t, gunzip(t, filepath.Join("testdata", name+".img.gz")))
	fsys, err := Open(dev, Options{})
	require.NoError(t, err)
	return fsys, dev
}

// noise returns n bytes that are the same at each run and hold no zero blocks.
func noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := 0; i < n; i += 8 {
		v := r.Uint64() | 1
		for k := i; k < min(i+8, n); k++ {
			b[k] = byte(v)
			v >>= 8
		}
	}
	return b
}

// requireSame compares without printing megabytes.
func requireSame(t testing.TB, want, got []byte, what string) {
	t.Helper()
	if bytes.Equal(want, got) {
		return
	}
	require.Equal(t, len(want), len(got), "%s: length", what)
	for i := range want {
		if want[i] != got[i] {
			t.Fatalf("%s: differs from byte %d on", what, i)
		}
	}
}
