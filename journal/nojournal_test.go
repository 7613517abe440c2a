package journal

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
)

// plain opens a journal without a log over n blocks of 1 KiB.
func plain(t testing.TB, dev device.Device) *Journal {
	t.Helper()
	j, err := Open(Options{Device: dev, BlockSize: 1024, Blocks: uint64(dev.Size()) / 1024, Poison: true})
	require.NoError(t, err)
	return j
}

// stamp makes the content of a block, all of it, say v.
func stamp(p []byte, v uint64) {
	for i := 0; i < len(p); i += 8 {
		binary.LittleEndian.PutUint64(p[i:], v+uint64(i)<<40)
	}
}

// stampOf returns what stamp put there; ok is false if it is not one stamp.
func stampOf(p []byte) (v uint64, ok bool) {
	v = binary.LittleEndian.Uint64(p)
	for i := 0; i < len(p); i += 8 {
		if binary.LittleEndian.Uint64(p[i:]) != v+uint64(i)<<40 {
			return v, false
		}
	}
	return v, true
}

func TestTxIsPrivateUntilCommit(t *testing.T) {
	dev := device.NewMem(64 << 10)
	j := plain(t, dev)
	tx, err := j.Begin()
	require.NoError(t, err)
	p, err := tx.Change(3)
	require.NoError(t, err)
	stamp(p, 7)
	require.NoError(t, j.View(func() error {
		v, err := j.Get(3)
		require.NoError(t, err)
		got, _ := stampOf(v.Bytes())
		require.EqualValues(t, 0, v.Bytes()[0], "others see %d", got)
		require.False(t, v.Checked())
		return nil
	}))
	own, err := tx.Get(3)
	require.NoError(t, err)
	require.True(t, own.Checked())
	require.EqualValues(t, 7, own.Bytes()[0])
	var order []string
	tx.OnMerge(func() { order = append(order, "merge") })
	tx.OnDurable(func() { order = append(order, "durable") })
	tx.OnAbort(func() { order = append(order, "abort") })
	tid, err := tx.Commit()
	require.NoError(t, err)
	tx.Abort()
	require.False(t, j.Durable(tid))
	buf := make([]byte, 1024)
	require.NoError(t, j.ReadBlock(3, buf))
	got, ok := stampOf(buf)
	require.True(t, ok)
	require.EqualValues(t, 7, got)
	require.NoError(t, j.ReadData(2, append(buf, buf...)))
	require.NoError(t, j.Sync(tid))
	require.Equal(t, []string{"merge", "durable"}, order)
	require.NoError(t, readFull(dev, buf, 3<<10))
	got, _ = stampOf(buf)
	require.EqualValues(t, 7, got)
	require.NoError(t, j.Close())
	_, err = j.Begin()
	require.ErrorIs(t, err, ErrClosed)
}

// TestTxAgainstModel does random Txs, with nested Tries, and compares all blocks
// with a map after each.
func TestTxAgainstModel(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := &txModel{t: t, r: r, seed: seed, j: plain(t, device.NewMem(64<<10)), now: map[format.Block]uint64{}}
		for range 40 {
			m.tx()
			if r.IntN(6) == 0 {
				require.NoError(t, m.j.SyncAll())
			}
		}
		require.NoError(t, m.j.Close())
	}
}

// txModel is what blocks should hold; blocks that were freed are not in it.
type txModel struct {
	t    *testing.T
	r    *rand.Rand
	seed uint64
	j    *Journal
	now  map[format.Block]uint64
	n    uint64
}

const modelBlocks = 40

func (m *txModel) tx() {
	tx, err := m.j.Begin()
	require.NoError(m.t, err)
	want := map[format.Block]uint64{}
	for b, v := range m.now {
		want[b] = v
	}
	var merged, aborted []int
	m.steps(tx, want, 0, &merged, &aborted)
	if m.r.IntN(4) == 0 {
		tx.Abort()
		want = m.now
	} else {
		_, err = tx.Commit()
		require.NoError(m.t, err)
	}
	m.now = want
	m.compare(m.j.ReadBlock)
}

var errTry = errors.New("fails")

func (m *txModel) steps(tx *Tx, want map[format.Block]uint64, depth int, merged, aborted *[]int) {
	for range 1 + m.r.IntN(12) {
		b := format.Block(1 + m.r.IntN(modelBlocks-1))
		m.n++
		_, known := want[b]
		switch op := m.r.IntN(10); {
		case op < 4 && known:
			p, err := tx.Change(b)
			require.NoError(m.t, err)
			got, ok := stampOf(p)
			require.True(m.t, ok, "seed %d", m.seed)
			require.Equal(m.t, want[b], got, "seed %d block %d", m.seed, b)
			stamp(p, m.n)
			want[b] = m.n
		case op < 6:
			p, err := tx.New(b)
			require.NoError(m.t, err)
			require.True(m.t, device.IsZero(p))
			stamp(p, m.n)
			want[b] = m.n
		case op < 8:
			tx.Forget(b)
			delete(want, b)
		case depth < 3:
			m.try(tx, want, depth, merged, aborted)
		}
	}
	m.comparePrivate(tx, want)
}

// try does steps in a Try that fails now and then.
func (m *txModel) try(tx *Tx, want map[format.Block]uint64, depth int, merged, aborted *[]int) {
	inner := map[format.Block]uint64{}
	for b, v := range want {
		inner[b] = v
	}
	fail := m.r.IntN(2) == 0
	called := false
	err := tx.Try(func() error {
		tx.OnAbort(func() { called = true })
		m.steps(tx, inner, depth+1, merged, aborted)
		if fail {
			return errTry
		}
		return nil
	})
	require.Equal(m.t, fail, called)
	if fail {
		require.ErrorIs(m.t, err, errTry)
		m.comparePrivate(tx, want)
		return
	}
	require.NoError(m.t, err)
	clear(want)
	for b, v := range inner {
		want[b] = v
	}
}

func (m *txModel) comparePrivate(tx *Tx, want map[format.Block]uint64) {
	for b, v := range want {
		got, err := tx.Get(b)
		require.NoError(m.t, err)
		have, ok := stampOf(got.Bytes())
		require.True(m.t, ok)
		require.Equal(m.t, v, have, "seed %d block %d", m.seed, b)
	}
}

func (m *txModel) compare(read func(format.Block, []byte) error) {
	p := make([]byte, 1024)
	for b, v := range m.now {
		require.NoError(m.t, read(b, p))
		have, ok := stampOf(p)
		require.True(m.t, ok, "seed %d block %d", m.seed, b)
		require.Equal(m.t, v, have, "seed %d block %d", m.seed, b)
	}
}
