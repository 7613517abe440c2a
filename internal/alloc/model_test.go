package alloc_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/mkfs"
	"drydock/internal/oracle"
	"drydock/journal"
)

// The states of a block in the model.
const (
	blockFree = iota
	blockPicked
	blockUsed
	blockPending
	blockForeign // used before the test began: never freed by it
)

// model is the allocator in the plainest form.
type model struct {
	*fileSystem
	rng      *rand.Rand
	state    []uint8
	count    [5]int
	reserved int
	picked   []alloc.Run
	windows  []alloc.Window
	windowed bool // windows are in use: the longest run need not be found
}

func newModel(f *fileSystem, rng *rand.Rand) *model {
	m := &model{fileSystem: f, rng: rng, state: make([]uint8, f.geo.BlocksCount), windows: make([]alloc.Window, 6)}
	m.count[blockFree] = len(m.state)
	m.set(alloc.Run{Start: 0, N: uint32(f.geo.FirstDataBlock)}, blockForeign)
	for b, used := range f.used() {
		if used {
			m.set(alloc.Run{Start: format.Block(b), N: 1}, blockForeign)
		}
	}
	return m
}

func (m *model) set(r alloc.Run, state uint8) {
	for i := range format.Block(r.N) {
		m.count[m.state[r.Start+i]]--
		m.state[r.Start+i] = state
		m.count[state]++
	}
}

// all reports whether all blocks of a run are in a state.
func (m *model) all(r alloc.Run, state uint8) bool {
	for i := range format.Block(r.N) {
		if m.state[r.Start+i] != state {
			return false
		}
	}
	return true
}

// longest is the longest run of free blocks within one group.
func (m *model) longest() (best int) {
	run := 0
	for b := m.geo.FirstDataBlock; b < m.geo.BlocksCount; b++ {
		if (b-m.geo.FirstDataBlock)%format.Block(m.geo.BlocksPerGroup) == 0 {
			run = 0
		}
		if run++; m.state[b] != blockFree {
			run = 0
		}
		best = max(best, run)
	}
	return best
}

// runOf returns a run in the state, around a random block; false if there
// seems to be none.
func (m *model) runOf(state uint8) (alloc.Run, bool) {
	for range 200 {
		b := format.Block(m.rng.IntN(len(m.state)))
		if m.state[b] == state {
			r := alloc.Run{Start: b}
			for most := uint32(1 + m.rng.IntN(200)); b < m.geo.BlocksCount && m.state[b] == state && r.N < most; b++ {
				r.N++
			}
			return r, true
		}
	}
	return alloc.Run{}, false
}

// reserve tries to reserve a number that may be too large.
func (m *model) reserve() {
	have := m.count[blockFree] - m.reserved
	n := m.rng.IntN(have + 2)
	if m.rng.IntN(4) > 0 {
		n = min(n, 50)
	}
	err := m.a.Reserve(uint64(n))
	if n > have {
		require.ErrorIs(m.t, err, syscall.ENOSPC)
		var space *alloc.SpaceError
		require.ErrorAs(m.t, err, &space)
		require.Equal(m.t, alloc.SpaceError{Wanted: uint64(n), Free: uint64(m.count[blockFree]),
			Reserved: uint64(m.reserved), Pending: uint64(m.count[blockPending])}, *space)
		return
	}
	require.NoError(m.t, err)
	m.reserved += n
}

func (m *model) unreserve() {
	n := m.rng.IntN(m.reserved + 1)
	m.a.Unreserve(uint64(n))
	m.reserved -= n
}

// find picks, with a window or without.
func (m *model) find() {
	reserved := m.rng.IntN(2) == 0
	have := m.count[blockFree] - m.reserved
	if reserved {
		have = m.reserved
	}
	goal := format.Block(m.rng.IntN(len(m.state) + 3))
	want := 1 + m.rng.IntN(1<<m.rng.IntN(14))
	var r alloc.Run
	var err error
	if m.windowed && m.rng.IntN(2) == 0 {
		w := &m.windows[m.rng.IntN(len(m.windows))]
		r.Start, r.N, err = m.a.FindIn(w, goal, uint32(want), uint32(m.rng.IntN(2)*m.rng.IntN(1000)), reserved)
	} else {
		r.Start, r.N, err = m.a.Find(goal, uint32(want), reserved)
	}
	if have == 0 {
		require.ErrorIs(m.t, err, syscall.ENOSPC)
		return
	}
	require.NoError(m.t, err)
	require.True(m.t, r.N >= 1 && int(r.N) <= min(want, have), "%v of %d, have %d", r, want, have)
	require.True(m.t, m.all(r, blockFree), "%v is not free", r)
	require.Equal(m.t, m.geo.GroupOf(r.Start), m.geo.GroupOf(r.Start+format.Block(r.N)-1))
	if !m.windowed {
		require.EqualValues(m.t, min(want, have, m.longest()), r.N)
	}
	m.set(r, blockPicked)
	m.picked = append(m.picked, r)
	if reserved {
		m.reserved -= int(r.N)
	}
}

