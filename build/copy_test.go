package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"drydock/device"
	"drydock/format"
	"drydock/internal/mkfs"
)

// fakeLayout is a layout made by hand. Nodes are numbered from 1; node 0 is
// the root directory.
type fakeLayout struct {
	blockSize int
	extents   map[uint32][]format.Extent
	files     []uint32
}

func (l *fakeLayout) Files() []uint32 { return l.files }
func (l *fakeLayout) BlockSize() int  { return l.blockSize }

func (l *fakeLayout) Extents(node uint32, buf []format.Extent) []format.Extent {
	return append(buf, l.extents[node]...)
}

// fakeSource holds the data of files in memory. Handles are indexes plus 100.
type fakeSource struct {
	files  [][]byte
	opened atomic.Int64
	open   atomic.Int64
	fail   func(file int, off int64) error // reading
	closes func(file int) error
}

func (s *fakeSource) Scan(context.Context, *Tree) error { return nil }
func (s *fakeSource) Close() error                      { return nil }

func (s *fakeSource) Open(handle uint64) (Data, error) {
	s.opened.Add(1)
	s.open.Add(1)
	return &fakeData{s, int(handle - 100)}, nil
}

type fakeData struct {
	s    *fakeSource
	file int
}

func (d *fakeData) ReadAt(p []byte, off int64) (int, error) {
	if d.s.fail != nil {
		if err := d.s.fail(d.file, off); err != nil {
			return 0, err
		}
	}
	b := d.s.files[d.file]
	if off+int64(len(p)) > int64(len(b)) {
		return copy(p, b[min(off, int64(len(b))):]), io.EOF
	}
	return copy(p, b[off:]), nil
}

func (d *fakeData) Close() error {
	d.s.open.Add(-1)
	if d.s.closes != nil {
		return d.s.closes(d.file)
	}
	return nil
}

// copyCase is content with its layout, and what the device must hold in the end.
type copyCase struct {
	layout  fakeLayout
	content mkfs.Content
	src     fakeSource
	blocks  format.Block // in use
}

func newCopyCase(blockSize int) *copyCase {
	c := &copyCase{layout: fakeLayout{blockSize: blockSize, extents: make(map[uint32][]format.Extent)}}
	c.content.Nodes = []mkfs.Node{{Mode: format.ModeDir}}
	c.blocks = 3
	return c
}

// add adds a file with data at these extents (LBlock and Len), each of them gap
// blocks after the last.
func (c *copyCase) add(data []byte, gap int, extents ...format.Extent) {
	node := uint32(len(c.content.Nodes))
	name := c.content.Names.Add(fmt.Sprintf("file%d", node))
	c.content.Nodes = append(c.content.Nodes, mkfs.Node{Mode: format.ModeRegular, Size: uint64(len(data)), Source: uint64(node) + 99})
	c.content.Entries = append(c.content.Entries, mkfs.Entry{Name: name, Node: node})
	c.content.Nodes[0].Count++
	c.src.files = append(c.src.files, data)
	for _, e := range extents {
		e.Start = c.blocks + format.Block(gap)
		c.blocks = e.Start + format.Block(e.Len)
		c.layout.extents[node] = append(c.layout.extents[node], e)
	}
	c.layout.files = append(c.layout.files, node)
}

// addWhole adds a file without holes, in one extent.
func (c *copyCase) addWhole(data []byte, gap int) {
	bs := c.layout.blockSize
	c.add(data, gap, format.Extent{Len: uint32((len(data) + bs - 1) / bs)})
}

func (c *copyCase) size() int64 { return int64(c.blocks+2) * int64(c.layout.blockSize) }

