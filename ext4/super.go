package ext4

import (
	"fmt"

	"drydock/device"
	"drydock/format"
)

// The superblock lives in three places: on the device, in the journal as a
// block like any other, and in FS.super, which holds what never changes while
// the file system is open.
//
// Most of what changes is written by a transaction (Tx.changeSuper): the orphan
// list, the features of files. Marks that have to be on the device before the
// log is used, or after it is empty, are put there by editSuper; at those times
// nothing of the superblock is on its way through the journal.

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

// superPlace returns the block of the primary superblock and its offset there.
func (fsys *FS) superPlace() (b format.Block, off int) {
	bs := fsys.geo.BlockSize
	return format.Block(format.SuperblockOffset / bs), format.SuperblockOffset % bs
}

// changeSuper returns the superblock to change in the transaction.
func (t *Tx) changeSuper() (format.Superblock, error) {
	b, off := t.fs.superPlace()
	block, err := t.j.Change(b)
	if err != nil {
		return nil, err
	}
	t.superChanged = true
	return format.Superblock(block[off : off+format.SuperblockSize]), nil
}

// useLargeFile notes that there is a file of 2 GiB or more.
func (t *Tx) useLargeFile() error {
	now, err := t.superblock()
	if err != nil || now.Features().HasROCompat(format.ROCompatLargeFile) {
		return err
	}
	sb, err := t.changeSuper()
	if err == nil {
		sb.SetFeatureROCompat(sb.FeatureROCompat() | format.ROCompatLargeFile)
	}
	return err
}

// superblock returns the superblock as it is now, which must not be changed.
func (r reader) superblock() (format.Superblock, error) {
	b, off := r.fs.superPlace()
	block, err := r.get(b)
	if err != nil {
		return nil, err
	}
	return format.Superblock(block[off : off+format.SuperblockSize]), nil
}

// editSuper changes the superblock on the device itself, durably.
func (fsys *FS) editSuper(edit func(sb format.Superblock)) error {
	fsys.superMu.Lock()
	defer fsys.superMu.Unlock()
	sb := make(format.Superblock, format.SuperblockSize)
	if err := readFull(fsys.dev, sb, format.SuperblockOffset); err != nil {
		return fmt.Errorf("superblock: %w", err)
	}
	edit(sb)
	format.SealSuperblock(sb)
	write := device.WriteFUA
	if fsys.opts.NoSync {
		write = func(d device.Device, p []byte, off int64) (int, error) { return d.WriteAt(p, off) }
	}
	if _, err := write(fsys.dev, sb, format.SuperblockOffset); err != nil {
		return fmt.Errorf("superblock: %w", err)
	}
	return nil
}

// markInUse makes the changes that the superblock has while the file system is
// written to: with a journal it needs recovery, without one it is not clean.
func markInUse(sb format.Superblock) {
	f := sb.Features()
	if f.HasCompat(format.CompatHasJournal) {
		f.Incompat |= format.IncompatRecover
	} else {
		sb.SetState(sb.State() &^ format.StateClean)
	}
	if f.HasCompat(format.CompatOrphanFile) {
		f.ROCompat |= format.ROCompatOrphanPresent
	}
	sb.SetFeatures(f)
}

// beforeLog puts the marks on the device before the first change of it.
func (fsys *FS) beforeLog() error {
	err := fsys.editSuper(markInUse)
	if err == nil {
		fsys.marked.Store(true)
	}
	return err
}

// beforeChange is beforeLog for a file system without a journal, of a
// transaction that changes size blocks.
func (fsys *FS) beforeChange(size int) error {
	if size == 0 || fsys.marked.Load() || fsys.geo.Features.HasCompat(format.CompatHasJournal) {
		return nil
	}
	return fsys.beforeLog()
}

