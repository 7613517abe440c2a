package journal

import (
	"fmt"

	"drydock/device"
	"drydock/format"
)

// NewExternalArea returns the area of an external journal: a device with an
// ext4 superblock of its own, then the journal superblock in the next block. Log
// block n is block n of the device. fs is the UUID of the file system, and
// journal the one that its superblock has in s_journal_uuid: a device that is
// another journal, or does not serve this file system, is refused, and so is
// one that serves several.
func NewExternalArea(dev device.Device, blockSize int, fs, journal [16]byte) (*Area, error) {
	sb := make(format.Superblock, format.SuperblockSize)
	if err := readFull(dev, sb, format.SuperblockOffset); err != nil {
		return nil, err
	}
	if err := checkExternal(sb, blockSize, journal); err != nil {
		return nil, err
	}
	blocks := min(sb.BlocksCount(), uint64(dev.Size())/uint64(blockSize), format.MaxLBlock)
	a, err := NewArea(dev, blockSize, []format.Extent{{Len: uint32(blocks)}})
	if err != nil {
		return nil, err
	}
	a.Super = 1
	if blockSize == format.SuperblockOffset {
		a.Super = 2 // block 1 is the ext4 superblock
	}
	s, err := a.ReadSuperblock()
	if err != nil {
		return nil, err
	}
	return a, checkUsers(s, fs)
}

// checkExternal checks the ext4 superblock of a journal device.
func checkExternal(sb format.Superblock, blockSize int, journal [16]byte) error {
	switch {
	case sb.Magic() != format.SuperMagic:
		return externalDamage("magic %#x, want %#x", sb.Magic(), format.SuperMagic)
	case !sb.Features().HasIncompat(format.IncompatJournalDev):
		return externalDamage("it has not the feature journal_dev")
	case !format.VerifySuperblock(sb):
		return externalDamage("checksum %#x is wrong", sb.Checksum())
	case sb.BlockSize() != blockSize:
		return externalDamage("block size %d, want %d", sb.BlockSize(), blockSize)
	case sb.UUID() != journal:
		return externalDamage("UUID %x, want %x", sb.UUID(), journal)
	}
	return nil
}

// checkUsers looks for fs in the list of file systems that use the journal.
func checkUsers(s format.JournalSuperblock, fs [16]byte) error {
	switch {
	case s.V1():
		return externalDamage("its journal superblock has no list of users")
	case s.NrUsers() > 1:
		return &format.UnsupportedError{Detail: fmt.Sprintf("external journal of %d file systems", s.NrUsers())}
	case s.NrUsers() == 0 || s.User(0) != fs:
		return externalDamage("it does not serve the file system %x", fs)
	}
	return nil
}

func externalDamage(detail string, args ...any) error {
	return &format.DamagedError{Structure: "external journal", Offset: -1, Detail: fmt.Sprintf(detail, args...)}
}
