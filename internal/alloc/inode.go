package alloc

import (
	"fmt"

	"drydock/format"
	"drydock/journal"
)

// pendingInodes are the inodes of a group that were freed in transactions that
// are not durable yet.
type pendingInodes struct {
	bits Bitmap
	n    int
}

// reservedInodes is how many inodes at the start of a group are never handed out.
func (a *Allocator) reservedInodes(g format.Group) uint32 {
	first := uint64(g) * uint64(a.geo.InodesPerGroup)
	reserved := uint64(a.firstIno - 1)
	if reserved <= first {
		return 0
	}
	return uint32(min(reserved-first, uint64(a.geo.InodesPerGroup)))
}

// NewInode takes a free inode: for a file in the group of its parent directory
// or one near it, for a directory where inodes and blocks are plenty. The bit,
// the counts and the checksums are set; the inode itself is the caller's to
// write, and what lies around it in its block of the table is in order. When
// the Tx is aborted it is free again. The error is a *SpaceError where there is
// no inode; after any other the Tx, or the Try around, must be given up.
func (a *Allocator) NewInode(tx *journal.Tx, parent format.Ino, dir bool) (format.Ino, error) {
	for {
		g, ok := a.groupForInode(parent, dir)
		if !ok {
			return 0, a.space.noInodes()
		}
		bitmap, err := a.readInodeBitmap(tx, g)
		if err != nil {
			a.badInodes(g, err)
			continue
		}
		if i, ok := a.freeIndex(g, bitmap); ok {
			return a.geo.GroupFirstIno(g) + format.Ino(i), a.takeInode(tx, g, i, dir)
		}
	}
}

// readInodeBitmap returns the inode bitmap of a group for reading, its checksum
// verified and held against the descriptor; nil if it was never written, as no
// inode is in use.
func (a *Allocator) readInodeBitmap(src source, g format.Group) (Bitmap, error) {
	d, err := a.desc(src, g)
	if err != nil {
		return nil, err
	}
	if a.inodeUninit(d) {
		if d.FreeInodesCount() != a.geo.InodesPerGroup {
			return nil, a.descError(g, "%d free inodes and no inode bitmap, want %d", d.FreeInodesCount(), a.geo.InodesPerGroup)
		}
		return nil, nil
	}
	v, err := src.Get(d.InodeBitmap())
	if err != nil {
		return nil, err
	}
	m := Bitmap(v.Bytes())
	if !v.Checked() {
		if err := a.checkInodeBitmap(g, d, m); err != nil {
			return nil, err
		}
		v.SetChecked()
	}
	return m, nil
}

// checkInodeBitmap checks what is relied on: the checksum, the count of free
// inodes, and that none is in use in the part of the table that counts as
// never used.
func (a *Allocator) checkInodeBitmap(g format.Group, d format.GroupDesc, m Bitmap) error {
	n := int(a.geo.InodesPerGroup)
	if !a.sums.VerifyInodeBitmap(d, m[:a.geo.InodeBitmapBytes()]) {
		return a.inodeBitmapError(g, d, "wrong checksum")
	}
	if free := uint32(m.CountClear(0, n)); free != d.FreeInodesCount() {
		return a.inodeBitmapError(g, d, "%d free inodes, but the descriptor counts %d", free, d.FreeInodesCount())
	}
	if last := m.LastSet(n); a.lazy && last >= a.tableMark(d) {
		return a.inodeBitmapError(g, d, "inode %d is in use, but the descriptor counts it as never used",
			a.geo.GroupFirstIno(g)+format.Ino(last))
	}
	return nil
}

func (a *Allocator) inodeBitmapError(g format.Group, d format.GroupDesc, detail string, args ...any) error {
	return &format.DamagedError{
		Structure: fmt.Sprintf("inode bitmap of group %d", g), Block: d.InodeBitmap(), Offset: -1,
		Detail: fmt.Sprintf(detail, args...),
	}
}

// inodeUninit reports whether inode bitmap and table of a group were never written.
func (a *Allocator) inodeUninit(d format.GroupDesc) bool {
	return a.lazy && d.Flags()&format.BgInodeUninit != 0
}

// tableMark is the index of the first inode of a group's table that was never
// used; from there on the table may hold anything.
func (a *Allocator) tableMark(d format.GroupDesc) int {
	if a.inodeUninit(d) {
		return 0
	}
	return int(a.geo.InodesPerGroup) - int(d.ItableUnused())
}

// badInodes takes a group out of use for inodes, and has Warn told why.
func (a *Allocator) badInodes(g format.Group, why error) {
	a.mu.Lock()
	defer a.unlock()
	a.noInodesIn(g)
	if !a.groups[g].badInode {
		a.groups[g].badInode = true
		a.warnings = append(a.warnings, why)
	}
}

