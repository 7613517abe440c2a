package journal

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
)

func pause() { time.Sleep(time.Millisecond) }

func super(t *testing.T, l *testLog) format.JournalSuperblock {
	s, err := l.area.ReadSuperblock()
	require.NoError(t, err)
	return s
}

// putSuper changes the journal superblock on the disk.
func putSuper(t *testing.T, l *testLog, change func(format.JournalSuperblock)) {
	s := super(t, l)
	change(s)
	require.NoError(t, l.area.WriteSuperblock(s))
}

// Nothing is written where nothing changes: not by reading, overriding, or a Tx
// that ends without changes.
func TestNothingToWrite(t *testing.T) {
	l := newTestLog(1024, 64, nil)
	rec := device.NewRecorder(l.dev)
	l.use(rec)
	o := l.options()
	o.BeforeLog = func() error { return errors.New("there is no need") }
	j, err := Open(o)
	require.NoError(t, err)
	buf := make([]byte, 1024)
	require.NoError(t, j.ReadBlock(3, buf))
	j.Override(4, fill(1024, 1))
	require.NoError(t, j.ReadBlock(4, buf))
	require.Equal(t, fill(1024, 1), buf)
	require.NoError(t, j.ReadData(4, buf))
	require.Equal(t, fill(1024, 1), buf)
	tx, err := j.Begin()
	require.NoError(t, err)
	durable := false
	tx.OnDurable(func() { durable = true })
	tid, err := tx.Commit()
	require.NoError(t, err)
	require.True(t, durable)
	require.True(t, j.Durable(tid))
	require.NoError(t, j.Sync(tid))
	require.NoError(t, j.Checkpoint())
	require.NoError(t, j.Close())
	require.NoError(t, j.Close())
	require.Empty(t, rec.Trace().Events)
}

func fill(n int, v byte) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = v
	}
	return p
}

// The first commit sets features; Close leaves an empty log and a number that is
// behind all that was used.
func TestSuperblockOverALife(t *testing.T) {
	for _, csum := range []bool{false, true} {
		l := newTestLog(1024, 500, nil)
		putSuper(t, l, func(s format.JournalSuperblock) {
			s.SetFeatureIncompat(format.JournalIncompatAsyncCommit)
			s.SetFeatureCompat(format.JournalCompatChecksum)
			s.SetSequence(41)
		})
		o := l.options()
		o.Csum, o.Wide = csum, csum
		order := ""
		o.BeforeLog = func() error {
			require.Zero(t, super(t, l).Start())
			order += "B"
			return nil
		}
		j, err := Open(o)
		require.NoError(t, err)
		require.EqualValues(t, 42, j.Running())
		require.NoError(t, set(j, fillWith(1), 3))
		require.Equal(t, "B", order)
		s := super(t, l)
		require.EqualValues(t, 42, s.Sequence())
		require.Equal(t, s.First(), s.Start())
		want := format.JournalIncompatRevoke
		if csum {
			want |= format.JournalIncompat64Bit | format.JournalIncompatCsumV3
		}
		require.Equal(t, want, s.FeatureIncompat())
		require.Zero(t, s.FeatureCompat())
		_, err = Open(l.options())
		require.ErrorIs(t, err, ErrNotRecovered)

		require.NoError(t, j.Checkpoint())
		require.Zero(t, super(t, l).Start())
		require.NoError(t, l.want(3, 1))
		require.NoError(t, set(j, fillWith(2), 3))
		require.Equal(t, "BB", order)
		require.EqualValues(t, 43, super(t, l).Sequence())
		require.NoError(t, j.Close())
		s = super(t, l)
		require.Zero(t, s.Start())
		require.EqualValues(t, 44, s.Sequence())
		again := l.open(faults{})
		require.EqualValues(t, 45, again.Running())
	}
}

// A log that has fast commits is used in full, without them. Version 1 becomes 2.
func TestOldSuperblocks(t *testing.T) {
	l := newTestLog(1024, 1000, nil)
	require.NoError(t, l.area.WriteSuperblock(fastCommitSuper(super(t, l))))
	_, err := l.area.ReadSuperblock()
	require.ErrorIs(t, err, format.ErrDamaged, "too short for fast commits")

	l = newTestLog(1024, 1000, nil)
	putSuper(t, l, func(s format.JournalSuperblock) {
		format.PutJournalHeader(s, format.JournalHeader{Type: format.JournalSuperblockV1})
		clear(s[0x24:])
		s[0x24], s[0x28] = 0xFF, 0xFF // no meaning in version 1
	})
	require.True(t, super(t, l).V1())
	j := l.open(faults{})
	require.NoError(t, set(j, fillWith(1), 3))
	s := super(t, l)
	require.False(t, s.V1())
	require.Zero(t, s.FeatureCompat())
	require.True(t, s.Has(format.JournalIncompatCsumV3|format.JournalIncompatRevoke))
	require.NoError(t, l.replay())
	require.NoError(t, l.want(3, 1))
}

