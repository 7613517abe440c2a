package alloc_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/mkfs"
	"drydock/journal"
)

// TestClaim claims, frees and claims again, as a replay of records does.
func TestClaim(t *testing.T) {
	f := open(t, formatted(t, 64<<20, mkfs.Options{BlockSize: 1024, NoJournal: true}), alloc.Options{})
	const b = format.Block(10000)
	free, _, _, _ := f.a.Totals()
	claim := func(tx *journal.Tx, at format.Block, n uint32) { require.NoError(t, f.a.Claim(tx, at, n)) }
	drop := func(tx *journal.Tx, at format.Block, n uint32) { require.NoError(t, f.a.Free(tx, at, n)) }
	expect := func(taken, pending int) {
		t.Helper()
		now, _, wait, _ := f.a.Totals()
		require.EqualValues(t, taken, free-now)
		require.EqualValues(t, pending, wait)
	}
	f.update(func(tx *journal.Tx) {
		claim(tx, b, 100)
		claim(tx, b+50, 100) // half of it is used already
	})
	expect(150, 0)
	tx := f.begin()
	claim(tx, b+100, 100)
	drop(tx, b, 10)
	claim(tx, b+5, 3)
	tx.Abort()
	expect(150, 0)
	f.update(func(tx *journal.Tx) {
		drop(tx, b, 20)
		claim(tx, b+10, 10)
		drop(tx, b+10, 5)
		claim(tx, b+12, 1)
		claim(tx, b+12, 1)
		require.NoError(t, f.a.Claim(tx, f.geo.FirstDataBlock, 1), "is used")
	})
	f.sync()
	expect(136, 0)
	used := f.used()
	for i := range format.Block(200) {
		require.Equal(t, i == 12 || i >= 15 && i < 150, used[b+i], "%d", i)
	}
	start, n, err := f.a.Find(b, 12, false)
	require.NoError(t, err)
	require.Equal(t, alloc.Run{Start: b, N: 12}, alloc.Run{Start: start, N: n}, "what is free can be picked")
	start, _, err = f.a.Find(b, 2, false)
	require.NoError(t, err)
	require.Equal(t, b+13, start)
	for _, at := range []format.Block{0, f.geo.BlocksCount} {
		tx := f.begin()
		require.ErrorIs(t, f.a.Claim(tx, at, 1), format.ErrDamaged)
		tx.Abort()
	}
}

func TestClaimInode(t *testing.T) {
	f := open(t, formatted(t, 64<<20, mkfs.Options{BlockSize: 1024, NoJournal: true, Inodes: 1000}), alloc.Options{})
	f.litter()
	f = open(t, f.dev, alloc.Options{})
	m := newInodeModel(f, newRand(t))
	_, _, _, free := f.a.Totals()
	dirs := f.a.Sums().Dirs
	ino := f.geo.GroupFirstIno(2) + 50
	f.update(func(tx *journal.Tx) {
		require.NoError(t, f.a.ClaimInode(tx, ino, true))
		m.write(tx, ino)
		require.NoError(t, f.a.ClaimInode(tx, ino, true), "is used")
		require.ErrorIs(t, f.a.ClaimInode(tx, 1<<20, true), format.ErrDamaged)
	})
	m.set(ino, inodeDir)
	m.checkGroup(2)
	f.update(func(tx *journal.Tx) {
		require.NoError(t, f.a.FreeInode(tx, ino, true))
		require.NoError(t, f.a.ClaimInode(tx, ino, false))
	})
	f.sync()
	m.set(ino, inodeFile)
	m.checkGroup(2)
	_, _, _, now := f.a.Totals()
	require.EqualValues(t, 1, free-now)
	require.Equal(t, dirs, f.a.Sums().Dirs)
	f.update(func(tx *journal.Tx) {
		for i := range format.Ino(200) {
			got, err := f.a.NewInode(tx, ino+i%2, false)
			require.NoError(t, err)
			require.NotEqual(t, ino, got)
		}
	})
}
