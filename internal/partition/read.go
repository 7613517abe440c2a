package partition

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/diskfs/go-diskfs/partition"
	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/diskfs/go-diskfs/partition/mbr"

	"drydock/device"
)

// Part is one partition.
type Part struct {
	Number      int   // from 1, as in the name of its block device
	Start, Size int64 // bytes
}

// Contains tells whether the byte off of the disk lies in the partition.
func (p Part) Contains(off int64) bool { return p.Start <= off && off-p.Start < p.Size }

// Sector sizes, in bytes, that partition tables count in.
const (
	smallSector = 512
	largeSector = 4096
)

// ErrNoTable says that a disk has no partition table.
var ErrNoTable = errors.New("no GPT or MBR partition table found")

// Read returns the partitions of a disk in the order of its table, GPT before
// MBR; GPT's backup serves where the primary is bad. Of an MBR's extended
// partitions only the container is seen. The error is ErrNoTable, or says what
// is wrong with the table.
func Read(disk device.Device) ([]Part, error) {
	for _, sector := range []int{smallSector, largeSector} {
		if err := checkGPT(disk, sector); err != nil {
			return nil, err
		}
		if table, err := gpt.Read(NewFile(disk), sector, sector); err == nil {
			return partsOf(table), nil
		}
	}
	table, err := mbr.Read(NewFile(disk), smallSector, smallSector)
	if err != nil {
		return nil, ErrNoTable
	}
	return partsOf(table), nil
}

// partsOf returns the partitions of a table that are in use.
func partsOf(table partition.Table) []Part {
	var parts []Part
	for _, p := range table.GetPartitions() {
		if p.GetSize() > 0 && p.GetStart() > 0 {
			parts = append(parts, Part{p.GetIndex(), p.GetStart(), p.GetSize()})
		}
	}
	return parts
}

// Fields of a GPT header (UEFI specification, 5.3.2) that decide how much
// memory go-diskfs takes to read the table.
const (
	gptSignature    = "EFI PART"
	gptEntries      = 80 // le32
	gptEntrySize    = 84 // le32
	gptHeaderLength = 92
	maxGPTEntries   = 4096
	wantEntrySize   = 128
)

// checkGPT refuses headers, primary or backup, with too many entries.
func checkGPT(disk device.Device, sector int) error {
	for _, off := range []int64{int64(sector), disk.Size() - int64(sector)} {
		header := make([]byte, gptHeaderLength)
		if _, err := disk.ReadAt(header, off); err != nil || string(header[:len(gptSignature)]) != gptSignature {
			continue
		}
		entries := binary.LittleEndian.Uint32(header[gptEntries:])
		size := binary.LittleEndian.Uint32(header[gptEntrySize:])
		if entries > maxGPTEntries || size != wantEntrySize {
			return fmt.Errorf("GPT header at %d: %d entries of %d bytes, want at most %d of %d", off, entries, size, maxGPTEntries, wantEntrySize)
		}
	}
	return nil
}
