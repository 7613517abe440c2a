package format

// Sizes of a group descriptor in bytes: without the 64bit feature, and the least with it.
const (
	DescSize32 = 32
	DescSize64 = 64
)

// GroupDesc is a view over one group descriptor: Geometry.DescSize bytes. The
// high halves of its numbers exist only from DescSize64 bytes on; without them
// getters give the low half and setters drop the rest. All fields are
// little-endian. Source: kernel doc: ext4/group_descr.rst.
type GroupDesc []byte

// Bits of bg_flags, which have a meaning with uninit_bg or metadata_csum only.
const (
	BgInodeUninit = 1 // inode bitmap and table were never written
	BgBlockUninit = 2 // block bitmap was never written; it follows from the layout
	BgInodeZeroed = 4 // the unused part of the inode table is zero
)

// Offsets of the fields; SPEC.md says what each means.
const (
	gdBlockBitmapLo     le32 = 0x00 // bg_block_bitmap_lo
	gdInodeBitmapLo     le32 = 0x04 // bg_inode_bitmap_lo
	gdInodeTableLo      le32 = 0x08 // bg_inode_table_lo
	gdFreeBlocksCountLo le16 = 0x0c // bg_free_blocks_count_lo
	gdFreeInodesCountLo le16 = 0x0e // bg_free_inodes_count_lo
	gdUsedDirsCountLo   le16 = 0x10 // bg_used_dirs_count_lo
	gdFlags             le16 = 0x12 // bg_flags
	gdExcludeBitmapLo   le32 = 0x14 // bg_exclude_bitmap_lo
	gdBlockBitmapCsumLo le16 = 0x18 // bg_block_bitmap_csum_lo
	gdInodeBitmapCsumLo le16 = 0x1a // bg_inode_bitmap_csum_lo
	gdItableUnusedLo    le16 = 0x1c // bg_itable_unused_lo
	gdChecksum          le16 = 0x1e // bg_checksum
	gdBlockBitmapHi     le32 = 0x20 // bg_block_bitmap_hi
	gdInodeBitmapHi     le32 = 0x24 // bg_inode_bitmap_hi
	gdInodeTableHi      le32 = 0x28 // bg_inode_table_hi
	gdFreeBlocksCountHi le16 = 0x2c // bg_free_blocks_count_hi
	gdFreeInodesCountHi le16 = 0x2e // bg_free_inodes_count_hi
	gdUsedDirsCountHi   le16 = 0x30 // bg_used_dirs_count_hi
	gdItableUnusedHi    le16 = 0x32 // bg_itable_unused_hi
	gdExcludeBitmapHi   le32 = 0x34 // bg_exclude_bitmap_hi
	gdBlockBitmapCsumHi le16 = 0x38 // bg_block_bitmap_csum_hi
	gdInodeBitmapCsumHi le16 = 0x3a // bg_inode_bitmap_csum_hi
	gdReserved          le32 = 0x3c // bg_reserved
)

// wide reports whether the high halves exist.
func (d GroupDesc) wide() bool { return len(d) >= DescSize64 }

// block is a block number in two halves of 32 bits.
func (d GroupDesc) block(lo, hi le32) Block {
	if !d.wide() {
		return Block(lo.get(d))
	}
	return Block(join32(lo.get(d), hi.get(d)))
}

// putBlock stores what block reads.
func (d GroupDesc) putBlock(lo, hi le32, v Block) {
	lo.put(d, uint32(v))
	if d.wide() {
		hi.put(d, uint32(v>>32))
	}
}

// half is a number in two halves of 16 bits.
func (d GroupDesc) half(lo, hi le16) uint32 {
	if !d.wide() {
		return uint32(lo.get(d))
	}
	return join16(lo.get(d), hi.get(d))
}

// putHalf stores what half reads.
func (d GroupDesc) putHalf(lo, hi le16, v uint32) {
	lo.put(d, uint16(v))
	if d.wide() {
		hi.put(d, uint16(v>>16))
	}
}

// fit is a checksum cut to what the descriptor has room for.
func (d GroupDesc) fit(sum uint32) uint32 {
	if !d.wide() {
		return sum & 0xffff
	}
	return sum
}

// BlockBitmap is bg_block_bitmap: the block of the block bitmap.
func (d GroupDesc) BlockBitmap() Block { return d.block(gdBlockBitmapLo, gdBlockBitmapHi) }

// SetBlockBitmap stores what BlockBitmap reads.
func (d GroupDesc) SetBlockBitmap(v Block) {
	d.putBlock(gdBlockBitmapLo, gdBlockBitmapHi, v)
}

