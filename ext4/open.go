package ext4

import (
	"fmt"
	"sync/atomic"
	"time"

	"drydock/device"
	"drydock/format"
	"drydock/internal/alloc"
	"drydock/journal"
)

// Options says how to open a file system. The zero value is right for reading.
type Options struct {
	// ReadWrite opens the file system for changes. A journal that holds changes
	// is carried out first, and files that were deleted while they were open are
	// freed. Otherwise nothing is written to the device, ever.
	ReadWrite bool

	// IgnoreJournal opens a file system whose journal holds changes that were
	// not yet carried out, as if there were none: what is read is the state
	// before them, with parts of them. It cannot go with ReadWrite.
	IgnoreJournal bool

	// IgnoreChecksums reads metadata whose checksum is wrong, to save what can
	// be saved. Everything else is checked as ever. It cannot go with ReadWrite.
	IgnoreChecksums bool

	// Journal is the device of a journal outside of the file system. It is
	// needed to read what that holds; writing is not supported.
	Journal device.Device

	Data      DataMode         // how data and metadata are ordered
	NoSync    bool             // never wait until something is durable: a crash of the host may leave anything
	Memory    int64            // bytes of memory for cached data and metadata; 0: 64 MiB
	FolioSize int              // unit of the data cache in bytes, a power of two; 0: chosen by the size of files
	Now       func() time.Time // the clock for all times that are stored; nil: time.Now
}

// DataMode says how file data is kept in step with the metadata that leads to it.
type DataMode int

const (
	// DataOrdered writes data before the metadata that leads to it is durable,
	// as data=ordered of Linux.
	DataOrdered DataMode = iota
	// DataJournal puts data into the journal too, so that an overwrite is done
	// as a whole or not at all.
	DataJournal
)

// FS is an open file system.
type FS struct {
	dev    device.Device // file data; a journal that was not carried out lies over it
	opts   Options
	super  format.Superblock
	geo    format.Geometry
	csum   format.Checksums
	meta   *blocks
	j      *journal.Journal // all metadata
	alloc  *alloc.Allocator // nil when opened for reading
	nodes  nodeTable
	files  files           // data of files in use, see writeback.go
	tables []atomic.Uint64 // where the groups' inode tables begin; 0: not known yet
	closed atomic.Bool
}

// readable is every incompatible feature that this package reads.
const readable = format.IncompatFiletype | format.IncompatRecover | format.IncompatMetaBg |
	format.IncompatExtents | format.Incompat64Bit | format.IncompatMMP | format.IncompatFlexBg |
	format.IncompatEAInode | format.IncompatCsumSeed | format.IncompatLargeDir |
	format.IncompatInlineData | format.IncompatEncrypt | format.IncompatCasefold

// Open opens the file system on dev for reading; nothing is written. The
// device stays the caller's, who closes it after the FS.
//
// Errors: *NotExt4Error if there is something else on dev, format.ErrUnsupported
// for features that are not known (all named) or the external journal of another file
// system, ErrNeedsRecovery (see Options.IgnoreJournal), format.ErrDamaged for a
// superblock that cannot be right or a device that is too small for it.
func Open(dev device.Device, opts Options) (*FS, error) {
	sb, err := readSuper(dev)
	if err != nil {
		return nil, err
	}
	if err := checkSuper(sb, opts); err != nil {
		return nil, err
	}
	geo, err := format.GeometryOf(sb)
	if err != nil {
		return nil, err
	}
	if err := checkSize(geo, dev.Size()); err != nil {
		return nil, err
	}
	fsys := &FS{dev: dev, opts: opts, super: sb, geo: geo, csum: format.ChecksumsOf(sb), meta: newBlocks(dev, geo)}
	fsys.nodes.byNo = map[format.Ino]*node{}
	fsys.tables = make([]atomic.Uint64, min(geo.Groups(), maxTables))
	return fsys, nil
}

// maxTables bounds the memory of FS.tables.
const maxTables = 1 << 20

// now is the time for what is changed now.
func (fsys *FS) now() format.Time {
	if fsys.opts.Now != nil {
		return format.TimeOf(fsys.opts.Now())
	}
	return format.TimeOf(time.Now())
}

// Close ends the use of the file system: every later call by a name fails with
// fs.ErrClosed. The device is left open.
func (fsys *FS) Close() error {
	fsys.closed.Store(true)
	return nil
}

