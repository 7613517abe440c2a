package device_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/partition"
	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/diskfs/go-diskfs/partition/mbr"
	"github.com/stretchr/testify/require"

	"drydock/device"
)

func TestMemIsSparse(t *testing.T) {
	d := device.NewMem(15 << 40)
	require.Zero(t, d.Allocated())
	_, err := d.WriteAt([]byte{1}, 14<<40+4095)
	require.NoError(t, err)
	_, err = d.WriteAt(make([]byte, 8192), 1<<40)
	require.NoError(t, err)
	require.EqualValues(t, 3*4096, d.Allocated())
	require.Equal(t, []device.Segment{{Off: 1 << 40, Len: 8192}, {Off: 14 << 40, Len: 4096}}, collect(t, d, 0, d.Size()))
	require.Equal(t, []device.Segment{{Off: 1<<40 + 100, Len: 50}}, collect(t, d, 1<<40+100, 50))
	require.NoError(t, d.PunchHole(1<<40, 1<<30))
	require.EqualValues(t, 4096, d.Allocated())
}

func TestMemClone(t *testing.T) {
	a := device.NewMem(testSize)
	_, err := a.WriteAt([]byte("both"), 10_000)
	require.NoError(t, err)
	b := a.Clone()
	read := func(d device.Device) string {
		p := make([]byte, 4)
		_, err := d.ReadAt(p, 10_000)
		require.NoError(t, err)
		return string(p)
	}
	_, err = a.WriteAt([]byte("A"), 10_000)
	require.NoError(t, err)
	require.Equal(t, "Aoth both", read(a)+" "+read(b))
	_, err = b.WriteAt([]byte("B"), 10_001)
	require.NoError(t, err)
	require.Equal(t, "Aoth bBth", read(a)+" "+read(b))
	require.NoError(t, a.PunchHole(0, testSize))
	require.Equal(t, "\x00\x00\x00\x00 bBth", read(a)+" "+read(b))
}

// A clone that is taken while others write holds, of each sector, old or new.
func TestCloneWhileWriting(t *testing.T) {
	a := device.NewOverlay(device.NewMem(testSize))
	var wg sync.WaitGroup
	for w := range int64(4) {
		wg.Go(func() {
			for i := range 200 {
				a.WriteAt(bytes.Repeat([]byte{byte(i)}, 4096), w*8192)
			}
		})
	}
	for range 50 {
		c := a.Clone()
		p := make([]byte, 4096)
		for w := range int64(4) {
			_, err := c.ReadAt(p, w*8192)
			require.NoError(t, err)
			require.True(t, bytes.Equal(p, bytes.Repeat(p[:1], 4096)))
		}
	}
	wg.Wait()
}

func TestOverlayLeavesTheBase(t *testing.T) {
	base := device.NewFault(device.NewMem(testSize), nil)
	for _, off := range []int64{0, 8192, 50_000} {
		_, err := base.WriteAt(bytes.Repeat([]byte{1}, 4096), off)
		require.NoError(t, err)
	}
	base.SetRule(device.FailFrom(device.OpChange, 1, errors.New("base was changed")))
	o := device.NewOverlay(base)
	_, err := o.WriteAt([]byte{2}, 100)
	require.NoError(t, err)
	require.NoError(t, o.PunchHole(8192, 4096))
	_, err = o.WriteAt([]byte{3}, testSize-1)
	require.NoError(t, err)
	require.NoError(t, o.Flush())

	require.Equal(t, []device.Segment{{Off: 0, Len: 4096}, {Off: 49152, Len: 8192}, {Off: testSize - 512, Len: 512}},
		collect(t, o, 0, testSize))
	require.Equal(t, []device.Segment{{Off: 0, Len: 4096}, {Off: 8192, Len: 4096}, {Off: testSize - 512, Len: 512}},
		slices.Collect(o.Changed()))
	require.EqualValues(t, 2*4096, o.Allocated())

	c := o.Clone()
	_, err = c.WriteAt([]byte{4}, 8192)
	require.NoError(t, err)
	p := make([]byte, 2)
	_, err = o.ReadAt(p, 8192)
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0}, p)
	_, err = c.ReadAt(p, 8192)
	require.NoError(t, err)
	require.Equal(t, []byte{4, 0}, p)
}