// want returns what the device must hold if it held old before. Where dirty is
// false, bytes of a file's last block that are not data are left out of it: they
// are zeros or old.
func (c *copyCase) want(old []byte, dirty bool) []byte {
	want := bytes.Clone(old)
	bs := c.layout.blockSize
	for _, node := range c.layout.files {
		data := c.src.files[node-1]
		for _, e := range c.layout.extents[node] {
			place := want[int(e.Start)*bs:][:int(e.Len)*bs]
			n := copy(place, data[int(e.LBlock)*bs:])
			end := len(place)
			if !dirty {
				end = padded(n, min(bs, pageBytes))
			}
			clear(place[n:end])
		}
	}
	return want
}

func (c *copyCase) run(t require.TestingT, dev device.Device, o copyOptions) [32]byte {
	digest, err := copyData(context.Background(), &c.layout, &c.content, &c.src, dev, o)
	require.NoError(t, err)
	require.Zero(t, c.src.open.Load(), "files left open")
	return digest
}

func filled(size int64, b byte) *device.Mem {
	dev := device.NewMem(size)
	_, err := dev.WriteAt(bytes.Repeat([]byte{b}, int(size)), 0)
	if err != nil {
		panic(err)
	}
	return dev
}

func contents(t require.TestingT, dev device.Device) []byte {
	b := make([]byte, dev.Size())
	_, err := dev.ReadAt(b, 0)
	require.NoError(t, err)
	return b
}

func randomData(seed uint64, n int) []byte {
	b := make([]byte, n)
	src := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = src.Read(b)
	return b
}

// drawCase draws files of all kinds of sizes, with holes, in pieces that lie
// close together or apart.
func drawCase(t *rapid.T) *copyCase {
	bs := rapid.SampledFrom([]int{1024, 2048, 4096, 65536}).Draw(t, "block size")
	c := newCopyCase(bs)
	for i := range rapid.IntRange(0, 20).Draw(t, "files") {
		most := rapid.SampledFrom([]int{10, 10, 3 * bs, 3 * bs, 100 << 10, 2 * jobBytes}).Draw(t, "most")
		data := randomData(uint64(i), rapid.IntRange(1, most).Draw(t, "bytes"))
		c.add(data, rapid.IntRange(0, 2).Draw(t, "gap")/2, drawExtents(t, data, bs)...)
	}
	return c
}

// drawExtents draws where the data lies, and clears it where it does not.
func drawExtents(t *rapid.T, data []byte, bs int) (extents []format.Extent) {
	blocks := (len(data) + bs - 1) / bs
	pieces := rapid.IntRange(1, 5).Draw(t, "pieces")
	for at := 0; at < blocks; {
		hole := 0
		if pieces > 1 {
			hole = rapid.IntRange(0, 2).Draw(t, "hole")
		}
		hole = min(hole, blocks-at-1)
		clear(data[at*bs : (at+hole)*bs])
		at += hole
		n := min(blocks-at, max(1, blocks/pieces))
		extents = append(extents, format.Extent{LBlock: format.LBlock(at), Len: uint32(n)})
		at += n
	}
	return extents
}

func TestCopyData(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCase(t)
		var digests [][32]byte
		for _, o := range []copyOptions{
			{Workers: 1, Digest: true},
			{Workers: 3, Digest: true, Dirty: true},
			{Workers: 8},
		} {
			dev := filled(c.size(), 0xAA)
			old := contents(t, dev)
			digest := c.run(t, dev, o)
			require.True(t, bytes.Equal(c.want(old, o.Dirty), contents(t, dev)), "options %+v", o)
			digests = append(digests, digest)
		}
		require.Equal(t, digests[0], digests[1])
		require.Zero(t, digests[2])
	})
}

