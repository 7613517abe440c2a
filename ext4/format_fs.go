package ext4

import (
	"context"

	"drydock/device"
	"drydock/format"
	"drydock/internal/mkfs"
)

// FormatOptions says what file system Format makes. The zero value is the
// default profile with 4 KiB blocks. Clock and randomness are the caller's:
// UUID, HashSeed and Time are stored as they are.
type FormatOptions struct {
	BlockSize     int             // bytes, 1024 to 65536; 0: 4096
	InodeSize     int             // bytes, 128 to the block size; 0: 256
	Features      format.Features // zero: the default profile (DESIGN.md section 1)
	Inodes        uint64          // 0: one for every 16 KiB, fewer on huge devices
	JournalBlocks uint32          // 0: the usual size for the size of the device
	NoJournal     bool
	Reserved      float64 // percent of the blocks kept for root
	Label         string  // at most 16 bytes
	UUID          [16]byte
	HashSeed      [16]byte
	Time          format.Time // of creation, and of the root directory
	Clean         bool        // the device is known to read as zeros
}

// Format makes an empty file system over the whole of dev: a root directory
// and lost+found. What dev held before is lost, from the first write on; the
// superblock is written last. It does not flush. Errors: a value out of range,
// a device too small (naming the smallest size), those of dev.
func Format(dev device.Device, o FormatOptions) error {
	m := mkfs.Options{
		BlockSize: o.BlockSize, InodeSize: o.InodeSize, Features: o.Features,
		Inodes: o.Inodes, JournalBlocks: o.JournalBlocks, NoJournal: o.NoJournal, Reserved: o.Reserved,
		Label: o.Label, HashSeed: o.HashSeed, Time: o.Time,
	}
	if m.BlockSize == 0 {
		m.BlockSize = 4096
	}
	m.Blocks = max(1, uint64(dev.Size())/uint64(max(1, m.BlockSize)))
	root := mkfs.Node{Mode: format.ModeDir | 0o755, Links: 1, Mtime: o.Time}
	p, err := mkfs.New(&mkfs.Content{Nodes: []mkfs.Node{root}}, m)
	if err != nil {
		return err
	}
	return p.Write(context.Background(), dev, mkfs.WriteOptions{UUID: o.UUID, Dirty: !o.Clean})
}
