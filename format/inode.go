package format

import "math"

// GoodOldInodeSize is the size of an inode of revision 0 in bytes, and the part
// that every inode has.
const GoodOldInodeSize = 128

// Inode is a view over one inode record: Geometry.InodeSize bytes, at least
// GoodOldInodeSize. Fields after the first 128 bytes exist as far as
// i_extra_isize says; where a field does not exist, getters give zero and
// setters do nothing. All fields are little-endian. Source: kernel doc:
// ext4/inodes.rst.
type Inode []byte

// Type and permission bits of i_mode.
const (
	ModeType    = 0xf000 // mask of the type
	ModeFifo    = 0x1000
	ModeChar    = 0x2000
	ModeDir     = 0x4000
	ModeBlock   = 0x6000
	ModeRegular = 0x8000
	ModeSymlink = 0xa000
	ModeSocket  = 0xc000

	ModeSetUID = 0o4000
	ModeSetGID = 0o2000
	ModeSticky = 0o1000
	ModePerm   = 0o777
)

// Bits of i_flags.
const (
	InodeSecRm        uint32 = 0x1
	InodeUnRm         uint32 = 0x2
	InodeCompr        uint32 = 0x4
	InodeSync         uint32 = 0x8
	InodeImmutable    uint32 = 0x10
	InodeAppend       uint32 = 0x20
	InodeNoDump       uint32 = 0x40
	InodeNoAtime      uint32 = 0x80
	InodeDirty        uint32 = 0x100
	InodeComprBlk     uint32 = 0x200
	InodeNoCompr      uint32 = 0x400
	InodeEncrypt      uint32 = 0x800
	InodeIndex        uint32 = 0x1000 // directory with an htree
	InodeImagic       uint32 = 0x2000
	InodeJournalData  uint32 = 0x4000
	InodeNoTail       uint32 = 0x8000
	InodeDirSync      uint32 = 0x10000
	InodeTopDir       uint32 = 0x20000
	InodeHugeFile     uint32 = 0x40000 // i_blocks counts file system blocks
	InodeExtents      uint32 = 0x80000 // i_block holds an extent tree
	InodeVerity       uint32 = 0x100000
	InodeEAInode      uint32 = 0x200000 // data is the value of an extended attribute
	InodeEOFBlocks    uint32 = 0x400000
	InodeSnapFile     uint32 = 0x1000000
	InodeDAX          uint32 = 0x2000000
	InodeSnapDeleted  uint32 = 0x4000000
	InodeSnapShrunk   uint32 = 0x8000000
	InodeInlineData   uint32 = 0x10000000 // data in i_block and the system.data attribute
	InodeProjInherit  uint32 = 0x20000000
	InodeCasefold     uint32 = 0x40000000
	InodeReservedFlag uint32 = 0x80000000
)

// FastSymlinkMax is the length of the longest symlink target that i_block holds.
const FastSymlinkMax = iBlockSize - 1

// Limits of i_links_count and i_blocks.
const (
	LinkMax    = 65000 // a directory with more takes 1 instead, with dir_nlink
	iBlockSize = 60
	maxIBlocks = 1<<48 - 1
)

// Offsets of the fields; SPEC.md says what each means.
const (
	inMode        le16    = 0x00 // i_mode
	inUIDLo       le16    = 0x02 // i_uid
	inSizeLo      le32    = 0x04 // i_size_lo
	inAtime       le32    = 0x08 // i_atime
	inCtime       le32    = 0x0c // i_ctime
	inMtime       le32    = 0x10 // i_mtime
	inDtime       le32    = 0x14 // i_dtime
	inGIDLo       le16    = 0x18 // i_gid
	inLinksCount  le16    = 0x1a // i_links_count
	inBlocksLo    le32    = 0x1c // i_blocks_lo
	inFlags       le32    = 0x20 // i_flags
	inVersion     le32    = 0x24 // i_version
	inIBlock      bytes60 = 0x28 // i_block
	inGeneration  le32    = 0x64 // i_generation
	inFileACLLo   le32    = 0x68 // i_file_acl_lo
	inSizeHigh    le32    = 0x6c // i_size_high
	inObsoFaddr   le32    = 0x70 // i_obso_faddr
	inBlocksHigh  le16    = 0x74 // l_i_blocks_high
	inFileACLHigh le16    = 0x76 // l_i_file_acl_high
	inUIDHigh     le16    = 0x78 // l_i_uid_high
	inGIDHigh     le16    = 0x7a // l_i_gid_high
	inChecksumLo  le16    = 0x7c // l_i_checksum_lo
	inReserved    le16    = 0x7e // l_i_reserved
	inExtraIsize  le16    = 0x80 // i_extra_isize
	inChecksumHi  le16    = 0x82 // i_checksum_hi
	inCtimeExtra  le32    = 0x84 // i_ctime_extra
	inMtimeExtra  le32    = 0x88 // i_mtime_extra
	inAtimeExtra  le32    = 0x8c // i_atime_extra
	inCrtime      le32    = 0x90 // i_crtime
	inCrtimeExtra le32    = 0x94 // i_crtime_extra
	inVersionHi   le32    = 0x98 // i_version_hi
	inProjid      le32    = 0x9c // i_projid
)

