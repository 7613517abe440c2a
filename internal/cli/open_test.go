package cli

import (
	"encoding/binary"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/diskfs/go-diskfs/partition/mbr"
	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/internal/partition"
)

// gptDisk is a disk of 8 MiB with partition 1 from 1 to 2 MiB, and 3 from 4 to 7 MiB.
func gptDisk(t testing.TB, sector int) *device.Mem {
	disk := device.NewMem(8 << 20)
	mib := uint64(1<<20) / uint64(sector)
	table := &gpt.Table{LogicalSectorSize: sector, PhysicalSectorSize: sector, ProtectiveMBR: true, Partitions: []*gpt.Partition{
		{Index: 1, Start: mib, End: 2*mib - 1, Type: gpt.EFISystemPartition},
		{Index: 3, Start: 4 * mib, End: 7*mib - 1, Type: gpt.LinuxFilesystem},
	}}
	require.NoError(t, table.Write(partition.NewFile(disk), disk.Size()))
	return disk
}

func mbrDisk(t testing.TB) *device.Mem {
	disk := device.NewMem(8 << 20)
	table := &mbr.Table{Partitions: []*mbr.Partition{{Index: 1, Type: mbr.Linux, Start: 2048, Size: 4096}}}
	require.NoError(t, table.Write(partition.NewFile(disk), disk.Size()))
	return disk
}

// span returns where a window starts and how long it is.
func span(t *testing.T, d device.Device) [2]int64 {
	t.Helper()
	w, ok := d.(*device.Window)
	if !ok {
		return [2]int64{0, d.Size()}
	}
	return [2]int64{w.Start(), w.Size()}
}

func TestLocation(t *testing.T) {
	gpt512, gpt4096, mbr512, blank := gptDisk(t, 512), gptDisk(t, 4096), mbrDisk(t), device.NewMem(8<<20)
	for name, c := range map[string]struct {
		disk     device.Device
		location Location
		want     [2]int64 // MiB
	}{
		"whole disk":                {blank, Location{}, [2]int64{0, 8}},
		"gpt partition":             {gpt512, Location{Partition: 3}, [2]int64{4, 3}},
		"gpt, 4096-byte sectors":    {gpt4096, Location{Partition: 3}, [2]int64{4, 3}},
		"mbr partition":             {mbr512, Location{Partition: 1}, [2]int64{1, 2}},
		"offset, no table":          {blank, Location{Offset: 5 << 20}, [2]int64{5, 3}},
		"offset at a partition":     {gpt512, Location{Offset: 4 << 20}, [2]int64{4, 3}},
		"offset inside a partition": {gpt512, Location{Offset: 5 << 20}, [2]int64{5, 2}},
		"offset between partitions": {gpt512, Location{Offset: 3 << 20}, [2]int64{3, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			window, err := c.location.Window(c.disk)
			require.NoError(t, err)
			got := span(t, window)
			require.Equal(t, c.want, [2]int64{got[0] >> 20, got[1] >> 20})
		})
	}
}

func TestLocationRefuses(t *testing.T) {
	var usage *UsageError
	_, err := Location{Offset: 1, Partition: 1}.Window(gptDisk(t, 512))
	require.ErrorAs(t, err, &usage)
	_, err = Location{Partition: -1}.Window(gptDisk(t, 512))
	require.ErrorAs(t, err, &usage)
	_, err = Location{Partition: 2}.Window(gptDisk(t, 512))
	require.EqualError(t, err, "memory: no partition 2; there are 1, 3")
	_, err = Location{Partition: 4}.Window(mbrDisk(t))
	require.EqualError(t, err, "memory: no partition 4; there are 1")
	_, err = Location{Partition: 1}.Window(device.NewMem(8 << 20))
	require.EqualError(t, err, "memory: no GPT or MBR partition table found")
	_, err = Location{Offset: 8 << 20}.Window(gptDisk(t, 512))
	require.EqualError(t, err, "memory: offset 8388608 lies behind the end at 8388608")
	_, err = Location{Partition: 1}.Window(device.NewMem(0))
	require.Error(t, err)
}

func TestPartitionBeyondTheDisk(t *testing.T) {
	disk := mbrDisk(t)
	putLE32(t, disk, 446+12, 1<<31)
	_, err := Location{Partition: 1}.Window(disk)
	require.ErrorIs(t, err, device.ErrOutOfRange)
}

func putLE32(t *testing.T, disk device.Device, off int64, v uint32) {
	t.Helper()
	_, err := disk.WriteAt(binary.LittleEndian.AppendUint32(nil, v), off)
	require.NoError(t, err)
}