// readSuper returns the superblock of dev if it has the magic of one.
func readSuper(dev device.Device) (format.Superblock, error) {
	sb := make(format.Superblock, format.SuperblockSize)
	err := readFull(dev, sb, format.SuperblockOffset)
	if err == nil && sb.Magic() == format.SuperMagic {
		return sb, nil
	}
	if dev.Size() >= format.SuperblockOffset+format.SuperblockSize && err != nil {
		return nil, fmt.Errorf("read superblock: %w", err)
	}
	return nil, &NotExt4Error{Found: Identify(dev)}
}

// checkSuper decides whether a superblock is one that can be read from.
func checkSuper(sb format.Superblock, opts Options) error {
	f := sb.Features()
	if f.HasIncompat(format.IncompatJournalDev) {
		return &format.UnsupportedError{Detail: "this is the " + kindExtJournal + ", it holds no files"}
	}
	if !opts.IgnoreChecksums && !format.VerifySuperblock(sb) {
		return &format.DamagedError{Structure: "superblock", Offset: -1, Detail: "wrong checksum"}
	}
	if unknown := f.Incompat &^ readable; unknown != 0 {
		return &format.UnsupportedError{Features: format.Features{Incompat: unknown}}
	}
	if f.HasIncompat(format.IncompatRecover) && !opts.IgnoreJournal {
		return fmt.Errorf("%w: it holds changes that are not yet in place, and replaying them is not done here; "+
			"let Linux mount it or e2fsck replay it, or ignore the journal to read the older state", ErrNeedsRecovery)
	}
	return nil
}

// checkSize refuses a device that ends before the file system does.
func checkSize(geo format.Geometry, size int64) error {
	has := format.Block(size / int64(geo.BlockSize))
	if geo.BlocksCount <= has {
		return nil
	}
	return &format.DamagedError{Structure: "superblock", Offset: -1, Detail: fmt.Sprintf(
		"%d blocks of %d bytes, but the device has %d bytes (cut off?)", geo.BlocksCount, geo.BlockSize, size)}
}

// Label returns the volume name.
func (fsys *FS) Label() string { return fsys.super.VolumeName() }

// UUID returns the identity of the file system.
func (fsys *FS) UUID() [16]byte { return fsys.super.UUID() }

// Features returns the feature bits.
func (fsys *FS) Features() format.Features { return fsys.geo.Features }

// Geometry returns block size, counts and layout.
func (fsys *FS) Geometry() format.Geometry { return fsys.geo }

// Superblock returns a copy of the superblock.
func (fsys *FS) Superblock() format.Superblock {
	return append(format.Superblock(nil), fsys.super...)
}

// inodeTable returns the first block of a group's inode table, which never moves.
func (r reader) inodeTable(g format.Group) (format.Block, error) {
	if int(g) >= len(r.fs.tables) {
		desc, err := r.groupDesc(g)
		if err != nil {
			return 0, err
		}
		return desc.InodeTable(), nil
	}
	known := &r.fs.tables[g]
	if b := known.Load(); b != 0 {
		return format.Block(b), nil
	}
	desc, err := r.groupDesc(g)
	if err != nil {
		return 0, err
	}
	known.Store(uint64(desc.InodeTable()))
	return desc.InodeTable(), nil
}

// groupDesc returns the descriptor of a group, which must not be changed.
func (r reader) groupDesc(g format.Group) (format.GroupDesc, error) {
	geo := &r.fs.geo
	per := geo.DescsPerBlock()
	block, err := r.get(geo.DescBlock(int(g) / per))
	if err != nil {
		return nil, fmt.Errorf("descriptor of group %d: %w", g, err)
	}
	off := int(g) % per * geo.DescSize
	desc := format.GroupDesc(block[off : off+geo.DescSize])
	if !r.fs.sealed(r.fs.csum.VerifyGroupDesc(g, desc)) {
		return nil, &format.DamagedError{Structure: fmt.Sprintf("descriptor of group %d", g),
			Block: geo.DescBlock(int(g) / per), Offset: off, Detail: "wrong checksum"}
	}
	return desc, nil
}

// sealed is what to make of the result of a checksum's verification.
func (fsys *FS) sealed(ok bool) bool { return ok || fsys.opts.IgnoreChecksums }