// noInodesIn notes that no inode of a group can be had.
func (a *Allocator) noInodesIn(g format.Group) {
	a.space.tookInode(int64(a.inodes.get(int(g))))
	a.inodes.set(int(g), 0)
}

// freeIndex finds the first inode of a group that can be had.
func (a *Allocator) freeIndex(g format.Group, m Bitmap) (int, bool) {
	a.mu.Lock()
	defer a.unlock()
	n, pending := int(a.geo.InodesPerGroup), a.pendIno[g]
	i := int(a.groups[g].inoHint)
	for i < n {
		if m != nil {
			i = m.FindClear(i, n)
		}
		if pending == nil {
			break
		}
		next := pending.bits.FindClear(i, n)
		if next == i {
			break
		}
		i = next
	}
	if i >= n { // the count includes inodes that are reserved
		a.noInodesIn(g)
		return 0, false
	}
	return i, true
}

// takeInode marks inode i of a group as used.
func (a *Allocator) takeInode(tx *journal.Tx, g format.Group, i int, dir bool) error {
	a.countInode(g, i, -1, dirCount(dir))
	tx.OnAbort(func() { a.countInode(g, i, 1, -dirCount(dir)) })
	d, err := a.changeDesc(tx, g)
	if err != nil {
		return err
	}
	m, err := a.changeInodeBitmap(tx, d)
	if err != nil {
		return err
	}
	if err := a.enterTable(tx, d, i); err != nil {
		return err
	}
	m.Set(i)
	d.SetFlags(d.Flags() &^ a.inodeUninitFlag())
	d.SetFreeInodesCount(d.FreeInodesCount() - 1)
	d.SetUsedDirsCount(d.UsedDirsCount() + uint32(dirCount(dir)))
	a.sealInodes(g, d, m)
	return nil
}

// inodeUninitFlag is the flag that a group loses when an inode comes into use.
func (a *Allocator) inodeUninitFlag() uint16 {
	if a.lazy {
		return format.BgInodeUninit
	}
	return 0
}

func dirCount(dir bool) int {
	if dir {
		return 1
	}
	return 0
}

// countInode changes what is known of the inodes that can be had: inode i is
// one more or, with n below 0, one less.
func (a *Allocator) countInode(g format.Group, i, n, dirs int) {
	a.mu.Lock()
	defer a.unlock()
	s := &a.groups[g]
	a.inodes.set(int(g), uint32(max(0, int(a.inodes.get(int(g)))+n)))
	s.dirs = uint32(int(s.dirs) + dirs)
	if n < 0 {
		s.inoHint = max(s.inoHint, uint32(i)+1)
	} else {
		s.inoHint = min(s.inoHint, uint32(i))
	}
	a.space.tookInode(int64(-n))
	a.space.count(0, int64(n), int64(dirs))
}

// changeInodeBitmap returns the inode bitmap of a group, to be changed. One that
// was never written is made.
func (a *Allocator) changeInodeBitmap(tx *journal.Tx, d format.GroupDesc) (Bitmap, error) {
	var m Bitmap
	var err error
	if a.inodeUninit(d) {
		m, err = tx.New(d.InodeBitmap())
	} else {
		m, err = tx.Change(d.InodeBitmap())
	}
	if err != nil {
		return nil, err
	}
	n := int(a.geo.InodesPerGroup)
	m.SetRange(n, 8*len(m)-n)
	return m, nil
}

// sealInodes stores the checksums after a change.
func (a *Allocator) sealInodes(g format.Group, d format.GroupDesc, m Bitmap) {
	a.sums.SealInodeBitmap(d, m[:a.geo.InodeBitmapBytes()])
	a.sums.SealGroupDesc(g, d)
}

// enterTable makes the table right up to inode i, which comes into use. What
// was never used may hold anything, unless the table was zeroed: blocks behind
// the mark become new ones, and in the block that holds the mark, the rest is
// zeroed. No old block is read for it.
func (a *Allocator) enterTable(tx *journal.Tx, d format.GroupDesc, i int) error {
	mark := a.tableMark(d)
	if !a.lazy || i < mark {
		return nil
	}
	per := a.geo.InodesPerBlock()
	zeroed := d.Flags()&format.BgInodeZeroed != 0
	for k := mark / per; k <= i/per; k++ {
		b := d.InodeTable() + format.Block(k)
		switch {
		case zeroed && k < i/per:
		case mark <= k*per:
			if _, err := tx.New(b); err != nil {
				return err
			}
		case !zeroed:
			p, err := tx.Change(b)
			if err != nil {
				return err
			}
			clear(p[mark%per*a.geo.InodeSize:])
		}
	}
	d.SetItableUnused(a.geo.InodesPerGroup - uint32(i) - 1)
	return nil
}