// release gives up a part of what was picked.
func (m *model) release() {
	r, ok := m.takePicked()
	if !ok {
		return
	}
	back := m.rng.IntN(2) == 0
	m.a.Release(r.Start, r.N, back)
	m.set(r, blockFree)
	if back {
		m.reserved += int(r.N)
	}
}

// takePicked takes a picked run, or a part of one, out of the list.
func (m *model) takePicked() (alloc.Run, bool) {
	if len(m.picked) == 0 {
		return alloc.Run{}, false
	}
	i := m.rng.IntN(len(m.picked))
	r := m.picked[i]
	n := uint32(1 + m.rng.IntN(int(r.N)))
	if n == r.N || m.rng.IntN(2) == 0 {
		m.picked = slices.Delete(m.picked, i, i+1)
		return r, true
	}
	m.picked[i] = alloc.Run{Start: r.Start + format.Block(n), N: r.N - n}
	return alloc.Run{Start: r.Start, N: n}, true
}

// undo is what a Tx, or a Try, did to the model.
type undo struct {
	run alloc.Run
	was uint8
	// reserved is to be added again
	reserved int
}

// change changes the model within a Tx.
func (m *model) change(log *[]undo, r alloc.Run, state uint8) {
	*log = append(*log, undo{run: r, was: m.state[r.Start]})
	m.set(r, state)
}

// undo undoes what was done since the log had keep entries.
func (m *model) undo(log *[]undo, keep int) {
	for i := len(*log) - 1; i >= keep; i-- {
		u := (*log)[i]
		m.set(u.run, u.was)
		m.reserved += u.reserved
		if u.was == blockPicked {
			m.picked = append(m.picked, u.run)
		}
	}
	*log = (*log)[:keep]
}

// tx does random things in one Tx.
func (m *model) tx() {
	tx := m.begin()
	var log []undo
	for range m.rng.IntN(6) {
		m.inTx(tx, &log, true)
	}
	if m.rng.IntN(3) == 0 {
		tx.Abort()
		m.undo(&log, 0)
		return
	}
	_, err := tx.Commit()
	require.NoError(m.t, err)
}

func (m *model) inTx(tx *journal.Tx, log *[]undo, outer bool) {
	switch m.rng.IntN(8) {
	case 0, 1:
		m.mark(tx, log)
	case 2, 3:
		m.allocBlock(tx, log)
	case 4, 5:
		m.free(tx, log)
	case 6:
		m.damage(tx)
	case 7:
		if !outer {
			return
		}
		keep, fail := len(*log), m.rng.IntN(2) == 0
		err := tx.Try(func() error {
			for range m.rng.IntN(4) {
				m.inTx(tx, log, false)
			}
			if fail {
				return errUndo
			}
			return nil
		})
		if fail {
			require.ErrorIs(m.t, err, errUndo)
			m.undo(log, keep)
		}
	}
}

func (m *model) mark(tx *journal.Tx, log *[]undo) {
	var runs []alloc.Run
	for range 1 + m.rng.IntN(4) {
		if r, ok := m.takePicked(); ok {
			runs = append(runs, r)
			m.change(log, r, blockUsed)
		}
	}
	require.NoError(m.t, m.a.MarkMany(tx, runs))
}

func (m *model) allocBlock(tx *journal.Tx, log *[]undo) {
	reserved := m.rng.IntN(2) == 0
	have, fn := m.count[blockFree]-m.reserved, m.a.AllocBlock
	if reserved {
		have, fn = m.reserved, m.a.AllocReserved
	}
	b, err := fn(tx, format.Block(m.rng.IntN(len(m.state))))
	if have == 0 {
		require.ErrorIs(m.t, err, syscall.ENOSPC)
		return
	}
	require.NoError(m.t, err)
	r := alloc.Run{Start: b, N: 1}
	require.True(m.t, m.all(r, blockFree), "%v is not free", r)
	m.change(log, r, blockUsed)
	if reserved {
		m.reserved--
		(*log)[len(*log)-1].reserved = 1
	}
}

