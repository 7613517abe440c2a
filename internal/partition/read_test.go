package partition

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/diskfs/go-diskfs/partition/mbr"
	"github.com/stretchr/testify/require"

	"drydock/device"
)

// gptDisk is a disk of 8 MiB with partition 1 from 1 to 2 MiB, and 3 from 4 to 7 MiB.
func gptDisk(t testing.TB, sector int) *device.Mem {
	disk := device.NewMem(8 << 20)
	mib := uint64(1<<20) / uint64(sector)
	table := &gpt.Table{LogicalSectorSize: sector, PhysicalSectorSize: sector, ProtectiveMBR: true, Partitions: []*gpt.Partition{
		{Index: 1, Start: mib, End: 2*mib - 1, Type: gpt.EFISystemPartition},
		{Index: 3, Start: 4 * mib, End: 7*mib - 1, Type: gpt.LinuxFilesystem},
	}}
	require.NoError(t, table.Write(NewFile(disk), disk.Size()))
	return disk
}

func mbrDisk(t testing.TB) *device.Mem {
	disk := device.NewMem(8 << 20)
	table := &mbr.Table{Partitions: []*mbr.Partition{{Index: 1, Type: mbr.Linux, Start: 2048, Size: 4096}}}
	require.NoError(t, table.Write(NewFile(disk), disk.Size()))
	return disk
}

func TestRead(t *testing.T) {
	want := []Part{{1, 1 << 20, 1 << 20}, {3, 4 << 20, 3 << 20}}
	for _, sector := range []int{512, 4096} {
		parts, err := Read(gptDisk(t, sector))
		require.NoError(t, err)
		require.Equal(t, want, parts)
	}
	parts, err := Read(mbrDisk(t))
	require.NoError(t, err)
	require.Equal(t, []Part{{1, 1 << 20, 2 << 20}}, parts)
	for _, size := range []int64{0, 511, 512, 8 << 20} {
		_, err := Read(device.NewMem(size))
		require.ErrorIs(t, err, ErrNoTable)
	}
}

func TestContains(t *testing.T) {
	p := Part{1, 100, 50}
	for off, want := range map[int64]bool{99: false, 100: true, 149: true, 150: false} {
		require.Equal(t, want, p.Contains(off))
	}
	require.True(t, Part{1, 1, 1<<63 - 1}.Contains(1<<63-1))
}

func TestBackupGPTIsUsed(t *testing.T) {
	disk := gptDisk(t, 512)
	putLE32(t, disk, 512+40, 7) // the primary's checksum is wrong now
	parts, err := Read(disk)
	require.NoError(t, err)
	require.Equal(t, []Part{{1, 1 << 20, 1 << 20}, {3, 4 << 20, 3 << 20}}, parts)
}

// TestGreedyGPT is a sealed header that asks for half a terabyte of entries.
func TestGreedyGPT(t *testing.T) {
	for _, header := range []int64{512, 8<<20 - 512} {
		disk := gptDisk(t, 512)
		putLE32(t, disk, header+gptEntries, 0xffffffff)
		sealGPT(t, disk, header)
		_, err := Read(disk)
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

func FuzzRead(f *testing.F) {
	for _, disk := range []*device.Mem{gptDisk(f, 512), gptDisk(f, 4096), mbrDisk(f)} {
		front := make([]byte, 34*512)
		_, err := disk.ReadAt(front, 0)
		require.NoError(f, err)
		f.Add(front)
	}
	f.Fuzz(func(t *testing.T, front []byte) {
		disk := device.NewMem(1 << 20)
		disk.WriteAt(front[:min(len(front), 1<<20)], 0)
		parts, _ := Read(disk)
		for _, p := range parts {
			if p.Size <= 0 || p.Start <= 0 {
				t.Fatalf("partition %+v", p)
			}
		}
	})
}
