package ext4

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"drydock/device"
	"drydock/format"
	"drydock/journal"
)

// Fast commits are records of what has changed since the last transaction:
// names, inodes, mapped ranges. Replaying them takes much of a file system's
// writing half, and is not done in place: it happens in an overlay in memory,
// and the blocks that come out of it are appended to the log as one transaction
// (see appendlog.go). So it is done as a whole or not at all, and a replay that is
// cut off begins anew from the same state.

// applyFastCommits returns dev with the records of rec applied in memory.
func applyFastCommits(dev device.Device, opts Options, rec *journal.Recovery) (*device.Overlay, error) {
	over := device.NewOverlay(dev)
	opts.ReadWrite, opts.IgnoreChecksums = true, false
	fsys, err := load(over, opts)
	if err != nil {
		return nil, err
	}
	if err := checkWritable(fsys.super); err != nil {
		return nil, fmt.Errorf("fast commits: %w", err)
	}
	if err := fsys.startInMemory(); err != nil {
		return nil, err
	}
	r := fastReplay{fs: fsys, touched: map[format.Ino]bool{}, isDir: map[format.Ino]bool{}}
	if err := r.run(rec); err != nil {
		return nil, fmt.Errorf("fast commits: %w", err)
	}
	return over, fsys.j.SyncAll()
}

// startInMemory is startWriting without a log.
func (fsys *FS) startInMemory() (err error) {
	fsys.j, err = journal.Open(journal.Options{
		Device: fsys.dev, BlockSize: fsys.geo.BlockSize, Blocks: uint64(fsys.geo.BlocksCount), NoFlush: true,
	})
	if err != nil {
		return err
	}
	if err := fsys.startAlloc(); err != nil {
		return err
	}
	return fsys.readOrphans()
}

// fastReplay is one replay. Bitmaps and counts are put right at its end, from
// what the inodes then map.
type fastReplay struct {
	fs      *FS
	touched map[format.Ino]bool // records were about it
	isDir   map[format.Ino]bool // whether its group counts it as a directory, if that is not what it was
	freed   []blockRange        // unmapped by records, in any order
}

// blockRange is the blocks from start to end-1.
type blockRange struct{ start, end format.Block }

// run applies all records.
func (r *fastReplay) run(rec *journal.Recovery) error {
	if err := r.each(rec, r.reserve); err != nil {
		return err
	}
	if err := r.each(rec, r.apply); err != nil {
		return err
	}
	return r.settle()
}

// each calls fn for each record, in transactions of their own.
func (r *fastReplay) each(rec *journal.Recovery, fn func(*Tx, format.FCRecord) error) error {
	for record, err := range rec.FastCommits() {
		if err != nil {
			return err
		}
		if err := r.fs.update(func(t *Tx) error { return fn(t, record) }); err != nil {
			return fmt.Errorf("%s: %w", record.Name(), err)
		}
	}
	return nil
}

// reserve marks the blocks and inodes that a record names as used, before
// anything else is allocated.
func (r *fastReplay) reserve(t *Tx, rec format.FCRecord) error {
	switch rec.Tag {
	case format.FCAddRange:
		x := rec.AddRange().Extent
		if err := t.checkBlocks(x.Start, uint64(x.Len)); err != nil {
			return err
		}
		return t.fs.alloc.Claim(t.j, x.Start, x.Len)
	case format.FCInode:
		ino, raw := rec.Inode()
		if err := t.checkFastIno(ino); err != nil {
			return err
		}
		return r.claimInode(t, ino, raw.IsType(format.ModeDir))
	}
	return nil
}

// claimInode marks an inode as used, and notes as what it is counted.
func (r *fastReplay) claimInode(t *Tx, ino format.Ino, isDir bool) error {
	used, err := t.fs.alloc.InodeInUse(t.j, ino)
	if err != nil || used {
		return err
	}
	r.isDir[ino] = isDir
	return t.fs.alloc.ClaimInode(t.j, ino, isDir)
}

// recount counts an inode that changes from a directory to something else, or
// the other way round.
func (r *fastReplay) recount(t *Tx, ino format.Ino, was, now bool) error {
	if counted, ok := r.isDir[ino]; ok {
		was = counted
	}
	r.isDir[ino] = now
	if was == now {
		return nil
	}
	if err := t.fs.alloc.FreeInode(t.j, ino, was); err != nil {
		return err
	}
	return t.fs.alloc.ClaimInode(t.j, ino, now)
}

