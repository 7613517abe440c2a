package format

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDirentLen(t *testing.T) {
	for nameLen, want := range map[int]int{0: 8, 1: 12, 4: 12, 5: 16, 8: 16, 9: 20, 255: 264} {
		require.Equal(t, want, DirentLen(nameLen), nameLen)
	}
}

func TestDirentFields(t *testing.T) {
	block := make([]byte, 1024)
	PutDirent(block, 8, 0x1C, 0x04030201, FTSymlink, []byte("a name!"))
	require.Equal(t, "01020304"+"1c00"+"07"+"07"+hex.EncodeToString([]byte("a name!")), hex.EncodeToString(block[8:23]))

	d, err := ReadDirent(block, 8)
	require.NoError(t, err)
	require.Equal(t, Dirent{Off: 8, RecLen: 0x1C, Ino: 0x04030201, Type: FTSymlink, Name: []byte("a name!")}, d)
}

func TestPutDirentKeepsRest(t *testing.T) {
	block := make([]byte, 64)
	for i := range block {
		block[i] = 0xEE
	}
	PutDirent(block, 12, 24, 1, FTRegular, []byte("x"))
	for i, c := range block {
		require.Equal(t, i < 12 || i > 20, c == 0xEE, i)
	}
}

// Lengths of 64 KiB blocks: the whole block is 65535 (0 is accepted), other
// lengths have bits 16 and 17 in the two lowest bits.
func TestRecLen(t *testing.T) {
	for _, c := range []struct {
		blockSize, n int
		stored       uint16
	}{
		{1024, 12, 12}, {1024, 1024, 1024}, {4096, 4096, 4096}, {32768, 32768, 32768},
		{65536, 12, 12}, {65536, 65524, 65524}, {65536, 65532, 65532}, {65536, 65536, 65535},
		{262144, 65536, 1}, {262144, 65536 + 8, 8 | 1}, {262144, 3*65536 + 12, 12 | 3}, {262144, 262144, 65535},
	} {
		require.Equal(t, c.stored, packRecLen(c.n, c.blockSize), "%+v", c)
		require.Equal(t, c.n, unpackRecLen(c.stored, c.blockSize), "%+v", c)
	}
	require.Equal(t, 65536, unpackRecLen(0, 65536))
	require.Equal(t, 0, unpackRecLen(0, 32768))
	require.Equal(t, 65535, unpackRecLen(65535, 32768))
}

func TestDirentWholeBlock64K(t *testing.T) {
	block := make([]byte, 1<<16)
	PutDirent(block, 0, len(block), 0, FTUnknown, nil)
	require.Equal(t, "00000000"+"ffff"+"0000", hex.EncodeToString(block[:8]))
	seen := 0
	require.NoError(t, WalkDirBlock(block, len(block), func(d Dirent) bool {
		require.Equal(t, 1<<16, d.RecLen)
		seen++
		return true
	}))
	require.Equal(t, 1, seen)
}

