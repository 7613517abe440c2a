package ext4

import (
	"fmt"
	"sync/atomic"

	"drydock/device"
	"drydock/format"
)

// Options says how to open a file system. The zero value is right for most.
type Options struct {
	// IgnoreJournal opens a file system whose journal holds changes that were
	// not yet carried out, as if there were none: what is read is the state
	// before them, with parts of them. Without it Open fails with
	// ErrNeedsRecovery.
	IgnoreJournal bool

	// IgnoreChecksums reads metadata whose checksum is wrong, to save what can
	// be saved. Everything else is checked as ever.
	IgnoreChecksums bool
}

// FS is an open file system.
type FS struct {
	dev    device.Device
	opts   Options
	super  format.Superblock
	geo    format.Geometry
	csum   format.Checksums
	meta   *blocks
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
	return &FS{dev: dev, opts: opts, super: sb, geo: geo, csum: format.ChecksumsOf(sb), meta: newBlocks(dev, geo)}, nil
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

// groupDesc returns the descriptor of a group, which must not be changed.
func (fsys *FS) groupDesc(g format.Group) (format.GroupDesc, error) {
	per := fsys.geo.DescsPerBlock()
	block, err := fsys.meta.get(fsys.geo.DescBlock(int(g) / per))
	if err != nil {
		return nil, fmt.Errorf("descriptor of group %d: %w", g, err)
	}
	off := int(g) % per * fsys.geo.DescSize
	desc := format.GroupDesc(block[off : off+fsys.geo.DescSize])
	if !fsys.sealed(fsys.csum.VerifyGroupDesc(g, desc)) {
		return nil, &format.DamagedError{Structure: fmt.Sprintf("descriptor of group %d", g),
			Block: fsys.geo.DescBlock(int(g) / per), Offset: off, Detail: "wrong checksum"}
	}
	return desc, nil
}

// sealed is what to make of the result of a checksum's verification.
func (fsys *FS) sealed(ok bool) bool { return ok || fsys.opts.IgnoreChecksums }
