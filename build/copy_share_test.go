package build

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
)

// cloneDevice is a device that can share, as far as one can tell from outside.
type cloneDevice struct {
	*device.Mem
	t      *testing.T
	refuse bool
	calls  atomic.Int64
	cloned atomic.Int64
}

func (d *cloneDevice) CloneRange(dstOff int64, src *os.File, srcOff, n int64) error {
	d.calls.Add(1)
	if (dstOff|srcOff|n)%shareUnit != 0 || n == 0 {
		d.t.Errorf("clone of %d bytes from %d to %d", n, srcOff, dstOff)
	}
	if d.refuse {
		return errors.ErrUnsupported
	}
	b := make([]byte, n)
	if _, err := src.ReadAt(b, srcOff); err != nil {
		return err
	}
	d.cloned.Add(n)
	_, err := d.WriteAt(b, dstOff)
	return err
}

// hostSource is a source whose files lie one after the other in a host's file,
// from byte base on.
type hostSource struct {
	fakeSource
	host   *os.File
	base   int64
	starts []int64
}

func newHostSource(t *testing.T, base int64, files [][]byte) *hostSource {
	f, err := os.Create(filepath.Join(t.TempDir(), "host"))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	s := &hostSource{host: f, base: base}
	s.files = files
	at := base
	for _, data := range files {
		s.starts = append(s.starts, at)
		_, err := f.WriteAt(data, at)
		require.NoError(t, err)
		at += int64(padded(len(data), shareUnit))
	}
	return s
}

func (s *hostSource) Open(handle uint64) (Data, error) {
	s.open.Add(1)
	return &hostRange{fakeData{&s.fakeSource, int(handle - 100)}, s}, nil
}

type hostRange struct {
	fakeData
	s *hostSource
}

func (d *hostRange) FileRange() (*os.File, int64) { return d.s.host, d.s.starts[d.file] }

func TestSharing(t *testing.T) {
	sizes := []int{100, sharePiece - 1, sharePiece, sharePiece + 1, jobBytes, jobBytes + 5, 3*jobBytes + 8191, 5}
	shared := int64(0)
	for _, size := range sizes {
		if size >= sharePiece {
			shared += int64(size) &^ (shareUnit - 1)
		}
	}
	for name, x := range map[string]struct {
		base   int64
		refuse bool
		calls  int64
		cloned int64
	}{
		"shared":    {calls: 8, cloned: shared},
		"refused":   {refuse: true, calls: 1},
		"unaligned": {base: 512},
	} {
		for _, digest := range []bool{false, true} {
			c := newCopyCase(4096)
			for i, size := range sizes {
				c.addWhole(randomData(uint64(i), size), i%2)
			}
			src := newHostSource(t, x.base, c.src.files)
			dev := &cloneDevice{Mem: device.NewMem(c.size()), t: t, refuse: x.refuse}
			old := contents(t, dev)
			sum, err := copyData(t.Context(), &c.layout, &c.content, src, dev, copyOptions{Workers: 1, Digest: digest})
			require.NoError(t, err)
			require.Equal(t, string(c.want(old, true)), string(contents(t, dev)), name)
			require.Equal(t, x.calls, dev.calls.Load(), name)
			require.Equal(t, x.cloned, dev.cloned.Load(), name)
			require.Zero(t, src.open.Load(), name)
			if digest {
				require.Equal(t, c.run(t, device.NewMem(c.size()), copyOptions{Digest: true}), sum, name)
			}
		}
	}
}