func TestReadDirentDamaged(t *testing.T) {
	whole := func(recLen uint16, nameLen byte) []byte {
		block := make([]byte, 1024)
		binary.LittleEndian.PutUint16(block[4:], recLen)
		block[6] = nameLen
		return block
	}
	for name, c := range map[string]struct {
		block []byte
		off   int
		want  string
	}{
		"zero length":    {whole(0, 0), 0, "directory entry at 0x0: length 0, want a multiple of 4 from 12"},
		"short":          {whole(8, 0), 0, "directory entry at 0x0: length 8, want a multiple of 4 from 12"},
		"odd":            {whole(14, 1), 0, "directory entry at 0x0: length 14, want a multiple of 4 from 12"},
		"over the end":   {whole(1028, 1), 0, "directory entry at 0x0: length 1028, want at most 1024 up to the block's end"},
		"long name":      {whole(12, 5), 0, "directory entry at 0x0: length 12 is too small for a name of 5 bytes"},
		"unaligned":      {whole(12, 1), 2, "directory entry at 0x2: no room for an entry in 1024 bytes"},
		"behind the end": {whole(12, 1), 1016, "directory entry at 0x3f8: no room for an entry in 1024 bytes"},
		"negative":       {whole(12, 1), -4, "no room for an entry in 1024 bytes"},
		"empty":          {nil, 0, "directory entry at 0x0: no room for an entry in 0 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadDirent(c.block, c.off)
			require.ErrorIs(t, err, ErrDamaged)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestWalkDirBlock(t *testing.T) {
	block := make([]byte, 1024)
	PutDirent(block, 0, 12, 2, FTDir, []byte("."))
	PutDirent(block, 12, 12, 2, FTDir, []byte(".."))
	PutDirent(block, 24, 100, 0, FTUnknown, nil)
	PutDirent(block, 124, 1012-124, 11, FTRegular, []byte("file"))
	PutDirTail(block)
	require.Equal(t, 1012, DirBlockEnd(block))

	require.Equal(t, []int{0, 12, 24, 124}, offsets(t, block, 1012, 9))
	require.Equal(t, []int{0, 12, 24, 124, 1012}, offsets(t, block, 1024, 9), "the checksum is an entry too")
	require.Equal(t, []int{0, 12}, offsets(t, block, 1012, 2), "stops when told")

	err := WalkDirBlock(block, 1000, func(Dirent) bool { return true })
	require.EqualError(t, err, "directory entry at 0x7c: length 888 reaches over the end of entries at 1000")
}

func offsets(t *testing.T, block []byte, end, stop int) (offs []int) {
	require.NoError(t, WalkDirBlock(block, end, func(d Dirent) bool {
		offs = append(offs, d.Off)
		return len(offs) < stop
	}))
	return offs
}

func TestDirTail(t *testing.T) {
	block := make([]byte, 2048)
	for i := range block {
		block[i] = 0xFF
	}
	require.False(t, HasDirTail(block))
	require.Equal(t, 2048, DirBlockEnd(block))
	PutDirTail(block)
	require.True(t, HasDirTail(block))
	require.Equal(t, "ff"+"00000000"+"0c00"+"00"+"de"+"00000000", hex.EncodeToString(block[2048-13:]))
	require.Equal(t, 2036, DirBlockEnd(block))
	for i := 2036; i < 2044; i++ {
		block[i] ^= 1
		require.False(t, HasDirTail(block), i)
		block[i] ^= 1
	}
	block[2047] = 7
	require.True(t, HasDirTail(block), "whatever the checksum")
	require.False(t, HasDirTail(block[:8]))
}

// The kernel makes an index of a block without clearing it: what was the
// checksum entry of the leaf is still there, and not meant any more.
func TestDirBlockEndOfIndex(t *testing.T) {
	for _, put := range []func([]byte){
		func(b []byte) { PutDxRoot(b, 12, 2, FTDir, HashTea, 0, true).Entries().SetCount(1) },
		func(b []byte) { PutDxNode(b, true).Entries().SetCount(1) },
	} {
		block := make([]byte, 1024)
		put(block)
		PutDirTail(block)
		require.True(t, HasDirTail(block))
		require.Equal(t, 1024, DirBlockEnd(block))
		require.NoError(t, WalkDirBlock(block, DirBlockEnd(block), func(Dirent) bool { return true }))
	}
}

func FuzzDirBlock(f *testing.F) {
	block := make([]byte, 1024)
	PutDirent(block, 0, 12, 2, FTDir, []byte("."))
	PutDirent(block, 12, 1000, 2, FTDir, []byte(".."))
	PutDirTail(block)
	f.Add(block)
	f.Add(block[:1012])
	f.Add(make([]byte, 64))
	big := make([]byte, 1<<16)
	PutDirent(big, 0, len(big), 0, FTUnknown, nil)
	f.Add(big)
	f.Fuzz(func(t *testing.T, block []byte) {
		end, entries := DirBlockEnd(block), 0
		next := 0
		err := WalkDirBlock(block, end, func(d Dirent) bool {
			require.Equal(t, next, d.Off)
			require.LessOrEqual(t, DirentLen(len(d.Name)), d.RecLen)
			require.LessOrEqual(t, d.Off+d.RecLen, end)
			checkRewrite(t, block, d)
			next = d.Off + d.RecLen
			entries++
			return true
		})
		require.LessOrEqual(t, entries, len(block)/minDirentLen)
		if err == nil {
			require.Equal(t, end, next)
		} else {
			require.ErrorIs(t, err, ErrDamaged)
		}
	})
}

// checkRewrite checks that writing a decoded entry gives the same entry.
func checkRewrite(t *testing.T, block []byte, d Dirent) {
	again := make([]byte, len(block))
	PutDirent(again, d.Off, d.RecLen, d.Ino, d.Type, d.Name)
	got, err := ReadDirent(again, d.Off)
	require.NoError(t, err)
	require.Equal(t, d, got)
}

func BenchmarkWalkDirBlock(b *testing.B) {
	block := make([]byte, 4096)
	rng := rand.New(rand.NewPCG(3, 4))
	for off := 0; off < len(block); off += 32 {
		PutDirent(block, off, 32, Ino(rng.Uint32()|1), FTRegular, randomBytes(rng, 20))
	}
	b.ReportAllocs()
	for b.Loop() {
		WalkDirBlock(block, len(block), func(Dirent) bool { return true })
	}
}