func TestOverlayReportsTheBase(t *testing.T) {
	bad := errors.New("bad spot")
	o := device.NewOverlay(device.NewFault(device.NewMem(testSize), device.FailRange(device.OpRead, 4096, 4096, bad)))
	_, err := o.ReadAt(make([]byte, 10), 5000)
	require.ErrorIs(t, err, bad)
	n, err := o.WriteAt([]byte{1}, 5000)
	require.ErrorIs(t, err, bad, "the rest of the page cannot be read")
	require.Zero(t, n)
	_, err = o.WriteAt(make([]byte, 4096), 4096)
	require.NoError(t, err, "a whole page needs no reading")
	_, err = o.ReadAt(make([]byte, 10), 5000)
	require.NoError(t, err)
}

// guard is a device whose bytes outside of a range must not be touched.
func TestWindowTouchesNothingElse(t *testing.T) {
	under := device.NewMem(testSize + 9999)
	_, err := under.WriteAt(bytes.Repeat([]byte{7}, testSize+9999), 0)
	require.NoError(t, err)
	w := window(t, under)
	require.EqualValues(t, 1234, w.Start())
	_, err = w.WriteAt(make([]byte, testSize), 0)
	require.NoError(t, err)
	for _, off := range []int64{-1, -1234, 1, testSize, math.MaxInt64 - 1233, math.MaxInt64} {
		_, err := w.WriteAt(make([]byte, testSize), off)
		require.ErrorIs(t, err, device.ErrOutOfRange)
		require.ErrorIs(t, w.PunchHole(off, testSize), device.ErrOutOfRange)
		require.ErrorIs(t, w.Discard(off, testSize), device.ErrOutOfRange)
	}
	all := make([]byte, testSize+9999)
	_, err = under.ReadAt(all, 0)
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat([]byte{7}, 1234), all[:1234])
	require.True(t, device.IsZero(all[1234:1234+testSize]))
	require.Equal(t, bytes.Repeat([]byte{7}, 9999-1234), all[1234+testSize:])

	for _, r := range [][2]int64{{-1, 10}, {0, testSize + 10_000}, {testSize + 9999, 1}, {math.MaxInt64, math.MaxInt64}, {5, -1}} {
		_, err := device.NewWindow(under, r[0], r[1])
		require.ErrorIs(t, err, device.ErrOutOfRange)
	}
}

func TestFaultRules(t *testing.T) {
	bad := errors.New("bad")
	write := func(d device.Device, off int64, n int) error {
		_, err := d.WriteAt(bytes.Repeat([]byte{1}, n), off)
		return err
	}
	t.Run("n-th", func(t *testing.T) {
		d := device.NewFault(device.NewMem(testSize), device.FailNth(device.OpWrite|device.OpFlush, 2, bad))
		require.NoError(t, write(d, 0, 10))
		require.EqualError(t, write(d, 20, 10), "write memory: 10 bytes at offset 20: bad")
		require.NoError(t, d.Flush())
		require.Equal(t, 2, d.Count(device.OpWrite))
		require.Equal(t, 3, d.Count(device.OpChange))
		p := make([]byte, 40)
		_, err := d.ReadAt(p, 0)
		require.NoError(t, err)
		require.True(t, device.IsZero(p[10:]))
	})
	t.Run("from", func(t *testing.T) {
		d := device.NewFault(device.NewMem(testSize), device.FailFrom(device.OpFlush, 2, bad))
		require.NoError(t, d.Flush())
		require.ErrorIs(t, d.Flush(), bad)
		require.EqualError(t, d.Flush(), "flush memory: bad")
		require.NoError(t, write(d, 0, 10))
	})
	t.Run("range", func(t *testing.T) {
		d := device.NewFault(device.NewMem(testSize), device.FailRange(device.OpChange|device.OpRead, 1000, 100, bad))
		require.NoError(t, write(d, 900, 100))
		require.ErrorIs(t, write(d, 900, 101), bad)
		require.ErrorIs(t, write(d, 1099, 1), bad)
		require.NoError(t, write(d, 1100, 1))
		require.ErrorIs(t, device.Zero(d, 0, 5000), bad)
		_, err := d.ReadAt(make([]byte, 5000), 0)
		require.ErrorIs(t, err, bad)
	})
	t.Run("full", func(t *testing.T) {
		d := device.NewFault(device.NewMem(testSize), device.FailAfterBytes(100, syscall.ENOSPC))
		require.NoError(t, write(d, 0, 60))
		n, err := device.Writev(d, [][]byte{{2, 2}, bytes.Repeat([]byte{2}, 98)}, 60)
		require.Equal(t, 40, n)
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorIs(t, write(d, 0, 1), syscall.ENOSPC)
		_, err = device.WriteFUA(d, []byte{1}, 0)
		require.ErrorIs(t, err, syscall.ENOSPC)
		p := make([]byte, 200)
		_, err = d.ReadAt(p, 0)
		require.NoError(t, err)
		require.Equal(t, append(bytes.Repeat([]byte{1}, 60), bytes.Repeat([]byte{2}, 40)...), p[:100])
		require.True(t, device.IsZero(p[100:]))
	})
	t.Run("any", func(t *testing.T) {
		d := device.NewFault(device.NewMem(testSize), device.Any(
			device.FailNth(device.OpWrite, 1, bad), device.FailNth(device.OpWrite, 2, io.ErrClosedPipe)))
		require.ErrorIs(t, write(d, 0, 1), bad)
		require.ErrorIs(t, write(d, 0, 1), io.ErrClosedPipe)
		d.SetRule(nil)
		require.NoError(t, write(d, 0, 1))
	})
}