func TestCopyDigestTellsContentApart(t *testing.T) {
	digest := func(change func(c *copyCase)) [32]byte {
		c := newCopyCase(4096)
		for i := range 3 {
			c.addWhole(randomData(uint64(i), 5000), 0)
		}
		change(c)
		return c.run(t, device.NewMem(c.size()), copyOptions{Digest: true})
	}
	seen := map[[32]byte]bool{digest(func(*copyCase) {}): true}
	for _, change := range []func(c *copyCase){
		func(c *copyCase) { c.src.files[1][4999]++ },
		func(c *copyCase) { c.src.files[0][0]++ },
		func(c *copyCase) { c.src.files[0], c.src.files[1] = c.src.files[1], c.src.files[0] },
		func(c *copyCase) { c.addWhole([]byte{1}, 0) },
	} {
		sum := digest(change)
		require.False(t, seen[sum])
		seen[sum] = true
	}
}

func TestCopyWritesNeighboursAtOnce(t *testing.T) {
	c := newCopyCase(4096)
	for i := range 1000 {
		c.addWhole(randomData(uint64(i), 100), 0)
	}
	dev := &countingDevice{Device: device.NewMem(c.size())}
	c.run(t, dev, copyOptions{})
	require.EqualValues(t, (1000*4096+jobBytes-1)/jobBytes, dev.writes.Load())
	require.EqualValues(t, 1000, c.src.opened.Load())
}

type countingDevice struct {
	device.Device
	writes atomic.Int64
}

func (d *countingDevice) WriteAt(p []byte, off int64) (int, error) {
	d.writes.Add(1)
	return d.Device.WriteAt(p, off)
}

func TestCopyOpensLargeFilesOnceAWorker(t *testing.T) {
	c := newCopyCase(4096)
	c.addWhole(randomData(1, 20*jobBytes+77), 0)
	c.run(t, device.NewMem(c.size()), copyOptions{Workers: 1})
	require.EqualValues(t, 1, c.src.opened.Load())
}

func TestCopyProgress(t *testing.T) {
	c := newCopyCase(1024)
	total := int64(0)
	for i := range 100 {
		data := randomData(uint64(i), 1+i*i*150)
		c.addWhole(data, i%2)
		total += int64(len(data))
	}
	var bytes, files atomic.Int64
	c.run(t, device.NewMem(c.size()), copyOptions{Workers: 4, Progress: func(b, f int64) {
		bytes.Add(b)
		files.Add(f)
	}})
	require.Equal(t, total, bytes.Load())
	require.EqualValues(t, 100, files.Load())
}

func TestCopyReturnsFirstError(t *testing.T) {
	c := newCopyCase(4096)
	for i := range 2000 {
		c.addWhole(randomData(uint64(i), 9000), 0)
	}
	c.src.fail = func(file int, off int64) error {
		if file >= 900 && file%3 == 0 {
			return fmt.Errorf("file %d: %w", file, syscall.EIO)
		}
		return nil
	}
	for range 5 {
		_, err := copyData(context.Background(), &c.layout, &c.content, &c.src, device.NewMem(c.size()), copyOptions{Workers: 4})
		require.ErrorIs(t, err, syscall.EIO)
		require.ErrorContains(t, err, "file 900:")
		require.Zero(t, c.src.open.Load())
	}
}

// The job that fails first need not be the first in order.
func TestCopyReturnsFirstErrorWhateverTheTime(t *testing.T) {
	c := newCopyCase(4096)
	for i := range 2000 {
		c.addWhole(randomData(uint64(i), 9000), 0)
	}
	later := make(chan struct{})
	c.src.fail = func(file int, _ int64) error {
		switch file {
		case 10:
			<-later
			time.Sleep(10 * time.Millisecond)
			return errors.New("first")
		case 900:
			close(later)
			return errors.New("second")
		}
		return nil
	}
	_, err := copyData(context.Background(), &c.layout, &c.content, &c.src, device.NewMem(c.size()), copyOptions{Workers: 2})
	require.EqualError(t, err, "first")
}

