package build

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/diskfs/go-diskfs/partition/mbr"
	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/internal/oracle"
)

// testUUID is a file system's UUID with all-different bytes.
var testUUID = [16]byte{0x10, 0x21, 0x32, 0x43, 0x54, 0x65, 0x76, 0x87, 0x98, 0xa9, 0xba, 0xcb, 0xdc, 0xed, 0xfe, 0x0f}

// diskLog is memory that notes every write and flush, and fails the write
// numbered failAt (from 1).
type diskLog struct {
	*device.Mem
	ops    []diskOp
	failAt int
}

type diskOp struct {
	off  int64
	data []byte // nil: a flush
}

var errDisk = errors.New("disk error")

func (l *diskLog) WriteAt(p []byte, off int64) (int, error) {
	l.ops = append(l.ops, diskOp{off, bytes.Clone(p)})
	if len(l.ops) == l.failAt {
		return 0, errDisk
	}
	return l.Mem.WriteAt(p, off)
}

func (l *diskLog) Flush() error {
	l.ops = append(l.ops, diskOp{})
	if len(l.ops) == l.failAt {
		return errDisk
	}
	return nil
}

func TestPartitionedSize(t *testing.T) {
	for _, c := range []struct {
		kind          PartitionKind
		fs            int64
		total, offset int64
	}{
		{PartitionNone, 12345, 12345, 0},
		{"", 12345, 12345, 0},
		{PartitionGPT, 10 << 20, 12 << 20, 1 << 20},
		{PartitionGPT, 10<<20 + 1024, 13 << 20, 1 << 20},
		{PartitionMBR, 10 << 20, 11 << 20, 1 << 20},
		{PartitionMBR, 200_000_000, 192 << 20, 1 << 20},
	} {
		total, offset := c.kind.PartitionedSize(c.fs)
		require.Equal(t, []int64{c.total, c.offset}, []int64{total, offset}, "%s %d", c.kind, c.fs)
		room, roomOffset := c.kind.Room(total)
		require.Equal(t, offset, roomOffset)
		require.GreaterOrEqual(t, room, c.fs, "what PartitionedSize asks for has room")
		again, _ := c.kind.PartitionedSize(room)
		require.Equal(t, total, again)
	}
	room, _ := PartitionGPT.Room(1 << 20)
	require.Zero(t, room)
}

// writtenDisk returns a disk with the partition table of a file system of fs bytes.
func writtenDisk(t *testing.T, p Partition) *diskLog {
	t.Helper()
	total, _ := p.Kind.PartitionedSize(p.Size)
	disk := &diskLog{Mem: device.NewMem(total)}
	require.NoError(t, WritePartition(disk, p))
	return disk
}

func TestGPTIsReadBack(t *testing.T) {
	disk := writtenDisk(t, Partition{Kind: PartitionGPT, Size: 20<<20 + 1024, UUID: testUUID, Name: "rootfs"})
	table, err := gpt.Read(newDiskFile(disk), 512, 512)
	require.NoError(t, err)
	require.NoError(t, table.Verify(newDiskFile(disk), uint64(disk.Size())), "the backup lies at the disk's end")
	require.True(t, table.ProtectiveMBR)
	require.Len(t, table.Partitions, 1)
	p := table.Partitions[0]
	require.Equal(t, int64(1<<20), p.GetStart())
	require.Equal(t, int64(20<<20+1024), p.GetSize())
	require.Equal(t, gpt.LinuxFilesystem, p.Type)
	require.Equal(t, "rootfs", p.Name)
	require.NotEqual(t, table.GUID, p.GUID)
}

func TestPartitionTablesDependOnTheUUIDAlone(t *testing.T) {
	for _, kind := range []PartitionKind{PartitionGPT, PartitionMBR} {
		p := Partition{Kind: kind, Size: 4 << 20, UUID: testUUID}
		first, second := writtenDisk(t, p), writtenDisk(t, p)
		require.Equal(t, first.ops, second.ops)
		p.UUID[3]++
		require.NotEqual(t, first.ops, writtenDisk(t, p).ops, "another file system, another disk")
	}
}

