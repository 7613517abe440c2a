package format

import (
	"fmt"
	"strings"
)

// JournalMagic is h_magic of every block that jbd2 writes to the log for itself.
const JournalMagic = 0xC03B3998

// Types of journal blocks: h_blocktype.
const (
	JournalDescriptor   = 1
	JournalCommit       = 2
	JournalSuperblockV1 = 3
	JournalSuperblockV2 = 4
	JournalRevoke       = 5
)

const (
	// JournalSuperblockSize is the size of the journal's superblock in bytes.
	JournalSuperblockSize = 1024
	// JournalHeaderSize is the size of the header of every journal block.
	JournalHeaderSize = 12
	// MinJournalBlocks is the smallest journal, without its fast-commit area.
	MinJournalBlocks = 1024
	// MaxJournalUsers is the number of file systems that can share a journal.
	MaxJournalUsers = 48
	// JournalCrc32c is the only s_checksum_type in use.
	JournalCrc32c = 4

	defaultFastCommitBlocks = 256
)

// JournalCompat holds s_feature_compat of a journal.
type JournalCompat uint32

// JournalIncompat holds s_feature_incompat of a journal.
type JournalIncompat uint32

// Features of a journal.
const (
	JournalCompatChecksum JournalCompat = 1 << 0 // csum v1

	JournalIncompatRevoke      JournalIncompat = 1 << 0
	JournalIncompat64Bit       JournalIncompat = 1 << 1
	JournalIncompatAsyncCommit JournalIncompat = 1 << 2
	JournalIncompatCsumV2      JournalIncompat = 1 << 3
	JournalIncompatCsumV3      JournalIncompat = 1 << 4
	JournalIncompatFastCommit  JournalIncompat = 1 << 5

	journalCsumV23 = JournalIncompatCsumV2 | JournalIncompatCsumV3
	journalKnown   = 1<<6 - 1
)

var journalIncompatNames = [...]string{
	"journal_incompat_revoke", "journal_64bit", "journal_async_commit",
	"journal_checksum_v2", "journal_checksum_v3", "fast_commit",
}

// Names returns the names of the set bits, unknown ones as FEATURE_I17.
func (f JournalIncompat) Names() []string {
	var names []string
	for i := range 32 {
		switch {
		case f>>i&1 == 0:
		case i < len(journalIncompatNames):
			names = append(names, journalIncompatNames[i])
		default:
			names = append(names, fmt.Sprintf("FEATURE_I%d", i))
		}
	}
	return names
}

// struct journal_header_s
const (
	jhMagic     be32 = 0x0
	jhBlocktype be32 = 0x4
	jhSequence  be32 = 0x8
)

// struct journal_superblock_s
const (
	jsHeader          bytes16 = 0x00 // its first 12 bytes
	jsBlocksize       be32    = 0x0C
	jsMaxlen          be32    = 0x10
	jsFirst           be32    = 0x14
	jsSequence        be32    = 0x18
	jsStart           be32    = 0x1C
	jsErrno           be32    = 0x20
	jsFeatureCompat   be32    = 0x24
	jsFeatureIncompat be32    = 0x28
	jsFeatureROCompat be32    = 0x2C
	jsUUID            bytes16 = 0x30
	jsNrUsers         be32    = 0x40
	jsDynsuper        be32    = 0x44
	jsMaxTransaction  be32    = 0x48
	jsMaxTransData    be32    = 0x4C
	jsChecksumType    u8      = 0x50
	jsNumFCBlocks     be32    = 0x54
	jsHead            be32    = 0x58
	jsChecksum        be32    = 0xFC
	jsUsers           bytes16 = 0x100 // 48 of them
)

// JournalHeader is the start of every block that jbd2 writes for itself
// (struct journal_header_s, big-endian).
type JournalHeader struct {
	Type     uint32
	Sequence Tid
}

// ReadJournalHeader returns the header of a block; it is false if the magic is
// missing, which is how the log ends.
func ReadJournalHeader(b []byte) (JournalHeader, bool) {
	if len(b) < JournalHeaderSize || jhMagic.get(b) != JournalMagic {
		return JournalHeader{}, false
	}
	return JournalHeader{Type: jhBlocktype.get(b), Sequence: Tid(jhSequence.get(b))}, true
}

