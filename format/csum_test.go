package format

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The check values of both polynomials, "123456789", as their catalogues list them.
func TestCrcCheckValues(t *testing.T) {
	digits := []byte("123456789")
	require.Equal(t, uint32(0xe3069283), ^Crc32c(allOnes, digits), "CRC-32C/ISCSI")
	require.Equal(t, uint16(0x4b37), Crc16(0xffff, digits), "CRC-16/MODBUS")
	require.Equal(t, uint16(0xbb3d), Crc16(0, digits), "CRC-16/ARC")
}

// A sum may be made in parts, and the parts that avoid hash/crc32 agree with it.
func TestCrcParts(t *testing.T) {
	b := fieldBytes(300)
	whole := Crc32c(7, b)
	require.Equal(t, whole, Crc32c(Crc32c(7, b[:100]), b[100:]))
	require.Equal(t, whole, ^crc32.Update(^uint32(7), crc32.MakeTable(crc32.Castagnoli), b))
	require.Equal(t, Crc16(7, b), Crc16(Crc16(7, b[:9]), b[9:]))
	require.Equal(t, Crc32c(9, b[:4]), crcLE32(9, binary.LittleEndian.Uint32(b)))
	require.Equal(t, Crc32c(9, b[:8]), crcLE64(9, binary.LittleEndian.Uint64(b)))
	require.Equal(t, Crc32c(9, make([]byte, 13)), crcZeros(9, 13))
	hole := bytes.Clone(b)
	clear(hole[20:24])
	require.Equal(t, Crc32c(9, hole), crcHole(9, b, 20, 4))
}

func TestChecksumsOf(t *testing.T) {
	sb := Superblock(fieldBytes(SuperblockSize))
	id := sb.UUID()
	sb.SetFeatures(Features{})
	require.Equal(t, Checksums{Seed: Crc32c(allOnes, id[:]), UUID: id}, ChecksumsOf(sb))
	sb.SetFeatures(Features{ROCompat: ROCompatGDTCsum})
	require.Equal(t, Checksums{GDT: true, Seed: Crc32c(allOnes, id[:]), UUID: id}, ChecksumsOf(sb))
	sb.SetFeatures(Features{ROCompat: ROCompatGDTCsum | ROCompatMetadataCsum, Incompat: IncompatCsumSeed})
	require.Equal(t, Checksums{Meta: true, Seed: sb.ChecksumSeed(), UUID: id}, ChecksumsOf(sb))
}

// sealCase is one kind of metadata: a valid block of it, how to seal and verify it, and
// the bytes that the checksum does not cover.
type sealCase struct {
	name      string
	make      func(size int) []byte
	seal      func(c Checksums, b []byte)
	verify    func(c Checksums, b []byte) bool
	uncovered func(size int) (from, to int)
}

// viewCases is how many of sealCases, the first ones, are views of a length that their
// caller has checked.
const viewCases = 6

var testDesc = GroupDesc(fieldBytes(64))

