package build

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/diskfs/go-diskfs/partition/mbr"
	"github.com/google/uuid"

	"drydock/device"
	"drydock/internal/partition"
)

// PartitionKind is the kind of partition table in front of a file system. The
// empty kind is PartitionNone.
type PartitionKind string

// The kinds of partition table.
const (
	PartitionNone PartitionKind = "none" // the file system starts at byte 0
	PartitionGPT  PartitionKind = "gpt"
	PartitionMBR  PartitionKind = "mbr"
)

const (
	partitionAlign = 1 << 20 // bytes; where the partition starts, and what the disk's size is a multiple of
	defaultSector  = 512     // bytes
	maxMBRSectors  = math.MaxUint32

	mbrSignatureOff = 440      // le32 disk signature; the library leaves it alone
	mbrEntrySizeOff = 446 + 12 // le32 sectors of the first entry
	mbrLBAHead      = 0xfe     // head, sector and cylinder that mean "use the sector number"
	mbrLBASectorCyl = 0xff
	gptNameUnits    = 36 // UTF-16 units in a partition's name
)

// Partition is a disk's only partition: it starts at 1 MiB and holds the file system.
type Partition struct {
	Kind       PartitionKind
	Size       int64    // bytes of the file system
	UUID       [16]byte // the file system's; the table's identifiers are derived from it
	Name       string   // GPT only
	SectorSize int      // logical sector in bytes; 0: 512
}

// PartitionedSize returns the size of a disk, in bytes, for a file system of
// fsBytes, and where on it the file system starts. With a table both are
// multiples of 1 MiB.
func (k PartitionKind) PartitionedSize(fsBytes int64) (total, offset int64) {
	if !k.hasTable() {
		return fsBytes, 0
	}
	return partitionAlign + roundUp(fsBytes, partitionAlign) + k.tail(), partitionAlign
}

// Room is the inverse of PartitionedSize: the bytes that a disk of total bytes
// has for a file system (0: none), and where it starts.
func (k PartitionKind) Room(total int64) (fsBytes, offset int64) {
	if !k.hasTable() {
		return total, 0
	}
	room := total - partitionAlign - k.tail()
	return max(0, room&^(partitionAlign-1)), partitionAlign
}

// hasTable tells whether there is a table at all.
func (k PartitionKind) hasTable() bool { return k != PartitionNone && k != "" }

// tail returns the bytes kept free behind the partition: GPT has its backup there.
func (k PartitionKind) tail() int64 {
	if k == PartitionGPT {
		return partitionAlign
	}
	return 0
}

// roundUp rounds n up to a multiple of unit, a power of two.
func roundUp(n, unit int64) int64 { return (n + unit - 1) &^ (unit - 1) }

// WritePartition writes the partition table of p on a whole disk and makes it
// durable. What older tables and file systems left in front of the partition
// and at the end of the disk is zeroed; the partition itself is not touched.
// GPT's backup is durable before the primary is written, so that a cut between
// them leaves a table that can be read.
func WritePartition(disk device.Device, p Partition) error {
	if !p.Kind.hasTable() {
		return nil
	}
	if err := p.check(disk.Size()); err != nil {
		return err
	}
	if err := wipeAround(disk, p.end()); err != nil {
		return err
	}
	if p.Kind == PartitionMBR {
		return p.writeMBR(disk)
	}
	return p.writeGPT(disk)
}

// check tells whether the table can describe the partition on a disk of total bytes.
func (p Partition) check(total int64) error {
	sectors := total / p.sector()
	switch {
	case p.Kind != PartitionGPT && p.Kind != PartitionMBR:
		return fmt.Errorf("partition table of kind %q: want gpt or mbr", p.Kind)
	case p.Size <= 0 || p.Size > total-partitionAlign-p.Kind.tail():
		return fmt.Errorf("partition of %d bytes: does not fit behind the first MiB of a disk of %d", p.Size, total)
	case p.Kind == PartitionMBR && sectors > maxMBRSectors:
		return fmt.Errorf("MBR for a disk of %d sectors of %d bytes: at most %d are possible; gpt has no such limit", sectors, p.sector(), int64(maxMBRSectors))
	}
	return nil
}

// sector returns the logical sector size in bytes.
func (p Partition) sector() int64 {
	if p.SectorSize == 0 {
		return defaultSector
	}
	return int64(p.SectorSize)
}

