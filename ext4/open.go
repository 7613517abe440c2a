package ext4

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"drydock/device"
	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/xattr"
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
	Warn      func(error)      // told of damage that is met and left alone; it must not use the FS; nil: nobody
	Now       func() time.Time // the clock for all times that are stored; nil: time.Now
	Compare   Compare          // for measurements only
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
	dev    device.Device // a journal that was replayed in memory lies over it
	opts   Options
	super  format.Superblock // as it was at opening
	geo    format.Geometry
	csum   format.Checksums
	j      *journal.Journal // all metadata
	alloc  *alloc.Allocator // nil when opened for reading
	nodes  nodeTable
	files  files // data of files in use, see writeback.go
	xattrs *xattr.Store
	dirs   dirStates
	orphan orphans
	tables []atomic.Uint64 // where the groups' inode tables begin; 0: not known yet
	serial atomic.Uint32   // of new inodes, for their generations
	merges atomic.Uint64   // transactions that have changed something
	closed atomic.Bool

	superMu     sync.Mutex  // held while the superblock on the device is changed
	marked      atomic.Bool // the superblock on the device says that it is written to
	wasClean    bool        // its state at opening
	journalLost bool        // the journal's inode has to be made again
	warned      atomic.Bool // damage was met: a check is due
}

// Open opens the file system on dev. The device stays the caller's, who closes it
// after the FS.
//
// For reading nothing is written: changes in the journal are seen as if they
// were in place. For writing (Options.ReadWrite) they are put in place first, so that
// even opening may write; a clean file system is not touched until the first
// change.
//
// Errors: *NotExt4Error if there is something else on dev, format.ErrUnsupported
// for features that are not known or, for writing, not written (all named),
// ErrNeedsRecovery for a journal that cannot be replayed (see
// Options.IgnoreJournal), format.ErrDamaged for a superblock that cannot be right
// or a device that is too small for it.
func Open(dev device.Device, opts Options) (*FS, error) {
	if opts.ReadWrite && (opts.IgnoreJournal || opts.IgnoreChecksums) {
		return nil, errors.New("a file system cannot be changed while its journal or its checksums are ignored")
	}
	fsys, err := load(dev, opts)
	switch {
	case err != nil:
		return nil, err
	case opts.ReadWrite:
		return fsys.openWrite()
	case !fsys.super.Features().HasIncompat(format.IncompatRecover) || opts.IgnoreJournal:
		return fsys, nil
	}
	if dev, err = fsys.replayInMemory(); err != nil {
		return nil, err
	}
	return load(dev, opts)
}

// load makes an FS that reads dev as it is.
func load(dev device.Device, opts Options) (*FS, error) {
	sb, err := readSuper(dev)
	if err != nil {
		return nil, err
	}
	if err := checkReadable(sb, opts); err != nil {
		return nil, err
	}
	geo, err := format.GeometryOf(sb)
	if err != nil {
		return nil, err
	}
	if err := checkSize(geo, dev.Size()); err != nil {
		return nil, err
	}
	fsys := &FS{dev: dev, opts: opts, super: sb, geo: geo, csum: format.ChecksumsOf(sb)}
	fsys.nodes.byNo = map[format.Ino]*node{}
	fsys.dirs = dirStates{}
	fsys.xattrs = xattr.NewStore(&fsys.geo, fsys.csum)
	fsys.tables = make([]atomic.Uint64, min(geo.Groups(), maxTables))
	fsys.j, err = journal.Open(journal.Options{
		Device: dev, BlockSize: geo.BlockSize, Blocks: uint64(geo.BlocksCount), ReadOnly: true, Memory: fsys.metaMemory(),
	})
	return fsys, err
}

// maxTables bounds the memory of FS.tables.
const maxTables = 1 << 20

// openWrite makes a file system that was loaded one that can be changed.
func (fsys *FS) openWrite() (*FS, error) {
	if err := checkWritable(fsys.super); err != nil {
		return nil, err
	}
	if device.ReadOnly(fsys.dev) {
		return nil, device.ErrReadOnly
	}
	if err := fsys.recover(); err != nil {
		return nil, err
	}
	lost := fsys.journalLost
	fsys, err := load(fsys.dev, fsys.opts) // what was replayed may have changed all
	if err != nil {
		return nil, err
	}
	fsys.journalLost = lost
	if err := checkWritable(fsys.super); err != nil {
		return nil, err
	}
	if err := fsys.startWriting(); err != nil {
		return nil, err
	}
	if err := fsys.tidyUp(); err != nil {
		_ = fsys.Close()
		return nil, err
	}
	return fsys, nil
}

