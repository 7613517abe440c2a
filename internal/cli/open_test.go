package cli

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/diskfs/go-diskfs/partition/mbr"
	"github.com/stretchr/testify/require"

	"drydock/device"
)

// writableFile lets the library write its tables to a device.
type writableFile struct {
	tableFile
	device.Device
}

func (f writableFile) ReadAt(p []byte, off int64) (int, error) { return f.Device.ReadAt(p, off) }

// gptDisk is a disk of 8 MiB with partition 1 from 1 to 2 MiB, and 3 from 4 to 7 MiB.
func gptDisk(t testing.TB, sector int) *device.Mem {
	disk := device.NewMem(8 << 20)
	mib := uint64(1<<20) / uint64(sector)
	table := &gpt.Table{LogicalSectorSize: sector, PhysicalSectorSize: sector, ProtectiveMBR: true, Partitions: []*gpt.Partition{
		{Index: 1, Start: mib, End: 2*mib - 1, Type: gpt.EFISystemPartition},
		{Index: 3, Start: 4 * mib, End: 7*mib - 1, Type: gpt.LinuxFilesystem},
	}}
	require.NoError(t, table.Write(writableFile{newTableFile(disk), disk}, disk.Size()))
	return disk
}

func mbrDisk(t testing.TB) *device.Mem {
	disk := device.NewMem(8 << 20)
	table := &mbr.Table{Partitions: []*mbr.Partition{{Index: 1, Type: mbr.Linux, Start: 2048, Size: 4096}}}
	require.NoError(t, table.Write(writableFile{newTableFile(disk), disk}, disk.Size()))
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

func TestBackupGPTIsUsed(t *testing.T) {
	disk := gptDisk(t, 512)
	putLE32(t, disk, 512+40, 7) // the primary's checksum is wrong now
	window, err := Location{Partition: 3}.Window(disk)
	require.NoError(t, err)
	require.Equal(t, [2]int64{4 << 20, 3 << 20}, span(t, window))
}

// TestGreedyGPT is a sealed header that asks for half a terabyte of entries.
func TestGreedyGPT(t *testing.T) {
	for _, header := range []int64{512, 8<<20 - 512} {
		disk := gptDisk(t, 512)
		putLE32(t, disk, header+gptEntries, 0xffffffff)
		sealGPT(t, disk, header)
		_, err := Location{Partition: 1}.Window(disk)
		require.ErrorContains(t, err, "4294967295 entries of 128 bytes, want at most 4096 of 128")
	}
}

func putLE32(t *testing.T, disk device.Device, off int64, v uint32) {
	t.Helper()
	_, err := disk.WriteAt(binary.LittleEndian.AppendUint32(nil, v), off)
	require.NoError(t, err)
}

// sealGPT makes the checksum of the header at off right.
func sealGPT(t *testing.T, disk device.Device, off int64) {
	t.Helper()
	putLE32(t, disk, off+16, 0)
	header := make([]byte, gptHeaderLength)
	_, err := disk.ReadAt(header, off)
	require.NoError(t, err)
	putLE32(t, disk, off+16, crc32.ChecksumIEEE(header))
}

func FuzzPartitions(f *testing.F) {
	for _, disk := range []*device.Mem{gptDisk(f, 512), gptDisk(f, 4096), mbrDisk(f)} {
		front := make([]byte, 34*512)
		_, err := disk.ReadAt(front, 0)
		require.NoError(f, err)
		f.Add(front)
	}
	f.Fuzz(func(t *testing.T, front []byte) {
		disk := device.NewMem(1 << 20)
		disk.WriteAt(front[:min(len(front), 1<<20)], 0)
		for n := 1; n <= 4; n++ {
			window, err := Location{Partition: n}.Window(disk)
			if err == nil && window.Size() > disk.Size() {
				t.Fatalf("partition %d has %d bytes on a disk of %d", n, window.Size(), disk.Size())
			}
		}
		Location{Offset: 4096}.Window(disk)
	})
}
