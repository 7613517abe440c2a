package format

import "fmt"

const (
	// MMPMagic is mmp_magic, "MMP" in ASCII.
	MMPMagic = 0x004D4D50
	// MMPSeqClean is the sequence of a file system that nobody has mounted.
	MMPSeqClean = 0xFF4D4D50
	// MMPSeqFsck is the sequence while fsck runs.
	MMPSeqFsck = 0xE24D4D50
	// MMPSeqMax is the largest sequence of a mounted file system.
	MMPSeqMax = 0xE24D4D4F
	// MMPSize is the size of the structure in bytes; the rest of its block is unused.
	MMPSize = 1024
)

// struct mmp_struct
const (
	mmMagic         le32    = 0x000
	mmSeq           le32    = 0x004
	mmTime          le64    = 0x008
	mmNodename      bytes64 = 0x010
	mmBdevname      bytes32 = 0x050
	mmCheckInterval le16    = 0x070
	mmChecksum      le32    = 0x3FC
)

// MMP is a view over the block of multiple mount protection (kernel doc:
// ext4/mmp, struct mmp_struct), MMPSize bytes, little-endian.
type MMP []byte

// Seq is the number that changes as long as the file system is in use, or
// MMPSeqClean or MMPSeqFsck.
func (m MMP) Seq() uint32 { return mmSeq.get(m) }

// SetSeq sets the sequence.
func (m MMP) SetSeq(s uint32) { mmSeq.put(m, s) }

// Time is when the block was last written, in seconds since 1970.
func (m MMP) Time() uint64 { return mmTime.get(m) }

// SetTime sets the time of the last write.
func (m MMP) SetTime(sec uint64) { mmTime.put(m, sec) }

// NodeName is the host that wrote the block last.
func (m MMP) NodeName() string { return text(mmNodename.of(m)) }

// SetNodeName sets the host's name, cut off after 64 bytes.
func (m MMP) SetNodeName(s string) { putText(mmNodename.of(m), s) }

// BdevName is the device that was mounted there.
func (m MMP) BdevName() string { return text(mmBdevname.of(m)) }

// SetBdevName sets the device's name, cut off after 32 bytes.
func (m MMP) SetBdevName(s string) { putText(mmBdevname.of(m), s) }

// CheckInterval is how often the holder looks at the block, in seconds.
func (m MMP) CheckInterval() uint16 { return mmCheckInterval.get(m) }

// SetCheckInterval sets the interval.
func (m MMP) SetCheckInterval(sec uint16) { mmCheckInterval.put(m, sec) }

// Checksum is mmp_checksum, see Checksums.SealMMP.
func (m MMP) Checksum() uint32 { return mmChecksum.get(m) }

// Clean reports whether nobody holds the file system.
func (m MMP) Clean() bool { return m.Seq() == MMPSeqClean }

// PutMMP fills b, a block, with the structure of a file system that nobody holds.
func PutMMP(b []byte, interval uint16) {
	clear(b)
	mmMagic.put(b, MMPMagic)
	MMP(b).SetSeq(MMPSeqClean)
	MMP(b).SetCheckInterval(interval)
}

// CheckMMP checks size, magic and sequence of b, block n.
func CheckMMP(b []byte, n Block) error {
	switch {
	case len(b) < MMPSize:
		return mmpDamage(n, 0, "%d bytes, want %d", len(b), MMPSize)
	case mmMagic.get(b) != MMPMagic:
		return mmpDamage(n, int(mmMagic), "magic %#x, want %#x", mmMagic.get(b), MMPMagic)
	}
	s := MMP(b).Seq()
	if s > MMPSeqMax && s != MMPSeqClean && s != MMPSeqFsck {
		return mmpDamage(n, int(mmSeq), "sequence %#x, want at most %#x", s, uint32(MMPSeqMax))
	}
	return nil
}

func mmpDamage(n Block, off int, detail string, args ...any) error {
	return &DamagedError{Structure: "MMP", Block: n, Offset: off, Detail: fmt.Sprintf(detail, args...)}
}