func fastCommitSuper(s format.JournalSuperblock) format.JournalSuperblock {
	s.SetFeatureIncompat(format.JournalIncompatFastCommit)
	s.SetNumFCBlocks(64)
	return s
}

func TestFastCommitsAreSwitchedOff(t *testing.T) {
	dev := device.NewMem((homeBlocks + 2000) * 1024)
	p := make([]byte, 1024)
	format.PutEmptyJournalSuperblock(p, 1024, 2000, [16]byte{})
	s := fastCommitSuper(p)
	s.SetFirst(1900) // the log without fast-commit area ends at 1936
	_, err := dev.WriteAt(p, homeBlocks*1024)
	require.NoError(t, err)
	area, err := NewArea(dev, 1024, []format.Extent{{Start: homeBlocks, Len: 2000}})
	require.NoError(t, err)
	j, err := Open(Options{Device: dev, BlockSize: 1024, Blocks: homeBlocks, Area: area})
	require.NoError(t, err)
	require.EqualValues(t, 2000, j.log.end)
	for i := range uint64(30) {
		require.NoError(t, set(j, fillWith(i), 2, 3, 4, 5))
	}
	s, err = area.ReadSuperblock()
	require.NoError(t, err)
	require.Zero(t, s.FastCommitBlocks())
	r, err := Scan(area, ScanOptions{})
	require.NoError(t, err)
	require.NoError(t, errors.Join(r.Damage, r.Replay(dev)))
}

func TestBlocksOutside(t *testing.T) {
	j := newTestLog(1024, 64, nil).open(faults{})
	_, err := j.Get(homeBlocks)
	require.ErrorIs(t, err, format.ErrDamaged)
	require.ErrorIs(t, j.ReadData(homeBlocks-1, make([]byte, 2048)), format.ErrDamaged)
	tx, err := j.Begin()
	require.NoError(t, err)
	_, err = tx.Change(1 << 40)
	require.ErrorIs(t, err, format.ErrDamaged)
	_, err = tx.New(homeBlocks)
	require.ErrorIs(t, err, format.ErrDamaged)
	require.Zero(t, tx.Size())
	tx.Forget(1 << 50)
	_, err = tx.Commit()
	require.NoError(t, err)
	require.NoError(t, j.Close())
}

func TestReadOnly(t *testing.T) {
	l := newTestLog(1024, 64, nil)
	o := l.options()
	o.ReadOnly = true
	o.Overlay = func(b format.Block, p []byte) (bool, error) {
		if b == 7 {
			content(p, b, 70)
		}
		return b == 7, nil
	}
	j, err := Open(o)
	require.NoError(t, err)
	_, err = j.Begin()
	require.ErrorIs(t, err, ErrReadOnly)
	got, want := make([]byte, 3*1024), make([]byte, 3*1024)
	content(want[1024:2048], 7, 70)
	require.NoError(t, j.ReadData(6, got))
	require.Equal(t, want, got)
	require.NoError(t, j.ReadBlock(7, got[:1024]))
	require.Equal(t, want[1024:2048], got[:1024])
	require.NoError(t, errors.Join(j.SyncAll(), j.Checkpoint(), j.Close()))
}

// A Tx cannot outgrow what a transaction may be, nor one that was closed for it.
func TestTooLarge(t *testing.T) {
	for _, size := range []uint32{32, 1000} {
		l := newTestLog(1024, size, nil)
		o := l.options()
		o.Blocks = homeBlocks + areaBlocks
		j, err := Open(o)
		require.NoError(t, err)
		require.LessOrEqual(t, j.MaxTx(), int(size)/4)
		require.GreaterOrEqual(t, j.MaxTx(), int(size)/4-7)
		tx, err := j.Begin()
		require.NoError(t, err)
		for b := range format.Block(j.MaxTx()) {
			_, err := tx.New(b)
			require.NoError(t, err)
		}
		require.Equal(t, j.MaxTx(), tx.Size())
		_, err = tx.New(homeBlocks + 999)
		require.ErrorIs(t, err, ErrTooLarge)
		_, err = tx.Change(homeBlocks + 998)
		require.ErrorIs(t, err, ErrTooLarge)
		tx.Forget(3)
		_, err = tx.Change(homeBlocks + 998)
		require.NoError(t, err)
		_, err = tx.Commit()
		require.NoError(t, err)

		tx, err = j.Begin()
		require.NoError(t, err)
		for b := range format.Block(1 << 16) {
			tx.Forget(b)
		}
		undone := false
		tx.OnAbort(func() { undone = true })
		_, err = tx.Commit()
		require.ErrorIs(t, err, ErrTooLarge)
		require.True(t, undone)
		require.NoError(t, j.Close())
	}
}

