package journal_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/journal"
)

// content returns all bytes of a device.
func content(t testing.TB, dev device.Device) []byte {
	b := make([]byte, dev.Size())
	_, err := dev.ReadAt(b, 0)
	require.NoError(t, err)
	return b
}

// recoverMem recovers the log in area over its own device; an error of the
// device ends it.
func recoverMem(t testing.TB, area *journal.Area) error {
	r, err := journal.Scan(area, journal.ScanOptions{Blocks: homeBlocks})
	if err != nil {
		return err
	}
	require.NoError(t, r.Damage)
	if err := r.Replay(area.Device); err != nil {
		return err
	}
	return r.Finish()
}

// on returns the same area on another device.
func on(t testing.TB, dev device.Device, area *journal.Area) *journal.Area {
	a, err := journal.NewArea(dev, area.BlockSize, area.Extents)
	require.NoError(t, err)
	return a
}

// crashed applies to base what a power cut during the trace may leave: of the
// events before cut those that a flush has made durable, and of the others each
// sector that keep says.
func crashed(t testing.TB, base *device.Mem, trace device.Trace, cut int, keep func() bool) *device.Mem {
	dev := base.Clone()
	durable := 0
	for i, e := range trace.Events[:cut] {
		if e.Kind == device.EventFlush {
			durable = i
		}
	}
	for i, e := range trace.Events[:cut] {
		if e.Kind != device.EventWrite {
			continue
		}
		for off := int64(0); off < e.Len; off += device.SectorSize {
			if i < durable || keep() {
				_, err := dev.WriteAt(e.Data[off:min(off+device.SectorSize, e.Len)], e.Off+off)
				require.NoError(t, err)
			}
		}
	}
	return dev
}

// Recovery that is cut off anywhere, with any part of what was not flushed lost,
// and then done again, also more than once, ends with the same image. (O07, O15)
func TestRecoveryCutOff(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20 / slowdown) {
		r := rand.New(rand.NewPCG(seed, 7))
		base := scatteredLog(t, r, 1024)
		l := newRandomLog(r, homeBlocks)
		for i := range l.txs {
			if f := l.txs[i].fault; f != noCommit && f != otherTid {
				l.txs[i].fault = fine
			}
		}
		l.write(t, base, func(b format.Block) format.Block { return b }, 10)
		before := base.Device.(*device.Mem)
		rec := device.NewRecorder(before.Clone())
		require.NoError(t, recoverMem(t, on(t, rec, base)))
		trace := rec.Trace()
		want := before.Clone()
		require.NoError(t, trace.Replay(want, len(trace.Events)))

		requireWrites(t, base, trace)
		for cut := range len(trace.Events) + 1 {
			for try := range 4 {
				keep := func() bool { return r.IntN(2) == 0 }
				switch try {
				case 0:
					keep = func() bool { return true } // the prefix
				case 1:
					keep = func() bool { return false }
				}
				what := fmt.Sprintf("seed %d, cut before event %d of %d, try %d", seed, cut, len(trace.Events), try)
				dev := crashed(t, before, trace, cut, keep)
				twice := device.NewRecorder(dev.Clone())
				require.NoError(t, recoverMem(t, on(t, twice, base)), what)
				again := twice.Trace()
				if n := len(again.Events); n > 0 { // cut the second one off, too
					dev = crashed(t, dev, again, r.IntN(n+1), keep)
				}
				require.NoError(t, recoverMem(t, on(t, dev, base)), what)
				require.True(t, bytes.Equal(written(t, base, want), written(t, base, dev)), what)
			}
		}
	}
}

// written returns what a recovery may write: the homes and the superblock.
func written(t testing.TB, area *journal.Area, dev device.Device) []byte {
	b := make([]byte, (homeBlocks+1)*1024)
	_, err := dev.ReadAt(b[:homeBlocks*1024], 0)
	require.NoError(t, err)
	require.NoError(t, on(t, dev, area).ReadBlock(0, b[homeBlocks*1024:]))
	return b
}

// requireWrites makes sure that a recovery wrote nothing but that.
func requireWrites(t testing.TB, area *journal.Area, trace device.Trace) {
	super := int64(area.Extents[0].Start) * 1024
	for _, e := range trace.Events {
		home := e.Off+e.Len <= homeBlocks*1024
		require.True(t, home || e.Off == super && e.Len <= 1024, "write of %d bytes at %d", e.Len, e.Off)
	}
}

// A recovery that fails, at any write or flush, leaves a log that can be
// recovered. (K10)
func TestRecoveryFails(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 8))
	base := scatteredLog(t, r, 1024)
	m := newLogMaker(t, base, logKind{csum: 3}, 1000, 10)
	for tid := format.Tid(10); tid < 40; tid++ {
		m.tx(oneBlock(m, tid, format.Block(tid)*2%homeBlocks))
	}
	before := base.Device.(*device.Mem)
	want := before.Clone()
	require.NoError(t, recoverMem(t, on(t, want, base)))
	for n := 1; ; n++ {
		dev := before.Clone()
		err := recoverMem(t, on(t, device.NewFault(dev, device.FailFrom(device.OpChange, n, device.ErrReadOnly)), base))
		if err == nil {
			require.Greater(t, n, 10)
			return
		}
		require.ErrorIs(t, err, device.ErrReadOnly)
		require.NoError(t, recoverMem(t, on(t, dev, base)))
		require.True(t, bytes.Equal(content(t, want), content(t, dev)), "failure at change %d", n)
	}
}

// A block that cannot be read any more is an error of the device, not damage,
// and leaves all as it is.
func TestRecoveryUnreadable(t *testing.T) {
	t.Parallel()
	for _, k := range []logKind{{csum: 1}, {csum: 3}} {
		area, m := logOf(t, k, 1024, 1024, 1)
		p := m.tx(logTx{tid: 10, revokes: []format.Block{9}, blocks: []logged{{1, filled(1024, 1)}, {2, filled(1024, 2)}}})
		want := content(t, area.Device)
		for _, n := range append(p.heads(), p.data[0], p.data[1], p.commit, 0) {
			rule := device.FailRange(device.OpRead, int64(homeBlocks+n)*1024, 1024, device.ErrInUse)
			err := recoverMem(t, on(t, device.NewFault(area.Device, rule), area))
			require.ErrorIs(t, err, device.ErrInUse, "log block %d", n)
			require.True(t, bytes.Equal(want, content(t, area.Device)))
		}
	}
}
