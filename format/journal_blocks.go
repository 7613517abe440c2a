package format

import (
	"fmt"
	"iter"
)

// JournalFormat says how the blocks of one journal are laid out. Its methods
// read and write descriptor, revoke and commit blocks of BlockSize bytes.
type JournalFormat struct {
	BlockSize int
	Wide      bool   // feature 64BIT: block numbers of 8 bytes
	Csum      int    // 0: none; 1, 2, 3: the version of the checksums
	Seed      uint32 // of v2 and v3: crc32c(~0, s_uuid)
}

// Format returns the layout that the superblock's features ask for.
func (s JournalSuperblock) Format() JournalFormat {
	uuid := s.UUID()
	f := JournalFormat{BlockSize: int(s.BlockSize()), Seed: Crc32c(allOnes, uuid[:])}
	f.Wide = s.Has(JournalIncompat64Bit)
	switch {
	case s.Has(JournalIncompatCsumV3):
		f.Csum = 3
	case s.Has(JournalIncompatCsumV2):
		f.Csum = 2
	case !s.V1() && s.FeatureCompat()&JournalCompatChecksum != 0:
		f.Csum = 1
	}
	return f
}

// sealed reports whether blocks carry a checksum of their own.
func (f JournalFormat) sealed() bool { return f.Csum >= 2 }

// tail returns the bytes at the end of descriptor and revoke blocks that are
// not for tags or records.
func (f JournalFormat) tail() int {
	if f.sealed() {
		return sumSize
	}
	return 0
}

// sum is the checksum of block with the 4 bytes at off taken as 0.
func (f JournalFormat) sum(block []byte, off int) uint32 {
	return crcHole(f.Seed, block, off, sumSize)
}

// SealTail stores the checksum in the last 4 bytes of a descriptor or revoke
// block; nothing without csum v2 or v3.
func (f JournalFormat) SealTail(block []byte) {
	if f.sealed() {
		off := len(block) - sumSize
		be32(off).put(block, f.sum(block, off))
	}
}

// VerifyTail compares the checksum of a descriptor or revoke block; it is true
// without csum v2 or v3.
func (f JournalFormat) VerifyTail(block []byte) bool {
	off := len(block) - sumSize
	return !f.sealed() || be32(off).get(block) == f.sum(block, off)
}

// Flags of a tag.
const (
	JournalTagEscape   = 1 // the block began with the magic; the log has 0 there
	JournalTagSameUUID = 2 // no UUID follows the tag
	JournalTagDeleted  = 4 // unused
	JournalTagLast     = 8 // last tag of the descriptor
)

// struct journal_block_tag_s and, for csum v3, journal_block_tag3_s. In every
// format the flags' low half lies at the same place.
const (
	jtBlocknr     be32 = 0x0
	jtChecksum    be16 = 0x4
	jtFlags       be16 = 0x6
	jtBlocknrHigh be32 = 0x8
	jtChecksum3   be32 = 0xC

	journalTagShort = 8 // without the high half
	journalTagLong  = 12
	journalTag3     = 16
	journalTag2Pad  = 2
	journalUUIDLen  = 16
)

// JournalTag says where a block that follows the descriptor in the log belongs.
type JournalTag struct {
	Block    Block  // its home
	Flags    uint16 // JournalTagEscape and so on
	Checksum uint32 // v2: low 16 bits, v3: 32 bits, of the block as in the log
	Offset   int    // of the tag in the descriptor; not used in writing
}

// TagBytes returns the size of a tag without UUID.
func (f JournalFormat) TagBytes() int {
	if f.Csum == 3 {
		return journalTag3
	}
	n := journalTagShort
	if f.Wide {
		n = journalTagLong
	}
	if f.Csum == 2 {
		n += journalTag2Pad
	}
	return n
}

// Tags yields the tags of a descriptor block up to the one marked as last or
// the end of the block. Its checksum is not looked at.
func (f JournalFormat) Tags(block []byte) iter.Seq[JournalTag] {
	return func(yield func(JournalTag) bool) {
		size, end := f.TagBytes(), len(block)-f.tail()
		for off := JournalHeaderSize; off+size <= end; off += size {
			t := f.tag(block, off)
			if !yield(t) || t.Flags&JournalTagLast != 0 {
				return
			}
			if t.Flags&JournalTagSameUUID == 0 {
				off += journalUUIDLen
			}
		}
	}
}

func (f JournalFormat) tag(block []byte, off int) JournalTag {
	b := block[off : off+f.TagBytes()]
	t := JournalTag{Block: Block(jtBlocknr.get(b)), Flags: jtFlags.get(b), Offset: off}
	if f.Wide {
		t.Block |= Block(jtBlocknrHigh.get(b)) << 32
	}
	switch f.Csum {
	case 2:
		t.Checksum = uint32(jtChecksum.get(b))
	case 3:
		t.Checksum = jtChecksum3.get(b)
	}
	return t
}

