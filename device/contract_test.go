package device_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"drydock/device"
	"drydock/internal/oracle"
)

// testSize is a length in bytes that is no multiple of any page or stripe.
const testSize = 300<<10 + 512

// maker makes a device of testSize zeros.
type maker func(t testing.TB) device.Device

// makers has every implementation, and some of them over each other.
var makers = map[string]maker{
	"mem":          func(testing.TB) device.Device { return device.NewMem(testSize) },
	"file":         func(t testing.TB) device.Device { return newFile(t) },
	"temp":         func(t testing.TB) device.Device { return newTemp(t) },
	"window/mem":   func(t testing.TB) device.Device { return window(t, device.NewMem(testSize+9999)) },
	"window/file":  func(t testing.TB) device.Device { return window(t, newFileOf(t, testSize+9999)) },
	"overlay/mem":  func(testing.TB) device.Device { return device.NewOverlay(device.NewMem(testSize)) },
	"overlay/file": func(t testing.TB) device.Device { return device.NewOverlay(newFile(t)) },
	"fault/mem":    func(testing.TB) device.Device { return device.NewFault(device.NewMem(testSize), nil) },
	"recorder/mem": func(testing.TB) device.Device { return device.NewRecorder(device.NewMem(testSize)) },
	"recorder/storage": func(t testing.TB) device.Device {
		return device.NewRecorder(fromStorage(t, storageFile(t, testSize)))
	},
	"storage": func(t testing.TB) device.Device { return fromStorage(t, storageFile(t, testSize)) },
	"storage/sub": func(t testing.TB) device.Device {
		return fromStorage(t, backend.Sub(storageFile(t, testSize+9999), 4321, testSize))
	},
	"storage/window/fault/mem": func(t testing.TB) device.Device {
		under := window(t, device.NewFault(device.NewMem(testSize+9999), nil))
		return fromStorage(t, backend.Sub(device.ToStorage(under), 0, testSize))
	},
	"block": func(t testing.TB) device.Device { return newBlock(t) },
}

// TestMain lowers the number of runs of the model, which -rapid.checks raises.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// eachDevice runs a test on every implementation.
func eachDevice(t *testing.T, test func(t *testing.T, make maker)) {
	for name, make := range makers {
		t.Run(name, func(t *testing.T) { test(t, make) })
	}
}

func newFile(t testing.TB) *device.File { return newFileOf(t, testSize) }