// InodeBitmap is bg_inode_bitmap: the block of the inode bitmap.
func (d GroupDesc) InodeBitmap() Block { return d.block(gdInodeBitmapLo, gdInodeBitmapHi) }

// SetInodeBitmap stores what InodeBitmap reads.
func (d GroupDesc) SetInodeBitmap(v Block) {
	d.putBlock(gdInodeBitmapLo, gdInodeBitmapHi, v)
}

// InodeTable is bg_inode_table: the first block of the inode table.
func (d GroupDesc) InodeTable() Block { return d.block(gdInodeTableLo, gdInodeTableHi) }

// SetInodeTable stores what InodeTable reads.
func (d GroupDesc) SetInodeTable(v Block) {
	d.putBlock(gdInodeTableLo, gdInodeTableHi, v)
}

// ExcludeBitmap is bg_exclude_bitmap: the block of the snapshot bitmap; not used.
func (d GroupDesc) ExcludeBitmap() Block { return d.block(gdExcludeBitmapLo, gdExcludeBitmapHi) }

// SetExcludeBitmap stores what ExcludeBitmap reads.
func (d GroupDesc) SetExcludeBitmap(v Block) {
	d.putBlock(gdExcludeBitmapLo, gdExcludeBitmapHi, v)
}

// FreeBlocksCount is bg_free_blocks_count: free clusters of the group.
func (d GroupDesc) FreeBlocksCount() uint32 { return d.half(gdFreeBlocksCountLo, gdFreeBlocksCountHi) }

// SetFreeBlocksCount stores what FreeBlocksCount reads.
func (d GroupDesc) SetFreeBlocksCount(v uint32) {
	d.putHalf(gdFreeBlocksCountLo, gdFreeBlocksCountHi, v)
}

// FreeInodesCount is bg_free_inodes_count: free inodes of the group.
func (d GroupDesc) FreeInodesCount() uint32 { return d.half(gdFreeInodesCountLo, gdFreeInodesCountHi) }

// SetFreeInodesCount stores what FreeInodesCount reads.
func (d GroupDesc) SetFreeInodesCount(v uint32) {
	d.putHalf(gdFreeInodesCountLo, gdFreeInodesCountHi, v)
}

// UsedDirsCount is bg_used_dirs_count: directories among its inodes.
func (d GroupDesc) UsedDirsCount() uint32 { return d.half(gdUsedDirsCountLo, gdUsedDirsCountHi) }

// SetUsedDirsCount stores what UsedDirsCount reads.
func (d GroupDesc) SetUsedDirsCount(v uint32) {
	d.putHalf(gdUsedDirsCountLo, gdUsedDirsCountHi, v)
}

// ItableUnused is bg_itable_unused: inodes at the end of the table that were never used.
func (d GroupDesc) ItableUnused() uint32 { return d.half(gdItableUnusedLo, gdItableUnusedHi) }

// SetItableUnused stores what ItableUnused reads.
func (d GroupDesc) SetItableUnused(v uint32) {
	d.putHalf(gdItableUnusedLo, gdItableUnusedHi, v)
}

// BlockBitmapCsum is bg_block_bitmap_csum: the checksum of the block bitmap, its low 16 bits only where there is no high half.
func (d GroupDesc) BlockBitmapCsum() uint32 { return d.half(gdBlockBitmapCsumLo, gdBlockBitmapCsumHi) }

// SetBlockBitmapCsum stores what BlockBitmapCsum reads.
func (d GroupDesc) SetBlockBitmapCsum(v uint32) {
	d.putHalf(gdBlockBitmapCsumLo, gdBlockBitmapCsumHi, v)
}

// InodeBitmapCsum is bg_inode_bitmap_csum: the checksum of the inode bitmap, its low 16 bits only where there is no high half.
func (d GroupDesc) InodeBitmapCsum() uint32 { return d.half(gdInodeBitmapCsumLo, gdInodeBitmapCsumHi) }

// SetInodeBitmapCsum stores what InodeBitmapCsum reads.
func (d GroupDesc) SetInodeBitmapCsum(v uint32) {
	d.putHalf(gdInodeBitmapCsumLo, gdInodeBitmapCsumHi, v)
}

// Flags is bg_flags: BgInodeUninit, BgBlockUninit, BgInodeZeroed.
func (d GroupDesc) Flags() uint16 { return gdFlags.get(d) }

// SetFlags stores what Flags reads.
func (d GroupDesc) SetFlags(v uint16) { gdFlags.put(d, v) }

// Checksum is bg_checksum: checksum of the descriptor.
func (d GroupDesc) Checksum() uint16 { return gdChecksum.get(d) }

// SetChecksum stores what Checksum reads.
func (d GroupDesc) SetChecksum(v uint16) { gdChecksum.put(d, v) }