var sealCases = []sealCase{
	{"superblock", func(int) []byte {
		sb := testSuperblock()
		sb.SetChecksumType(ChecksumCRC32C)
		return sb
	}, func(_ Checksums, b []byte) { SealSuperblock(b) }, func(_ Checksums, b []byte) bool { return VerifySuperblock(b) }, nil},
	{"descriptor", func(int) []byte { return fieldBytes(64) },
		func(c Checksums, b []byte) { c.SealGroupDesc(5, b) },
		func(c Checksums, b []byte) bool { return c.VerifyGroupDesc(5, b) }, nil},
	{"short descriptor", func(int) []byte { return fieldBytes(32) },
		func(c Checksums, b []byte) { c.SealGroupDesc(5, b) },
		func(c Checksums, b []byte) bool { return c.VerifyGroupDesc(5, b) }, nil},
	{"inode", func(int) []byte {
		n := Inode(fieldBytes(256))
		n.SetExtraIsize(32)
		return n
	}, func(c Checksums, b []byte) { c.SealInode(77, b) },
		func(c Checksums, b []byte) bool { return c.VerifyInode(77, b) }, nil},
	{"short inode", func(int) []byte { return fieldBytes(128) },
		func(c Checksums, b []byte) { c.SealInode(77, b) },
		func(c Checksums, b []byte) bool { return c.VerifyInode(77, b) }, nil},
	{"inode without extra", func(int) []byte {
		n := Inode(fieldBytes(256))
		n.SetExtraIsize(0)
		return n
	}, func(c Checksums, b []byte) { c.SealInode(77, b) },
		func(c Checksums, b []byte) bool { return c.VerifyInode(77, b) }, nil},
	{"leaf", func(size int) []byte {
		b := fieldBytes(size)
		copy(b[size-12:], []byte{0, 0, 0, 0, 12, 0, 0, 0xde})
		return b
	}, func(c Checksums, b []byte) { c.SealDirBlock(77, 8, b) },
		func(c Checksums, b []byte) bool { return c.VerifyDirBlock(77, 8, b) }, nil},
	{"index root", func(size int) []byte {
		b := fieldBytes(size)
		le16(4).put(b, 12)
		b[6], b[18] = 1, 2
		le16(16).put(b, dxTestRecLen(size-12))
		le32(24).put(b, 0)
		b[29] = 8
		le16(32).put(b, uint16((size-32-8)/8))
		le16(34).put(b, 20)
		return b
	}, func(c Checksums, b []byte) { c.SealDxBlock(77, 8, b) },
		func(c Checksums, b []byte) bool { return c.VerifyDxBlock(77, 8, b) },
		func(size int) (int, int) { return 32 + 20*8, 32 + (size-32-8)/8*8 }},
	{"index node", func(size int) []byte {
		b := fieldBytes(size)
		le16(4).put(b, dxTestRecLen(size))
		b[6] = 0
		le32(0).put(b, 0)
		le16(8).put(b, uint16((size-8-8)/8))
		le16(10).put(b, 20)
		return b
	}, func(c Checksums, b []byte) { c.SealDxBlock(77, 8, b) },
		func(c Checksums, b []byte) bool { return c.VerifyDxBlock(77, 8, b) },
		func(size int) (int, int) { return 8 + 20*8, 8 + (size-8-8)/8*8 }},
	{"extent block", func(size int) []byte {
		b := fieldBytes(size)
		le16(4).put(b, uint16((size-12)/12))
		return b
	}, func(c Checksums, b []byte) { c.SealExtentBlock(77, 8, b) },
		func(c Checksums, b []byte) bool { return c.VerifyExtentBlock(77, 8, b) },
		func(size int) (int, int) { return 12 + (size-12)/12*12 + 4, size }},
	{"xattr block", fieldBytes, func(c Checksums, b []byte) { c.SealXattrBlock(1<<40+99, b) },
		func(c Checksums, b []byte) bool { return c.VerifyXattrBlock(1<<40+99, b) }, nil},
	{"block bitmap", fieldBytes, func(c Checksums, b []byte) { c.SealBlockBitmap(testDesc, b) },
		func(c Checksums, b []byte) bool { return c.VerifyBlockBitmap(testDesc, b) }, nil},
	{"inode bitmap", fieldBytes, func(c Checksums, b []byte) { c.SealInodeBitmap(testDesc, b) },
		func(c Checksums, b []byte) bool { return c.VerifyInodeBitmap(testDesc, b) }, nil},
	{"mmp", fieldBytes, func(c Checksums, b []byte) { c.SealMMP(b) },
		func(c Checksums, b []byte) bool { return c.VerifyMMP(b) },
		func(size int) (int, int) { return 1024, size }},
	{"orphan file", fieldBytes, func(c Checksums, b []byte) { c.SealOrphanBlock(77, 8, 1<<33, b) },
		func(c Checksums, b []byte) bool { return c.VerifyOrphanBlock(77, 8, 1<<33, b) },
		func(size int) (int, int) { return size - 8, size - 4 }},
}

// dxTestRecLen is the rec_len field for a length; 64 KiB does not fit as it is.
func dxTestRecLen(n int) uint16 {
	if n == 65536 {
		return 65535
	}
	return uint16(n)
}