// A great many blocks are freed in one Tx: only those that the log has are revoked.
func TestManyRevokes(t *testing.T) {
	const blocks = 1 << 16
	dev := device.NewMem((blocks + 8192) * 1024)
	p := make([]byte, 1024)
	format.PutEmptyJournalSuperblock(p, 1024, 8192, [16]byte{})
	_, err := dev.WriteAt(p, blocks*1024)
	require.NoError(t, err)
	area, err := NewArea(dev, 1024, []format.Extent{{Start: blocks, Len: 8192}})
	require.NoError(t, err)
	j, err := Open(Options{Device: dev, BlockSize: 1024, Blocks: blocks, Area: area, Csum: true, Wide: true})
	require.NoError(t, err)
	j.late = true
	const logged = 6000
	for b := format.Block(1); b < logged; b += 1000 {
		tx, err := j.Begin()
		require.NoError(t, err)
		for i := range format.Block(1000) {
			p, err := tx.New(b + i)
			require.NoError(t, err)
			content(p, b+i, 1)
		}
		tid, err := tx.Commit()
		require.NoError(t, err)
		require.NoError(t, j.Sync(tid))
	}
	tx, err := j.Begin()
	require.NoError(t, err)
	for b := range format.Block(blocks) {
		tx.Forget(b)
	}
	tid, err := tx.Commit()
	require.NoError(t, err)
	require.NoError(t, j.Sync(tid))
	require.EqualValues(t, logged, j.Stats().Revokes)
	r, err := Scan(area, ScanOptions{})
	require.NoError(t, errors.Join(err, r.Damage))
	require.Zero(t, r.Len())
	before := j.Stats().HomeBlocks
	require.NoError(t, j.Close())
	require.Equal(t, before, j.Stats().HomeBlocks, "nothing that was freed goes home")
}

// What a data block reads as while its journaled content is on its way home.
func TestReadDataSeesJournaledBlocks(t *testing.T) {
	l := newTestLog(1024, 64, nil)
	j := l.open(faults{})
	want, got := make([]byte, 8*1024), make([]byte, 8*1024)
	check := func() {
		t.Helper()
		require.NoError(t, j.ReadData(8, got))
		require.Equal(t, want, got)
	}
	for _, blocks := range [][]format.Block{{8, 9}, {12}, {15}, {9, 13}} {
		for _, b := range blocks {
			content(want[(b-8)*1024:(b-7)*1024], b, uint64(b))
		}
		require.NoError(t, set(j, func(b format.Block, p []byte) { content(p, b, uint64(b)) }, blocks...))
		check()
	}
	tx, err := j.Begin()
	require.NoError(t, err)
	tx.Forget(12)
	_, err = tx.Commit()
	require.NoError(t, err)
	require.NoError(t, j.SyncAll())
	_, err = l.dev.WriteAt(fill(1024, 9), 12*1024)
	require.NoError(t, err)
	copy(want[4*1024:], fill(1024, 9))
	check()
	require.NoError(t, j.Checkpoint())
	check()
	require.NoError(t, readFull(l.dev, got, 8*1024))
	require.Equal(t, want, got)
}

