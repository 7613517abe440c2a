package ext4

import (
	"container/list"
	"errors"
	"fmt"
	"slices"
	"sync"

	"drydock/format"
)

// An orphan is an inode that has to be cleaned up after a crash: without a name
// it is deleted, with one it is cut to its size. The superblock heads a list of
// them that goes on in i_dtime of each; with the feature orphan_file they stand
// in the blocks of a file, and in the list only when that is full.

// orphans mirrors in memory which inodes are orphans on the disk. It is changed
// by transactions only, of which there is one at a time; mu is for those who
// read beside it.
type orphans struct {
	mu    sync.Mutex
	order *list.List                 // of format.Ino, as in the list on the disk
	where map[format.Ino]orphanPlace // each orphan
	file  []format.Block             // of the orphan file
	free  int                        // no block of it before this one has a free slot
}

// orphanPlace is an element of the list, or a slot in the orphan file.
type orphanPlace struct {
	elem        *list.Element
	block, slot int
}

// isOrphan reports whether an inode is an orphan.
func (fsys *FS) isOrphan(ino format.Ino) bool {
	fsys.orphan.mu.Lock()
	defer fsys.orphan.mu.Unlock()
	_, ok := fsys.orphan.where[ino]
	return ok
}

// note records in memory where an orphan is, until the transaction is aborted.
func (t *Tx) noteOrphan(ino format.Ino, at orphanPlace) {
	o := &t.fs.orphan
	o.mu.Lock()
	defer o.mu.Unlock()
	if at.elem != nil {
		at.elem = o.order.PushFront(ino)
	}
	o.where[ino] = at
	t.j.OnAbort(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if at.elem != nil {
			o.order.Remove(at.elem)
		}
		delete(o.where, ino)
	})
}

// forgetOrphan is the opposite of noteOrphan.
func (t *Tx) forgetOrphan(ino format.Ino, at orphanPlace) {
	o := &t.fs.orphan
	o.mu.Lock()
	defer o.mu.Unlock()
	var before *list.Element
	if at.elem != nil {
		before = at.elem.Prev()
		o.order.Remove(at.elem)
	} else {
		o.free = min(o.free, at.block)
	}
	delete(o.where, ino)
	t.j.OnAbort(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if at.elem != nil {
			at.elem = o.insertAfter(before, ino)
		}
		o.where[ino] = at
	})
}

// insertAfter puts an inode behind an element of the list, nil for the front.
func (o *orphans) insertAfter(before *list.Element, ino format.Ino) *list.Element {
	if before == nil {
		return o.order.PushFront(ino)
	}
	return o.order.InsertAfter(ino, before)
}

// addOrphan makes an inode an orphan, if it is none.
func (t *Tx) addOrphan(ino format.Ino) error {
	if t.fs.isOrphan(ino) {
		return nil
	}
	if done, err := t.addToOrphanFile(ino); done || err != nil {
		return err
	}
	sb, err := t.changeSuper()
	if err != nil {
		return err
	}
	raw, err := t.changeInode(ino)
	if err != nil {
		return err
	}
	raw.SetDtime(sb.LastOrphan())
	sb.SetLastOrphan(uint32(ino))
	t.noteOrphan(ino, orphanPlace{elem: new(list.Element)})
	return nil
}

// removeOrphan makes an orphan none, if it is one that has a name.
func (t *Tx) removeOrphan(ino format.Ino) error {
	if !t.fs.isOrphan(ino) {
		return nil
	}
	raw, err := t.changeInode(ino)
	if err != nil || raw.LinksCount() == 0 {
		return err
	}
	return t.dropOrphan(ino)
}

// dropOrphan makes an orphan none, if it is one.
func (t *Tx) dropOrphan(ino format.Ino) error {
	o := &t.fs.orphan
	o.mu.Lock()
	at, ok := o.where[ino]
	o.mu.Unlock()
	if !ok {
		return nil
	}
	var err error
	if at.elem != nil {
		err = t.unlinkOrphan(ino, at.elem.Prev())
	} else {
		err = t.setOrphanSlot(at.block, at.slot, 0)
	}
	if err == nil {
		t.forgetOrphan(ino, at)
	}
	return err
}