// A sealed block verifies; any changed byte that the sum covers is found, and a
// changed byte that it does not cover is not.
func TestSealVerify(t *testing.T) {
	c := Checksums{Meta: true, Seed: 0x12345678, UUID: [16]byte{1, 2, 3}}
	for _, test := range sealCases {
		for _, size := range []int{1024, 2048, 4096, 65536} {
			b := test.make(size)
			require.False(t, test.verify(c, b), test.name)
			test.seal(c, b)
			require.True(t, test.verify(c, b), "%s of %d", test.name, size)
			from, to := size, size
			if test.uncovered != nil {
				from, to = test.uncovered(size)
			}
			step := max(1, len(b)/1024)
			for i := 0; i < len(b); i += step {
				b[i] ^= 0x10
				require.Equal(t, i >= from && i < to, test.verify(c, b), "%s of %d, byte %d", test.name, size, i)
				b[i] ^= 0x10
			}
		}
	}
}

// With the features off nothing is stored and everything is right.
func TestSealOff(t *testing.T) {
	for _, test := range sealCases {
		b := test.make(4096)
		if test.name == "superblock" {
			Superblock(b).SetFeatures(Features{})
		}
		want := bytes.Clone(b)
		test.seal(Checksums{}, b)
		require.Equal(t, want, b, test.name)
		require.True(t, test.verify(Checksums{}, b), test.name)
	}
}

// The sums of the parts that only one block has belong to it alone.
func TestSealDependsOnPlace(t *testing.T) {
	c := Checksums{Meta: true, Seed: 5}
	n := Inode(fieldBytes(256))
	c.SealInode(12, n)
	require.False(t, c.VerifyInode(13, n))
	n.SetGeneration(n.Generation() + 1)
	require.False(t, c.VerifyInode(12, n))
	require.False(t, Checksums{Meta: true, Seed: 6}.VerifyInode(12, n))

	d := GroupDesc(fieldBytes(64))
	c.SealGroupDesc(1, d)
	require.False(t, c.VerifyGroupDesc(2, d))
	b := fieldBytes(4096)
	c.SealXattrBlock(100, b)
	require.False(t, c.VerifyXattrBlock(101, b))
	c.SealOrphanBlock(12, 1, 100, b)
	require.False(t, c.VerifyOrphanBlock(12, 1, 101, b))
	require.False(t, c.VerifyOrphanBlock(13, 1, 100, b))
	require.False(t, c.VerifyOrphanBlock(12, 2, 100, b))
	le16(4).put(b, 340)
	c.SealExtentBlock(12, 1, b)
	require.False(t, c.VerifyExtentBlock(13, 1, b))
	require.False(t, c.VerifyExtentBlock(12, 2, b))
}

func TestSealGroupDescCrc16(t *testing.T) {
	c := Checksums{GDT: true, UUID: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}
	for _, size := range []int{32, 64} {
		d := GroupDesc(fieldBytes(size))
		c.SealGroupDesc(0x01020304, d)
		sum := slices.Concat(c.UUID[:], []byte{4, 3, 2, 1}, d[:0x1e], d[0x20:])
		require.Equal(t, Crc16(0xffff, sum), d.Checksum())
		require.True(t, c.VerifyGroupDesc(0x01020304, d))
		require.False(t, c.VerifyGroupDesc(0x01020305, d))
		d[size-1] ^= 1
		require.False(t, c.VerifyGroupDesc(0x01020304, d))
	}
	// Only descriptors have a checksum then.
	n := Inode(fieldBytes(256))
	require.True(t, c.VerifyInode(5, n))
	require.True(t, c.VerifyBlockBitmap(testDesc, n))
}

