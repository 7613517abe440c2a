package cli

import (
	"fmt"

	"github.com/spf13/pflag"

	"drydock/device"
	"drydock/internal/partition"
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
	parts, err := partition.Read(disk)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", device.Name(disk), err)
	}
	for _, p := range parts {
		if p.Number == n {
			return device.NewWindow(disk, p.Start, p.Size)
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
	parts, _ := partition.Read(disk) // without a table there is nothing to keep to
	for _, p := range parts {
		if p.Contains(offset) {
			end = min(end, p.Start+p.Size)
		}
	}
	return device.NewWindow(disk, offset, end-offset)
}

// numbers lists partition numbers for a message.
func numbers(parts []partition.Part) string {
	text := "none"
	for i, p := range parts {
		if i == 0 {
			text = fmt.Sprint(p.Number)
		} else {
			text += fmt.Sprint(", ", p.Number)
		}
	}
	return text
}