// PutJournalHeader writes the magic and h to the first 12 bytes of b.
func PutJournalHeader(b []byte, h JournalHeader) {
	jhMagic.put(b, JournalMagic)
	jhBlocktype.put(b, h.Type)
	jhSequence.put(b, uint32(h.Sequence))
}

// JournalSuperblock is a view over the 1,024 bytes at the start of log block 0
// (struct journal_superblock_s, big-endian). In a superblock of type 3 the
// fields from FeatureCompat on have no meaning.
type JournalSuperblock []byte

// BlockSize is s_blocksize in bytes.
func (s JournalSuperblock) BlockSize() uint32 { return jsBlocksize.get(s) }

// SetBlockSize sets s_blocksize.
func (s JournalSuperblock) SetBlockSize(n uint32) { jsBlocksize.put(s, n) }

// MaxLen is the number of blocks of the journal, log block 0 included.
func (s JournalSuperblock) MaxLen() uint32 { return jsMaxlen.get(s) }

// SetMaxLen sets the number of blocks.
func (s JournalSuperblock) SetMaxLen(n uint32) { jsMaxlen.put(s, n) }

// First is the first block of the log.
func (s JournalSuperblock) First() uint32 { return jsFirst.get(s) }

// SetFirst sets the first block of the log.
func (s JournalSuperblock) SetFirst(n uint32) { jsFirst.put(s, n) }

// Sequence is the first transaction expected in the log.
func (s JournalSuperblock) Sequence() Tid { return Tid(jsSequence.get(s)) }

// SetSequence sets the first transaction expected.
func (s JournalSuperblock) SetSequence(t Tid) { jsSequence.put(s, uint32(t)) }

// Start is the log block of the first transaction; 0: the log is empty.
func (s JournalSuperblock) Start() uint32 { return jsStart.get(s) }

// SetStart sets the log block of the first transaction.
func (s JournalSuperblock) SetStart(n uint32) { jsStart.put(s, n) }

// Errno is the negative error number that aborted the journal; 0: none.
func (s JournalSuperblock) Errno() int32 { return int32(jsErrno.get(s)) }

// SetErrno sets the error number.
func (s JournalSuperblock) SetErrno(e int32) { jsErrno.put(s, uint32(e)) }

// FeatureCompat is s_feature_compat.
func (s JournalSuperblock) FeatureCompat() JournalCompat {
	return JournalCompat(jsFeatureCompat.get(s))
}

// SetFeatureCompat sets s_feature_compat.
func (s JournalSuperblock) SetFeatureCompat(f JournalCompat) { jsFeatureCompat.put(s, uint32(f)) }

// FeatureIncompat is s_feature_incompat.
func (s JournalSuperblock) FeatureIncompat() JournalIncompat {
	return JournalIncompat(jsFeatureIncompat.get(s))
}

// SetFeatureIncompat sets s_feature_incompat.
func (s JournalSuperblock) SetFeatureIncompat(f JournalIncompat) {
	jsFeatureIncompat.put(s, uint32(f))
}

// FeatureROCompat is s_feature_ro_compat; no bit is in use.
func (s JournalSuperblock) FeatureROCompat() uint32 { return jsFeatureROCompat.get(s) }

// SetFeatureROCompat sets s_feature_ro_compat.
func (s JournalSuperblock) SetFeatureROCompat(f uint32) { jsFeatureROCompat.put(s, f) }

// UUID is the journal's own UUID; it seeds the checksums.
func (s JournalSuperblock) UUID() [16]byte { return jsUUID.get(s) }

// SetUUID sets the journal's UUID.
func (s JournalSuperblock) SetUUID(u [16]byte) { jsUUID.put(s, u) }

// NrUsers is the number of file systems that use the journal.
func (s JournalSuperblock) NrUsers() uint32 { return jsNrUsers.get(s) }

// SetNrUsers sets the number of file systems.
func (s JournalSuperblock) SetNrUsers(n uint32) { jsNrUsers.put(s, n) }

// Dynsuper is s_dynsuper, unused.
func (s JournalSuperblock) Dynsuper() uint32 { return jsDynsuper.get(s) }

// SetDynsuper sets s_dynsuper.
func (s JournalSuperblock) SetDynsuper(n uint32) { jsDynsuper.put(s, n) }

