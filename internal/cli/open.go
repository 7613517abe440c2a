package cli

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/diskfs/go-diskfs/partition"
	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/spf13/pflag"

	"drydock/device"
)

// Location says where on a disk a file system lies. The zero value is the whole disk.
type Location struct {
	Offset    Size // bytes
	Partition int  // from 1; 0: none
}

// Flags declares --offset and --partition.
func (l *Location) Flags(flags *pflag.FlagSet) {
	flags.Var(&l.Offset, "offset", "byte at which the file system starts")
	flags.IntVar(&l.Partition, "partition", 0, "number of the GPT or MBR partition that holds the file system")
}

// Window returns the part of disk that the location names. An offset inside a
// partition reaches to the partition's end, any other to the disk's end.
func (l Location) Window(disk device.Device) (device.Device, error) {
	switch {
	case l.Offset != 0 && l.Partition != 0:
		return nil, Usagef("--offset and --partition exclude each other")
	case l.Partition < 0:
		return nil, Usagef("--partition: partitions are counted from 1")
	case l.Partition > 0:
		return partitionWindow(disk, l.Partition)
	case l.Offset > 0:
		return offsetWindow(disk, int64(l.Offset))
	}
	return disk, nil
}

// partitionWindow is partition number n of disk.
func partitionWindow(disk device.Device, n int) (device.Device, error) {
	parts, err := readPartitions(disk)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", device.Name(disk), err)
	}
	for _, p := range parts {
		if p.number == n {
			return device.NewWindow(disk, p.start, p.size)
		}
	}
	return nil, fmt.Errorf("%s: no partition %d; there are %s", device.Name(disk), n, numbers(parts))
}

// offsetWindow is what lies at the byte offset.
func offsetWindow(disk device.Device, offset int64) (device.Device, error) {
	if offset >= disk.Size() {
		return nil, fmt.Errorf("%s: offset %d lies behind the end at %d", device.Name(disk), offset, disk.Size())
	}
	end := disk.Size()
	parts, _ := readPartitions(disk) // without a table there is nothing to keep to
	for _, p := range parts {
		if p.start <= offset && offset < p.start+p.size {
			end = min(end, p.start+p.size)
		}
	}
	return device.NewWindow(disk, offset, end-offset)
}

// part is one partition; start and size are bytes.
type part struct {
	number      int
	start, size int64
}

// numbers lists partition numbers for a message.
func numbers(parts []part) string {
	text := "none"
	for i, p := range parts {
		if i == 0 {
			text = fmt.Sprint(p.number)
		} else {
			text += fmt.Sprint(", ", p.number)
		}
	}
	return text
}

// Sector sizes, in bytes, that partition tables count in.
const (
	smallSector = 512
	largeSector = 4096
)

// errNoTable says that a disk has no partition table.
var errNoTable = errors.New("no GPT or MBR partition table found")

// readPartitions reads the disk's partition table, GPT before MBR.
func readPartitions(disk device.Device) ([]part, error) {
	for _, sector := range []int{smallSector, largeSector} {
		if err := checkGPT(disk, sector); err != nil {
			return nil, err
		}
		if table, err := gpt.Read(newTableFile(disk), sector, sector); err == nil {
			return partsOf(table), nil
		}
	}
	table, err := partition.Read(newTableFile(disk), smallSector, smallSector)
	if err != nil {
		return nil, errNoTable
	}
	return partsOf(table), nil
}

// partsOf returns the partitions of a table that are in use.
func partsOf(table partition.Table) []part {
	var parts []part
	for _, p := range table.GetPartitions() {
		if p.GetSize() > 0 && p.GetStart() > 0 {
			parts = append(parts, part{p.GetIndex(), p.GetStart(), p.GetSize()})
		}
	}
	return parts
}

// Fields of a GPT header (UEFI specification, 5.3.2) that decide how much
// memory the library takes to read the table.
const (
	gptEntries      = 80 // le32
	gptEntrySize    = 84 // le32
	maxGPTEntries   = 4096
	wantEntrySize   = 128
	gptHeaderLength = 92
)

// checkGPT refuses what would make the library take memory as a damaged disk
// tells it to: headers, primary or backup, with too many entries.
func checkGPT(disk device.Device, sector int) error {
	for _, off := range []int64{int64(sector), disk.Size() - int64(sector)} {
		header := make([]byte, gptHeaderLength)
		if _, err := disk.ReadAt(header, off); err != nil || string(header[:8]) != "EFI PART" {
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

// tableFile is a Device as the file that the library reads tables from.
type tableFile struct{ *io.SectionReader }

var _ backend.File = tableFile{}

func newTableFile(disk device.Device) tableFile {
	return tableFile{io.NewSectionReader(disk, 0, disk.Size())}
}

// Stat is not supported: a device is not always a file.
func (tableFile) Stat() (fs.FileInfo, error) { return nil, backend.ErrNotSuitable }

// Close leaves the device open: it belongs to the caller.
func (tableFile) Close() error { return nil }