func (m *model) free(tx *journal.Tx, log *[]undo) {
	if r, ok := m.runOf(blockUsed); ok {
		require.NoError(m.t, m.a.Free(tx, r.Start, r.N))
		m.change(log, r, blockPending)
	}
}

// damage frees what is not to be freed.
func (m *model) damage(tx *journal.Tx) {
	r := alloc.Run{Start: format.Block(m.rng.IntN(len(m.state) + 5)), N: uint32(m.rng.IntN(300))}
	bad := r.N == 0 || r.Start+format.Block(r.N) > m.geo.BlocksCount
	for i := range format.Block(r.N) {
		bad = bad || m.state[r.Start+i] != blockUsed && m.state[r.Start+i] != blockForeign
	}
	if !bad {
		return
	}
	err := tx.Try(func() error { return m.a.Free(tx, r.Start, r.N) })
	require.ErrorIs(m.t, err, format.ErrDamaged, "%v", r)
}

// sync makes all durable.
func (m *model) sync() {
	m.fileSystem.sync()
	for b, s := range m.state {
		if s == blockPending {
			m.set(alloc.Run{Start: format.Block(b), N: 1}, blockFree)
		}
	}
}

// check compares the sums, and at times the bitmaps.
func (m *model) check() {
	free, reserved, pending, _ := m.a.Totals()
	require.EqualValues(m.t, m.count[blockFree], free)
	require.EqualValues(m.t, m.reserved, reserved)
	require.EqualValues(m.t, m.count[blockPending], pending)
	require.EqualValues(m.t, m.count[blockFree]+m.count[blockPending]+m.count[blockPicked], m.a.Sums().FreeBlocks)
	if m.rng.IntN(40) > 0 {
		return
	}
	onDisk := m.used()
	require.NoError(m.t, m.a.Verify(onDisk))
	for b, used := range onDisk {
		if s := m.state[b]; b >= int(m.geo.FirstDataBlock) && used != (s == blockUsed || s == blockForeign) {
			m.t.Fatalf("block %d in state %d: used is %v", b, s, used)
		}
	}
}

// step does one thing.
func (m *model) step() {
	switch m.rng.IntN(12) {
	case 0:
		m.reserve()
	case 1:
		m.unreserve()
	case 2, 3, 4, 5:
		m.find()
	case 6:
		m.release()
	case 7, 8, 9:
		m.tx()
	case 10:
		if m.rng.IntN(8) == 0 {
			m.sync()
		}
	case 11:
		if m.windowed {
			m.a.Drop(&m.windows[m.rng.IntN(len(m.windows))])
		}
	}
	m.check()
}

// TestModel does random things and compares with the model: what is handed out
// is free, is never what was freed and is not durable, reservations are exact,
// runs as long as there are, aborted Txs and savepoints leave nothing.
func TestModel(t *testing.T) {
	steps := 4000
	if oracle.IsLong() {
		steps = 200000
	}
	for _, c := range []struct {
		name string
		size int64
		o    mkfs.Options
	}{
		{"1K", 70 << 20, mkfs.Options{BlockSize: 1024, Inodes: 100}},
		{"1K short", 17<<20 + 300<<10, mkfs.Options{BlockSize: 1024, NoJournal: true}},
		{"4K", 290 << 20, mkfs.Options{Inodes: 1000}},
	} {
		for _, windowed := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				rng := newRand(t)
				f := open(t, formatted(t, c.size, c.o), alloc.Options{Memory: 1})
				m := newModel(f, rng)
				m.windowed = windowed
				for range steps {
					m.step()
				}
				require.Empty(t, f.warn)
				require.NoError(t, f.j.Close())
			})
		}
	}
}

func TestSpaceErrorText(t *testing.T) {
	err := error(&alloc.SpaceError{Wanted: 5, Free: 3, Reserved: 2, Pending: 7})
	require.EqualError(t, err, "no space left: 5 blocks wanted, 3 free, 2 of them reserved, 7 more after the next commit")
	require.True(t, errors.Is(err, syscall.ENOSPC))
	require.EqualError(t, &alloc.SpaceError{Inodes: true, Wanted: 1}, "no space left: 1 inodes wanted, 0 free")
}