// FreeInode gives an inode back; dir says that it was a directory. It can be
// taken again when the transaction is durable. A *format.DamagedError, after
// which the Tx or the Try around must be given up: there is no such inode, it
// is reserved, or free already. In a group that is bad it just stays in use.
func (a *Allocator) FreeInode(tx *journal.Tx, ino format.Ino, dir bool) error {
	if !a.geo.ValidIno(ino) || ino < a.firstIno {
		return inodeError(ino, "want %d to %d", a.firstIno, a.geo.InodesCount)
	}
	g, index := a.geo.InodeLocation(ino)
	i := int(index)
	m, err := a.readInodeBitmap(tx, g)
	if err != nil {
		a.badInodes(g, err)
	}
	if a.inodesBad(g) {
		return nil
	}
	if m == nil || !m.Test(i) {
		return inodeError(ino, "is free already")
	}
	a.pendInode(tx, g, i, dirCount(dir))
	d, err := a.changeDesc(tx, g)
	if err != nil {
		return err
	}
	if m, err = a.changeInodeBitmap(tx, d); err != nil {
		return err
	}
	m.Clear(i)
	d.SetFreeInodesCount(d.FreeInodesCount() + 1)
	if dir && d.UsedDirsCount() > 0 {
		d.SetUsedDirsCount(d.UsedDirsCount() - 1)
	}
	a.sealInodes(g, d, m)
	return nil
}

func inodeError(ino format.Ino, detail string, args ...any) error {
	return &format.DamagedError{Structure: fmt.Sprintf("inode %d", ino), Offset: -1, Detail: fmt.Sprintf(detail, args...)}
}

// inodesBad reports whether the inodes of a group are out of use.
func (a *Allocator) inodesBad(g format.Group) bool {
	a.mu.Lock()
	defer a.unlock()
	return a.groups[g].badInode
}

// pendInode keeps a freed inode from being taken until that is durable.
func (a *Allocator) pendInode(tx *journal.Tx, g format.Group, i, dirs int) {
	a.pend(g, i, dirs)
	tx.OnAbort(func() {
		a.unpend(g, i, -dirs)
		a.space.freedInodes(-1, false)
		a.space.count(0, -1, int64(dirs))
	})
	tx.OnDurable(func() { a.reuseInode(g, i) })
}

// reuseInode lets a freed inode be taken again: the transaction that freed it
// is durable.
func (a *Allocator) reuseInode(g format.Group, i int) {
	a.unpend(g, i, 0)
	a.mu.Lock()
	defer a.unlock()
	s := &a.groups[g]
	a.space.freedInodes(-1, !s.badInode)
	if !s.badInode {
		a.inodes.set(int(g), a.inodes.get(int(g))+1)
		s.inoHint = min(s.inoHint, uint32(i))
	}
}

func (a *Allocator) pend(g format.Group, i, dirs int) {
	a.mu.Lock()
	defer a.unlock()
	p := a.pendIno[g]
	if p == nil {
		p = &pendingInodes{bits: make(Bitmap, a.geo.InodeBitmapBytes())}
		a.pendIno[g] = p
	}
	p.bits.Set(i)
	p.n++
	s := &a.groups[g]
	s.dirs -= min(s.dirs, uint32(dirs))
	a.space.freedInodes(1, false)
	a.space.count(0, 1, int64(-dirs))
}

func (a *Allocator) unpend(g format.Group, i, dirs int) {
	a.mu.Lock()
	defer a.unlock()
	p := a.pendIno[g]
	p.bits.Clear(i)
	if p.n--; p.n == 0 {
		delete(a.pendIno, g)
	}
	a.groups[g].dirs -= uint32(dirs)
}

// InodeInUse reports whether an inode is marked as used. src is a *journal.Tx,
// or a *journal.Journal within View.
func (a *Allocator) InodeInUse(src source, ino format.Ino) (bool, error) {
	if !a.geo.ValidIno(ino) {
		return false, inodeError(ino, "want 1 to %d", a.geo.InodesCount)
	}
	g, i := a.geo.InodeLocation(ino)
	m, err := a.readInodeBitmap(src, g)
	if err != nil || m == nil {
		return false, err
	}
	return m.Test(int(i)), nil
}

// ClaimInode marks an inode as used that is named by somebody else, such as a
// fast-commit record, unless it is used already.
func (a *Allocator) ClaimInode(tx *journal.Tx, ino format.Ino, dir bool) error {
	used, err := a.InodeInUse(tx, ino)
	if err != nil || used {
		return err
	}
	g, i := a.geo.InodeLocation(ino)
	return a.takeInode(tx, g, int(i), dir)
}