// startWriting opens the journal and the allocator. It writes nothing.
func (fsys *FS) startWriting() (err error) {
	o := journal.Options{
		Device: fsys.dev, BlockSize: fsys.geo.BlockSize, Blocks: uint64(fsys.geo.BlocksCount), Memory: fsys.metaMemory(),
		Wide: fsys.geo.Features.HasIncompat(format.Incompat64Bit), Csum: fsys.csum.Meta,
		NoFlush: fsys.opts.NoSync, BeforeLog: fsys.beforeLog, OnAbort: fsys.onAbort, Policy: fsys.opts.Compare.JournalCopy,
		Now: func() (uint64, uint32) { t := fsys.now(); return uint64(max(t.Sec, 0)), t.Nsec },
	}
	if fsys.geo.Features.HasCompat(format.CompatHasJournal) {
		err := fsys.view(func(r reader) (err error) { o.Area, _, err = r.journalArea(); return err })
		if err != nil {
			return errDamagedLog(err)
		}
	}
	if fsys.j, err = journal.Open(o); err != nil {
		return err
	}
	if err := fsys.pinSuper(); err != nil {
		return err
	}
	return fsys.startAlloc()
}

// startAlloc opens the allocator.
func (fsys *FS) startAlloc() (err error) {
	fsys.alloc, err = alloc.New(alloc.Options{
		Geometry: &fsys.geo, Checksums: fsys.csum, Super: fsys.super, Journal: fsys.j, Warn: fsys.warn,
	})
	return err
}

// tidyUp does what a file system needs that was not closed well: files deleted
// while they were open are freed, a lost inode of the journal is made again.
func (fsys *FS) tidyUp() error {
	if err := fsys.restoreJournalInode(); err != nil {
		return err
	}
	return fsys.processOrphans()
}

// defaultMemory is what Options.Memory stands for when it is 0, in bytes.
const defaultMemory = 64 << 20

// metaMemory is how much memory unchanged metadata may take, in bytes.
func (fsys *FS) metaMemory() int64 {
	if !fsys.opts.ReadWrite && fsys.opts.Memory == 0 {
		return 4 << 20
	}
	return fsys.memory() / 4
}

// memory is the budget for all that is cached, in bytes.
func (fsys *FS) memory() int64 {
	if fsys.opts.Memory > 0 {
		return fsys.opts.Memory
	}
	return defaultMemory
}

// warn notes damage that was met while writing.
func (fsys *FS) warn(err error) {
	fsys.warned.Store(true)
	if fsys.opts.Warn != nil {
		fsys.opts.Warn(err)
	}
}

// now is the time for what is changed now.
func (fsys *FS) now() format.Time {
	if fsys.opts.Now != nil {
		return format.TimeOf(fsys.opts.Now())
	}
	return format.TimeOf(time.Now())
}

// Err says why the file system takes no more changes, if it does not: an error
// of the device that left the journal unfinished.
func (fsys *FS) Err() error { return fsys.j.Err() }

// Sync makes all changes durable.
func (fsys *FS) Sync() error {
	if err := fsys.mayWrite(); err != nil {
		return err
	}
	if err := fsys.syncData(); err != nil {
		return err
	}
	return readOnly(fsys.j.SyncAll())
}

// Close writes all changes, makes them durable, and ends the use of the file
// system: every later call by a name fails with fs.ErrClosed. Files that are
// still open are of no use any more; what has no name is deleted. The device is
// left open. After an error the journal holds what was acknowledged.
func (fsys *FS) Close() error {
	if !fsys.opts.ReadWrite {
		fsys.closed.Store(true)
		return nil
	}
	if fsys.closed.Load() {
		return nil
	}
	err := errors.Join(fsys.closeData(), fsys.deleteUnlinked())
	fsys.closed.Store(true)
	err = errors.Join(err, readOnly(fsys.j.Close()))
	if err != nil || !fsys.marked.Load() {
		return err
	}
	return fsys.unmark()
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
func (fsys *FS) Label() string { return fsys.current().VolumeName() }

// UUID returns the identity of the file system.
func (fsys *FS) UUID() [16]byte { return fsys.super.UUID() }

// Features returns the feature bits at opening.
func (fsys *FS) Features() format.Features { return fsys.geo.Features }

// Geometry returns block size, counts and layout.
func (fsys *FS) Geometry() format.Geometry { return fsys.geo }

// Superblock returns a copy of the superblock.
func (fsys *FS) Superblock() format.Superblock { return fsys.current() }

// current returns a copy of the superblock with what has changed since opening.
func (fsys *FS) current() format.Superblock {
	sb := append(format.Superblock(nil), fsys.super...)
	_ = fsys.view(func(r reader) error { // else that of opening
		now, err := r.superblock()
		if err == nil {
			copy(sb, now)
		}
		return err
	})
	return sb
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
