package ext4

import (
	"encoding/binary"
	"fmt"

	"drydock/device"
	"drydock/format"
	"drydock/journal"
)

// errDamagedLog wraps what is wrong with a journal that cannot be replayed.
func errDamagedLog(err error) error {
	return fmt.Errorf("%w, but it is damaged, and so it is left alone; "+
		"e2fsck repairs that, or ignore the journal to read the older state: %w", ErrNeedsRecovery, err)
}

// journalArea finds the log. fromBackup reports that the journal's inode is of
// no use and the copy in the superblock was taken.
func (r reader) journalArea() (area *journal.Area, fromBackup bool, err error) {
	sb := r.fs.super
	if sb.JournalInum() == 0 {
		area, err = r.externalArea()
		return area, false, err
	}
	in, err := r.journalInode()
	if err == nil {
		if area, err = in.logArea(); err == nil {
			return area, false, nil
		}
	}
	backup := r.backupInode()
	if backup == nil {
		return nil, false, err
	}
	if area, backupErr := backup.logArea(); backupErr == nil {
		return area, true, nil
	}
	return nil, false, err
}

// externalArea is the log on the device that Options.Journal names.
func (r reader) externalArea() (*journal.Area, error) {
	dev := r.fs.opts.Journal
	if dev == nil {
		return nil, &format.UnsupportedError{Detail: "the journal lies on another device, which is not given"}
	}
	return journal.NewExternalArea(dev, r.fs.geo.BlockSize, r.fs.super.UUID(), r.fs.super.JournalUUID())
}

// journalInode reads the inode of the journal.
func (r reader) journalInode() (*inode, error) {
	in, err := r.liveInode(format.Ino(r.fs.super.JournalInum()))
	if err == nil && !in.isRegular() {
		err = in.damaged("the journal is not a regular file")
	}
	return in, err
}

// backupInode makes an inode from the copy of the journal's that the superblock
// keeps: block map and size. It is nil if there is none.
func (r reader) backupInode() *inode {
	sb := r.fs.super
	if sb.JnlBackupType() != format.JnlBackupBlocks {
		return nil
	}
	words := sb.JnlBlocks()
	raw := make(format.Inode, r.fs.geo.InodeSize)
	putJournalInode(raw, words)
	return &inode{reader: r, num: format.Ino(sb.JournalInum()), raw: raw}
}

// putJournalInode writes what the superblock's copy of the journal inode says.
func putJournalInode(raw format.Inode, words [17]uint32) {
	for i, w := range words[:15] {
		binary.LittleEndian.PutUint32(raw.IBlock()[4*i:], w)
	}
	raw.SetMode(format.ModeRegular | 0o600)
	raw.SetLinksCount(1)
	raw.SetSize(uint64(words[15])<<32 | uint64(words[16]))
	if _, err := format.ReadExtentHeader(raw.IBlock()); err == nil {
		raw.SetFlags(raw.Flags() | format.InodeExtents)
	}
}

// logArea returns the blocks of a file as those of a log. Linux does not use
// what lies behind the file's end.
func (in *inode) logArea() (*journal.Area, error) {
	blocks := in.size() / uint64(in.fs.geo.BlockSize)
	var list []format.Extent
	for x, err := range in.extents(0) {
		if err != nil {
			return nil, err
		}
		if uint64(x.LBlock) >= blocks {
			break
		}
		x.Len = uint32(min(uint64(x.Len), blocks-uint64(x.LBlock)))
		list = append(list, x)
	}
	area, err := journal.NewArea(in.fs.dev, in.fs.geo.BlockSize, list)
	if err != nil {
		return nil, in.wrap(err)
	}
	if uint64(area.Blocks()) < blocks {
		return nil, in.damaged("the journal has a hole at its end: %d of %d blocks", area.Blocks(), blocks)
	}
	return area, nil
}

