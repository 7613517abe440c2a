package format

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

// The limit leaves room for the 8 bytes of the checksum in every block of the index.
func TestDxLimits(t *testing.T) {
	for _, c := range []struct{ blockSize, root, node, rootCsum, nodeCsum int }{
		{1024, 124, 127, 123, 126},
		{2048, 252, 255, 251, 254},
		{4096, 508, 511, 507, 510},
		{65536, 8188, 8191, 8187, 8190},
	} {
		require.Equal(t, c.root, DxRootLimit(c.blockSize, false))
		require.Equal(t, c.node, DxNodeLimit(c.blockSize, false))
		require.Equal(t, c.rootCsum, DxRootLimit(c.blockSize, true))
		require.Equal(t, c.nodeCsum, DxNodeLimit(c.blockSize, true))
	}
}

func TestDxRootFields(t *testing.T) {
	block := make([]byte, 1024)
	for i := range block {
		block[i] = 0xEE
	}
	r := PutDxRoot(block, 0x04030201, 0x08070605, FTDir, HashTea, 1, true)
	e := r.Entries()
	e.Set(0, 0xFFFFFFFF, 0x0C0B0A09)
	e.Set(1, 0x100F0E0D, 0x04131211)
	e.SetCount(2)
	require.Equal(t, ""+
		"01020304"+"0c00"+"01"+"02"+"2e000000"+
		"05060708"+"f403"+"02"+"02"+"2e2e0000"+
		"00000000"+"02"+"08"+"01"+"00"+
		"7b00"+"0200"+"090a0b0c"+
		"0d0e0f10"+"11121304"+
		"00000000", hex.EncodeToString(block[:0x34]))
	require.EqualValues(t, HashTea, r.HashVersion())
	require.Equal(t, 1, r.Levels())
	require.Equal(t, 8, r.InfoLen())
	require.Zero(t, r.Flags())
	require.Equal(t, 123, e.Limit())
	require.Equal(t, 2, e.Count())
	require.EqualValues(t, 0, e.Hash(0))
	require.EqualValues(t, 0x0C0B0A09, e.Block(0))
	require.EqualValues(t, 0x100F0E0D, e.Hash(1))
	require.EqualValues(t, 0x04131211, e.Block(1))
	require.NoError(t, CheckDxRoot(block, MaxDxLevels, true))
	require.ErrorIs(t, CheckDxRoot(block, MaxDxLevels, false), ErrDamaged)
	require.ErrorIs(t, CheckDxNode(block, true), ErrDamaged)
	off, ok := DxTableOffset(block)
	require.True(t, ok)
	require.Equal(t, DxRootTable, off)
}

func TestDxNodeFields(t *testing.T) {
	block := make([]byte, 4096)
	for i := range block {
		block[i] = 0xEE
	}
	n := PutDxNode(block, false)
	e := n.Entries()
	e.Set(0, 1, 2)
	e.Set(1, 0x0D0C0B0A, 0x010F0E0D)
	e.SetCount(2)
	require.Equal(t, "00000000"+"0010"+"00"+"00"+"ff01"+"0200"+"02000000"+"0a0b0c0d"+"0d0e0f01", hex.EncodeToString(block[:0x18]))
	require.NoError(t, CheckDxNode(block, false))
	require.ErrorIs(t, CheckDxRoot(block, MaxDxLevels, false), ErrDamaged)
	off, ok := DxTableOffset(block)
	require.True(t, ok)
	require.Equal(t, DxNodeTable, off)
}

// The high bits of an index entry's block number are reserved.
func TestDxBlockMask(t *testing.T) {
	block := make([]byte, 1024)
	e := PutDxNode(block, false).Entries()
	e.SetCount(1)
	binary.LittleEndian.PutUint32(block[0x0C:], 0xF0000007)
	require.EqualValues(t, 7, e.Block(0))
}

func TestDxFind(t *testing.T) {
	e := PutDxNode(make([]byte, 1024), true).Entries()
	hashes := []uint32{0, 10, 20, 21, 30}
	for i, h := range hashes {
		e.Set(i, h, LBlock(i))
	}
	e.SetCount(len(hashes))
	for hash, want := range map[uint32]int{0: 0, 8: 0, 10: 1, 18: 1, 20: 2, 22: 3, 28: 3, 30: 4, 0xFFFFFFFC: 4} {
		require.Equal(t, want, e.Find(hash), hash)
	}
	e.SetCount(1)
	require.Equal(t, 0, e.Find(0xFFFFFFFC))
	require.NoError(t, e.CheckOrder())

	e.SetCount(len(hashes))
	require.NoError(t, e.CheckOrder())
	e.Set(3, 20, 3)
	require.ErrorIs(t, e.CheckOrder(), ErrDamaged)
}