// checkBlocks fails for blocks that no file can have.
func (t *Tx) checkBlocks(start format.Block, n uint64) error {
	end := t.fs.geo.BlocksCount
	if n == 0 || !t.fs.geo.ValidBlock(start) || n > uint64(end-start) {
		return &format.DamagedError{Structure: "fast commit", Block: start, Offset: -1, Detail: fmt.Sprintf("%d blocks outside the file system", n)}
	}
	return nil
}

// checkFastIno fails for an inode that no fast commit is about.
func (t *Tx) checkFastIno(ino format.Ino) error {
	if t.fs.geo.ValidIno(ino) && (ino == format.RootIno || ino >= t.firstIno()) {
		return nil
	}
	return &format.DamagedError{Structure: "fast commit", Offset: -1, Detail: fmt.Sprintf("inode %d", ino)}
}

// apply carries out one record.
func (r *fastReplay) apply(t *Tx, rec format.FCRecord) error {
	switch rec.Tag {
	case format.FCInode:
		return r.putInode(t, rec)
	case format.FCAddRange:
		x := rec.AddRange()
		return r.addRange(t, x.Ino, x.Extent)
	case format.FCDelRange:
		x := rec.DelRange()
		return r.remap(t, x.Ino, x.LBlock, uint64(x.Len), nil)
	case format.FCCreat:
		return r.create(t, rec.Dentry())
	case format.FCLink:
		return r.link(t, rec.Dentry())
	case format.FCUnlink:
		return r.unlink(t, rec.Dentry())
	}
	return nil
}

// Where i_block lies in an inode: records do not carry it.
const iBlockStart, iBlockEnd = 0x28, 0x64

// putInode writes an inode but for its map. Of a directory, what follows from its
// content stays, too: size, links and whether it has an index.
func (r *fastReplay) putInode(t *Tx, rec format.FCRecord) error {
	ino, now := rec.Inode()
	slot, err := t.slotOf(ino)
	if err != nil {
		return err
	}
	was := append(format.Inode(nil), slot...)
	fresh := was.Mode() == 0 || was.Dtime() != 0 && was.LinksCount() == 0 || was.Generation() != now.Generation()
	if fresh {
		if err := r.discard(t, ino, was); err != nil {
			return err
		}
		clear(slot)
	}
	r.touched[ino] = true
	if err := r.recount(t, ino, was.IsType(format.ModeDir), now.IsType(format.ModeDir)); err != nil {
		return err
	}
	copy(slot[:iBlockStart], now[:iBlockStart])
	copy(slot[iBlockEnd:], now[iBlockEnd:])
	if slot.HasFlags(format.InodeExtents) {
		if _, err := format.ReadExtentHeader(slot.IBlock()); err != nil {
			clear(slot.IBlock())
			format.PutExtentHeader(slot.IBlock(), format.ExtentHeader{Max: format.ExtentRootMax})
		}
	}
	if slot.IsType(format.ModeDir) {
		keepDirFields(slot, was, fresh)
	} else if !slot.HasFlags(format.InodeExtents) {
		copy(slot.IBlock(), now.IBlock()) // a device, or the target of a short symbolic link
	}
	return nil
}

// discard frees what an inode has that another one takes the number of.
func (r *fastReplay) discard(t *Tx, ino format.Ino, was format.Inode) error {
	inUse := was.Mode() != 0 && (was.LinksCount() > 0 || t.fs.isOrphan(ino) || r.touched[ino])
	if err := t.dropOrphan(ino); err != nil || !inUse {
		return err
	}
	blocks, err := (&inode{reader: t.reader, num: ino, raw: was}).allBlocks()
	r.freed = append(r.freed, blocks...)
	return err
}

// allBlocks returns the blocks of data, map and attributes.
func (in *inode) allBlocks() (list []blockRange, err error) {
	for x, err := range in.extents(0) {
		if err != nil {
			return nil, err
		}
		list = append(list, blockRange{x.Start, x.Start + format.Block(x.Len)})
	}
	for b, err := range in.blockMap().Nodes() {
		if err != nil {
			return nil, err
		}
		list = append(list, blockRange{b, b + 1})
	}
	if acl := in.raw.FileACL(); acl != 0 {
		list = append(list, blockRange{acl, acl + 1})
	}
	return list, nil
}

// keepDirFields gives the inode of a directory the fields that go with its blocks.
func keepDirFields(slot, was format.Inode, fresh bool) {
	flags := slot.Flags() &^ format.InodeIndex
	if fresh {
		slot.SetFlags(flags)
		slot.SetSize(0)
		slot.SetLinksCount(2)
		return
	}
	slot.SetFlags(flags | was.Flags()&format.InodeIndex)
	slot.SetSize(was.Size())
	slot.SetLinksCount(was.LinksCount())
}

