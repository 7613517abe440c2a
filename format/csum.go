package format

import (
	"encoding/binary"
	"hash/crc32"
)

// allOnes is the initial value of the checksums that are not seeded by another.
const allOnes = 0xffffffff

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Crc32c is the CRC-32C of b in its raw form: seed is the initial register, and
// the result is not inverted, so sums can be continued.
func Crc32c(seed uint32, b []byte) uint32 { return ^crc32.Update(^seed, castagnoli, b) }

// crcByte continues the sum by one byte. The small parts of a sum go through it
// and its callers: a buffer on the stack, handed to hash/crc32, would move to
// the heap.
func crcByte(sum uint32, v byte) uint32 { return castagnoli[byte(sum)^v] ^ sum>>8 }

// crcLE32 continues the sum by v in little-endian order.
func crcLE32(sum, v uint32) uint32 {
	for range 4 {
		sum = crcByte(sum, byte(v))
		v >>= 8
	}
	return sum
}

// crcLE64 continues the sum by v in little-endian order.
func crcLE64(sum uint32, v uint64) uint32 {
	return crcLE32(crcLE32(sum, uint32(v)), uint32(v>>32))
}

// crcZeros continues the sum by n zero bytes.
func crcZeros(sum uint32, n int) uint32 {
	for range n {
		sum = crcByte(sum, 0)
	}
	return sum
}

// crcHole continues the sum by b as if the n bytes from off on were zero.
func crcHole(sum uint32, b []byte, off, n int) uint32 {
	return Crc32c(crcZeros(Crc32c(sum, b[:off]), n), b[off+n:])
}

// crc16Table is the table of the polynomial 0x8005 with the bits reversed.
var crc16Table = makeCrc16Table()

func makeCrc16Table() (table [256]uint16) {
	for i := range table {
		v := uint16(i)
		for range 8 {
			v = v>>1 ^ v&1*0xa001
		}
		table[i] = v
	}
	return table
}

// Crc16 is the CRC-16 of b that group descriptors use with uninit_bg, in its raw
// form: seed is the initial register, and the result is not inverted.
func Crc16(seed uint16, b []byte) uint16 {
	for _, v := range b {
		seed = crc16Table[byte(seed)^v] ^ seed>>8
	}
	return seed
}

// Checksums is what it takes to seal and verify the metadata of one file system.
// With a feature off its Seal methods do nothing and its Verify methods are
// true. No method keeps or, but for the field that a Seal stores, changes the
// bytes; none allocates. Source: kernel doc: ext4/checksums.rst.
type Checksums struct {
	Meta bool     // metadata_csum: crc32c everywhere
	GDT  bool     // uninit_bg without metadata_csum: crc16 in group descriptors
	Seed uint32   // initial value of all crc32c sums but the superblock's
	UUID [16]byte // of the file system; for crc16
}

// ChecksumsOf is what sb says about checksums.
func ChecksumsOf(sb Superblock) Checksums {
	f := sb.Features()
	c := Checksums{
		Meta: f.HasROCompat(ROCompatMetadataCsum),
		Seed: Crc32c(allOnes, sbUUID.of(sb)),
		UUID: sb.UUID(),
	}
	c.GDT = !c.Meta && f.HasROCompat(ROCompatGDTCsum)
	if f.HasIncompat(IncompatCsumSeed) {
		c.Seed = sb.ChecksumSeed()
	}
	return c
}

// superblockSum is the checksum that s_checksum should hold.
func superblockSum(sb Superblock) uint32 { return Crc32c(allOnes, sb[:sbChecksum]) }

// SealSuperblock stores s_checksum, which every copy of the superblock has for
// itself. It does nothing without metadata_csum.
func SealSuperblock(sb Superblock) {
	if sb.Features().HasROCompat(ROCompatMetadataCsum) {
		sb.SetChecksum(superblockSum(sb))
	}
}