func TestGPTBackupIsDurableBeforeThePrimary(t *testing.T) {
	disk := writtenDisk(t, Partition{Kind: PartitionGPT, Size: 4 << 20, UUID: testUUID})
	readable := false
	for cut := range disk.ops {
		state := device.NewMem(disk.Size())
		for _, op := range disk.ops[:cut+1] {
			if _, err := state.WriteAt(op.data, op.off); err != nil {
				t.Fatal(err)
			}
		}
		table, err := gpt.Read(newDiskFile(state), 512, 512)
		require.False(t, readable && err != nil, "cut after operation %d of %d loses the table again: %v", cut, len(disk.ops), err)
		readable = err == nil
		if op := disk.ops[cut]; op.off == 512 && op.data != nil {
			require.False(t, table.RecoveredFromBackup)
			require.Nil(t, disk.ops[cut-1].data, "a flush comes before the primary header")
		}
	}
	require.True(t, readable)
}

func TestMBRIsReadBack(t *testing.T) {
	disk := writtenDisk(t, Partition{Kind: PartitionMBR, Size: 20 << 20, UUID: testUUID})
	table, err := mbr.Read(newDiskFile(disk), 512, 512)
	require.NoError(t, err)
	require.NotEqual(t, "00000000", table.UUID())
	p := table.Partitions[0]
	require.Equal(t, int64(1<<20), p.GetStart())
	require.Equal(t, int64(20<<20), p.GetSize())
	require.Equal(t, mbr.Linux, p.Type)
	for _, other := range table.Partitions[1:] {
		require.Equal(t, mbr.Empty, other.Type)
	}
}

func TestTablesDoNotTouchThePartition(t *testing.T) {
	for _, kind := range []PartitionKind{PartitionGPT, PartitionMBR} {
		const size = 3<<20 + 512
		total, offset := kind.PartitionedSize(size)
		disk := device.NewMem(total)
		_, err := disk.WriteAt(bytes.Repeat([]byte{0xa5}, int(total)), 0)
		require.NoError(t, err)
		require.NoError(t, WritePartition(disk, Partition{Kind: kind, Size: size, UUID: testUUID}))
		inside, old := make([]byte, size), bytes.Repeat([]byte{0xa5}, size)
		_, err = disk.ReadAt(inside, offset)
		require.NoError(t, err)
		require.True(t, bytes.Equal(old, inside), kind)

		front := make([]byte, 1<<20)
		_, err = disk.ReadAt(front, 0)
		require.NoError(t, err)
		require.NotContains(t, string(front), "\xa5", "nothing old is left in front of the partition")
	}
}

func TestTablesStaySparse(t *testing.T) {
	const size = 3 << 40
	total, _ := PartitionGPT.PartitionedSize(size)
	disk := device.NewMem(total)
	require.NoError(t, WritePartition(disk, Partition{Kind: PartitionGPT, Size: size, UUID: testUUID}))
	require.Less(t, disk.Allocated(), int64(100<<10))
	sectors := make([]byte, 4)
	_, err := disk.ReadAt(sectors, mbrEntrySizeOff)
	require.NoError(t, err)
	require.Equal(t, []byte{0xff, 0xff, 0xff, 0xff}, sectors, "a protective MBR of more than 2 TiB")
}

func TestGPTWithLargeSectors(t *testing.T) {
	disk := writtenDisk(t, Partition{Kind: PartitionGPT, Size: 4<<20 + 1024, UUID: testUUID, SectorSize: 4096})
	table, err := gpt.Read(newDiskFile(disk), 4096, 4096)
	require.NoError(t, err)
	require.Equal(t, int64(1<<20), table.Partitions[0].GetStart())
	require.Equal(t, int64(4<<20+4096), table.Partitions[0].GetSize(), "whole sectors")
}

func TestGPTNames(t *testing.T) {
	for _, name := range []string{"", "sixteen bytes ok", "\xff\xfe", "𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞"} {
		disk := writtenDisk(t, Partition{Kind: PartitionGPT, Size: 1 << 20, UUID: testUUID, Name: name})
		_, err := gpt.Read(newDiskFile(disk), 512, 512)
		require.NoError(t, err)
	}
}

