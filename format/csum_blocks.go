package format

// leafSumAt is the offset of the checksum of a directory leaf, and the number of
// bytes that it covers: all before its tail.
func leafSumAt(block []byte) (off, covered int) {
	if !HasDirTail(block) {
		return noSum, 0
	}
	return len(block) - sumSize, len(block) - DirTailSize
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

// dxSumAt is the offset of the checksum of an index block, and the number of
// bytes up to the last entry in use; limit and count have to make sense. The
// checksum has a reserved word before it, which it covers too.
func dxSumAt(block []byte) (off, covered int) {
	start, ok := DxTableOffset(block)
	if !ok || start+dxEntrySize > len(block) {
		return noSum, 0
	}
	table := DxEntries(block[start:])
	off = sumAt(block, start+table.Limit()*dxEntrySize+sumSize)
	if table.Count() > table.Limit() || off == noSum {
		return noSum, 0
	}
	return off, start + table.Count()*dxEntrySize
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
	if len(block) < extentHeaderLen {
		return noSum, 0
	}
	off = sumAt(block, ExtentTailOffset(int(ehMax.get(block))))
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

// xattrSum is the checksum of the extended attribute block n.
func (c *Checksums) xattrSum(n Block, block []byte) uint32 {
	return crcHole(crcLE64(c.Seed, uint64(n)), block, int(xhChecksum), sumSize)
}

// SealXattrBlock stores the checksum of the extended attribute block n.
func (c Checksums) SealXattrBlock(n Block, block []byte) {
	if c.Meta && sumAt(block, int(xhChecksum)) != noSum {
		putSum(block, int(xhChecksum), c.xattrSum(n, block))
	}
}

// VerifyXattrBlock reports whether the extended attribute block n has the right checksum.
func (c Checksums) VerifyXattrBlock(n Block, block []byte) bool {
	if !c.Meta {
		return true
	}
	return sumAt(block, int(xhChecksum)) != noSum && isSum(block, int(xhChecksum), c.xattrSum(n, block))
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

// SealMMP stores the checksum of the MMP block.
func (c Checksums) SealMMP(block []byte) {
	if c.Meta && sumAt(block, int(mmChecksum)) != noSum {
		putSum(block, int(mmChecksum), Crc32c(c.Seed, block[:mmChecksum]))
	}
}

// VerifyMMP reports whether the MMP block has the right checksum.
func (c Checksums) VerifyMMP(block []byte) bool {
	if !c.Meta {
		return true
	}
	return sumAt(block, int(mmChecksum)) != noSum && isSum(block, int(mmChecksum), Crc32c(c.Seed, block[:mmChecksum]))
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