// After an abort the journal says so everywhere, has said so in s_errno, and can
// be read.
func TestAbort(t *testing.T) {
	l := newTestLog(1024, 64, nil)
	fault := device.NewFault(l.dev, nil)
	l.use(fault)
	o := l.options()
	var told []error
	o.OnAbort = func(err error) {
		require.EqualValues(t, errIO, super(t, l).Errno())
		told = append(told, err)
	}
	j, err := Open(o)
	require.NoError(t, err)
	require.NoError(t, set(j, fillWith(1), 5))
	fault.SetRule(device.FailNth(device.OpFlush, 1, errInjected))
	err = set(j, fillWith(2), 5)
	require.ErrorIs(t, err, ErrAborted)
	require.ErrorIs(t, err, errInjected)
	require.Equal(t, []error{j.Err()}, told)
	_, err = j.Begin()
	require.ErrorIs(t, err, ErrAborted)
	for _, err := range []error{j.SyncAll(), j.SyncData(0), j.Checkpoint(), j.Sync(j.Running()), j.Close()} {
		require.ErrorIs(t, err, ErrAborted)
	}
	p, want := make([]byte, 1024), make([]byte, 1024)
	content(want, 5, 2)
	require.NoError(t, j.ReadBlock(5, p))
	require.Equal(t, want, p)
	require.NoError(t, l.replay())
	require.NoError(t, l.want(5, 1))
	require.NotZero(t, super(t, l).Start())
}

// What CopyOnDemand copies is what changes while it is being committed; the others
// copy all, or wait.
func TestCopyPolicies(t *testing.T) {
	for _, policy := range []CopyPolicy{CopyOnDemand, CopyAlways, CopyWait} {
		var g *gate
		l := newTestLog(1024, 64, func(dev device.Device) device.Device {
			g = newGate(dev, (homeBlocks+areaBlocks-64)*1024)
			return g
		})
		o := l.options()
		o.Policy = policy
		j, err := Open(o)
		require.NoError(t, err)
		synced, changed := make(chan error, 1), make(chan error, 1)
		go func() { synced <- set(j, fillWith(1), 5, 6, 7) }()
		<-g.stopped
		go func() {
			tx, err := j.Begin()
			if err != nil {
				changed <- err
				return
			}
			_, err = tx.Change(6)
			if err == nil {
				_, err = tx.Commit()
			}
			changed <- err
		}()
		if policy != CopyWait {
			require.NoError(t, <-changed)
		} else {
			require.Eventually(t, func() bool { return j.Stats().Waits == 1 }, time.Minute, time.Millisecond)
		}
		close(g.opened)
		require.NoError(t, <-synced)
		if policy == CopyWait {
			require.NoError(t, <-changed)
		}
		s := j.Stats()
		require.Equal(t, [3]uint64{count(policy == CopyOnDemand, 1), count(policy == CopyAlways, 3), count(policy == CopyWait, 1)},
			[3]uint64{s.CopyOuts, s.AlwaysCopies, s.Waits})
		require.NoError(t, j.Close())
		require.NoError(t, l.want(6, 1))
	}
}

func count(yes bool, n uint64) uint64 {
	if yes {
		return n
	}
	return 0
}

// Memory for clean blocks is bounded, and so is that for changed ones.
func TestMemoryIsBounded(t *testing.T) {
	l := newTestLog(1024, 1000, nil)
	o := l.options()
	o.Blocks, o.Memory, o.Dirty = homeBlocks+areaBlocks, 64<<10, 256<<10
	j, err := Open(o)
	require.NoError(t, err)
	for b := range format.Block(homeBlocks + areaBlocks) {
		require.NoError(t, j.ReadBlock(b, make([]byte, 1024)))
	}
	require.Len(t, j.entries, 64)
	for b := range format.Block(homeBlocks) {
		for range 20 {
			require.NoError(t, set(j, fillWith(1), b))
		}
	}
	j.background.Wait()
	require.LessOrEqual(t, j.dirty, 256)
	require.LessOrEqual(t, j.clean.n, 64)
	require.NoError(t, j.Close())
	require.Zero(t, j.dirty)
	require.LessOrEqual(t, len(j.entries), 64)
}

// K30: a number that is older by any distance needs no commit, and causes none.
func TestOldNumbers(t *testing.T) {
	for _, start := range []format.Tid{10, 1<<31 + 3, 1<<32 - 2} {
		l := newTestLog(1024, 64, nil)
		putSuper(t, l, func(s format.JournalSuperblock) { s.SetSequence(start - 1) })
		j := l.open(faults{})
		tx, err := j.Begin()
		require.NoError(t, err)
		_, err = tx.Change(5)
		require.NoError(t, err)
		tid, err := tx.Commit()
		require.NoError(t, err)
		require.Equal(t, start, tid)
		for _, old := range []format.Tid{start - 1, start - 1<<31, start - 1<<31 + 1, start - 1<<31 - 1, start + 1} {
			require.True(t, j.Durable(old), "%d at %d", old, start)
			require.NoError(t, j.Sync(old))
		}
		require.Zero(t, j.Stats().Commits)
		require.NoError(t, j.Sync(tid))
		require.True(t, j.Durable(tid))
	}
}
