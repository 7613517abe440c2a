package format

// Tail of a directory leaf: a fake entry of inode 0, length 12, no name, type
// 0xde, and then the checksum.
const (
	leafTailSize = 12
	leafTailHead = 0xde_00_000c // type, name_len and rec_len as one little-endian word
)

// leafSumAt is the offset of the checksum of a directory leaf, and the number of
// bytes that it covers.
func leafSumAt(block []byte) (off, covered int) {
	covered = len(block) - leafTailSize
	if covered < 0 || le32(covered).get(block) != 0 || le32(covered+4).get(block) != leafTailHead {
		return noSum, 0
	}
	return covered + 8, covered
}

// SealDirBlock stores the checksum of a directory leaf of inode ino with
// generation gen. A block without a tail stays as it is.
func (c Checksums) SealDirBlock(ino Ino, gen uint32, block []byte) {
	if c.Meta {
		off, covered := leafSumAt(block)
		putSum(block, off, Crc32c(c.inodeSeed(ino, gen), block[:covered]))
	}
}

// VerifyDirBlock reports whether a directory leaf has a tail with the right checksum.
func (c Checksums) VerifyDirBlock(ino Ino, gen uint32, block []byte) bool {
	if !c.Meta {
		return true
	}
	off, covered := leafSumAt(block)
	return isSum(block, off, Crc32c(c.inodeSeed(ino, gen), block[:covered]))
}

// Layout of an index block: limit and count stand in the first entry.
const (
	dxNodeStart = 8  // after one empty entry
	dxRootStart = 32 // after "." and ".." and 8 bytes of information
	dxEntryLen  = 8
)

// dxStart is where the entries of an index block begin; ok is false when the
// block is neither the root nor a node.
func dxStart(block []byte) (start int, ok bool) {
	if len(block) < dxRootStart+dxEntryLen {
		return 0, false
	}
	first := dxRecLen(block, 0)
	if first == len(block) && block[6] == 0 {
		return dxNodeStart, true
	}
	return dxRootStart, first == 12 && dxRecLen(block, 12) == len(block)-12
}

// dxRecLen is the length of the entry at off, in the form for 64 KiB blocks too.
func dxRecLen(block []byte, off int) int {
	n := int(le16(off + 4).get(block))
	if n == 0 || n == 0xffff {
		return 1 << 16
	}
	return n&^3 | n&3<<16
}

// dxSumAt is the offset of the checksum of an index block, and the number of
// bytes up to the last entry in use; limit and count have to make sense. The
// checksum has a reserved word before it, which it covers too.
func dxSumAt(block []byte) (off, covered int) {
	start, ok := dxStart(block)
	if !ok {
		return noSum, 0
	}
	limit, count := int(le16(start).get(block)), int(le16(start+2).get(block))
	off = sumAt(block, start+limit*dxEntryLen+sumSize)
	if count > limit || off == noSum {
		return noSum, 0
	}
	return off, start + count*dxEntryLen
}

// dxSum is the checksum of an index block that has one at off.
func (c *Checksums) dxSum(ino Ino, gen uint32, block []byte, off, covered int) uint32 {
	sum := Crc32c(c.inodeSeed(ino, gen), block[:covered])
	return crcZeros(Crc32c(sum, block[off-sumSize:off]), sumSize)
}

// SealDxBlock stores the checksum of an htree root or node of inode ino with
// generation gen. A block without room for a tail stays as it is.
func (c Checksums) SealDxBlock(ino Ino, gen uint32, block []byte) {
	if !c.Meta {
		return
	}
	if off, covered := dxSumAt(block); off != noSum {
		putSum(block, off, c.dxSum(ino, gen, block, off, covered))
	}
}

// VerifyDxBlock reports whether an htree root or node has a tail with the right checksum.
func (c Checksums) VerifyDxBlock(ino Ino, gen uint32, block []byte) bool {
	if !c.Meta {
		return true
	}
	off, covered := dxSumAt(block)
	return off != noSum && isSum(block, off, c.dxSum(ino, gen, block, off, covered))
}

// extentSumAt is the offset of the checksum of an extent block, which is after
// the last entry that fits by eh_max; it covers all that is before it.
func extentSumAt(block []byte) (off, covered int) {
	const header, entry, maxField = 12, 12, 4
	if len(block) < header {
		return noSum, 0
	}
	off = sumAt(block, header+entry*int(le16(maxField).get(block)))
	return off, max(off, 0)
}

// SealExtentBlock stores the checksum of an extent tree block of inode ino with
// generation gen. A block whose eh_max leaves no room stays as it is.
func (c Checksums) SealExtentBlock(ino Ino, gen uint32, block []byte) {
	if c.Meta {
		off, covered := extentSumAt(block)
		putSum(block, off, Crc32c(c.inodeSeed(ino, gen), block[:covered]))
	}
}