// pinSuper makes the superblock that transactions change one with the marks: a
// replay that is cut off must leave them.
func (fsys *FS) pinSuper() error {
	b, off := fsys.superPlace()
	block := make([]byte, fsys.geo.BlockSize)
	if err := fsys.j.ReadBlock(b, block); err != nil {
		return err
	}
	sb := format.Superblock(block[off : off+format.SuperblockSize])
	f := sb.Features()
	fsys.wasClean = sb.State()&format.StateClean != 0
	fsys.marked.Store(needsRecovery(sb) || f.HasROCompat(format.ROCompatOrphanPresent))
	markInUse(sb)
	if sb.State()&format.StateErrors != 0 {
		sb.SetLastOrphan(0) // as Linux: nobody trusts that list
	}
	format.SealSuperblock(sb)
	fsys.j.Override(b, block)
	return nil
}

// unmark takes the marks from the device when the log is empty, and writes what
// is kept up to date only here.
func (fsys *FS) unmark() error {
	sums := fsys.alloc.Sums()
	return fsys.editSuper(func(sb format.Superblock) {
		f := sb.Features()
		f.Incompat &^= format.IncompatRecover
		f.ROCompat &^= format.ROCompatOrphanPresent
		sb.SetFeatures(f)
		sb.SetFreeBlocksCount(sums.FreeBlocks)
		sb.SetFreeInodesCount(uint32(sums.FreeInodes))
		sb.SetWtime(fsys.seconds())
		if fsys.wasClean {
			sb.SetState(sb.State() | format.StateClean)
		}
		if fsys.warned.Load() {
			sb.SetState(sb.State() | format.StateErrors)
		}
	})
}

// seconds is the time for fields of the superblock, which has none before 1970.
func (fsys *FS) seconds() uint64 { return uint64(max(fsys.now().Sec, 0)) }

// errnoIO is what s_first_error_errcode calls an I/O error (EXT4_ERR_EIO).
const errnoIO = 2

// recordError notes an error in the superblock, so that a check is due.
func recordError(sb format.Superblock, now uint64) {
	sb.SetState(sb.State() | format.StateErrors)
	if sb.ErrorCount() == 0 {
		sb.SetFirstErrorTime(now)
		sb.SetFirstErrorErrcode(errnoIO)
		sb.SetFirstErrorFunc("drydock")
	}
	sb.SetErrorCount(sb.ErrorCount() + 1)
	sb.SetLastErrorTime(now)
	sb.SetLastErrorErrcode(errnoIO)
	sb.SetLastErrorFunc("drydock")
}

// onAbort records that the journal has aborted. Should the device take nothing
// more, s_errno in the journal or the log itself tells of it.
func (fsys *FS) onAbort(error) {
	now := fsys.seconds()
	_ = fsys.editSuper(func(sb format.Superblock) { recordError(sb, now) })
}

// keepErrors carries the marks of an error over a replay, which may have put an
// older superblock in place.
func keepErrors(sb, before format.Superblock) {
	sb.SetState(sb.State() | before.State()&format.StateErrors)
	if sb.ErrorCount() >= before.ErrorCount() {
		return
	}
	sb.SetErrorCount(before.ErrorCount())
	sb.SetFirstErrorTime(before.FirstErrorTime())
	sb.SetFirstErrorIno(before.FirstErrorIno())
	sb.SetFirstErrorBlock(before.FirstErrorBlock())
	sb.SetFirstErrorFunc(before.FirstErrorFunc())
	sb.SetFirstErrorLine(before.FirstErrorLine())
	sb.SetFirstErrorErrcode(before.FirstErrorErrcode())
	sb.SetLastErrorTime(before.LastErrorTime())
	sb.SetLastErrorIno(before.LastErrorIno())
	sb.SetLastErrorBlock(before.LastErrorBlock())
	sb.SetLastErrorFunc(before.LastErrorFunc())
	sb.SetLastErrorLine(before.LastErrorLine())
	sb.SetLastErrorErrcode(before.LastErrorErrcode())
}
