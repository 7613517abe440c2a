package alloc_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/mkfs"
	"drydock/internal/oracle"
	"drydock/journal"
)

// The states of an inode in the model.
const (
	inodeFree = iota
	inodeFile
	inodeDir
	inodePending
	inodeForeign // used before the test began
)

// inodeModel is the allocation of inodes in the plainest form.
type inodeModel struct {
	*fileSystem
	rng   *rand.Rand
	state []uint8 // by number
	count [5]int
	lists [5][]format.Ino // may hold some that are in another state now
}

func newInodeModel(f *fileSystem, rng *rand.Rand) *inodeModel {
	m := &inodeModel{fileSystem: f, rng: rng, state: make([]uint8, f.geo.InodesCount+1)}
	m.count[inodeFree] = len(m.state)
	m.set(0, inodeForeign)
	for ino := format.Ino(1); f.geo.ValidIno(ino); ino++ {
		if m.inUse(ino) || ino < 11 {
			m.set(ino, inodeForeign)
		}
	}
	return m
}

func (m *inodeModel) inUse(ino format.Ino) (used bool) {
	err := m.j.View(func() (err error) {
		used, err = m.a.InodeInUse(m.j, ino)
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return used
}

func (m *inodeModel) set(ino format.Ino, state uint8) {
	m.count[m.state[ino]]--
	m.state[ino] = state
	m.count[state]++
	m.lists[state] = append(m.lists[state], ino)
}

// one returns a random inode in a state.
func (m *inodeModel) one(state uint8) (format.Ino, bool) {
	for list := &m.lists[state]; len(*list) > 0; {
		i := m.rng.IntN(len(*list))
		ino := (*list)[i]
		if m.state[ino] == state {
			return ino, true
		}
		(*list)[i] = (*list)[len(*list)-1]
		*list = (*list)[:len(*list)-1]
	}
	return 0, false
}

type inodeUndo struct {
	ino format.Ino
	was uint8
}

// tx does random things in one Tx.
func (m *inodeModel) tx() {
	tx := m.begin()
	var log []inodeUndo
	for range m.rng.IntN(8) {
		keep, fail := len(log), m.rng.IntN(4) == 0
		err := tx.Try(func() error {
			for range 1 + m.rng.IntN(3) {
				m.inTx(tx, &log)
			}
			if fail {
				return errUndo
			}
			return nil
		})
		if fail {
			require.ErrorIs(m.t, err, errUndo)
			m.undo(&log, keep)
		}
	}
	if m.rng.IntN(4) == 0 {
		tx.Abort()
		m.undo(&log, 0)
		return
	}
	_, err := tx.Commit()
	require.NoError(m.t, err)
}

func (m *inodeModel) undo(log *[]inodeUndo, keep int) {
	for i := len(*log) - 1; i >= keep; i-- {
		m.set((*log)[i].ino, (*log)[i].was)
	}
	*log = (*log)[:keep]
}

func (m *inodeModel) inTx(tx *journal.Tx, log *[]inodeUndo) {
	note := func(ino format.Ino, state uint8) {
		*log = append(*log, inodeUndo{ino, m.state[ino]})
		m.set(ino, state)
	}
	state := uint8(inodeFile + m.rng.IntN(2))
	dir := state == inodeDir
	switch m.rng.IntN(9) {
	case 0, 1, 2, 3, 4:
		ino, err := m.a.NewInode(tx, format.Ino(m.rng.IntN(len(m.state)+2)), dir)
		if m.count[inodeFree] == 0 {
			require.ErrorIs(m.t, err, syscall.ENOSPC)
			return
		}
		require.NoError(m.t, err)
		require.Equal(m.t, uint8(inodeFree), m.state[ino], "inode %d", ino)
		note(ino, state)
		m.write(tx, ino)
	case 5, 6, 7:
		if ino, ok := m.one(state); ok {
			require.NoError(m.t, m.a.FreeInode(tx, ino, dir))
			note(ino, inodePending)
		}
	case 8:
		ino := format.Ino(m.rng.IntN(len(m.state) + 2))
		if int(ino) < len(m.state) && ino >= 11 && m.state[ino] != inodeFree && m.state[ino] != inodePending {
			return
		}
		err := tx.Try(func() error { return m.a.FreeInode(tx, ino, dir) })
		require.ErrorIs(m.t, err, format.ErrDamaged)
	}
}

// write fills a new inode's slot with its number, as the caller does. Before,
// the slot holds zeros or what an earlier user has left.
func (m *inodeModel) write(tx *journal.Tx, ino format.Ino) {
	b, off := m.slot(ino)
	p, err := tx.Change(b)
	require.NoError(m.t, err)
	s := p[off : off+m.geo.InodeSize]
	if !bytes.Equal(s, make([]byte, len(s))) && !bytes.Equal(s, slotOf(ino, len(s))) {
		m.t.Fatalf("inode %d holds %x", ino, s[:16])
	}
	copy(s, slotOf(ino, len(s)))
}

// slotOf is what the test writes to an inode.
func slotOf(ino format.Ino, n int) []byte {
	return bytes.Repeat([]byte{byte(ino), byte(ino >> 8), byte(ino >> 16), 0x77}, n/4)
}

// slot is where an inode lies.
func (m *inodeModel) slot(ino format.Ino) (format.Block, int) {
	g, i := m.geo.InodeLocation(ino)
	per := uint32(m.geo.InodesPerBlock())
	return m.desc(g).InodeTable() + format.Block(i/per), int(i%per) * m.geo.InodeSize
}

func (m *inodeModel) sync() {
	m.fileSystem.sync()
	for ino, s := range m.state {
		if s == inodePending {
			m.set(format.Ino(ino), inodeFree)
		}
	}
}

// check compares counts, and at times bitmaps and tables.
func (m *inodeModel) check(dirs int) {
	_, _, _, free := m.a.Totals()
	require.EqualValues(m.t, m.count[inodeFree], free)
	sums := m.a.Sums()
	require.EqualValues(m.t, m.count[inodeFree]+m.count[inodePending], sums.FreeInodes)
	require.EqualValues(m.t, m.count[inodeDir]+dirs, sums.Dirs)
	if m.rng.IntN(50) > 0 {
		return
	}
	for g := range format.Group(m.geo.Groups()) {
		m.checkGroup(g)
	}
}

func (m *inodeModel) checkGroup(g format.Group) {
	d, first, n := m.desc(g), m.geo.GroupFirstIno(g), int(m.geo.InodesPerGroup)
	mark := n - int(d.ItableUnused())
	require.True(m.t, m.sums.VerifyGroupDesc(g, d))
	bitmap := make(alloc.Bitmap, m.geo.BlockSize)
	if m.lazy() && d.Flags()&format.BgInodeUninit != 0 {
		mark = 0
	} else {
		bitmap = m.bitmap(d.InodeBitmap())
		require.True(m.t, m.sums.VerifyInodeBitmap(d, bitmap[:m.geo.InodeBitmapBytes()]))
		require.True(m.t, bitmap.AllSet(n, 8*len(bitmap)-n))
		require.EqualValues(m.t, bitmap.CountClear(0, n), d.FreeInodesCount())
	}
	for i := range n {
		ino := first + format.Ino(i)
		s := m.state[ino]
		if used := bitmap.Test(i); used != (s != inodeFree && s != inodePending) || used && i >= mark {
			m.t.Fatalf("inode %d in state %d: used is %v; mark %d", ino, s, used, mark)
		}
		if i < mark && s != inodeForeign {
			m.checkSlot(ino, s)
		}
	}
}

// checkSlot checks that an inode in the part of the table that counts as used
// holds what was written to it, or zeros.
func (m *inodeModel) checkSlot(ino format.Ino, state uint8) {
	b, off := m.slot(ino)
	p := m.bitmap(b)[off : off+m.geo.InodeSize]
	if bytes.Equal(p, slotOf(ino, len(p))) {
		return
	}
	if state == inodeFile || state == inodeDir || !bytes.Equal(p, make([]byte, len(p))) {
		m.t.Fatalf("inode %d in state %d holds %x", ino, state, p[:16])
	}
}

// litter fills the parts of the inode tables that were never used.
func (f *fileSystem) litter() {
	for g := range format.Group(f.geo.Groups()) {
		f.changeDesc(g, func(d format.GroupDesc) { d.SetFlags(d.Flags() &^ format.BgInodeZeroed) })
	}
	f.sync()
	for g := range format.Group(f.geo.Groups()) {
		d := f.desc(g)
		mark := f.geo.InodesPerGroup - d.ItableUnused()
		if !f.lazy() {
			mark = f.geo.InodesPerGroup
		}
		off := int64(d.InodeTable())*int64(f.geo.BlockSize) + int64(mark)*int64(f.geo.InodeSize)
		_, err := f.dev.WriteAt(bytes.Repeat([]byte{0xEE}, int(f.geo.InodesPerGroup-mark)*f.geo.InodeSize), off)
		require.NoError(f.t, err)
	}
}

// TestInodeModel takes and frees inodes at random and compares with the model.
// What was never used in the tables holds garbage, which must not show.
func TestInodeModel(t *testing.T) {
	steps := 1500
	if oracle.IsLong() {
		steps = 100000
	}
	uninit, err := mkfs.Profile("compat")
	require.NoError(t, err)
	uninit.ROCompat &^= format.ROCompatExtraIsize
	plain := uninit
	plain.ROCompat &^= format.ROCompatGDTCsum
	for _, c := range []struct {
		name string
		size int64
		o    mkfs.Options
	}{
		{"1K", 40 << 20, mkfs.Options{BlockSize: 1024, Inodes: 200}},
		{"1K uninit_bg", 40 << 20, mkfs.Options{BlockSize: 1024, Inodes: 500, InodeSize: 128, Features: uninit}},
		{"1K plain", 40 << 20, mkfs.Options{BlockSize: 1024, Inodes: 300, Features: plain}},
		{"4K", 400 << 20, mkfs.Options{Inodes: 2000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dev := formatted(t, c.size, c.o)
			f := open(t, dev, alloc.Options{})
			f.litter()
			f.close()
			rng := newRand(t)
			m := newInodeModel(open(t, dev, alloc.Options{Memory: 1}), rng)
			dirs := int(m.a.Sums().Dirs)
			for range steps {
				if m.rng.IntN(10) == 0 {
					m.sync()
				}
				m.tx()
				m.check(dirs)
			}
			require.Empty(t, m.warn)
		})
	}
}

func TestNewInodeSpreads(t *testing.T) {
	f := open(t, formatted(t, 20<<30, mkfs.Options{Inodes: 100000, NoJournal: true}), alloc.Options{})
	require.EqualValues(t, 160, f.geo.Groups())
	flex := func(ino format.Ino) int {
		g, _ := f.geo.InodeLocation(ino)
		return int(g) >> f.geo.LogGroupsPerFlex
	}
	f.update(func(tx *journal.Tx) {
		counts := make([]int, 10)
		var top []format.Ino
		for range 30 {
			ino, err := f.a.NewInode(tx, format.RootIno, true)
			require.NoError(t, err)
			counts[flex(ino)]++
			top = append(top, ino)
		}
		for i, n := range counts {
			require.InDelta(t, 3, n, 1, "flex group %d", i)
		}
		for _, parent := range top {
			g, _ := f.geo.InodeLocation(parent)
			for range 5 {
				ino, err := f.a.NewInode(tx, parent, true)
				require.NoError(t, err)
				require.Equal(t, flex(parent), flex(ino))
				ino, err = f.a.NewInode(tx, parent, false)
				require.NoError(t, err)
				got, _ := f.geo.InodeLocation(ino)
				require.Equal(t, g, got)
				require.Equal(t, g, f.geo.GroupOf(f.a.GoalFor(ino)))
			}
		}
	})
}

func TestInodesRunOut(t *testing.T) {
	f := open(t, formatted(t, 40<<20, mkfs.Options{BlockSize: 1024, Inodes: 100}), alloc.Options{})
	var got []format.Ino
	tx := f.begin()
	for {
		ino, err := f.a.NewInode(tx, format.RootIno, len(got)%3 == 0)
		if err != nil {
			var space *alloc.SpaceError
			require.ErrorAs(t, err, &space)
			require.Equal(t, alloc.SpaceError{Inodes: true, Wanted: 1}, *space)
			require.True(t, errors.Is(err, syscall.ENOSPC))
			break
		}
		got = append(got, ino)
	}
	require.Len(t, got, int(f.geo.InodesCount)-11)
	tx.Abort()
	_, _, _, free := f.a.Totals()
	require.EqualValues(t, len(got), free)
}
