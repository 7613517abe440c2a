package ext4

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"drydock/format"
)

// Link gives a file another name. A symbolic link is not followed; directories
// have one name only (syscall.EPERM).
func (fsys *FS) Link(old, name string) error {
	return linkError("link", old, name, fsys.update(func(t *Tx) error { return t.link(old, name) }))
}

// Link is FS.Link in the transaction.
func (t *Tx) Link(old, name string) error {
	return linkError("link", old, name, t.try(func(t *Tx) error { return t.link(old, name) }))
}

func (t *Tx) link(old, name string) error {
	in, err := t.resolve(old, false)
	if err != nil {
		return err
	}
	p, err := t.newPlace(name, false)
	switch {
	case err != nil:
		return err
	case in.isDir():
		return syscall.EPERM
	}
	if err := in.mayLink(); err != nil {
		return err
	}
	return t.addLink(p, in)
}

// mayLink decides whether an inode can have one more name.
func (in *inode) mayLink() error {
	switch {
	case in.raw.Flags()&(format.InodeImmutable|format.InodeAppend) != 0:
		return syscall.EPERM
	case in.raw.LinksCount() >= format.LinkMax:
		return syscall.EMLINK
	}
	return nil
}

// addLink gives an inode that is no directory one more name.
func (t *Tx) addLink(p place, in *inode) error {
	raw, err := t.changeInode(in.num)
	if err != nil {
		return err
	}
	t.touch(raw)
	raw.SetLinksCount(raw.LinksCount() + 1)
	return t.addName(p, in.num, raw.Mode())
}

// OpenTemp makes a regular file that has no name, for reading and writing, as
// O_TMPFILE of Linux does. It is gone when it is closed, and after a crash, unless
// LinkFile has given it a name.
func (fsys *FS) OpenTemp(perm fs.FileMode) (*File, error) {
	const name = "(unnamed)"
	var n *node
	err := fsys.update(func(t *Tx) error {
		root, err := t.inode(format.RootIno)
		if err != nil {
			return err
		}
		ino, _, err := t.newInode(root, format.ModeRegular|diskPerm(perm), 0)
		if err != nil {
			return err
		}
		n, _ = fsys.openNode(ino)
		n.unlinked = true // nobody else has the node yet
		t.j.OnAbort(func() { fsys.nodes.remove(ino) })
		return t.addOrphan(ino)
	})
	if err != nil {
		return nil, pathError("open", name, err)
	}
	f := newFile(fsys, n, name)
	f.flag = os.O_RDWR
	return f, nil
}

// LinkFile gives an open file another name, or a first one (OpenTemp, or one
// whose names were all removed). With replace, a file that has the name already is
// replaced, as by Rename. What was written to the file is on its way to the disk
// before the name is there.
func (fsys *FS) LinkFile(f *File, name string, replace bool) error {
	if err := f.check("link"); err != nil {
		return err
	}
	if err := f.n.flush(); err != nil {
		return linkError("link", f.name, name, err)
	}
	return linkError("link", f.name, name, fsys.update(func(t *Tx) error { return t.linkFile(f, name, replace) }))
}

// LinkFile is FS.LinkFile in the transaction. Data that was written to the file
// since its last Sync is not part of the transaction: call Sync before Update.
func (t *Tx) LinkFile(f *File, name string, replace bool) error {
	if err := f.check("link"); err != nil {
		return err
	}
	return linkError("link", f.name, name, t.try(func(t *Tx) error { return t.linkFile(f, name, replace) }))
}

func (t *Tx) linkFile(f *File, name string, replace bool) error {
	in, err := t.inode(f.n.ino)
	if err != nil {
		return err
	}
	if in.isDir() {
		return syscall.EPERM
	}
	p, err := t.placeToFill(name, replace, in.num)
	if err == errSameFile {
		return nil
	}
	if err != nil {
		return err
	}
	if err := in.mayLink(); err != nil {
		return err
	}
	if err := t.unorphan(in); err != nil {
		return err
	}
	return t.addLink(p, in)
}

// errSameFile is placeToFill's of a name that leads to the inode already.
var errSameFile = errors.New("the same file")

// placeToFill is newPlace for another name of an inode; with replace a file that
// is there is removed.
func (t *Tx) placeToFill(name string, replace bool, ino format.Ino) (place, error) {
	p, err := t.place(name)
	if err != nil {
		return place{}, err
	}
	if replace && p.isName() {
		there, err := p.childOrNil()
		switch {
		case err != nil:
			return place{}, err
		case there != nil && there.isDir():
			return place{}, syscall.EISDIR
		case there != nil && there.num == ino:
			return place{}, errSameFile
		case there != nil:
			if err := t.unlink(p, there); err != nil {
				return place{}, err
			}
		}
	}
	return t.newPlace(name, false)
}

// unorphan takes back that an inode which is about to get a name has none.
func (t *Tx) unorphan(in *inode) error {
	if in.raw.LinksCount() != 0 {
		return nil
	}
	if err := t.dropOrphan(in.num); err != nil {
		return err
	}
	t.j.OnMerge(func() { t.fs.nodes.setUnlinked(in.num, false) })
	return nil
}