// DefaultExtraIsize is the i_extra_isize of a new inode: all fields up to and including i_projid.
const DefaultExtraIsize = int(inProjid) + 4 - GoodOldInodeSize

// has reports whether the inode has the bytes from 128 up to end.
func (n Inode) has(end int) bool {
	return end <= len(n) && end <= GoodOldInodeSize+int(n.ExtraIsize())
}

// time is the time in a field of the old part and its *_extra field.
func (n Inode) time(lo, extra le32) Time {
	if n.has(int(extra) + 4) {
		return DecodeTime(lo.get(n), extra.get(n))
	}
	return DecodeTime(lo.get(n), 0)
}

// putTime stores what time reads. Without the *_extra field t is clamped to 2038
// and loses its nanoseconds.
func (n Inode) putTime(lo, extra le32, t Time) {
	if !n.has(int(extra) + 4) {
		lo.put(n, uint32(t.clampTo(maxTime128).Sec))
		return
	}
	low, high := EncodeTime(t)
	lo.put(n, low)
	extra.put(n, high)
}

// FileTypeOf is the type that a directory entry holds for an inode of this mode.
func FileTypeOf(mode uint16) FileType {
	switch mode & ModeType {
	case ModeRegular:
		return FTRegular
	case ModeDir:
		return FTDir
	case ModeChar:
		return FTChar
	case ModeBlock:
		return FTBlock
	case ModeFifo:
		return FTFifo
	case ModeSocket:
		return FTSocket
	case ModeSymlink:
		return FTSymlink
	}
	return FTUnknown
}

// IsType reports whether the type bits of i_mode are those of mode, such as ModeDir.
func (n Inode) IsType(mode uint16) bool { return n.Mode()&ModeType == mode&ModeType }

// HasFlags reports whether every one of these bits of i_flags is set.
func (n Inode) HasFlags(flags uint32) bool { return n.Flags()&flags == flags }

// IsFastSymlink reports whether the inode is a symlink whose target lies in
// i_block. i_blocks says nothing about it: an attribute block is counted there.
func (n Inode) IsFastSymlink() bool {
	return n.IsType(ModeSymlink) && n.Flags()&(InodeExtents|InodeInlineData) == 0 &&
		n.Size() > 0 && n.Size() <= FastSymlinkMax
}

// HasDevice reports whether the inode is a device, whose number lies in i_block.
func (n Inode) HasDevice() bool { return n.IsType(ModeChar) || n.IsType(ModeBlock) }

// Device is the device number in i_block: the old form of 16 bits in its first
// word, or, if that is zero, the new form of 32 bits in the second.
func (n Inode) Device() (major, minor uint32) {
	if old := le32(0).get(n.IBlock()); old != 0 {
		return old >> 8 & 0xff, old & 0xff
	}
	v := le32(4).get(n.IBlock())
	return v >> 8 & 0xfff, v&0xff | v>>12&^0xff
}

// SetDevice stores what Device reads and clears the rest of i_block. A major
// over 12 bits or a minor over 20 bits is cut off.
func (n Inode) SetDevice(major, minor uint32) {
	clear(n.IBlock())
	if major < 256 && minor < 256 {
		le32(0).put(n.IBlock(), major<<8|minor)
		return
	}
	le32(4).put(n.IBlock(), minor&0xff|major&0xfff<<8|minor&^0xff<<12)
}

// Sectors is what the inode holds on disk in units of 512 bytes: i_blocks by the
// rules of the huge_file feature and flag.
func (n Inode) Sectors(f Features, blockSize int) uint64 {
	if !f.HasROCompat(ROCompatHugeFile) {
		return uint64(inBlocksLo.get(n))
	}
	if n.HasFlags(InodeHugeFile) {
		return n.BlocksRaw() * uint64(blockSize/512)
	}
	return n.BlocksRaw()
}

// SetSectors stores what Sectors reads, and sets or clears the flag HugeFile as
// the size asks for. It reports whether the number fits; if not, nothing changes.
func (n Inode) SetSectors(f Features, blockSize int, sectors uint64) bool {
	huge := f.HasROCompat(ROCompatHugeFile)
	blocks := sectors / uint64(blockSize/512)
	switch {
	case sectors <= math.MaxUint32 || huge && sectors <= maxIBlocks:
		n.SetFlags(n.Flags() &^ InodeHugeFile)
		n.SetBlocksRaw(sectors)
	case huge && blocks <= maxIBlocks:
		n.SetFlags(n.Flags() | InodeHugeFile)
		n.SetBlocksRaw(blocks)
	default:
		return false
	}
	return true
}
