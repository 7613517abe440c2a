package device_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
)

func collect(t testing.TB, d device.Device, off, n int64) (list []device.Segment) {
	for s, err := range device.Segments(d, off, n) {
		require.NoError(t, err)
		list = append(list, s)
	}
	return list
}

func TestOpenRefusesWhatIsNoDevice(t *testing.T) {
	dir := t.TempDir()
	_, err := device.Open(dir, device.Options{})
	require.ErrorIs(t, err, device.ErrNotDevice)
	require.EqualError(t, err, "open "+dir+": neither a regular file nor a block device (a directory)")

	_, err = device.Open(filepath.Join(dir, "none"), device.Options{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	if runtime.GOOS == "linux" {
		_, err = device.Open("/dev/null", device.Options{})
		require.ErrorIs(t, err, device.ErrNotDevice)
		require.ErrorContains(t, err, "a character device")
	}
}

func TestCreateNeverReplaces(t *testing.T) {
	path := imageFile(t, 10)
	_, err := device.Create(path, 4096)
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, path)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 10, info.Size())
}

func TestLocks(t *testing.T) {
	path := imageFile(t, 4096)
	ro := device.Options{ReadOnly: true}
	open := func(o device.Options) (*device.File, error) {
		d, err := device.Open(path, o)
		if err == nil {
			t.Cleanup(func() { d.Close() })
		}
		return d, err
	}
	writer, err := open(device.Options{})
	require.NoError(t, err)
	_, err = open(device.Options{})
	require.ErrorIs(t, err, device.ErrInUse)
	require.EqualError(t, err, "open "+path+": in use by another program")
	_, err = open(ro)
	require.ErrorIs(t, err, device.ErrInUse)
	_, err = open(device.Options{NoLock: true})
	require.NoError(t, err)
	require.NoError(t, writer.Close())

	reader, err := open(ro)
	require.NoError(t, err)
	second, err := open(ro)
	require.NoError(t, err)
	_, err = open(device.Options{})
	require.ErrorIs(t, err, device.ErrInUse)
	require.NoError(t, reader.Close())
	require.NoError(t, second.Close())
	writer, err = open(device.Options{})
	require.NoError(t, err)
	require.NoError(t, writer.Close())
}

func TestReadOnly(t *testing.T) {
	path := imageFile(t, 4096)
	d, err := device.Open(path, device.Options{ReadOnly: true})
	require.NoError(t, err)
	defer d.Close()
	require.True(t, device.ReadOnly(d))
	_, err = d.WriteAt([]byte{1}, 5)
	require.ErrorIs(t, err, device.ErrReadOnly)
	require.EqualError(t, err, "write "+path+": 1 bytes at offset 5: opened read-only")
	require.ErrorIs(t, d.PunchHole(0, 1), device.ErrReadOnly)
	require.ErrorIs(t, d.Discard(0, 1), device.ErrReadOnly)
	require.ErrorIs(t, d.Truncate(1), device.ErrReadOnly)
	_, err = device.WriteFUA(d, []byte{1}, 5)
	require.ErrorIs(t, err, device.ErrReadOnly)
	require.NoError(t, d.Flush())
	w, err := device.NewWindow(d, 0, 100)
	require.NoError(t, err)
	require.True(t, device.ReadOnly(w))
}

func TestTruncate(t *testing.T) {
	for name, d := range map[string]device.Device{"file": newFile(t), "mem": device.NewMem(testSize)} {
		t.Run(name, func(t *testing.T) {
			tr := d.(device.Truncater)
			_, err := d.WriteAt(bytes.Repeat([]byte{9}, testSize), 0)
			require.NoError(t, err)
			require.NoError(t, tr.Truncate(5000))
			require.EqualValues(t, 5000, d.Size())
			require.NoError(t, tr.Truncate(20000))
			p := make([]byte, 20000)
			_, err = d.ReadAt(p, 0)
			require.NoError(t, err)
			require.Equal(t, bytes.Repeat([]byte{9}, 5000), p[:5000])
			require.True(t, device.IsZero(p[5000:]))
			require.Error(t, tr.Truncate(-1))
		})
	}
}

func TestFileThatBecameShorter(t *testing.T) {
	d := newFile(t)
	require.NoError(t, os.Truncate(d.Path(), 1000))
	n, err := d.ReadAt(make([]byte, 100), 950)
	require.Equal(t, 50, n)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.EqualError(t, err, "read "+d.Path()+": 100 bytes at offset 950: unexpected EOF")
	require.Empty(t, collect(t, d, 2000, 5000))
}

func TestClosedFile(t *testing.T) {
	d := newFile(t)
	require.NoError(t, d.Close())
	_, err := d.WriteAt([]byte{1}, 0)
	require.ErrorIs(t, err, os.ErrClosed)
	_, err = device.Writev(d, [][]byte{{1}}, 0)
	require.ErrorIs(t, err, os.ErrClosed)
	require.ErrorIs(t, d.Flush(), os.ErrClosed)
	require.ErrorIs(t, d.Flush(), os.ErrClosed, "a failed flush keeps failing")
}