// addRange maps an extent, in place of what is mapped there.
func (r *fastReplay) addRange(t *Tx, ino format.Ino, x format.Extent) error {
	return r.remap(t, ino, x.LBlock, uint64(x.Len), func(e treeEditor) error { return e.Insert(x) })
}

// treeEditor is what remap's caller does with the map.
type treeEditor interface {
	Insert(x format.Extent) error
}

// remap unmaps n blocks of a file from l on, and then calls add.
func (r *fastReplay) remap(t *Tx, ino format.Ino, l format.LBlock, n uint64, add func(treeEditor) error) error {
	if err := t.checkFastIno(ino); err != nil {
		return err
	}
	if uint64(l)+n > format.MaxLBlock {
		return &format.DamagedError{Structure: "fast commit", Offset: -1, Detail: fmt.Sprintf("inode %d: %d file blocks at %d", ino, n, l)}
	}
	raw, err := t.slotOf(ino)
	if err != nil {
		return err
	}
	r.touched[ino] = true
	e, err := t.editTree(ino, raw, txNodes{t})
	if err != nil {
		return err
	}
	_, _, err = e.Remove(l, l+format.LBlock(n), 0, func(start format.Block, n uint32) error {
		r.freed = append(r.freed, blockRange{start, start + format.Block(n)})
		return nil
	})
	if err == nil && add != nil {
		err = add(e)
	}
	return err
}

// parentOf returns the place of a record's name.
func (r *fastReplay) parentOf(t *Tx, d format.FCDentry) (place, error) {
	dir, err := t.liveInode(d.Parent)
	if err != nil {
		return place{}, err
	}
	if !dir.isDir() {
		return place{}, dir.damaged("a fast commit has names in it, but it is no directory")
	}
	r.touched[d.Parent] = true
	return place{dir: dir, above: []*inode{dir}, name: string(d.Name)}, t.checkFastIno(d.Ino)
}

// Records do not tell when a directory changed: the time of the inode that got or
// lost a name there has to do.

// create gives a new inode its first name. A new directory gets its first block.
func (r *fastReplay) create(t *Tx, d format.FCDentry) error {
	p, err := r.parentOf(t, d)
	if err != nil {
		return err
	}
	raw, err := t.changeInode(d.Ino)
	if err != nil {
		return err
	}
	r.touched[d.Ino], t.time = true, raw.Ctime()
	if !raw.IsType(format.ModeDir) {
		raw.SetLinksCount(1)
		return r.addName(t, p, d.Ino, raw.Mode(), nil)
	}
	if raw.Size() == 0 {
		sub, err := t.openDir(d.Ino)
		if err != nil {
			return err
		}
		if err := sub.editor.Init(d.Parent); err != nil {
			return err
		}
	}
	return r.addName(t, p, d.Ino, raw.Mode(), func() error { return t.addSubdir(d.Parent) })
}

// link gives an inode one more name.
func (r *fastReplay) link(t *Tx, d format.FCDentry) error {
	p, err := r.parentOf(t, d)
	if err != nil {
		return err
	}
	raw, err := t.changeInode(d.Ino)
	if err != nil {
		return err
	}
	r.touched[d.Ino], t.time = true, raw.Ctime()
	return r.addName(t, p, d.Ino, raw.Mode(), func() error {
		raw.SetLinksCount(raw.LinksCount() + 1)
		return nil
	})
}

// addName makes a name lead to an inode, and calls added if it did not.
func (r *fastReplay) addName(t *Tx, p place, ino format.Ino, mode uint16, added func() error) error {
	there, err := p.dir.lookup(p.name)
	switch {
	case err == nil && there == ino:
		return nil
	case err == nil:
		err = t.retarget(p, ino, mode)
	case err == syscall.ENOENT:
		err = t.addName(p, ino, mode)
	}
	if err != nil || added == nil {
		return err
	}
	return added()
}

// retarget makes a name that is there lead to another inode.
func (t *Tx) retarget(p place, ino format.Ino, mode uint16) error {
	d, err := t.openDir(p.dir.num)
	if err != nil {
		return err
	}
	if err := d.editor.Replace([]byte(p.name), ino, format.FileTypeOf(mode)); err != nil {
		return err
	}
	return t.touchDir(p.dir.num)
}

// unlink takes a name away. The inode that it was the last name of is deleted
// as an orphan.
func (r *fastReplay) unlink(t *Tx, d format.FCDentry) error {
	p, err := r.parentOf(t, d)
	if err != nil {
		return err
	}
	there, err := p.dir.lookup(p.name)
	if err == syscall.ENOENT || err == nil && there != d.Ino {
		return nil
	}
	if err != nil {
		return err
	}
	raw, err := t.changeInode(d.Ino)
	if err != nil {
		return err
	}
	r.touched[d.Ino], t.time = true, raw.Ctime()
	if err := t.removeName(p); err != nil {
		return err
	}
	if raw.IsType(format.ModeDir) {
		raw.SetLinksCount(0)
		return t.dropSubdir(d.Parent)
	}
	raw.SetLinksCount(max(raw.LinksCount(), 1) - 1)
	return nil
}

