package ext4

import (
	"syscall"

	"drydock/format"
)

// Rename gives what is at old the name name, in one step for all to see. A file
// takes the place of a file, a directory that of an empty directory. Before a
// file is replaced the data written to the new one is put on its way to the disk,
// so that no crash leaves neither.
func (fsys *FS) Rename(old, name string) error {
	if err := fsys.mayWrite(); err != nil {
		return linkError("rename", old, name, err)
	}
	if err := fsys.flushBeforeRename(old, name); err != nil {
		return linkError("rename", old, name, err)
	}
	return linkError("rename", old, name, fsys.update(func(t *Tx) error { return t.rename(old, name) }))
}

// Rename is FS.Rename in the transaction. Data that was written to the file since
// its last Sync is not part of the transaction.
func (t *Tx) Rename(old, name string) error {
	return linkError("rename", old, name, t.try(func(t *Tx) error { return t.rename(old, name) }))
}

// flushBeforeRename writes the data of a file that is going to replace another
// (auto_da_alloc of Linux).
func (fsys *FS) flushBeforeRename(old, name string) error {
	var n *node
	_ = fsys.view(func(r reader) error { // errors are met again by the rename
		if _, err := r.resolve(name, false); err != nil {
			return err
		}
		in, err := r.resolve(old, false)
		if err == nil && in.isRegular() {
			n = fsys.peekNode(in.num)
		}
		return err
	})
	if n == nil {
		return nil
	}
	defer fsys.putNode(n)
	return n.flush()
}

// renaming is one rename: what moves from where to where, and what is there.
type renaming struct {
	*Tx
	from, to place
	in       *inode
	there    *inode // nil: nothing
}

func (t *Tx) rename(old, name string) error {
	r := renaming{Tx: t}
	var err error
	if r.from, err = t.place(old); err != nil {
		return err
	}
	if r.to, err = t.place(name); err != nil {
		return err
	}
	if !r.from.isName() || !r.to.isName() {
		return syscall.EBUSY
	}
	if r.in, err = r.from.child(); err != nil {
		return err
	}
	if r.there, err = r.to.childOrNil(); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	if r.there != nil && r.there.num == r.in.num {
		return nil
	}
	if err := r.mayReplace(); err != nil {
		return err
	}
	return r.do()
}

// check refuses what cannot be, in the order of Linux (do_renameat2).
func (r *renaming) check() error {
	switch {
	case !r.in.isDir() && (r.from.slash || r.to.slash):
		return syscall.ENOTDIR
	case r.in.isDir() && r.to.below(r.in.num):
		return syscall.EINVAL
	case r.there != nil && r.from.below(r.there.num):
		return syscall.ENOTEMPTY
	}
	return nil
}

// mayReplace decides whether the names can change (vfs_rename, ext4_rename).
func (r *renaming) mayReplace() error {
	if err := r.in.mayRemove(r.from.dir); err != nil {
		return err
	}
	if r.there == nil {
		if err := r.to.dir.mayAdd(r.to.name); err != nil {
			return err
		}
		if r.in.isDir() && r.from.dir.num != r.to.dir.num {
			return r.to.dir.mayHoldDir()
		}
		return nil
	}
	if err := r.there.mayRemove(r.to.dir); err != nil {
		return err
	}
	switch {
	case r.in.isDir() && !r.there.isDir():
		return syscall.ENOTDIR
	case !r.in.isDir() && r.there.isDir():
		return syscall.EISDIR
	case r.there.isDir():
		return r.mustBeEmpty(r.there)
	}
	return nil
}

// do changes the names: the new one first, for want of space is met there.
func (r *renaming) do() error {
	if err := r.fillTo(); err != nil {
		return err
	}
	if err := r.removeName(r.from); err != nil {
		return err
	}
	raw, err := r.changeInode(r.in.num)
	if err != nil {
		return err
	}
	r.touch(raw)
	if r.in.isDir() {
		if err := r.moveDir(); err != nil {
			return err
		}
	}
	switch {
	case r.there == nil:
		return nil
	case r.there.isDir():
		return r.dropDir(r.there.num)
	}
	return r.dropLink(r.there.num)
}

// fillTo makes the new name lead to the inode.
func (r *renaming) fillTo() error {
	if r.there == nil {
		return r.addName(r.to, r.in.num, r.in.raw.Mode())
	}
	d, err := r.openDir(r.to.dir.num)
	if err != nil {
		return err
	}
	if err := d.editor.Replace([]byte(r.to.name), r.in.num, format.FileTypeOf(r.in.raw.Mode())); err != nil {
		return err
	}
	return r.touchDir(r.to.dir.num)
}

// moveDir does what else the move of a directory takes: its dot-dot, and the
// link counts of the directories that it leaves and comes to.
func (r *renaming) moveDir() error {
	from, to := r.from.dir.num, r.to.dir.num
	if from != to {
		d, err := r.openDir(r.in.num)
		if err != nil {
			return err
		}
		if err := d.editor.SetParent(to); err != nil {
			return err
		}
		if err := r.dropSubdir(from); err != nil {
			return err
		}
	}
	switch {
	case from != to && r.there == nil:
		return r.addSubdir(to)
	case from == to && r.there != nil:
		return r.dropSubdir(to)
	}
	return nil
}