func TestVectorOfManyBuffers(t *testing.T) {
	eachDevice(t, func(t *testing.T, make maker) {
		d := make(t)
		var bufs [][]byte
		for i := range 3000 {
			bufs = append(bufs, bytes.Repeat([]byte{byte(i)}, i%50))
		}
		want := slices.Concat(bufs...)
		n, err := device.Writev(d, bufs, 77)
		require.NoError(t, err)
		require.Equal(t, len(want), n)
		got := zeroes(len(want))
		_, err = d.ReadAt(got, 77)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
	})
}

func TestIsZero(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 511, 4095, 4096, 4097, 8192, 100000} {
		p := make([]byte, n)
		require.True(t, device.IsZero(p), n)
		for _, at := range []int{0, n / 2, n - 1} {
			if at < 0 || at >= n {
				continue
			}
			p[at] = 1
			require.False(t, device.IsZero(p), "%d of %d", at, n)
			p[at] = 0
		}
	}
}

func TestCopySparse(t *testing.T) {
	const size = 5<<20 + 123
	src := device.NewMem(size)
	for off, n := range map[int64]int{0: 1, 100_000: 5000, 1 << 20: 4096, 3<<20 - 10: 20, size - 50: 50} {
		_, err := src.WriteAt(bytes.Repeat([]byte{3}, n), off)
		require.NoError(t, err)
	}
	want := make([]byte, size)
	_, err := src.ReadAt(want, 0)
	require.NoError(t, err)

	for name, from := range map[string]io.ReaderAt{"device": src, "reader": bytes.NewReader(want)} {
		t.Run(name, func(t *testing.T) {
			dst := device.NewMem(size)
			require.NoError(t, device.CopySparse(dst, from, size))
			got := make([]byte, size)
			_, err := dst.ReadAt(got, 0)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got))
			require.Equal(t, collect(t, src, 0, size), collect(t, dst, 0, size))
			require.ErrorIs(t, device.CopySparse(dst, from, size+1), device.ErrOutOfRange)
			require.ErrorIs(t, device.CopySparse(device.NewMem(size+9), from, size+1), io.ErrUnexpectedEOF)
		})
	}
}

func TestCopier(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789abcdef"), 60_000)
	path := filepath.Join(t.TempDir(), "source")
	require.NoError(t, os.WriteFile(path, want, 0o666))
	src, err := os.Open(path)
	require.NoError(t, err)
	defer src.Close()
	n := int64(len(want))
	for name, d := range map[string]device.Device{"mem": device.NewMem(n + 5000), "file": newFileOf(t, n+5000)} {
		t.Run(name, func(t *testing.T) {
			for _, offload := range []bool{false, true} {
				c := device.NewCopier(d)
				c.Offload = offload
				require.NoError(t, device.Zero(d, 0, d.Size()))
				done, err := c.Copy(4096, src, 0, n)
				require.NoError(t, err)
				require.Equal(t, n, done.Cloned+done.Offloaded+done.Written)
				got := make([]byte, n)
				_, err = d.ReadAt(got, 4096)
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, got))

				_, err = c.Copy(0, src, 10, n)
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				_, err = c.Copy(5001, src, 0, n)
				require.ErrorIs(t, err, device.ErrOutOfRange)
				_, err = c.Copy(0, src, n, 0)
				require.NoError(t, err)
			}
		})
	}
}

// A source that can be cloned only sometimes is neither given up nor tried for ever.
func TestCopierGivesUpCloning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "source")
	require.NoError(t, os.WriteFile(path, make([]byte, 1<<20), 0o666))
	src, err := os.Open(path)
	require.NoError(t, err)
	defer src.Close()
	f := device.NewFault(device.NewMem(1<<20), nil)
	c := device.NewCopier(f)
	for range 100 {
		_, err := c.Copy(0, src, 0, 1<<20)
		require.NoError(t, err)
	}
	require.Less(t, f.Count(device.OpCopy), 20)
	require.GreaterOrEqual(t, f.Count(device.OpCopy), 2)
}

func TestCopierReportsRealErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "source")
	require.NoError(t, os.WriteFile(path, make([]byte, 1<<20), 0o666))
	src, err := os.Open(path)
	require.NoError(t, err)
	defer src.Close()
	bad := errors.New("bad")
	for _, kind := range []device.OpKind{device.OpCopy, device.OpWrite} {
		_, err = device.NewCopier(device.NewFault(device.NewMem(1<<20), device.FailNth(kind, 1, bad))).Copy(0, src, 0, 1<<20)
		require.ErrorIs(t, err, bad)
	}
}
