package ext4

import (
	"errors"
	"io/fs"
	"syscall"

	"drydock/format"
	"drydock/internal/extent"
)

// Remove removes a name: of a file, or an empty directory. A file that is open
// lives on until it is closed.
func (fsys *FS) Remove(name string) error {
	return pathError("remove", name, fsys.update(func(t *Tx) error { return t.remove(name) }))
}

// Remove is FS.Remove in the transaction.
func (t *Tx) Remove(name string) error {
	return pathError("remove", name, t.try(func(t *Tx) error { return t.remove(name) }))
}

func (t *Tx) remove(name string) error {
	p, err := t.place(name)
	if err != nil {
		return err
	}
	if !p.isName() {
		return notRemovable(p)
	}
	in, err := p.child()
	switch {
	case err != nil:
		return err
	case in.isDir():
		return t.rmdir(p, in)
	case p.slash:
		return syscall.ENOTDIR
	}
	return t.unlink(p, in)
}

// notRemovable is what rmdir(2) says of a last element that is no name.
func notRemovable(p place) error {
	switch p.name {
	case "":
		return syscall.EBUSY
	case ".":
		return syscall.EINVAL
	}
	return syscall.ENOTEMPTY
}

// mayRemove decides whether a name of the inode can be taken out of dir.
func (in *inode) mayRemove(dir *inode) error {
	switch {
	case dir.raw.Flags()&(format.InodeImmutable|format.InodeAppend) != 0,
		in.raw.Flags()&(format.InodeImmutable|format.InodeAppend) != 0:
		return syscall.EPERM
	case in.num < in.firstIno() && in.num != format.RootIno:
		return in.damaged("reserved, but %s names it", dir.wrap(errors.New("a directory")))
	}
	return nil
}

// unlink takes away one name of an inode that is no directory.
func (t *Tx) unlink(p place, in *inode) error {
	if err := in.mayRemove(p.dir); err != nil {
		return err
	}
	if err := t.removeName(p); err != nil {
		return err
	}
	return t.dropLink(in.num)
}

// removeName takes a name out of its directory.
func (t *Tx) removeName(p place) error {
	d, err := t.openDir(p.dir.num)
	if err != nil {
		return err
	}
	if err := d.editor.Remove([]byte(p.name)); err != nil {
		return err
	}
	return t.touchDir(p.dir.num)
}

// dropLink counts a link less of an inode that is no directory; the last one
// deletes it.
func (t *Tx) dropLink(ino format.Ino) error {
	raw, err := t.changeInode(ino)
	if err != nil {
		return err
	}
	t.touch(raw)
	if links := raw.LinksCount(); links > 1 {
		raw.SetLinksCount(links - 1)
		return nil
	}
	raw.SetLinksCount(0)
	return t.deleteLater(ino)
}

// rmdir removes an empty directory.
func (t *Tx) rmdir(p place, in *inode) error {
	if err := in.mayRemove(p.dir); err != nil {
		return err
	}
	if err := t.mustBeEmpty(in); err != nil {
		return err
	}
	if err := t.removeName(p); err != nil {
		return err
	}
	if err := t.dropSubdir(p.dir.num); err != nil {
		return err
	}
	return t.dropDir(in.num)
}

// mustBeEmpty fails for a directory that holds names.
func (t *Tx) mustBeEmpty(in *inode) error {
	d, err := t.openDir(in.num)
	if err != nil {
		return err
	}
	empty, err := d.editor.Empty()
	if err == nil && !empty {
		err = syscall.ENOTEMPTY
	}
	return err
}

// dropDir deletes a directory that has no name any more.
func (t *Tx) dropDir(ino format.Ino) error {
	raw, err := t.changeInode(ino)
	if err != nil {
		return err
	}
	t.touch(raw)
	raw.SetLinksCount(0)
	return t.deleteLater(ino)
}

// errManyBlocks is freeInode's of an inode that one transaction cannot free.
var errManyBlocks = errors.New("more blocks than one transaction frees")