func TestWritePartitionRefuses(t *testing.T) {
	for _, c := range []struct {
		p    Partition
		disk int64
		want string
	}{
		{Partition{Kind: "apm", Size: 1 << 20}, 8 << 20, `partition table of kind "apm": want gpt or mbr`},
		{Partition{Kind: PartitionGPT, Size: 7 << 20}, 8 << 20, "partition of 7340032 bytes: does not fit behind the first MiB of a disk of 8388608"},
		{Partition{Kind: PartitionMBR, Size: 0}, 8 << 20, "partition of 0 bytes: does not fit"},
		{Partition{Kind: PartitionMBR, Size: math.MaxInt64}, 8 << 20, "does not fit"},
		{Partition{Kind: PartitionMBR, Size: 1 << 20}, 512 << 10, "does not fit"},
		{Partition{Kind: PartitionMBR, Size: 1 << 20}, 3 << 40, "MBR for a disk of 6442450944 sectors of 512 bytes: at most 4294967295 are possible"},
	} {
		disk := &diskLog{Mem: device.NewMem(c.disk)}
		require.ErrorContains(t, WritePartition(disk, c.p), c.want)
		require.Empty(t, disk.ops, "a refusal writes nothing")
	}
	require.NoError(t, WritePartition(nil, Partition{}), "no table, nothing to do")
}

func TestWritePartitionReportsEveryError(t *testing.T) {
	for _, kind := range []PartitionKind{PartitionGPT, PartitionMBR} {
		p := Partition{Kind: kind, Size: 1 << 20, UUID: testUUID}
		count := len(writtenDisk(t, p).ops)
		require.Greater(t, count, 2)
		total, _ := kind.PartitionedSize(p.Size)
		for n := 1; n <= count; n++ {
			disk := &diskLog{Mem: device.NewMem(total), failAt: n}
			require.ErrorContains(t, WritePartition(disk, p), errDisk.Error(), "%s, operation %d", kind, n)
			require.Len(t, disk.ops, n, "nothing is written after an error")
		}
	}
}

// sfdiskDump is what sfdisk --json says of a disk.
type sfdiskDump struct {
	PartitionTable struct {
		Label, ID, Unit string
		FirstLBA        int64
		LastLBA         int64
		Partitions      []struct {
			Start, Size      int64
			Type, UUID, Name string
		}
	}
}

func TestTablesAgainstSfdisk(t *testing.T) {
	oracle.Need(t, "sfdisk")
	for _, c := range []struct {
		kind PartitionKind
		size int64
		fits string // the type that sfdisk names
	}{
		{PartitionGPT, 10 << 20, string(gpt.LinuxFilesystem)},
		{PartitionGPT, 200_000_000, string(gpt.LinuxFilesystem)},
		{PartitionGPT, 3 << 40, string(gpt.LinuxFilesystem)},
		{PartitionMBR, 10 << 20, "83"},
		{PartitionMBR, 1 << 40, "83"},
	} {
		t.Run(fmt.Sprint(c.kind, c.size), func(t *testing.T) {
			path := diskFileWith(t, Partition{Kind: c.kind, Size: c.size, UUID: testUUID, Name: "root"})
			var dump sfdiskDump
			require.NoError(t, json.Unmarshal([]byte(oracle.Run(t, "sfdisk", "--json", path)), &dump))
			table := dump.PartitionTable
			require.Equal(t, map[PartitionKind]string{PartitionGPT: "gpt", PartitionMBR: "dos"}[c.kind], table.Label)
			require.Len(t, table.Partitions, 1)
			require.Equal(t, int64(2048), table.Partitions[0].Start)
			require.Equal(t, c.size/512, table.Partitions[0].Size)
			require.Equal(t, c.fits, table.Partitions[0].Type)
			require.Contains(t, oracle.Run(t, "sfdisk", "--verify", path), "No errors detected")
		})
	}
}

func TestGPTAgainstSgdisk(t *testing.T) {
	oracle.Need(t, "sgdisk")
	path := diskFileWith(t, Partition{Kind: PartitionGPT, Size: 10 << 20, UUID: testUUID, Name: "root"})
	require.Contains(t, oracle.Run(t, "sgdisk", "--verify", path), "No problems found")
}

// diskFileWith makes a disk image with a partition table and returns its path.
func diskFileWith(t *testing.T, p Partition) string {
	t.Helper()
	total, _ := p.Kind.PartitionedSize(p.Size)
	mem := device.NewMem(total)
	require.NoError(t, WritePartition(mem, p))
	path := filepath.Join(t.TempDir(), "disk.img")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(total))
	for _, end := range []int64{1 << 20, total} {
		part := make([]byte, 1<<20)
		_, err := mem.ReadAt(part, end-1<<20)
		require.NoError(t, err)
		_, err = f.WriteAt(part, end-1<<20)
		require.NoError(t, err)
	}
	return path
}