// unlinkOrphan takes an inode out of the list on the disk; before is the element
// in front of it.
func (t *Tx) unlinkOrphan(ino format.Ino, before *list.Element) error {
	raw, err := t.changeInode(ino)
	if err != nil {
		return err
	}
	next := raw.Dtime()
	raw.SetDtime(0)
	if before == nil {
		sb, err := t.changeSuper()
		if err == nil {
			sb.SetLastOrphan(next)
		}
		return err
	}
	prev, err := t.changeInode(before.Value.(format.Ino))
	if err == nil {
		prev.SetDtime(next)
	}
	return err
}

// addToOrphanFile puts an inode into a free slot of the orphan file, if there is one.
func (t *Tx) addToOrphanFile(ino format.Ino) (done bool, err error) {
	o := &t.fs.orphan
	for ; o.free < len(o.file); o.free++ {
		block, err := t.get(o.file[o.free])
		if err != nil {
			return false, err
		}
		if slot := freeSlot(block); slot >= 0 {
			if err := t.setOrphanSlot(o.free, slot, ino); err != nil {
				return false, err
			}
			t.noteOrphan(ino, orphanPlace{block: o.free, slot: slot})
			return true, nil
		}
	}
	return false, nil
}

// freeSlot returns a free slot of a block, -1 if there is none.
func freeSlot(block format.OrphanBlock) int {
	for i := range block.Slots() {
		if block.Slot(i) == 0 {
			return i
		}
	}
	return -1
}

// setOrphanSlot stores an inode in a slot of the orphan file, 0 to free it.
func (t *Tx) setOrphanSlot(i, slot int, ino format.Ino) error {
	fsys := t.fs
	b := fsys.orphan.file[i]
	block, err := t.j.Change(b)
	if err != nil {
		return err
	}
	format.OrphanBlock(block).SetSlot(slot, ino)
	self := format.Ino(fsys.super.OrphanFileInum())
	in, err := t.inode(self)
	if err != nil {
		return err
	}
	fsys.csum.SealOrphanBlock(self, in.raw.Generation(), b, block)
	return nil
}

// readOrphans learns from the disk which inodes are orphans.
func (fsys *FS) readOrphans() error {
	o := &fsys.orphan
	o.order, o.where = list.New(), map[format.Ino]orphanPlace{}
	return fsys.view(func(r reader) error {
		return errors.Join(r.readOrphanList(), r.readOrphanFile())
	})
}

// readOrphanList follows the list. A number that cannot be one of an orphan
// ends it, as one that was there before does; it is then cut off there.
func (r reader) readOrphanList() error {
	sb, err := r.superblock()
	if err != nil {
		return err
	}
	o := &r.fs.orphan
	for next := format.Ino(sb.LastOrphan()); next != 0; {
		in, err := r.orphanInode(next)
		if _, again := o.where[next]; again {
			err = in.damaged("twice in the list of orphans")
		}
		if err != nil {
			return fmt.Errorf("list of orphans: %w", err)
		}
		o.where[next] = orphanPlace{elem: o.order.PushBack(next)}
		next = format.Ino(in.raw.Dtime())
	}
	return nil
}

// orphanInode reads an inode that is said to be an orphan. It must be one that
// can be: not reserved, in use, with data that can be freed.
func (r reader) orphanInode(ino format.Ino) (*inode, error) {
	in, err := r.inode(ino)
	if err != nil {
		return nil, err
	}
	if ino < r.firstIno() {
		return in, in.damaged("reserved, but an orphan")
	}
	used, err := r.fs.alloc.InodeInUse(r.src, ino)
	switch {
	case err != nil:
		return in, err
	case !used || in.raw.Mode() == 0:
		return in, in.damaged("free, but an orphan")
	}
	return in, nil
}