func newFileOf(t testing.TB, size int64) *device.File {
	d, err := device.Create(filepath.Join(t.TempDir(), "a.img"), size)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func newTemp(t testing.TB) *device.Temp {
	d, err := device.CreateTemp(filepath.Join(t.TempDir(), "a.img"), device.TempOptions{Size: testSize})
	require.NoError(t, err)
	t.Cleanup(func() { d.Abort() })
	return d
}

func newBlock(t testing.TB) *device.File {
	dev := oracle.Loop(t, imageFile(t, testSize))
	d, err := device.Open(dev, device.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func imageFile(t testing.TB, size int64) string {
	path := filepath.Join(t.TempDir(), "image.img")
	require.NoError(t, os.WriteFile(path, nil, 0o666))
	require.NoError(t, os.Truncate(path, size))
	return path
}

// window is testSize bytes in the middle of a device.
func window(t testing.TB, d device.Device) *device.Window {
	w, err := device.NewWindow(d, 1234, testSize)
	require.NoError(t, err)
	return w
}

func storageFile(t testing.TB, size int64) backend.Storage {
	s, err := file.OpenFromPath(imageFile(t, size), false)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func fromStorage(t testing.TB, s backend.Storage) device.Device {
	d, err := device.FromStorage(s)
	require.NoError(t, err)
	return d
}

// The model is a slice of bytes; every device must behave as it.
func TestModel(t *testing.T) {
	eachDevice(t, func(t *testing.T, make maker) {
		d := make(t) // one for all runs: each starts by zeroing it
		rapid.Check(t, func(rt *rapid.T) {
			require.NoError(rt, device.Zero(d, 0, testSize))
			m := &model{d: d, want: bytes.Clone(zeroes(testSize))}
			rt.Repeat(map[string]func(*rapid.T){
				"write": m.write, "writev": m.writev, "fua": m.fua, "zero": m.zero, "discard": m.discard,
				"read": m.read, "flush": m.flush, "outside": m.outside, "segments": m.segments,
			})
			m.compare(rt)
		})
	})
}

func zeroes(n int) []byte { return make([]byte, n) }

type model struct {
	d    device.Device
	want []byte
}

// span draws a range inside the device, often at a border of blocks.
func span(t *rapid.T) (off, n int64) {
	edge := rapid.Int64Range(0, testSize/512).Draw(t, "sector") * 512
	off = max(0, min(testSize, edge+rapid.Int64Range(-2, 2).Draw(t, "shift")))
	limit := testSize - off
	n = min(limit, rapid.OneOf(rapid.Int64Range(0, 10), rapid.Just[int64](512), rapid.Just[int64](4096),
		rapid.Int64Range(0, 20000), rapid.Just[int64](150000)).Draw(t, "length"))
	return off, n
}

// pool is random content to draw from.
var pool = func() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	p := make([]byte, testSize+1<<16)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}()

// content draws n bytes that differ from time to time.
func content(t *rapid.T, n int64) []byte {
	at := rapid.IntRange(0, len(pool)-int(n)).Draw(t, "content")
	return bytes.Clone(pool[at:][:n])
}

func (m *model) write(t *rapid.T) {
	off, n := span(t)
	p := content(t, n)
	got, err := m.d.WriteAt(p, off)
	require.NoError(t, err)
	require.EqualValues(t, n, got)
	copy(m.want[off:], p)
}

func (m *model) writev(t *rapid.T) {
	off, n := span(t)
	p := content(t, n)
	cut := rapid.Int64Range(0, n).Draw(t, "cut")
	bufs := [][]byte{nil, p[:cut], {}, p[cut:]}
	got, err := device.Writev(m.d, bufs, off)
	require.NoError(t, err)
	require.EqualValues(t, n, got)
	require.Equal(t, [][]byte{nil, p[:cut], {}, p[cut:]}, bufs)
	copy(m.want[off:], p)
}

func (m *model) fua(t *rapid.T) {
	off, n := span(t)
	p := content(t, n)
	got, err := device.WriteFUA(m.d, p, off)
	require.NoError(t, err)
	require.EqualValues(t, n, got)
	copy(m.want[off:], p)
}

func (m *model) zero(t *rapid.T) {
	off, n := span(t)
	require.NoError(t, device.Zero(m.d, off, n))
	clear(m.want[off : off+n])
}

// discard leaves any content, so the model takes over what is there.
func (m *model) discard(t *rapid.T) {
	off, n := span(t)
	require.NoError(t, device.Discard(m.d, off, n))
	_, err := m.d.ReadAt(m.want[off:off+n], off)
	require.NoError(t, err)
}

func (m *model) read(t *rapid.T) {
	off, n := span(t)
	p := bytes.Repeat([]byte{0xa5}, int(n))
	got, err := m.d.ReadAt(p, off)
	require.NoError(t, err)
	require.EqualValues(t, n, got)
	require.True(t, bytes.Equal(m.want[off:off+n], p))
}

func (m *model) flush(t *rapid.T) { require.NoError(t, m.d.Flush()) }

// outside tries ranges that do not lie in the device.
func (m *model) outside(t *rapid.T) {
	n := rapid.Int64Range(1, 70000).Draw(t, "length")
	off := rapid.SampledFrom([]int64{-1, -n, testSize - n + 1, testSize, testSize + 1, math.MaxInt64, math.MinInt64}).Draw(t, "offset")
	p := content(t, n)
	for name, change := range map[string]func() error{
		"write":   func() error { _, err := m.d.WriteAt(p, off); return err },
		"writev":  func() error { _, err := device.Writev(m.d, [][]byte{p}, off); return err },
		"fua":     func() error { _, err := device.WriteFUA(m.d, p, off); return err },
		"zero":    func() error { return device.Zero(m.d, off, n) },
		"discard": func() error { return device.Discard(m.d, off, n) },
	} {
		err := change()
		require.ErrorIs(t, err, device.ErrOutOfRange, name)
		var op *device.OpError
		require.ErrorAs(t, err, &op, name)
		require.Equal(t, [2]int64{off, n}, [2]int64{op.Off, op.Len}, name)
	}
	require.ErrorIs(t, device.Zero(m.d, 0, -1), device.ErrOutOfRange)
	for _, err := range device.Segments(m.d, off, n) {
		require.ErrorIs(t, err, device.ErrOutOfRange)
	}
}

// segments checks that there are zeros outside of the segments.
func (m *model) segments(t *rapid.T) {
	off, n := span(t)
	for range device.Segments(m.d, off, n) {
		break // as a caller may
	}
	pos := off
	for s, err := range device.Segments(m.d, off, n) {
		require.NoError(t, err)
		require.Positive(t, s.Len)
		require.GreaterOrEqual(t, s.Off, pos)
		require.LessOrEqual(t, s.End(), off+n)
		require.True(t, device.IsZero(m.want[pos:s.Off]))
		pos = s.End()
	}
	require.True(t, device.IsZero(m.want[pos:off+n]))
}

func (m *model) compare(t *rapid.T) {
	got := make([]byte, testSize)
	_, err := m.d.ReadAt(got, 0)
	require.NoError(t, err)
	require.True(t, bytes.Equal(m.want, got))
}

func TestNewDeviceIsZero(t *testing.T) {
	eachDevice(t, func(t *testing.T, make maker) {
		d := make(t)
		require.EqualValues(t, testSize, d.Size())
		got, err := io.ReadAll(io.NewSectionReader(d, 0, math.MaxInt64))
		require.NoError(t, err)
		require.Len(t, got, testSize)
		require.True(t, device.IsZero(got))
	})
}

func TestReadAtTheEnd(t *testing.T) {
	eachDevice(t, func(t *testing.T, make maker) {
		d := make(t)
		_, err := d.WriteAt([]byte("end"), testSize-3)
		require.NoError(t, err)
		p := bytes.Repeat([]byte{1}, 5)

		n, err := d.ReadAt(p, testSize-3)
		require.Equal(t, io.EOF, err)
		require.Equal(t, "end\x01\x01", string(p))
		require.Equal(t, 3, n)

		n, err = d.ReadAt(p, testSize)
		require.Equal(t, io.EOF, err)
		require.Zero(t, n)
		_, err = d.ReadAt(p, math.MaxInt64)
		require.Equal(t, io.EOF, err)
		_, err = d.ReadAt(p, -1)
		require.ErrorIs(t, err, device.ErrOutOfRange)
		n, err = d.ReadAt(p[:3], testSize-3)
		require.NoError(t, err)
		require.Equal(t, 3, n)
	})
}

// The methods of optional interfaces either work or are errors.ErrUnsupported and
// change nothing.
func TestOptionalInterfaces(t *testing.T) {
	eachDevice(t, func(t *testing.T, make maker) {
		d := make(t)
		fill := bytes.Repeat([]byte{7}, testSize)
		_, err := d.WriteAt(fill, 0)
		require.NoError(t, err)
		read := func() []byte {
			p := zeroes(testSize)
			_, err := d.ReadAt(p, 0)
			require.NoError(t, err)
			return p
		}
		if p, ok := d.(device.Puncher); ok {
			if err := p.PunchHole(5000, 20000); err == nil {
				clear(fill[5000:25000])
			} else {
				require.ErrorIs(t, err, errors.ErrUnsupported)
			}
			require.True(t, bytes.Equal(fill, read()))
		}
		src, err := os.Create(filepath.Join(t.TempDir(), "source"))
		require.NoError(t, err)
		defer src.Close()
		_, err = src.Write(bytes.Repeat([]byte("source.."), 1024))
		require.NoError(t, err)
		if c, ok := d.(device.RangeCopier); ok {
			n, err := c.CopyRange(100, src, 8, 5000)
			if err == nil {
				require.EqualValues(t, 5000, n)
				copy(fill[100:5100], bytes.Repeat([]byte("source.."), 1000))
			} else {
				require.ErrorIs(t, err, errors.ErrUnsupported)
			}
			require.True(t, bytes.Equal(fill, read()))
			_, err = c.CopyRange(testSize-4999, src, 0, 5000)
			require.True(t, errors.Is(err, device.ErrOutOfRange) || errors.Is(err, errors.ErrUnsupported), err)
			require.True(t, bytes.Equal(fill, read()))
		}
		if c, ok := d.(device.RangeCloner); ok {
			err := c.CloneRange(testSize-4095, src, 0, 4096)
			require.True(t, errors.Is(err, device.ErrOutOfRange) || errors.Is(err, errors.ErrUnsupported), err)
			require.NotErrorIs(t, c.CloneRange(0, src, 0, 0), device.ErrOutOfRange)
			require.True(t, bytes.Equal(fill, read()))
		}
	})
}

// Writers and readers of their own ranges run at once; the race detector looks on.
func TestConcurrent(t *testing.T) {
	eachDevice(t, func(t *testing.T, make maker) {
		d := make(t)
		const workers, part = 8, testSize / 8
		var wg sync.WaitGroup
		for w := range int64(workers) {
			wg.Go(func() { hammer(t, d, w*part, part, byte(w+1)) })
		}
		wg.Wait()
		require.NoError(t, d.Flush())
	})
}

// hammer writes and checks a range that is its own.
func hammer(t *testing.T, d device.Device, off, n int64, seed byte) {
	p, q := make([]byte, n), make([]byte, n)
	for round := range byte(8) {
		for i := range p {
			p[i] = seed * (round + 1)
		}
		if _, err := device.Writev(d, [][]byte{p[:n/3], p[n/3:]}, off); err != nil {
			t.Error(err)
		}
		if err := device.Zero(d, off+n/2, 100); err != nil {
			t.Error(err)
		}
		clear(p[n/2 : n/2+100])
		for range device.Segments(d, off, n) {
		}
		if _, err := d.ReadAt(q, off); err != nil || !bytes.Equal(p, q) {
			t.Errorf("range at %d, round %d: not what was written (%v)", off, round, err)
		}
	}
}

// A sector that many write at once holds what one of them wrote.
func TestConcurrentSector(t *testing.T) {
	d := device.NewMem(testSize)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for range 200 {
				d.WriteAt(bytes.Repeat([]byte{byte(w)}, 8192), 1024)
			}
		})
		wg.Go(func() {
			p := make([]byte, 512)
			for range 200 {
				d.ReadAt(p, 2048)
				if !bytes.Equal(p, bytes.Repeat(p[:1], 512)) {
					t.Error("torn sector")
				}
			}
		})
	}
	wg.Wait()
}

func ExampleOpError() {
	_, err := device.NewMem(4096).WriteAt(make([]byte, 512), 3840)
	fmt.Println(err)
	// Output: write memory: 512 bytes at offset 3840: outside the device (4096 bytes)
}
