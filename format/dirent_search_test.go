package format

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// slowSearch is SearchDirBlock in terms of WalkDirBlock.
func slowSearch(block []byte, end int, name []byte, need int) (DirSearch, error) {
	s := DirSearch{At: -1, Before: -1, Gap: -1}
	before := -1
	err := WalkDirBlock(block, end, func(d Dirent) bool {
		used := 0
		if d.Ino != 0 {
			if string(d.Name) == string(name) {
				s.At, s.Before = d.Off, before
				return false
			}
			used = DirentLen(len(d.Name))
		}
		if d.RecLen-used >= need && s.Gap < 0 {
			s.Gap = d.Off
		}
		s.Used += used
		before = d.Off
		return true
	})
	return s, err
}

// randomDirBlock fills a block up to end with entries of short names, some
// unused, some with room behind the name.
func randomDirBlock(rng *rand.Rand, size, end int) []byte {
	block := make([]byte, size)
	for off := 0; off < end; {
		name := []byte("abcdefghijkl")[:1+rng.IntN(12)]
		recLen := DirentLen(len(name)) + 4*rng.IntN(4)
		if recLen+minDirentLen > end-off {
			recLen = end - off
		}
		name[0] = "abc"[rng.IntN(3)]
		PutDirent(block, off, recLen, Ino(rng.IntN(4)), FTRegular, name[:min(len(name), recLen-8)])
		off += recLen
	}
	return block
}

func TestSearchDirBlock(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("random seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	damaged := 0
	for range 20000 {
		size := []int{1024, 65536}[rng.IntN(50)/49]
		end := size - 12*rng.IntN(2)
		block := randomDirBlock(rng, size, end)
		if rng.IntN(3) == 0 {
			block[rng.IntN(1024)] = byte(rng.Uint32())
		}
		name := []byte("abcdefghijkl")[:1+rng.IntN(12)]
		need := DirentLen(1 + rng.IntN(20))
		want, wantErr := slowSearch(block, end, name, need)
		got, err := SearchDirBlock(block, end, name, need)
		if wantErr != nil {
			damaged++
			require.EqualError(t, err, wantErr.Error())
			continue
		}
		require.NoError(t, err)
		if want.At < 0 {
			want.Before = -1
		}
		require.Equal(t, want, got)
	}
	require.Greater(t, damaged, 100)
}

// Every length of a last entry, in front of a tail and at the end of the block.
func TestSearchDirBlockEnds(t *testing.T) {
	for _, end := range []int{1012, 1024} {
		for left := range 64 {
			block := make([]byte, 1024)
			PutDirent(block, 0, end-left, 12, FTRegular, []byte("abc"))
			if end-left+12 <= 1024 {
				PutDirent(block, end-left, 12, 12, FTRegular, []byte("abc"))
			}
			_, wantErr := slowSearch(block, end, []byte("xyz"), 12)
			_, err := SearchDirBlock(block, end, []byte("xyz"), 12)
			require.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(err))
		}
	}
}

func TestDxInsertAndMove(t *testing.T) {
	e := PutDxRoot(make([]byte, 1024), 2, 2, FTDir, HashTea, 0, true)
	table := e.Entries()
	table.Set(0, 0, 5)
	table.SetCount(1)
	table.Insert(1, 30, 8)
	table.Insert(1, 10, 6)
	table.Insert(2, 20, 7)
	require.Equal(t, 4, table.Count())
	for i, hash := range []uint32{0, 10, 20, 30} {
		require.Equal(t, hash, table.Hash(i))
		require.EqualValues(t, 5+i, table.Block(i))
	}

	upper := PutDxNode(make([]byte, 1024), true).Entries()
	require.EqualValues(t, 20, table.MoveTo(upper, 2))
	require.Equal(t, 2, table.Count())
	require.Equal(t, 2, upper.Count())
	require.EqualValues(t, 10, table.Hash(1))
	require.EqualValues(t, 7, upper.Block(0))
	require.EqualValues(t, 30, upper.Hash(1))
	require.EqualValues(t, 8, upper.Block(1))
	require.Equal(t, DxNodeLimit(1024, true), upper.Limit())
	require.Equal(t, make([]byte, 16), []byte(table[16:32]), "what has moved is gone")

	all := PutDxNode(make([]byte, 1024), true).Entries()
	require.Zero(t, table.MoveTo(all, 0))
	require.Equal(t, 1, table.Count())
	require.Equal(t, 2, all.Count())
	require.EqualValues(t, 5, all.Block(0))
	require.EqualValues(t, 10, all.Hash(1))

	e.SetLevels(2)
	require.Equal(t, 2, e.Levels())
}

// A run of equal hashes over more than two blocks: all but the first are marked.
func TestCheckOrderOfRuns(t *testing.T) {
	e := PutDxNode(make([]byte, 1024), true).Entries()
	for i, h := range []uint32{0, 10, 11, 11, 20} {
		e.Set(i, h, LBlock(i))
	}
	e.SetCount(5)
	require.NoError(t, e.CheckOrder())
	e.Set(3, 10, 3)
	require.ErrorIs(t, e.CheckOrder(), ErrDamaged)
	e.Set(2, 10, 2)
	require.ErrorIs(t, e.CheckOrder(), ErrDamaged)
}