// firstIno is the first inode that is not reserved.
func (r reader) firstIno() format.Ino {
	if r.fs.super.RevLevel() == format.RevGoodOld {
		return format.FirstNonReservedIno
	}
	return max(format.Ino(r.fs.super.FirstIno()), format.FirstNonReservedIno)
}

// readOrphanFile learns where the orphan file is and what is in it.
func (r reader) readOrphanFile() error {
	self := format.Ino(r.fs.super.OrphanFileInum())
	if !r.fs.geo.Features.HasCompat(format.CompatOrphanFile) || self == 0 {
		return nil
	}
	in, err := r.liveInode(self)
	if err != nil {
		return fmt.Errorf("orphan file: %w", err)
	}
	o := &r.fs.orphan
	for x, err := range in.extents(0) {
		if err != nil {
			return fmt.Errorf("orphan file: %w", err)
		}
		for i := range x.Len {
			if err := r.readOrphanBlock(in, x.Start+format.Block(i)); err != nil {
				o.file = nil
				return err
			}
		}
	}
	return nil
}

// readOrphanBlock adds a block to those of the orphan file.
func (r reader) readOrphanBlock(file *inode, b format.Block) error {
	block, err := r.get(b)
	if err != nil {
		return err
	}
	if err := format.CheckOrphanBlock(block, b); err != nil {
		return err
	}
	if !r.fs.csum.VerifyOrphanBlock(file.num, file.raw.Generation(), b, block) {
		return &format.DamagedError{Structure: "orphan file block", Block: b, Offset: -1, Detail: "wrong checksum"}
	}
	o := &r.fs.orphan
	for slot, ino := range format.OrphanBlock(block).Orphans() {
		o.where[ino] = orphanPlace{block: len(o.file), slot: slot}
	}
	o.file = append(o.file, b)
	return nil
}

// processOrphans cleans up what a crash has left, in transactions: cut off
// anywhere, it goes on at the next opening. A file system with errors is left
// alone: its orphans cannot be trusted.
func (fsys *FS) processOrphans() error {
	err := fsys.readOrphans()
	trusted := fsys.super.State()&format.StateErrors == 0
	if err != nil {
		fsys.warn(err)
		if !errors.Is(err, format.ErrDamaged) {
			return err
		}
	}
	if !trusted {
		return nil
	}
	for _, ino := range fsys.orphanInos() {
		err := fsys.processOrphan(ino)
		if errors.Is(err, format.ErrDamaged) {
			fsys.warn(err) // it stays an orphan
		} else if err != nil {
			return fmt.Errorf("orphan inode %d: %w", ino, err)
		}
	}
	return fsys.cutOrphanList(err)
}

// orphanInos returns the orphans, those in the list first, in its order.
func (fsys *FS) orphanInos() []format.Ino {
	o := &fsys.orphan
	var inos, file []format.Ino
	for e := o.order.Front(); e != nil; e = e.Next() {
		inos = append(inos, e.Value.(format.Ino))
	}
	for ino, at := range o.where {
		if at.elem == nil {
			file = append(file, ino)
		}
	}
	slices.Sort(file)
	return append(inos, file...)
}

// processOrphan deletes an inode without a name, or cuts one to its size.
func (fsys *FS) processOrphan(ino format.Ino) error {
	var links uint16
	var size uint64
	err := fsys.view(func(r reader) error {
		in, err := r.orphanInode(ino)
		if err == nil {
			links, size = in.raw.LinksCount(), in.size()
		}
		return err
	})
	switch {
	case errors.Is(err, format.ErrDamaged):
		fsys.warn(err)
		return fsys.update(func(t *Tx) error { return t.dropOrphan(ino) })
	case err != nil:
		return err
	case links == 0:
		return fsys.deleteInode(ino, nil)
	}
	return fsys.truncateInode(ino, nil, size)
}

// cutOrphanList ends the list on the disk where reading it failed.
func (fsys *FS) cutOrphanList(readErr error) error {
	if readErr == nil {
		return nil
	}
	return fsys.update(func(t *Tx) error {
		sb, err := t.changeSuper()
		if err == nil {
			sb.SetLastOrphan(0)
		}
		return err
	})
}