// settle makes bitmaps and counts agree with what the inodes map now.
func (r *fastReplay) settle() error {
	var used []blockRange
	for _, ino := range r.inos() {
		err := r.fs.update(func(t *Tx) error {
			ranges, err := r.settleInode(t, ino)
			used = append(used, ranges...)
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, f := range without(r.freed, used) {
		err := r.fs.update(func(t *Tx) error { return t.fs.alloc.Free(t.j, f.start, uint32(f.end-f.start)) })
		if err != nil {
			return err
		}
	}
	return nil
}

// inos returns the inodes that records were about, in ascending order.
func (r *fastReplay) inos() []format.Ino {
	inos := make([]format.Ino, 0, len(r.touched))
	for ino := range r.touched {
		inos = append(inos, ino)
	}
	slices.Sort(inos)
	return inos
}

// settleInode marks the blocks of an inode as used, counts them, and makes the
// inode an orphan if it has no name.
func (r *fastReplay) settleInode(t *Tx, ino format.Ino) (used []blockRange, err error) {
	raw, err := t.changeInode(ino)
	if err != nil {
		return nil, err
	}
	if used, err = (&inode{reader: t.reader, num: ino, raw: raw}).allBlocks(); err != nil {
		return nil, err
	}
	blocks := uint64(0)
	for _, u := range used {
		blocks += uint64(u.end - u.start)
		if err := t.fs.alloc.Claim(t.j, u.start, uint32(u.end-u.start)); err != nil {
			return nil, err
		}
	}
	bs := t.fs.geo.BlockSize
	if !raw.SetSectors(t.fs.geo.Features, bs, blocks*uint64(bs/512)) {
		return nil, syscall.EFBIG
	}
	if raw.LinksCount() == 0 {
		return used, t.addOrphan(ino)
	}
	return used, nil
}

// without returns the blocks of a that are not in b, in ascending order, in
// ranges that a transaction can free at once.
func without(a, b []blockRange) (rest []blockRange) {
	byStart := func(x, y blockRange) int { return cmp.Compare(x.start, y.start) }
	slices.SortFunc(a, byStart)
	slices.SortFunc(b, byStart)
	at, i := format.Block(0), 0
	for _, x := range a {
		for at = max(at, x.start); at < x.end; {
			for i < len(b) && b[i].end <= at {
				i++
			}
			if i < len(b) && b[i].start <= at {
				at = b[i].end
				continue
			}
			end := min(x.end, at+format.MaxExtentLen)
			if i < len(b) {
				end = min(end, b[i].start)
			}
			rest = append(rest, blockRange{at, end})
			at = end
		}
	}
	return rest
}

// replayFastCommits applies fast commits on the device, whose log has been
// replayed: they become a transaction of the log, which is then replayed.
func (fsys *FS) replayFastCommits(rec *journal.Recovery, area *journal.Area) (*journal.Recovery, error) {
	over, err := applyFastCommits(fsys.dev, fsys.opts, rec)
	if err != nil {
		return nil, err
	}
	blocks, err := fsys.changedBlocks(over)
	if err != nil {
		return nil, err
	}
	if err := fsys.appendToLog(rec, area, over, blocks); err != nil {
		return nil, err
	}
	if rec, _, err = fsys.scan(); err != nil {
		return nil, err
	}
	if rec.Damage != nil || rec.FastRecords > 0 || rec.Len() < len(blocks) {
		return nil, errors.Join(errors.New("the log does not hold what was written to it"), rec.Damage)
	}
	return rec, fsys.replay(rec)
}

// changedBlocks returns the blocks in which an overlay differs from its base.
func (fsys *FS) changedBlocks(over *device.Overlay) (blocks []format.Block, err error) {
	bs := int64(fsys.geo.BlockSize)
	old, now := make([]byte, bs), make([]byte, bs)
	next := int64(0)
	for s := range over.Changed() {
		for b := max(s.Off/bs, next); b*bs < s.End() && b < int64(fsys.geo.BlocksCount); b++ {
			if err := errors.Join(readFull(fsys.dev, old, b*bs), readFull(over, now, b*bs)); err != nil {
				return nil, err
			}
			if string(old) != string(now) {
				blocks = append(blocks, format.Block(b))
			}
			next = b + 1
		}
	}
	return blocks, nil
}