func TestRecorder(t *testing.T) {
	under := device.NewMem(testSize)
	r := device.NewRecorder(under)
	p := []byte("first")
	_, err := r.WriteAt(p, 100)
	require.NoError(t, err)
	copy(p, "xxxxx") // the trace keeps what was written, not the buffer
	require.NoError(t, r.Flush())
	_, err = device.Writev(r, [][]byte{[]byte("se"), []byte("cond")}, 102)
	require.NoError(t, err)
	_, err = device.WriteFUA(r, []byte("third"), 5000)
	require.NoError(t, err)
	r.Mark("here")
	require.NoError(t, device.Zero(r, 101, 2))
	require.NoError(t, device.Discard(r, 4096, 4096))
	_, err = r.WriteAt(p, testSize)
	require.ErrorIs(t, err, device.ErrOutOfRange)

	trace := r.Trace()
	require.EqualValues(t, testSize, trace.Size)
	want := []device.Event{
		{Kind: device.EventWrite, Off: 100, Len: 5, Data: []byte("first"), Submit: 1, Complete: 2},
		{Kind: device.EventFlush, Submit: 3, Complete: 4},
		{Kind: device.EventWrite, Off: 102, Len: 6, Data: []byte("second"), Submit: 5, Complete: 6},
		{Kind: device.EventWrite, FUA: true, Off: 5000, Len: 5, Data: []byte("third"), Submit: 7, Complete: 8},
		{Kind: device.EventMark, Text: "here", Submit: 9, Complete: 10},
		{Kind: device.EventZero, Off: 101, Len: 2, Submit: 11, Complete: 12},
		{Kind: device.EventDiscard, Off: 4096, Len: 4096, Submit: 13, Complete: 14},
	}
	require.Equal(t, want, trace.Events)

	again := device.NewMem(testSize)
	require.NoError(t, trace.Replay(again, len(trace.Events)))
	require.Equal(t, content4(t, under), content4(t, again))
	half := device.NewMem(testSize)
	require.NoError(t, trace.Replay(half, 1))
	require.Equal(t, "first\x00", string(content4(t, half)[100:106]))
}

// content4 is the start of a device, 16 KiB.
func content4(t *testing.T, d device.Device) []byte {
	p := make([]byte, 16<<10)
	_, err := d.ReadAt(p, 0)
	require.NoError(t, err)
	return p
}

// A flush does not cover a write that is still running, and a trace shows it.
func TestRecorderOrder(t *testing.T) {
	gate, inside := make(chan struct{}), make(chan struct{})
	r := device.NewRecorder(slowWrites{device.NewMem(testSize), inside, gate})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.WriteAt([]byte("slow"), 0)
	}()
	<-inside
	require.NoError(t, r.Flush())
	running := r.Trace()
	close(gate)
	<-done
	e := r.Trace().Events
	require.Equal(t, device.EventWrite, e[0].Kind)
	require.Less(t, e[0].Submit, e[1].Submit)
	require.Greater(t, e[0].Complete, e[1].Submit)
	require.Zero(t, running.Events[0].Complete)
}

// slowWrites says when a write has begun, and ends it when it is let.
type slowWrites struct {
	device.Device
	inside, gate chan struct{}
}

func (s slowWrites) WriteAt(p []byte, off int64) (int, error) {
	close(s.inside)
	<-s.gate
	return s.Device.WriteAt(p, off)
}

func TestRecorderNotesFailures(t *testing.T) {
	bad := errors.New("bad")
	r := device.NewRecorder(device.NewFault(device.NewMem(testSize), device.FailNth(device.OpWrite, 1, bad)))
	_, err := r.WriteAt([]byte{1}, 0)
	require.ErrorIs(t, err, bad)
	require.True(t, r.Trace().Events[0].Failed)
}