// MaxTransaction is s_max_transaction, unused.
func (s JournalSuperblock) MaxTransaction() uint32 { return jsMaxTransaction.get(s) }

// SetMaxTransaction sets s_max_transaction.
func (s JournalSuperblock) SetMaxTransaction(n uint32) { jsMaxTransaction.put(s, n) }

// MaxTransData is s_max_trans_data, unused.
func (s JournalSuperblock) MaxTransData() uint32 { return jsMaxTransData.get(s) }

// SetMaxTransData sets s_max_trans_data.
func (s JournalSuperblock) SetMaxTransData(n uint32) { jsMaxTransData.put(s, n) }

// ChecksumType is s_checksum_type: JournalCrc32c with csum v2 and v3.
func (s JournalSuperblock) ChecksumType() uint8 { return jsChecksumType.get(s) }

// SetChecksumType sets s_checksum_type.
func (s JournalSuperblock) SetChecksumType(t uint8) { jsChecksumType.put(s, t) }

// NumFCBlocks is s_num_fc_blks as stored; 0 stands for 256.
func (s JournalSuperblock) NumFCBlocks() uint32 { return jsNumFCBlocks.get(s) }

// SetNumFCBlocks sets s_num_fc_blks.
func (s JournalSuperblock) SetNumFCBlocks(n uint32) { jsNumFCBlocks.put(s, n) }

// Head is s_head, where an empty log goes on; kernels from 6.5 write it.
func (s JournalSuperblock) Head() uint32 { return jsHead.get(s) }

// SetHead sets s_head.
func (s JournalSuperblock) SetHead(n uint32) { jsHead.put(s, n) }

// Checksum is s_checksum.
func (s JournalSuperblock) Checksum() uint32 { return jsChecksum.get(s) }

// User returns the UUID of file system i of the sharers, i below MaxJournalUsers.
func (s JournalSuperblock) User(i int) [16]byte { return (jsUsers + bytes16(16*i)).get(s) }

// SetUser sets the UUID of sharer i.
func (s JournalSuperblock) SetUser(i int, u [16]byte) { (jsUsers + bytes16(16*i)).put(s, u) }

// V1 reports whether the superblock has no features (type 3).
func (s JournalSuperblock) V1() bool { return jhBlocktype.get(s) == JournalSuperblockV1 }

// incompat is FeatureIncompat, 0 in a superblock of type 3.
func (s JournalSuperblock) incompat() JournalIncompat {
	if s.V1() {
		return 0
	}
	return s.FeatureIncompat()
}

// Has reports whether all of f are set.
func (s JournalSuperblock) Has(f JournalIncompat) bool { return s.incompat()&f == f }

// FastCommitBlocks is the number of blocks at the journal's end that are set
// aside for fast commits: 0 without the feature, and where the log would be
// left with less than MinJournalBlocks.
func (s JournalSuperblock) FastCommitBlocks() uint32 {
	if !s.Has(JournalIncompatFastCommit) {
		return 0
	}
	n := s.NumFCBlocks()
	if n == 0 {
		n = defaultFastCommitBlocks
	}
	if uint64(n)+MinJournalBlocks > uint64(s.MaxLen()) {
		return 0
	}
	return n
}

// LogEnd is one past the last block of the log: it goes on at First from here.
func (s JournalSuperblock) LogEnd() uint32 { return s.MaxLen() - s.FastCommitBlocks() }

// FastCommitArea returns the log blocks first to end-1 that hold fast commits;
// the block at LogEnd is not used. It is empty without the feature.
func (s JournalSuperblock) FastCommitArea() (first, end uint32) {
	if s.FastCommitBlocks() == 0 {
		return 0, 0
	}
	return s.LogEnd() + 1, s.MaxLen()
}

// Seal sets the checksum, without effect unless csum v2 or v3 is on: crc32c
// from ~0, no UUID, over 1,024 bytes with the field 0.
func (s JournalSuperblock) Seal() {
	if s.incompat()&journalCsumV23 != 0 {
		jsChecksum.put(s, s.sum())
	}
}

// Verify compares the checksum; it is true where there is none.
func (s JournalSuperblock) Verify() bool {
	return s.incompat()&journalCsumV23 == 0 || s.Checksum() == s.sum()
}

func (s JournalSuperblock) sum() uint32 {
	return crcHole(allOnes, s[:JournalSuperblockSize], int(jsChecksum), sumSize)
}