// deleteLater deletes an inode that has lost its last name: in this transaction,
// if nobody uses it and that is little work, else in others, for which it becomes
// an orphan.
func (t *Tx) deleteLater(ino format.Ino) error {
	in, err := t.inode(ino)
	if err != nil {
		return err
	}
	if in.isSmall() {
		if done, err := t.deleteNow(ino); done || err != nil {
			return err
		}
	}
	if err := t.addOrphan(ino); err != nil {
		return err
	}
	t.j.OnMerge(func() { t.after = append(t.after, func() { t.fs.orphaned(ino) }) })
	return nil
}

// deleteNow deletes an inode in this transaction, if nobody uses it and it can be
// freed at once.
func (t *Tx) deleteNow(ino format.Ino) (done bool, err error) {
	n := t.fs.claim(ino)
	if n == nil {
		return false, nil
	}
	release := func() { t.fs.release(n) }
	err = t.try(func(t *Tx) error {
		t.j.OnMerge(release)
		return t.freeInode(ino, nil)
	})
	if err == nil {
		t.j.OnAbort(release)
		return true, nil
	}
	release()
	if err == errManyBlocks || errors.Is(err, format.ErrDamaged) {
		err = nil
	}
	return false, err
}

// smallDir is the largest directory that is freed at once, in blocks.
const smallDir = 64

// isSmall reports whether an inode is little work to free. A file is if it has
// no nodes besides the inode.
func (in *inode) isSmall() bool {
	if !in.raw.HasFlags(format.InodeExtents) {
		return in.raw.IsFastSymlink() || !in.isRegular() && !in.isDir() && !in.isSymlink()
	}
	if in.isDir() {
		return in.size() <= smallDir*uint64(in.fs.geo.BlockSize)
	}
	h, err := format.ReadExtentHeader(in.raw.IBlock())
	return err == nil && h.Depth == 0
}

// orphaned deletes an inode whose last name is gone for all to see, unless a
// file has it open: then that does it when it is closed.
func (fsys *FS) orphaned(ino format.Ino) {
	if !fsys.isOrphan(ino) {
		return // linked again
	}
	n, busy := fsys.getNode(ino)
	if n == nil {
		<-busy
		return
	}
	fsys.nodes.mu.Lock()
	n.unlinked = true
	open := n.opens > 0
	fsys.nodes.mu.Unlock()
	if !open {
		n.drop()
	}
	fsys.putNode(n)
}

// deleteNode deletes the inode of a node that nobody uses any more. If that
// fails the inode stays an orphan, for the next opening.
func (fsys *FS) deleteNode(n *node) {
	defer fsys.release(n)
	if err := fsys.deleteInode(n.ino, n); err != nil && fsys.mayWrite() == nil {
		fsys.warn(err)
	}
}