// VerifyExtentBlock reports whether an extent tree block has the right checksum.
func (c Checksums) VerifyExtentBlock(ino Ino, gen uint32, block []byte) bool {
	if !c.Meta {
		return true
	}
	off, covered := extentSumAt(block)
	return isSum(block, off, Crc32c(c.inodeSeed(ino, gen), block[:covered]))
}

// xattrSumOff is the offset of h_checksum in an extended attribute block.
const xattrSumOff = 0x10

// xattrSum is the checksum of the extended attribute block n.
func (c *Checksums) xattrSum(n Block, block []byte) uint32 {
	return crcHole(crcLE64(c.Seed, uint64(n)), block, xattrSumOff, sumSize)
}

// SealXattrBlock stores the checksum of the extended attribute block n.
func (c Checksums) SealXattrBlock(n Block, block []byte) {
	if c.Meta && sumAt(block, xattrSumOff) != noSum {
		putSum(block, xattrSumOff, c.xattrSum(n, block))
	}
}

// VerifyXattrBlock reports whether the extended attribute block n has the right checksum.
func (c Checksums) VerifyXattrBlock(n Block, block []byte) bool {
	if !c.Meta {
		return true
	}
	return sumAt(block, xattrSumOff) != noSum && isSum(block, xattrSumOff, c.xattrSum(n, block))
}

// SealBlockBitmap stores in d the checksum of the group's block bitmap; bitmap
// is exactly the bytes that count, those of Geometry.BlockBitmapBytes.
func (c Checksums) SealBlockBitmap(d GroupDesc, bitmap []byte) {
	if c.Meta {
		d.SetBlockBitmapCsum(Crc32c(c.Seed, bitmap))
	}
}

// VerifyBlockBitmap reports whether d holds the checksum of the group's block bitmap.
func (c Checksums) VerifyBlockBitmap(d GroupDesc, bitmap []byte) bool {
	return !c.Meta || d.BlockBitmapCsum() == d.fit(Crc32c(c.Seed, bitmap))
}

// SealInodeBitmap stores in d the checksum of the group's inode bitmap; bitmap
// is exactly the bytes that count, those of Geometry.InodeBitmapBytes.
func (c Checksums) SealInodeBitmap(d GroupDesc, bitmap []byte) {
	if c.Meta {
		d.SetInodeBitmapCsum(Crc32c(c.Seed, bitmap))
	}
}

// VerifyInodeBitmap reports whether d holds the checksum of the group's inode bitmap.
func (c Checksums) VerifyInodeBitmap(d GroupDesc, bitmap []byte) bool {
	return !c.Meta || d.InodeBitmapCsum() == d.fit(Crc32c(c.Seed, bitmap))
}

// mmpSumOff is the offset of mmp_checksum in the MMP block.
const mmpSumOff = 0x3fc

// SealMMP stores the checksum of the MMP block.
func (c Checksums) SealMMP(block []byte) {
	if c.Meta && sumAt(block, mmpSumOff) != noSum {
		putSum(block, mmpSumOff, Crc32c(c.Seed, block[:mmpSumOff]))
	}
}

// VerifyMMP reports whether the MMP block has the right checksum.
func (c Checksums) VerifyMMP(block []byte) bool {
	if !c.Meta {
		return true
	}
	return sumAt(block, mmpSumOff) != noSum && isSum(block, mmpSumOff, Crc32c(c.Seed, block[:mmpSumOff]))
}

// orphanTailLen is the length of the tail of an orphan file block: a magic
// number and the checksum.
const orphanTailLen = 8

// orphanSum is the checksum of the orphan file block n; block is long enough.
func (c *Checksums) orphanSum(ino Ino, gen uint32, n Block, block []byte) uint32 {
	seed := crcLE64(c.inodeSeed(ino, gen), uint64(n))
	return Crc32c(seed, block[:len(block)-orphanTailLen])
}

// SealOrphanBlock stores the checksum of the orphan file block n; ino and gen
// are those of the orphan file.
func (c Checksums) SealOrphanBlock(ino Ino, gen uint32, n Block, block []byte) {
	if c.Meta && len(block) >= orphanTailLen {
		putSum(block, len(block)-sumSize, c.orphanSum(ino, gen, n, block))
	}
}

// VerifyOrphanBlock reports whether the orphan file block n has the right checksum.
func (c Checksums) VerifyOrphanBlock(ino Ino, gen uint32, n Block, block []byte) bool {
	if !c.Meta {
		return true
	}
	return len(block) >= orphanTailLen && isSum(block, len(block)-sumSize, c.orphanSum(ino, gen, n, block))
}