// scan reads the log of the file system.
func (fsys *FS) scan() (rec *journal.Recovery, area *journal.Area, err error) {
	err = fsys.view(func(r reader) error {
		area, fsys.journalLost, err = r.journalArea()
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	rec, err = journal.Scan(area, journal.ScanOptions{
		Blocks:    uint64(fsys.geo.BlocksCount),
		InodeSize: fsys.geo.InodeSize,
		External:  fsys.super.JournalInum() == 0,
	})
	return rec, area, err
}

// replayed is a device with a journal replayed over it: reads see what the
// replay would write. It takes no writes.
type replayed struct {
	device.Device
	rec       *journal.Recovery
	blockSize int
}

// ReadAt reads the device, then the blocks of the range that the log has.
func (d *replayed) ReadAt(p []byte, off int64) (int, error) {
	n, err := d.Device.ReadAt(p, off)
	bs := int64(d.blockSize)
	if n == 0 {
		return n, err
	}
	block := make([]byte, bs)
	for b := off / bs; b*bs < off+int64(n); b++ {
		ok, err := d.rec.ReadBlock(format.Block(b), block)
		if err != nil {
			return 0, err
		}
		if at := b*bs - off; ok {
			copy(p[max(at, 0):n], block[max(-at, 0):])
		}
	}
	return n, err
}

// WriteAt fails: a file system opened for reading is not written to.
func (d *replayed) WriteAt([]byte, int64) (int, error) { return 0, device.ErrReadOnly }

// replayInMemory returns a device that reads as if the journal had been replayed.
func (fsys *FS) replayInMemory() (device.Device, error) {
	rec, _, err := fsys.scan()
	switch {
	case err != nil:
		return nil, errDamagedLog(err)
	case rec.Damage != nil:
		return nil, errDamagedLog(rec.Damage)
	}
	dev := device.Device(&replayed{Device: fsys.dev, rec: rec, blockSize: fsys.geo.BlockSize})
	if rec.FastRecords == 0 {
		return dev, nil
	}
	return applyFastCommits(dev, fsys.opts, rec)
}

// recover replays the journal on the device. It can be cut off anywhere and done
// again; what it leaves is a file system with an empty log.
func (fsys *FS) recover() error {
	if !fsys.super.Features().HasCompat(format.CompatHasJournal) {
		return nil
	}
	rec, area, err := fsys.scan()
	if err != nil {
		return errDamagedLog(err)
	}
	if !needsRecovery(fsys.super) {
		return fsys.recoverNothing(rec)
	}
	if rec.Damage != nil {
		return errDamagedLog(rec.Damage)
	}
	if err := fsys.replay(rec); err != nil {
		return err
	}
	if rec.FastRecords > 0 {
		if rec, err = fsys.replayFastCommits(rec, area); err != nil {
			return err
		}
	}
	rec.Errno = 0 // replay has put the mark into the superblock
	return rec.Finish()
}

// recoverNothing makes the log of a file system that needs no recovery right.
// As in Linux, the superblock decides: what may be in the log is given up.
func (fsys *FS) recoverNothing(rec *journal.Recovery) error {
	if rec.Errno != 0 {
		if err := fsys.editSuper(func(sb format.Superblock) { sb.SetState(sb.State() | format.StateErrors) }); err != nil {
			return err
		}
		rec.Errno = 0
	}
	return rec.Discard()
}

// replay writes the blocks home. An error recorded before, in the superblock or
// in the journal, is recorded after it, too.
func (fsys *FS) replay(rec *journal.Recovery) error {
	before := append(format.Superblock(nil), fsys.super...)
	if rec.Errno != 0 {
		before.SetState(before.State() | format.StateErrors)
	}
	if err := rec.Replay(fsys.dev); err != nil {
		return fmt.Errorf("replay of the journal: %w", err)
	}
	after, err := readSuper(fsys.dev)
	if err != nil {
		return err
	}
	same := append(format.Superblock(nil), after...)
	keepErrors(after, before)
	if string(after) == string(same) {
		return nil
	}
	return fsys.editSuper(func(sb format.Superblock) { keepErrors(sb, before) })
}

// restoreJournalInode makes the inode of the journal again from the copy in the
// superblock, where it was of no use.
func (fsys *FS) restoreJournalInode() error {
	if !fsys.journalLost {
		return nil
	}
	return fsys.update(func(t *Tx) error {
		sb, err := t.superblock()
		if err != nil {
			return err
		}
		raw, err := t.slotOf(format.Ino(sb.JournalInum()))
		if err != nil {
			return err
		}
		words := sb.JnlBlocks()
		clear(raw)
		if len(raw) > format.GoodOldInodeSize {
			raw.SetExtraIsize(fsys.wantExtraIsize())
		}
		putJournalInode(raw, words)
		raw.SetMtime(t.time)
		raw.SetCtime(t.time)
		in := &inode{reader: t.reader, num: format.Ino(sb.JournalInum()), raw: raw}
		data, nodes, err := in.blockMap().Blocks()
		if err != nil {
			return err
		}
		return t.addBlocks(raw, int64(data+nodes))
	})
}