// deleteInode frees all of an orphan without a name, in one transaction after
// the other.
func (fsys *FS) deleteInode(ino format.Ino, n *node) error {
	for more := true; more; {
		err := fsys.update(func(t *Tx) (err error) {
			if more = fsys.isOrphan(ino); !more {
				return nil // linked again
			}
			if more, err = t.freeData(ino, n); more || err != nil {
				return err
			}
			if err := t.dropOrphan(ino); err != nil {
				return err
			}
			if n != nil {
				t.j.OnMerge(func() { fsys.release(n) })
			}
			return t.freeInode(ino, n)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// truncateInode cuts an orphan that has a name to its size, in one transaction
// after the other.
func (fsys *FS) truncateInode(ino format.Ino, n *node, size uint64) error {
	for more := true; more; {
		err := fsys.update(func(t *Tx) (err error) {
			if more, err = t.truncate(n, ino, int64(size)); more || err != nil {
				return err
			}
			return t.removeOrphan(ino)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// freeData frees blocks of an inode that is to be deleted: all that are not
// more than one transaction can do.
func (t *Tx) freeData(ino format.Ino, n *node) (more bool, err error) {
	in, err := t.inode(ino)
	switch {
	case err != nil:
		return false, err
	case in.isRegular():
		return t.truncate(n, ino, 0)
	case in.isDir() || in.isSymlink() && !in.raw.IsFastSymlink():
		return t.freeMeta(ino)
	}
	return false, nil
}

// freeNodes is how many nodes of a map freeMeta frees at once, and maxFreeMeta how
// many blocks: each takes a record in the log.
const (
	freeNodes   = 16
	maxFreeMeta = 1024
)

// freeMeta frees the blocks of a directory or a symbolic link, which may have
// copies in the journal.
func (t *Tx) freeMeta(ino format.Ino) (more bool, err error) {
	raw, err := t.changeInode(ino)
	if err != nil {
		return false, err
	}
	e, err := t.editTree(ino, raw, txNodes{t})
	if err != nil {
		return false, err
	}
	freed := uint32(0)
	next, done, err := e.Remove(0, format.MaxLBlock, freeNodes, func(start format.Block, n uint32) error {
		freed += n
		for i := range n {
			t.j.Forget(start + format.Block(i))
		}
		if err := t.fs.alloc.Free(t.j, start, n); err != nil {
			return err
		}
		if freed >= maxFreeMeta {
			return extent.ErrPause
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	raw.SetSize(uint64(next) * uint64(t.fs.geo.BlockSize))
	return !done, t.addBlocks(raw, int64(e.NodeDelta())-int64(freed))
}

// freeInode frees an inode, with the data and attributes that it still has.
func (t *Tx) freeInode(ino format.Ino, n *node) error {
	if more, err := t.freeData(ino, n); err != nil {
		return err
	} else if more {
		return errManyBlocks
	}
	raw, err := t.changeInode(ino)
	if err != nil {
		return err
	}
	delta, err := t.fs.xattrs.Drop(t.j, txNodes{t}, ino, raw)
	if err != nil {
		return err
	}
	if err := t.addBlocks(raw, int64(delta)); err != nil {
		return err
	}
	isDir := raw.IsType(format.ModeDir)
	raw.SetLinksCount(0)
	raw.SetSize(0)
	raw.SetDtime(t.dtime())
	if !raw.HasFlags(format.InodeExtents) {
		clear(raw.IBlock())
	}
	delete(t.fs.dirs, ino)
	return t.fs.alloc.FreeInode(t.j, ino, isDir)
}

// dtime is the time of deletion, 32 bits that must not be 0.
func (t *Tx) dtime() uint32 { return max(uint32(t.time.Sec), 1) }

// deleteUnlinked deletes inodes that have lost their last name and are still
// open, as the file system is being closed.
func (fsys *FS) deleteUnlinked() error {
	for _, ino := range fsys.orphanInos() {
		n := fsys.peekNode(ino)
		if n == nil || !n.unlinked {
			continue
		}
		n.drop()
		if err := fsys.deleteInode(ino, n); errors.Is(err, format.ErrDamaged) {
			fsys.warn(err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// RemoveAll removes a name and, if it is a directory, all that is below it. It
// does nothing if there is none. With an error it has removed a part.
func (fsys *FS) RemoveAll(name string) error {
	return pathError("removeall", name, removeAll(name, fsys))
}

// RemoveAll is FS.RemoveAll in the transaction; with an error it has removed
// nothing.
func (t *Tx) RemoveAll(name string) error {
	return pathError("removeall", name, t.try(func(t *Tx) error { return removeAll(name, t) }))
}

// remover is what removeAll works with: an FS or a Tx.
type remover interface {
	Remove(name string) error
	Lstat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
}

// removeAll removes the tree below a name from the bottom up, without recursion:
// trees can be deep.
func removeAll(name string, r remover) error {
	if base := baseName(name); base == "." || base == ".." || base == "/" || name == "" {
		return syscall.EINVAL
	}
	for stack := []string{name}; len(stack) > 0; {
		top := stack[len(stack)-1]
		err := r.Remove(top)
		switch {
		case err == nil, errors.Is(err, syscall.ENOENT):
			stack = stack[:len(stack)-1]
		case errors.Is(err, syscall.ENOTEMPTY):
			below, err := removeNames(top, r)
			if err != nil {
				return err
			}
			stack = append(stack, below...)
		default:
			return err
		}
	}
	return nil
}

// removeNames removes what it can of a directory, and returns the directories
// in it that are not empty.
func removeNames(name string, r remover) (below []string, err error) {
	list, err := r.ReadDir(name)
	if err != nil {
		return nil, err
	}
	for _, d := range list {
		path := join(name, d.Name())
		err := r.Remove(path)
		switch {
		case errors.Is(err, syscall.ENOTEMPTY):
			below = append(below, path)
		case err != nil && !errors.Is(err, syscall.ENOENT):
			return nil, err
		}
	}
	return below, nil
}