func (f JournalFormat) putTag(b []byte, t JournalTag) {
	clear(b[:f.TagBytes()])
	jtBlocknr.put(b, uint32(t.Block))
	jtFlags.put(b, t.Flags)
	if f.Wide {
		jtBlocknrHigh.put(b, uint32(t.Block>>32))
	}
	switch f.Csum {
	case 2:
		jtChecksum.put(b, uint16(t.Checksum))
	case 3:
		jtChecksum3.put(b, t.Checksum)
	}
}

// TagSum returns the checksum for the tag of data, a block as it lies in the
// log (escaped) of transaction tid; 0 without csum v2 or v3.
func (f JournalFormat) TagSum(tid Tid, data []byte) uint32 {
	if !f.sealed() {
		return 0
	}
	c := f.Seed
	for shift := 24; shift >= 0; shift -= 8 {
		c = crcByte(c, byte(tid>>shift))
	}
	c = Crc32c(c, data)
	if f.Csum == 2 {
		c &= 0xFFFF
	}
	return c
}

// VerifyTag compares the checksum in a tag with that of data.
func (f JournalFormat) VerifyTag(t JournalTag, tid Tid, data []byte) bool {
	return t.Checksum == f.TagSum(tid, data)
}

// EscapeJournalBlock prepares a copy of a block for the log: if it begins with
// the journal's magic these bytes become 0, and the tag needs JournalTagEscape.
func EscapeJournalBlock(data []byte) bool {
	if jhMagic.get(data) != JournalMagic {
		return false
	}
	jhMagic.put(data, 0)
	return true
}

// UnescapeJournalBlock puts the magic back into a block whose tag says so.
func UnescapeJournalBlock(data []byte) { jhMagic.put(data, JournalMagic) }

// DescriptorBlock fills a descriptor block.
type DescriptorBlock struct {
	f     JournalFormat
	block []byte
	uuid  [16]byte
	off   int // where the next tag goes
	last  int // where the last tag is; 0: none yet
}

// NewDescriptor begins a descriptor of transaction tid in block, which must
// not be used otherwise until Close.
func (f JournalFormat) NewDescriptor(block []byte, tid Tid, uuid [16]byte) DescriptorBlock {
	clear(block)
	PutJournalHeader(block, JournalHeader{Type: JournalDescriptor, Sequence: tid})
	return DescriptorBlock{f: f, block: block, uuid: uuid, off: JournalHeaderSize}
}

// Full reports whether there is no room for a tag, by the rule of jbd2: room
// for a UUID is always kept.
func (d *DescriptorBlock) Full() bool {
	return len(d.block)-d.off < d.f.TagBytes()+journalUUIDLen+d.f.tail()
}

// Add appends a tag for block home. escape says what EscapeJournalBlock
// returned; sum is TagSum. The descriptor must not be full.
func (d *DescriptorBlock) Add(home Block, escape bool, sum uint32) {
	t := JournalTag{Block: home, Checksum: sum}
	if escape {
		t.Flags |= JournalTagEscape
	}
	first := d.last == 0
	if !first {
		t.Flags |= JournalTagSameUUID
	}
	d.f.putTag(d.block[d.off:], t)
	d.last = d.off
	d.off += d.f.TagBytes()
	if first {
		d.off += copy(d.block[d.off:], d.uuid[:])
	}
}

// Close marks the last tag and seals the block. A descriptor needs one tag at
// least.
func (d *DescriptorBlock) Close() {
	b := d.block[d.last:]
	jtFlags.put(b, jtFlags.get(b)|JournalTagLast)
	d.f.SealTail(d.block)
}

// TagsPerDescriptor returns how many tags a descriptor has when it is Full.
func (f JournalFormat) TagsPerDescriptor() int {
	room := f.BlockSize - JournalHeaderSize - journalUUIDLen
	spare := f.TagBytes() + journalUUIDLen + f.tail()
	return (room-spare)/f.TagBytes() + 1
}

// struct jbd2_journal_revoke_header_s
const (
	jrCount be32 = 0xC // bytes in use, with this header

	journalRevokeHeader = 16
	revokeShort         = 4
	revokeLong          = 8
)

// revokeLen returns the size of a record.
func (f JournalFormat) revokeLen() int {
	if f.Wide {
		return revokeLong
	}
	return revokeShort
}

// Revokes yields the blocks that a revoke block names. A count that exceeds
// the block gives one damaged error and no blocks; the checksum is not looked at.
func (f JournalFormat) Revokes(block []byte) iter.Seq2[Block, error] {
	return func(yield func(Block, error) bool) {
		used, most := int64(jrCount.get(block)), int64(len(block)-f.tail())
		if used > most {
			yield(0, &DamagedError{Structure: "revoke block", Offset: int(jrCount), Detail: fmt.Sprintf("%d bytes in use, want at most %d", used, most)})
			return
		}
		n := f.revokeLen()
		for off := journalRevokeHeader; off+n <= int(used); off += n {
			if !yield(f.revoke(block, off), nil) {
				return
			}
		}
	}
}