// VerifySuperblock reports whether s_checksum is right and of the one known
// type. It is true without metadata_csum.
func VerifySuperblock(sb Superblock) bool {
	if !sb.Features().HasROCompat(ROCompatMetadataCsum) {
		return true
	}
	return sb.ChecksumType() == ChecksumCRC32C && sb.Checksum() == superblockSum(sb)
}

// groupDescSum is the checksum that bg_checksum should hold; one of Meta and GDT is on.
func (c *Checksums) groupDescSum(g Group, d GroupDesc) uint16 {
	const end = int(gdChecksum) + 2
	if c.Meta {
		return uint16(crcHole(crcLE32(c.Seed, uint32(g)), d, int(gdChecksum), 2))
	}
	var number [4]byte
	binary.LittleEndian.PutUint32(number[:], uint32(g))
	sum := Crc16(Crc16(0xffff, c.UUID[:]), number[:])
	return Crc16(Crc16(sum, d[:gdChecksum]), d[end:])
}

// SealGroupDesc stores the checksum of the descriptor of group g.
func (c Checksums) SealGroupDesc(g Group, d GroupDesc) {
	if c.Meta || c.GDT {
		d.SetChecksum(c.groupDescSum(g, d))
	}
}

// VerifyGroupDesc reports whether the checksum of the descriptor of group g is right.
func (c Checksums) VerifyGroupDesc(g Group, d GroupDesc) bool {
	return !c.Meta && !c.GDT || d.Checksum() == c.groupDescSum(g, d)
}

// inodeSeed is the initial value of the sums of inode ino and its blocks.
func (c *Checksums) inodeSeed(ino Ino, gen uint32) uint32 {
	return crcLE32(crcLE32(c.Seed, uint32(ino)), gen)
}

// inodeSum is the checksum that the inode should hold: all its bytes, those of
// the checksum taken as zero. Where there is no field for the high half, its
// bytes belong to something else and count.
func (c *Checksums) inodeSum(ino Ino, n Inode) uint32 {
	const lo, hi = int(inChecksumLo), int(inChecksumHi)
	sum := Crc32c(c.inodeSeed(ino, n.Generation()), n[:lo])
	sum = crcZeros(sum, 2)
	if !n.has(hi + 2) {
		return Crc32c(sum, n[lo+2:])
	}
	return crcHole(sum, n[lo+2:], hi-lo-2, 2)
}

// SealInode stores the checksum of inode ino.
func (c Checksums) SealInode(ino Ino, n Inode) {
	if !c.Meta {
		return
	}
	sum := c.inodeSum(ino, n)
	n.SetChecksumLo(uint16(sum))
	n.SetChecksumHi(uint16(sum >> 16))
}

// VerifyInode reports whether the checksum of inode ino is right. An inode of
// zeros, as in a fresh table, is right without one.
func (c Checksums) VerifyInode(ino Ino, n Inode) bool {
	if !c.Meta {
		return true
	}
	sum := c.inodeSum(ino, n)
	if !n.has(int(inChecksumHi) + 2) {
		sum &= 0xffff
	}
	return sum == join16(n.ChecksumLo(), n.ChecksumHi()) || allZero(n)
}

// allZero reports whether b holds nothing but zeros.
func allZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// sumSize is the length of a crc32c on disk.
const sumSize = 4

// noSum is the offset of a checksum that has no place.
const noSum = -1

// sumAt is off, or noSum when a checksum at off would not lie within b.
func sumAt(b []byte, off int) int {
	if off > len(b)-sumSize {
		return noSum
	}
	return off
}

// putSum stores sum at off, if there is a place.
func putSum(b []byte, off int, sum uint32) {
	if off != noSum {
		le32(off).put(b, sum)
	}
}

// isSum reports whether there is a place and sum is stored there.
func isSum(b []byte, off int, sum uint32) bool { return off != noSum && le32(off).get(b) == sum }
