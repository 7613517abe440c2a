package ext4

import (
	"bytes"
	"encoding/binary"
	"io"
)

// identifySpan is as much of a device as Identify looks at, in bytes: the
// farthest mark is the second of the swap and btrfs marks just past 64 KiB.
const identifySpan = 68 << 10

// What Identify calls data that is ext4's own, or that it has no name for.
const (
	kindExt4       = "ext2/3/4 file system"
	kindExtJournal = "external journal device of an ext3/4 file system"
	kindEmpty      = "empty"
	kindUnknown    = "unknown data"
)

// mark is a run of bytes at a fixed place that gives a format away.
type mark struct {
	off   int
	bytes string
	kind  string
}

// marks lists the formats by their bytes, those first that a later one could
// be mistaken for. Sources: the format documents of each.
var marks = []mark{
	{0, "\x1f\x8b", "gzip-compressed data"},
	{0, "\x28\xb5\x2f\xfd", "zstd-compressed data"},
	{0, "\xfd7zXZ\x00", "xz-compressed data"},
	{0, "BZh", "bzip2-compressed data"},
	{0, "\x04\x22\x4d\x18", "lz4-compressed data"},
	{0, "PK\x03\x04", "zip archive"},
	{257, "ustar", "tar archive"},
	{0, "\x3a\xff\x26\xed", "Android sparse image"},
	{0, "ANDROID!", "Android boot image"},
	{0, "QFI\xfb", "qcow2 disk image"},
	{0, "KDMV", "VMDK disk image"},
	{0, "# Disk DescriptorFile", "VMDK disk descriptor"},
	{0, "vhdxfile", "VHDX disk image"},
	{0, "conectix", "VHD disk image"},
	{64, "\x7f\x10\xda\xbe", "VDI disk image"},
	{0, "LUKS\xba\xbe", "LUKS encrypted volume"},
	{0, "verity\x00\x00", "dm-verity hash tree"},
	{0, "XFSB", "xfs file system"},
	{65600, "_BHRfS_M", "btrfs file system"},
	{0, "hsqs", "squashfs file system"},
	{1024, "\xe2\xe1\xf5\xe0", "erofs file system"},
	{1024, "\x10\x20\xf5\xf2", "f2fs file system"},
	{4120, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca", "bcachefs file system"},
	{0, "\x45\x3d\xcd\x28", "cramfs file system"},
	{0, "-rom1fs-", "romfs file system"},
	{32, "NXSB", "APFS container"},
	{1024, "H+\x00\x04", "HFS+ file system"},
	{3, "NTFS    ", "NTFS file system"},
	{3, "EXFAT   ", "exFAT file system"},
	{82, "FAT32   ", "FAT file system"},
	{54, "FAT16   ", "FAT file system"},
	{54, "FAT12   ", "FAT file system"},
	{32769, "CD001", "ISO 9660 file system"},
	{32769, "BEA01", "UDF file system"},
	{4086, "SWAPSPACE2", "swap space"},
	{8182, "SWAPSPACE2", "swap space"},
	{16374, "SWAPSPACE2", "swap space"},
	{65526, "SWAPSPACE2", "swap space"},
	{512, "LABELONE", "LVM physical volume"},
	{4096, "\xfc\x4e\x2b\xa9", "Linux RAID member"},
	{0, "\xfc\x4e\x2b\xa9", "Linux RAID member"},
	{512, "EFI PART", "disk image with a GPT partition table"},
	{4096, "EFI PART", "disk image with a GPT partition table (4096-byte sectors)"},
	{0, "\x7fELF", "ELF program"},
}

// Identify says in a few words what the data in r is, from the marks that
// formats leave in their first 68 KiB: "ext2/3/4 file system", an external journal
// of one, another file system, a disk image, a container, compressed data, "empty"
// for nothing but zeros, or "unknown data". It reads at most that much and never
// fails: what cannot be read counts as not there.
func Identify(r io.ReaderAt) string {
	head := readHead(r)
	if kind := identifyExt(head); kind != "" {
		return kind
	}
	for _, m := range marks {
		if hasAt(head, m.off, m.bytes) {
			return m.kind
		}
	}
	return identifyRest(head)
}

// identifyRest names data in which no mark was found.
func identifyRest(head []byte) string {
	switch {
	case hasMBR(head):
		return "disk image with an MBR partition table"
	case allZero(head):
		return kindEmpty
	}
	return kindUnknown
}

// readHead returns what of the first identifySpan bytes can be read.
func readHead(r io.ReaderAt) []byte {
	head := make([]byte, identifySpan)
	n, err := r.ReadAt(head, 0)
	if err == nil || err == io.EOF {
		return head[:n]
	}
	const sector = 512
	for n = 0; n < len(head); n += sector {
		if got, err := r.ReadAt(head[n:n+sector], int64(n)); err != nil {
			return head[:n+got]
		}
	}
	return head
}

// identifyExt returns the kind of an image with an ext superblock, "" if there is none.
func identifyExt(head []byte) string {
	const superblock, magic, incompat = 1024, 0x38, 0x60
	if len(head) < superblock+incompat+4 || binary.LittleEndian.Uint16(head[superblock+magic:]) != 0xEF53 {
		return ""
	}
	const journalDev = 0x8
	if binary.LittleEndian.Uint32(head[superblock+incompat:])&journalDev != 0 {
		return kindExtJournal
	}
	return kindExt4
}

// hasMBR reports whether head starts with a partition table that has an entry
// in use: a status byte of 0 or 0x80, a type and a length.
func hasMBR(head []byte) bool {
	if !hasAt(head, 510, "\x55\xaa") {
		return false
	}
	for e := 446; e < 510; e += 16 {
		if head[e]&0x7f == 0 && head[e+4] != 0 && binary.LittleEndian.Uint32(head[e+12:]) != 0 {
			return true
		}
	}
	return false
}

func hasAt(head []byte, off int, want string) bool {
	return off+len(want) <= len(head) && string(head[off:off+len(want)]) == want
}

func allZero(b []byte) bool {
	return len(bytes.TrimLeft(b, "\x00")) == 0
}