func (f JournalFormat) revoke(block []byte, off int) Block {
	if f.Wide {
		return Block(be64(off).get(block))
	}
	return Block(be32(off).get(block))
}

// RevokesPerBlock returns the number of records that a revoke block can hold.
func (f JournalFormat) RevokesPerBlock() int {
	return (f.BlockSize - journalRevokeHeader - f.tail()) / f.revokeLen()
}

// PutRevokes fills block with a sealed revoke block of transaction tid that
// names as many of blocks as it can hold; it returns their number.
func (f JournalFormat) PutRevokes(block []byte, tid Tid, blocks []Block) int {
	clear(block)
	PutJournalHeader(block, JournalHeader{Type: JournalRevoke, Sequence: tid})
	n := min(len(blocks), f.RevokesPerBlock())
	off := journalRevokeHeader
	for _, b := range blocks[:n] {
		if f.Wide {
			be64(off).put(block, uint64(b))
		} else {
			be32(off).put(block, uint32(b))
		}
		off += f.revokeLen()
	}
	jrCount.put(block, uint32(off))
	f.SealTail(block)
	return n
}

// struct commit_header
const (
	jcType   u8   = 0x0C
	jcSize   u8   = 0x0D
	jcChksum be32 = 0x10 // the first of eight words
	jcSec    be64 = 0x30
	jcNsec   be32 = 0x38

	journalCommitHeader = 64
	journalCrc32        = 1 // h_chksum_type of v1
	journalCrc32Size    = 4
)

// CommitBlock is a view over a commit block (struct commit_header, big-endian).
type CommitBlock []byte

// Sec is the time of the commit in seconds since 1970.
func (c CommitBlock) Sec() uint64 { return jcSec.get(c) }

// Nsec is the part of the time below a second.
func (c CommitBlock) Nsec() uint32 { return jcNsec.get(c) }

// Checksum is the first word of h_chksum.
func (c CommitBlock) Checksum() uint32 { return jcChksum.get(c) }

// PutCommit fills block with the commit of transaction tid at the given time.
// With csum v2 and v3 it is sealed; v1 is the CRC of the transaction's blocks
// (see JournalCRC) and only used with that version.
func (f JournalFormat) PutCommit(block []byte, tid Tid, sec uint64, nsec uint32, v1 uint32) {
	clear(block)
	PutJournalHeader(block, JournalHeader{Type: JournalCommit, Sequence: tid})
	jcSec.put(block, sec)
	jcNsec.put(block, nsec)
	switch {
	case f.Csum == 1:
		jcType.put(block, journalCrc32)
		jcSize.put(block, journalCrc32Size)
		jcChksum.put(block, v1)
	case f.sealed():
		jcChksum.put(block, f.sum(block, int(jcChksum)))
	}
}

// VerifyCommit compares the checksum of a commit block: v2 and v3 over the
// block itself, v1 with the CRC of the transaction's blocks. With v1 a commit
// without a checksum is right too.
func (f JournalFormat) VerifyCommit(block []byte, v1 uint32) bool {
	sum := CommitBlock(block).Checksum()
	switch f.Csum {
	case 0:
		return true
	case 1:
		kind, size := jcType.get(block), jcSize.get(block)
		return kind == journalCrc32 && size == journalCrc32Size && sum == v1 || kind == 0 && size == 0 && sum == 0
	}
	return sum == f.sum(block, int(jcChksum))
}

// VerifyCommitHeader compares the checksum of a commit block of v2 or v3 as if
// all behind its 64-byte header were zeros, as kernels from 6.11 do when the
// whole block does not match: only the first sector may have been written.
func (f JournalFormat) VerifyCommitHeader(block []byte) bool {
	if !f.sealed() {
		return false
	}
	sum := crcZeros(f.sum(block[:journalCommitHeader], int(jcChksum)), len(block)-journalCommitHeader)
	return CommitBlock(block).Checksum() == sum
}

// crc32beTable is the table of the polynomial 0x04C11DB7, highest bit first.
var crc32beTable = makeCrc32beTable()

func makeCrc32beTable() (table [256]uint32) {
	for i := range table {
		v := uint32(i) << 24
		for range 8 {
			v = v<<1 ^ v>>31*0x04C11DB7
		}
		table[i] = v
	}
	return table
}

// JournalCRC continues the checksum of csum v1, which begins at ~0 and covers
// each descriptor and the blocks that follow it, in the order of the log.
func JournalCRC(crc uint32, block []byte) uint32 {
	for _, v := range block {
		crc = crc32beTable[byte(crc>>24)^v] ^ crc<<8
	}
	return crc
}