// A descriptor of 32 bytes keeps half of a bitmap's checksum.
func TestBitmapSumShort(t *testing.T) {
	c := Checksums{Meta: true, Seed: 5}
	d, bitmap := GroupDesc(make([]byte, 32)), fieldBytes(1024)
	c.SealBlockBitmap(d, bitmap)
	c.SealInodeBitmap(d, bitmap)
	require.Equal(t, Crc32c(5, bitmap)&0xffff, d.BlockBitmapCsum())
	require.True(t, c.VerifyBlockBitmap(d, bitmap))
	require.True(t, c.VerifyInodeBitmap(d, bitmap))
	bitmap[0] ^= 1
	require.False(t, c.VerifyBlockBitmap(d, bitmap))
	require.False(t, c.VerifyInodeBitmap(d, bitmap))
}

func TestVerifyInodeOfZeros(t *testing.T) {
	c := Checksums{Meta: true, Seed: 5}
	require.True(t, c.VerifyInode(12, make([]byte, 256)))
	require.True(t, c.VerifyInode(12, make([]byte, 128)))
	n := make(Inode, 256)
	n.SetMode(1)
	require.False(t, c.VerifyInode(12, n))
}

func TestVerifySuperblockType(t *testing.T) {
	sb := testSuperblock()
	sb.SetChecksumType(2)
	SealSuperblock(sb)
	require.False(t, VerifySuperblock(sb))
	sb.SetChecksumType(1)
	SealSuperblock(sb)
	require.True(t, VerifySuperblock(sb))
}

// Blocks that are too short or whose counts make no sense have no checksum:
// sealing leaves them alone and they never verify.
func TestSealWithoutPlace(t *testing.T) {
	c := Checksums{Meta: true}
	for _, test := range sealCases[viewCases:] {
		if test.name == "block bitmap" || test.name == "inode bitmap" {
			continue
		}
		for size := range 8 {
			b := make([]byte, size)
			test.seal(c, b)
			require.False(t, test.verify(c, b), "%s of %d", test.name, size)
			require.True(t, allZero(b))
		}
	}
	root := sealCases[7].make(4096)
	le16(34).put(root, le16(32).get(root)+1) // count over limit
	require.False(t, c.VerifyDxBlock(77, 8, root))
	le16(32).put(root, 0xffff) // limit outside the block
	require.False(t, c.VerifyDxBlock(77, 8, root))
	extents := make([]byte, 1024)
	le16(4).put(extents, 85)
	require.False(t, c.VerifyExtentBlock(77, 8, extents))
	le16(4).put(extents, 0xffff)
	require.False(t, c.VerifyExtentBlock(77, 8, extents))
}

// FuzzSeal: no bytes make a checksum panic, and what can be sealed verifies.
func FuzzSeal(f *testing.F) {
	for i, test := range sealCases {
		f.Add(uint8(i), test.make(1024))
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		test := sealCases[int(kind)%len(sealCases)]
		if int(kind)%len(sealCases) < viewCases && len(b) < SuperblockSize {
			return
		}
		c := Checksums{Meta: true, Seed: 1}
		test.verify(c, b)
		before := bytes.Clone(b)
		test.seal(c, b)
		if !bytes.Equal(before, b) {
			sealed := bytes.Clone(b)
			test.seal(c, b)
			require.Equal(t, sealed, b, "sealing twice")
		}
	})
}

func TestSealAllocates(t *testing.T) {
	for _, c := range []Checksums{{Meta: true}, {GDT: true}} {
		for _, test := range sealCases {
			b := test.make(4096)
			allocs := testing.AllocsPerRun(100, func() {
				test.seal(c, b)
				test.verify(c, b)
			})
			require.Zero(t, allocs, test.name)
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	c := Checksums{Meta: true, Seed: 5}
	for _, test := range sealCases {
		b.Run(test.name, func(b *testing.B) {
			block := test.make(4096)
			b.SetBytes(int64(len(block)))
			b.ReportAllocs()
			for b.Loop() {
				test.seal(c, block)
			}
		})
	}
}

func BenchmarkVerifyInode(b *testing.B) {
	c := Checksums{Meta: true, Seed: 5}
	n := Inode(sealCases[3].make(256))
	c.SealInode(77, n)
	b.SetBytes(256)
	b.ReportAllocs()
	for b.Loop() {
		if !c.VerifyInode(77, n) {
			b.Fatal("checksum is wrong")
		}
	}
}