func TestCheckDxRootDamaged(t *testing.T) {
	for want, damage := range map[string]func([]byte){
		`does not begin with "." and a ".." that spans the block`: func(b []byte) { b[0x10]-- },
		"at 0x1d: information length 7, want 8":                   func(b []byte) { b[0x1D] = 7 },
		"at 0x1c: hash version 3, want at most 2":                 func(b []byte) { b[0x1C] = 3 },
		"at 0x1f: flags 0x1, want 0":                              func(b []byte) { b[0x1F] = 1 },
		"at 0x1e: 2 levels, want at most 1":                       func(b []byte) { b[0x1E] = 2 },
		"at 0x20: limit 124, want 123":                            func(b []byte) { b[0x20]++ },
		"at 0x22: count 0, want 1 to 123":                         func(b []byte) { b[0x22] = 0 },
		"at 0x22: count 124, want 1 to 123":                       func(b []byte) { b[0x22] = 124 },
	} {
		block := make([]byte, 1024)
		PutDxRoot(block, 12, 2, FTDir, HashHalfMD4, 0, true).Entries().SetCount(1)
		require.NoError(t, CheckDxRoot(block, MaxDxLevels, true))
		damage(block)
		err := CheckDxRoot(block, MaxDxLevels, true)
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, want)
	}
	require.ErrorIs(t, CheckDxRoot(nil, MaxDxLevels, true), ErrDamaged)
}

func TestCheckDxNodeDamaged(t *testing.T) {
	for want, damage := range map[string]func([]byte){
		"does not begin with an unused entry that spans the block": func(b []byte) { b[0] = 1 },
		"at 0x8: limit 128, want 127":                              func(b []byte) { b[8]++ },
		"at 0xa: count 0, want 1 to 127":                           func(b []byte) { b[10] = 0 },
		"at 0xa: count 129, want 1 to 127":                         func(b []byte) { b[10] = 129 },
	} {
		block := make([]byte, 1024)
		PutDxNode(block, false).Entries().SetCount(1)
		require.NoError(t, CheckDxNode(block, false))
		damage(block)
		err := CheckDxNode(block, false)
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, want)
	}
	require.ErrorIs(t, CheckDxNode(nil, true), ErrDamaged)
}

func TestDxRoot64K(t *testing.T) {
	block := make([]byte, 1<<16)
	PutDxRoot(block, 12, 2, FTDir, HashHalfMD4, 0, true).Entries().SetCount(1)
	require.NoError(t, CheckDxRoot(block, MaxDxLevels, true))
	require.EqualValues(t, 65524, binary.LittleEndian.Uint16(block[0x10:]))
	PutDxNode(block, true).Entries().SetCount(1)
	require.NoError(t, CheckDxNode(block, true))
}

// Seal and verify agree on where the table of an index block is.
func TestDxSeal(t *testing.T) {
	c := Checksums{Meta: true, Seed: 0x12345678}
	for _, blockSize := range []int{1024, 2048, 4096, 65536} {
		block := make([]byte, blockSize)
		PutDxRoot(block, 12, 2, FTDir, HashHalfMD4, 0, true).Entries().SetCount(2)
		c.SealDxBlock(12, 3, block)
		require.True(t, c.VerifyDxBlock(12, 3, block))
		require.False(t, c.VerifyDxBlock(13, 3, block))
		require.False(t, c.VerifyDxBlock(12, 4, block))

		PutDxNode(block, true).Entries().SetCount(2)
		c.SealDxBlock(12, 3, block)
		require.True(t, c.VerifyDxBlock(12, 3, block))
		block[DxNodeTable+dxEntrySize]++
		require.False(t, c.VerifyDxBlock(12, 3, block))
	}
}

func FuzzDxNode(f *testing.F) {
	root := make([]byte, 1024)
	PutDxRoot(root, 12, 2, FTDir, HashHalfMD4, 1, true).Entries().SetCount(1)
	f.Add(root, uint32(7), true)
	node := make([]byte, 1024)
	PutDxNode(node, false).Entries().SetCount(127)
	f.Add(node, uint32(1<<31), false)
	f.Add([]byte{}, uint32(0), false)
	short := make([]byte, 24) // "." and "..", and nothing else
	PutDirent(short, 0, 12, 12, FTDir, []byte("."))
	PutDirent(short, 12, 12, 12, FTDir, []byte(".."))
	f.Add(short, uint32(0), false)
	f.Fuzz(func(t *testing.T, block []byte, hash uint32, csum bool) {
		if CheckDxRoot(block, MaxDxLevelsLarge, csum) == nil {
			checkDxTable(t, DxRoot(block).Entries(), hash)
			require.LessOrEqual(t, DxRoot(block).Levels(), MaxDxLevelsLarge)
		}
		if CheckDxNode(block, csum) == nil {
			checkDxTable(t, DxNode(block).Entries(), hash)
		}
		DxTableOffset(block)
		c := Checksums{Meta: true}
		sealed := bytes.Clone(block)
		c.SealDxBlock(1, 2, sealed)
		c.VerifyDxBlock(1, 2, sealed)
	})
}

func checkDxTable(t *testing.T, e DxEntries, hash uint32) {
	at := e.Find(hash)
	require.GreaterOrEqual(t, at, 0)
	require.Less(t, at, e.Count())
	if e.CheckOrder() == nil {
		require.LessOrEqual(t, e.Hash(at), hash)
	}
	for i := range e.Count() {
		require.LessOrEqual(t, e.Block(i), DxBlockMask)
	}
}
