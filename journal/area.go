package journal

import (
	"errors"

	"drydock/device"
	"drydock/format"
)

// Area is where a log lies: the blocks of the journal inode, or an external
// device. Log blocks are numbered from 0. It may be used from many goroutines.
type Area struct {
	Device    device.Device
	BlockSize int             // bytes
	Extents   []format.Extent // log block -> block of Device; from 0 on, gapless, written
	Super     uint32          // the log block that holds the journal superblock; 0 but on an external device
}

var errStub = errors.New("not ready")

// NewArea returns the area of a journal inode with the given extents.
func NewArea(dev device.Device, blockSize int, extents []format.Extent) (*Area, error) {
	return nil, errStub
}

// NewExternalArea returns the area of an external journal that serves the file
// system with the UUID fs and whose superblock names the journal with the UUID
// journal (s_journal_uuid).
func NewExternalArea(dev device.Device, blockSize int, fs, journal [16]byte) (*Area, error) {
	return nil, errStub
}

// Blocks is the number of log blocks that the area has, all of them.
func (a *Area) Blocks() uint32 { return 0 }

// ReadBlock reads log block n into p, which has BlockSize bytes.
func (a *Area) ReadBlock(n uint32, p []byte) error { return errStub }

// WriteBlocks writes bufs, each of one or more whole blocks, to log block n and
// the following ones. It may not pass the end of the area.
func (a *Area) WriteBlocks(n uint32, bufs [][]byte) error { return errStub }

// WriteBlockFUA writes one block and makes that write durable.
func (a *Area) WriteBlockFUA(n uint32, p []byte) error { return errStub }

// ReadSuperblock reads and checks the journal superblock.
func (a *Area) ReadSuperblock() (format.JournalSuperblock, error) { return nil, errStub }

// WriteSuperblock seals the journal superblock and writes it with FUA.
func (a *Area) WriteSuperblock(s format.JournalSuperblock) error { return errStub }