// PutEmptyJournalSuperblock fills b, log block 0 of a new journal of maxLen
// blocks, as mke2fs does: nothing in the log, no features; the writer that
// first uses the journal sets those.
func PutEmptyJournalSuperblock(b []byte, blockSize int, maxLen uint32, uuid [16]byte) {
	clear(b)
	PutJournalHeader(b, JournalHeader{Type: JournalSuperblockV2})
	s := JournalSuperblock(b)
	s.SetBlockSize(uint32(blockSize))
	s.SetMaxLen(maxLen)
	s.SetFirst(1)
	s.SetSequence(1)
	s.SetNrUsers(1)
	s.SetUUID(uuid)
}

// CheckJournalSuperblock checks log block 0 of a journal that has blocks
// blocks of blockSize bytes: magic, type, sizes, the log's place, features and
// checksum. Features that are not known give an UnsupportedError.
func CheckJournalSuperblock(b []byte, blockSize int, blocks uint64) error {
	if len(b) < JournalSuperblockSize {
		return journalDamage(0, "%d bytes, want at least %d", len(b), JournalSuperblockSize)
	}
	h, ok := ReadJournalHeader(b)
	if !ok {
		return journalDamage(int(jhMagic), "magic %#x, want %#x", jhMagic.get(b), uint32(JournalMagic))
	}
	if h.Type != JournalSuperblockV1 && h.Type != JournalSuperblockV2 {
		return journalDamage(int(jhBlocktype), "type %d, want %d or %d", h.Type, JournalSuperblockV1, JournalSuperblockV2)
	}
	s := JournalSuperblock(b)
	if err := s.checkFeatures(); err != nil {
		return err
	}
	return s.checkPlace(blockSize, blocks)
}

func (s JournalSuperblock) checkFeatures() error {
	if s.V1() {
		return nil
	}
	f := s.FeatureIncompat()
	if u := f &^ journalKnown; u != 0 {
		return &UnsupportedError{Detail: "journal features " + strings.Join(u.Names(), " ")}
	}
	if u := s.FeatureROCompat(); u != 0 {
		return &UnsupportedError{Detail: fmt.Sprintf("journal ro_compat features %#x", u)}
	}
	v23 := f & journalCsumV23
	switch {
	case v23 == journalCsumV23:
		return journalDamage(int(jsFeatureIncompat), "csum v2 and v3 at once")
	case v23 != 0 && s.FeatureCompat()&JournalCompatChecksum != 0:
		return journalDamage(int(jsFeatureCompat), "csum v1 beside v2 or v3")
	case v23 != 0 && s.ChecksumType() != JournalCrc32c:
		return journalDamage(int(jsChecksumType), "checksum type %d, want %d", s.ChecksumType(), JournalCrc32c)
	case !s.Verify():
		return journalDamage(int(jsChecksum), "checksum %#x, want %#x", s.Checksum(), s.sum())
	}
	return nil
}

func (s JournalSuperblock) checkPlace(blockSize int, blocks uint64) error {
	end := s.LogEnd()
	switch {
	case s.BlockSize() != uint32(blockSize):
		return journalDamage(int(jsBlocksize), "block size %d, want %d", s.BlockSize(), blockSize)
	case s.MaxLen() < MinJournalBlocks || uint64(s.MaxLen()) > blocks:
		return journalDamage(int(jsMaxlen), "%d blocks, want %d to %d", s.MaxLen(), MinJournalBlocks, blocks)
	case s.First() == 0 || s.First() >= end:
		return journalDamage(int(jsFirst), "log begins at %d, want 1 to %d", s.First(), end-1)
	case s.Start() != 0 && (s.Start() < s.First() || s.Start() >= end):
		return journalDamage(int(jsStart), "log starts at %d, want %d to %d", s.Start(), s.First(), end-1)
	case s.Has(JournalIncompatFastCommit) && s.FastCommitBlocks() == 0:
		return journalDamage(int(jsNumFCBlocks), "%d fast-commit blocks leave less than %d of %d", s.NumFCBlocks(), MinJournalBlocks, s.MaxLen())
	}
	return nil
}

func journalDamage(off int, detail string, args ...any) error {
	return &DamagedError{Structure: "journal superblock", Offset: off, Detail: fmt.Sprintf(detail, args...)}
}