func TestStorageTraps(t *testing.T) {
	t.Run("part longer than the file", func(t *testing.T) {
		_, err := device.FromStorage(backend.Sub(storageFile(t, 1000), 500, 501))
		require.ErrorContains(t, err, "claims to have 501 bytes")
	})
	t.Run("read-only", func(t *testing.T) {
		s, err := file.OpenFromPath(imageFile(t, testSize), true)
		require.NoError(t, err)
		defer s.Close()
		d := fromStorage(t, s)
		require.True(t, device.ReadOnly(d))
		_, err = d.WriteAt([]byte{1}, 0)
		require.ErrorIs(t, err, device.ErrReadOnly)
		require.NoError(t, d.Flush())
	})
	t.Run("position is kept", func(t *testing.T) {
		s := storageFile(t, testSize)
		_, err := s.Seek(77, io.SeekStart)
		require.NoError(t, err)
		fromStorage(t, s)
		at, err := s.Seek(0, io.SeekCurrent)
		require.NoError(t, err)
		require.EqualValues(t, 77, at)
	})
	t.Run("flush reaches the file below a part", func(t *testing.T) {
		f := device.NewFault(device.NewMem(testSize), nil)
		require.NoError(t, fromStorage(t, syncing{device.ToStorage(f), f}).Flush())
		require.Equal(t, 1, f.Count(device.OpFlush))
		s := storageFile(t, testSize)
		d := fromStorage(t, backend.Sub(s, 0, 512))
		require.NoError(t, s.Close())
		require.Error(t, d.Flush(), "the closed file was asked")
	})
	t.Run("there and back", func(t *testing.T) {
		m := device.NewMem(10)
		require.Same(t, m, fromStorage(t, device.ToStorage(m)))
	})
}

// syncing is a storage of a foreign type with a Sync of its own.
type syncing struct {
	backend.Storage
	dev device.Device
}

func (s syncing) Sync() error { return s.dev.Flush() }

func (s syncing) Writable() (backend.WritableFile, error) { return plainWritable{s.Storage}, nil }

// plainWritable has no Sync.
type plainWritable struct{ backend.Storage }

func (p plainWritable) WriteAt(b []byte, off int64) (int, error) { return len(b), nil }

// go-diskfs writes and reads its partition tables on any device.
func TestPartitionTables(t *testing.T) {
	const size = 64 << 20
	tables := map[string]partition.Table{
		"gpt": &gpt.Table{LogicalSectorSize: 512, ProtectiveMBR: true, GUID: "11111111-2222-3333-4444-555555555555",
			Partitions: []*gpt.Partition{{Index: 1, Start: 2048, End: 100_000, Type: gpt.LinuxFilesystem, GUID: "66666666-2222-3333-4444-555555555555"}}},
		"mbr": &mbr.Table{LogicalSectorSize: 512, PhysicalSectorSize: 512,
			Partitions: []*mbr.Partition{{Type: mbr.Linux, Start: 2048, Size: 97_953}}},
	}
	for name, table := range tables {
		for kind, d := range map[string]device.Device{"mem": device.NewMem(size), "file": newFileOf(t, size)} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				s := device.ToStorage(d)
				w, err := s.Writable()
				require.NoError(t, err)
				require.NoError(t, table.Write(w, size))
				read, err := partition.Read(s, 512, 512)
				require.NoError(t, err)
				require.Equal(t, name, read.Type())
				p := read.GetPartitions()[0]
				require.EqualValues(t, 2048*512, p.GetStart())
				require.EqualValues(t, 97_953*512, p.GetSize())
			})
		}
	}
}

func TestStorageReadSeek(t *testing.T) {
	m := device.NewMem(100)
	_, err := m.WriteAt([]byte("0123456789"), 90)
	require.NoError(t, err)
	s := device.ToStorage(m)
	at, err := s.Seek(-10, io.SeekEnd)
	require.NoError(t, err)
	require.EqualValues(t, 90, at)
	got, err := io.ReadAll(s)
	require.NoError(t, err)
	require.Equal(t, "0123456789", string(got))
	_, err = s.Seek(-1, io.SeekStart)
	require.ErrorIs(t, err, device.ErrOutOfRange)
	info, err := s.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 100, info.Size())
	_, err = s.Sys()
	require.Error(t, err)
	require.NoError(t, s.Close())
}