func TestCopyNoticesChange(t *testing.T) {
	for name, change := range map[string]func(c *copyCase){
		"short small file": func(c *copyCase) { c.src.files[2] = c.src.files[2][:8999] },
		"short large file": func(c *copyCase) { c.src.files[7] = c.src.files[7][:jobBytes+3] },
		"told at the end of a small file": func(c *copyCase) {
			c.src.closes = func(file int) error { return changedIf(file == 2) }
		},
		"told at the end of a large file": func(c *copyCase) {
			c.src.closes = func(file int) error { return changedIf(file == 7) }
		},
	} {
		c := newCopyCase(4096)
		for i := range 12 {
			size := 9000
			if i == 7 {
				size = 4*jobBytes + 1
			}
			c.addWhole(randomData(uint64(i), size), 0)
		}
		change(c)
		_, err := copyData(context.Background(), &c.layout, &c.content, &c.src, device.NewMem(c.size()), copyOptions{Workers: 2})
		require.ErrorIs(t, err, ErrChanged, name)
		if c.src.closes == nil {
			require.Regexp(t, `^"file[38]": changed while it was read$`, err.Error(), name)
		}
		require.Zero(t, c.src.open.Load(), name)
	}
}

func changedIf(changed bool) error {
	if changed {
		return ErrChanged
	}
	return nil
}

func TestCopyReportsFullOutput(t *testing.T) {
	c := newCopyCase(4096)
	for i := range 500 {
		c.addWhole(randomData(uint64(i), 9000), 0)
	}
	dev := &fullDevice{Device: device.NewMem(c.size())}
	_, err := copyData(context.Background(), &c.layout, &c.content, &c.src, dev, copyOptions{Workers: 2})
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NotContains(t, err.Error(), "file")
}

type fullDevice struct{ device.Device }

func (d *fullDevice) WriteAt(p []byte, off int64) (int, error) {
	if off > d.Size()/2 {
		return 0, syscall.ENOSPC
	}
	return d.Device.WriteAt(p, off)
}

func TestCopyStopsWhenCancelled(t *testing.T) {
	c := newCopyCase(4096)
	for i := range 1000 {
		c.addWhole(randomData(uint64(i), 9000), 0)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var once sync.Once
	_, err := copyData(ctx, &c.layout, &c.content, &c.src, device.NewMem(c.size()), copyOptions{
		Workers: 2, Progress: func(int64, int64) { once.Do(cancel) },
	})
	require.True(t, errors.Is(err, context.Canceled))
	require.Less(t, c.src.opened.Load(), int64(500))
	require.Zero(t, c.src.open.Load())
}

// A file larger than memory costs no memory: it is all zeros here, and what is
// written goes nowhere.
func TestCopyOfHugeFile(t *testing.T) {
	const size = 8 << 30
	c := newCopyCase(4096)
	c.content.Nodes = append(c.content.Nodes, mkfs.Node{Mode: format.ModeRegular, Size: size, Source: 100})
	for at := format.LBlock(0); at < size/4096; at += format.MaxExtentLen {
		e := format.Extent{LBlock: at, Len: format.MaxExtentLen, Start: format.Block(at) + 7}
		c.layout.extents[1] = append(c.layout.extents[1], e)
	}
	c.layout.files = []uint32{1}
	dev := &nullDevice{}
	_, err := copyData(context.Background(), &c.layout, &c.content, zeroSource{}, dev, copyOptions{})
	require.NoError(t, err)
	require.EqualValues(t, size, dev.written.Load())
}

type nullDevice struct{ written atomic.Int64 }

func (d *nullDevice) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }
func (d *nullDevice) Size() int64                       { return 1 << 50 }
func (d *nullDevice) Flush() error                      { return nil }
func (d *nullDevice) WriteAt(p []byte, _ int64) (int, error) {
	d.written.Add(int64(len(p)))
	return len(p), nil
}

type zeroSource struct{}

func (zeroSource) Scan(context.Context, *Tree) error { return nil }
func (zeroSource) Close() error                      { return nil }
func (zeroSource) Open(uint64) (Data, error)         { return zeroData{}, nil }

type zeroData struct{}

func (zeroData) ReadAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (zeroData) Close() error                          { return nil }