// sectors returns the partition's length in sectors.
func (p Partition) sectors() int64 { return roundUp(p.Size, p.sector()) / p.sector() }

// end returns the byte behind the partition's last sector.
func (p Partition) end() int64 { return partitionAlign + p.sectors()*p.sector() }

// id derives an identifier of the table from the file system's UUID.
func (p Partition) id(what string) uuid.UUID { return uuid.NewSHA1(p.UUID, []byte("drydock "+what)) }

// writeGPT writes protective MBR, backup and primary, in this order and with a
// flush between them (the library's Write does both).
func (p Partition) writeGPT(disk device.Device) error {
	table := &gpt.Table{
		LogicalSectorSize:  int(p.sector()),
		PhysicalSectorSize: int(p.sector()),
		GUID:               p.id("gpt disk").String(),
		ProtectiveMBR:      true,
		Partitions: []*gpt.Partition{{
			Index: 1, // the library counts from 1
			Start: uint64(partitionAlign / p.sector()),
			End:   uint64(p.end()/p.sector() - 1),
			Type:  gpt.LinuxFilesystem,
			Name:  gptName(p.Name),
			GUID:  p.id("gpt partition").String(),
		}},
	}
	if err := table.Write(partition.NewFile(disk), disk.Size()); err != nil {
		return fmt.Errorf("GPT: %w", err)
	}
	if disk.Size()/p.sector()-1 <= math.MaxUint32 {
		return nil
	}
	// The protective entry cannot say the disk's size. It then says the largest
	// it can; the library writes the low 32 bits.
	return writeLE32(disk, mbrEntrySizeOff, math.MaxUint32)
}

// gptName cuts name to what an entry holds.
func gptName(name string) string {
	runes := []rune(name)
	return string(runes[:min(len(runes), gptNameUnits/2)]) // a rune is two units at most
}

// writeMBR writes the disk signature and the table.
func (p Partition) writeMBR(disk device.Device) error {
	table := &mbr.Table{
		LogicalSectorSize:  int(p.sector()),
		PhysicalSectorSize: int(p.sector()),
		Partitions: []*mbr.Partition{{
			Index:     1,
			Type:      mbr.Linux,
			Start:     uint32(partitionAlign / p.sector()),
			Size:      uint32(p.sectors()),
			StartHead: mbrLBAHead, StartSector: mbrLBASectorCyl, StartCylinder: mbrLBASectorCyl,
			EndHead: mbrLBAHead, EndSector: mbrLBASectorCyl, EndCylinder: mbrLBASectorCyl,
		}},
	}
	id := p.id("mbr disk")
	if err := writeLE32(disk, mbrSignatureOff, binary.LittleEndian.Uint32(id[:])|1); err != nil { // 0 means none
		return err
	}
	if err := table.Write(partition.NewFile(disk), disk.Size()); err != nil {
		return fmt.Errorf("MBR: %w", err)
	}
	return disk.Flush()
}

// writeLE32 writes a little-endian number at the byte off and makes it durable.
func writeLE32(disk device.Device, off int64, v uint32) error {
	if _, err := disk.WriteAt(binary.LittleEndian.AppendUint32(nil, v), off); err != nil {
		return fmt.Errorf("MBR: %w", err)
	}
	return disk.Flush()
}

// wipeAround zeroes the first 1 MiB of the disk, and what of its last 1 MiB
// lies behind the byte end.
func wipeAround(disk device.Device, end int64) error {
	if err := wipe(disk, 0, partitionAlign); err != nil {
		return err
	}
	return wipe(disk, max(end, disk.Size()-partitionAlign), disk.Size())
}

// wipe zeroes the bytes [from, to), at most 1 MiB. Where they are zero already
// nothing is written, so that holes stay holes.
func wipe(disk device.Device, from, to int64) error {
	if from >= to {
		return nil
	}
	old := make([]byte, to-from)
	if n, err := disk.ReadAt(old, from); n < len(old) {
		return fmt.Errorf("partition table: %w", err)
	}
	if device.IsZero(old) {
		return nil
	}
	clear(old)
	if _, err := disk.WriteAt(old, from); err != nil {
		return fmt.Errorf("partition table: %w", err)
	}
	return disk.Flush()
}

// newDiskFile is disk as the file that go-diskfs works on.
func newDiskFile(disk device.Device) partition.File { return partition.NewFile(disk) }
