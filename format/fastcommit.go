package format

import "fmt"

// Tags of fast-commit records (fs/ext4/fast_commit.h). Unlike the rest of the
// journal they are little-endian.
const (
	FCAddRange = 1
	FCDelRange = 2
	FCCreat    = 3
	FCLink     = 4
	FCUnlink   = 5
	FCInode    = 6
	FCPad      = 7
	FCTail     = 8
	FCHead     = 9
)

const (
	fcHeaderLen   = 4
	fcRangeLen    = 4 + extentEntryLen
	fcDelRangeLen = 12
	fcDentryLen   = 8 // without the name
	fcInodeLen    = 4 // without the inode
	fcTailLen     = 8
	fcHeadLen     = 8
)

// struct ext4_fc_tl
const (
	fcTag le16 = 0x0
	fcLen le16 = 0x2
)

// The values: struct ext4_fc_add_range, _del_range, _dentry_info, _inode,
// _tail, _head.
const (
	fcIno        le32 = 0x0 // add_range, del_range, inode
	fcRangeEx         = 0x4
	fcDelLblk    le32 = 0x4
	fcDelLen     le32 = 0x8
	fcParentIno  le32 = 0x0
	fcDentryIno  le32 = 0x4
	fcTailTid    le32 = 0x0
	fcTailCRC    le32 = 0x4
	fcHeadFeat   le32 = 0x0
	fcHeadTid    le32 = 0x4
	fcTailSummed      = fcHeaderLen + 4 // bytes of a tail under its own CRC
)

var fcNames = [...]string{
	FCAddRange: "ADD_RANGE", FCDelRange: "DEL_RANGE", FCCreat: "CREAT", FCLink: "LINK",
	FCUnlink: "UNLINK", FCInode: "INODE", FCPad: "PAD", FCTail: "TAIL", FCHead: "HEAD",
}

// FCRecord is one record of a fast-commit block.
type FCRecord struct {
	Tag    uint16
	Offset int    // of the record in its block
	Raw    []byte // with its 4-byte header
}

// Name returns the tag's name, such as "ADD_RANGE".
func (r FCRecord) Name() string {
	if int(r.Tag) < len(fcNames) && r.Tag > 0 {
		return fcNames[r.Tag]
	}
	return fmt.Sprintf("TAG_%d", r.Tag)
}

// value returns what follows the header.
func (r FCRecord) value() []byte { return r.Raw[fcHeaderLen:] }

// FCRange is the value of ADD_RANGE: a mapped range, Unwritten as in the tree.
type FCRange struct {
	Ino    Ino
	Extent Extent
}

// FCHole is the value of DEL_RANGE: file blocks that are no longer mapped.
type FCHole struct {
	Ino    Ino
	LBlock LBlock
	Len    uint32
}

// FCDentry is the value of CREAT, LINK and UNLINK. Name is part of the block.
type FCDentry struct {
	Parent, Ino Ino
	Name        []byte
}

// AddRange returns the value of an ADD_RANGE.
func (r FCRecord) AddRange() FCRange {
	var leaf [extentHeaderLen + extentEntryLen]byte
	copy(leaf[extentHeaderLen:], r.value()[fcRangeEx:fcRangeLen])
	return FCRange{Ino: Ino(fcIno.get(r.value())), Extent: GetExtent(leaf[:], 0)}
}

// DelRange returns the value of a DEL_RANGE.
func (r FCRecord) DelRange() FCHole {
	v := r.value()
	return FCHole{Ino: Ino(fcIno.get(v)), LBlock: LBlock(fcDelLblk.get(v)), Len: fcDelLen.get(v)}
}

// Dentry returns the value of a CREAT, LINK or UNLINK.
func (r FCRecord) Dentry() FCDentry {
	v := r.value()
	return FCDentry{Parent: Ino(fcParentIno.get(v)), Ino: Ino(fcDentryIno.get(v)), Name: v[fcDentryLen:]}
}

// Inode returns the value of an INODE: its number and the first
// 128+i_extra_isize bytes of the record.
func (r FCRecord) Inode() (Ino, Inode) {
	return Ino(fcIno.get(r.value())), Inode(r.value()[fcInodeLen:])
}

// Tail returns the value of a TAIL: the transaction that the fast commit
// belongs to and the CRC (see FCSum).
func (r FCRecord) Tail() (tid Tid, crc uint32) {
	return Tid(fcTailTid.get(r.value())), fcTailCRC.get(r.value())
}

// Head returns the value of a HEAD; features has no known bits.
func (r FCRecord) Head() (features uint32, tid Tid) {
	return fcHeadFeat.get(r.value()), Tid(fcHeadTid.get(r.value()))
}

// Sum continues the CRC of a fast commit by r: crc32c from 0 over all records,
// through the tid of the TAIL, which holds the result.
func (r FCRecord) Sum(crc uint32) uint32 {
	if r.Tag == FCTail {
		return Crc32c(crc, r.Raw[:fcTailSummed])
	}
	return Crc32c(crc, r.Raw)
}

// WalkFastCommit calls fn for each record of a fast-commit block until fn
// returns false or a record is damaged: unknown, longer than the block, or of
// a length that its tag does not allow. An inode may have up to inodeSize
// bytes. The records' values can be read without further checks.
func WalkFastCommit(block []byte, inodeSize int, fn func(FCRecord) bool) error {
	for off := 0; off+fcHeaderLen <= len(block); {
		r, err := fcRecord(block, off, inodeSize)
		if err != nil {
			return err
		}
		if !fn(r) {
			return nil
		}
		off += len(r.Raw)
	}
	return nil
}

func fcRecord(block []byte, off, inodeSize int) (FCRecord, error) {
	tag, n := fcTag.get(block[off:]), int(fcLen.get(block[off:]))
	r := FCRecord{Tag: tag, Offset: off}
	end := off + fcHeaderLen + n
	lo, hi := fcLimits(tag, inodeSize)
	switch {
	case hi < 0:
		return r, fcDamage(off, "unknown tag %d", tag)
	case n < lo || n > hi:
		return r, fcDamage(off, "%s of %d bytes, want %d to %d", r.Name(), n, lo, hi)
	case end > len(block):
		return r, fcDamage(off, "%s of %d bytes, want at most %d", r.Name(), n, len(block)-off-fcHeaderLen)
	}
	r.Raw = block[off:end:end]
	return r, nil
}

// fcLimits returns how long a value may be; hi is negative for an unknown tag.
func fcLimits(tag uint16, inodeSize int) (lo, hi int) {
	const most = 1<<16 - 1
	switch tag {
	case FCAddRange:
		return fcRangeLen, fcRangeLen
	case FCDelRange:
		return fcDelRangeLen, fcDelRangeLen
	case FCCreat, FCLink, FCUnlink:
		return fcDentryLen + 1, fcDentryLen + MaxNameLen
	case FCInode:
		return fcInodeLen + GoodOldInodeSize, fcInodeLen + inodeSize
	case FCPad:
		return 0, most
	case FCTail:
		return fcTailLen, most
	case FCHead:
		return fcHeadLen, fcHeadLen
	}
	return 0, -1
}

func fcDamage(off int, detail string, args ...any) error {
	return &DamagedError{Structure: "fast commit", Offset: off, Detail: fmt.Sprintf(detail, args...)}
}
