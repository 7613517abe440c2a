package xattr

import (
	"slices"

	"drydock/format"
)

// Set gives an inode the attribute x, see With for flags. It
// returns by how many blocks the inode has grown, as Write does.
func (s *Store) Set(tx Tx, space Space, ino format.Ino, n format.Inode, x format.Xattr, flags int) (delta int, err error) {
	return s.update(writer{tx}, space, ino, n, func(list []format.Xattr) ([]format.Xattr, error) {
		return With(list, x, flags)
	})
}

// Remove takes an attribute from an inode; the error is syscall.ENODATA if
// there is none. It returns by how many blocks the inode has grown, 0 or -1.
func (s *Store) Remove(tx Tx, space Space, ino format.Ino, n format.Inode, index uint8, name string) (delta int, err error) {
	return s.update(writer{tx}, space, ino, n, func(list []format.Xattr) ([]format.Xattr, error) {
		return Without(list, index, name)
	})
}

func (s *Store) update(tx txn, space Space, ino format.Ino, n format.Inode, change func([]format.Xattr) ([]format.Xattr, error)) (int, error) {
	list, err := s.read(tx, ino, n)
	if err != nil {
		return 0, err
	}
	list, err = change(list)
	if err != nil {
		return 0, err
	}
	return s.write(tx, space, ino, n, list)
}

// Write makes list all the attributes of an inode, in any order. They lie where
// Place puts them; inodes with equal blocks share one. It returns by how many
// blocks the inode has grown: -1, 0 or 1, shared ones counting in full. The
// error is a *SpaceError if there is no room, matches format.ErrUnsupported if
// the inode has attributes whose values lie in inodes of their own, or inline
// data, or is what Space says.
func (s *Store) Write(tx Tx, space Space, ino format.Ino, n format.Inode, list []format.Xattr) (delta int, err error) {
	return s.write(writer{tx}, space, ino, n, list)
}

func (s *Store) write(tx txn, space Space, ino format.Ino, n format.Inode, list []format.Xattr) (delta int, err error) {
	if err := s.writable(tx, ino, n); err != nil {
		return 0, err
	}
	area, err := s.area(ino, n)
	if err != nil {
		return 0, err
	}
	inside, outside, err := Place(list, len(n), len(n)-format.GoodOldInodeSize-len(area), s.g.BlockSize)
	if err != nil {
		return 0, err
	}
	e := edit{s, tx, space, ino}
	b, err := e.place(n.FileACL(), outside)
	if err != nil {
		return 0, err
	}
	delta = count(b) - count(n.FileACL())
	n.SetFileACL(b)
	return delta, putInside(area, inside)
}

// count returns how many blocks b stands for.
func count(b format.Block) int {
	if b == 0 {
		return 0
	}
	return 1
}

// putInside writes the part in the inode. Where nothing was and nothing comes,
// the bytes stay as they are.
func putInside(area []byte, list []format.Xattr) error {
	if old, err := format.DecodeInodeXattrs(area); err == nil && len(old) == 0 && len(list) == 0 {
		return nil
	}
	return format.EncodeInodeXattrs(area, list)
}

// Drop takes away all the attributes of an inode, which is being deleted, and
// returns by how many blocks it has grown, 0 or -1.
func (s *Store) Drop(tx Tx, space Space, ino format.Ino, n format.Inode) (delta int, err error) {
	return s.write(writer{tx}, space, ino, n, nil)
}

// writable makes sure that writing the attributes of an inode anew loses
// nothing: all that are there are ones that could be written.
func (s *Store) writable(tx reader, ino format.Ino, n format.Inode) error {
	if n.HasFlags(format.InodeInlineData) {
		return wrap(ino, &format.UnsupportedError{Detail: "changing the attributes of an inode with inline data"})
	}
	list, err := s.read(tx, ino, n)
	if err != nil {
		return err
	}
	for _, x := range list {
		if x.ValueInum != 0 {
			return wrap(ino, &format.UnsupportedError{Detail: "changing the attributes of an inode one of which has an inode of its own: " + x.FullName()})
		}
	}
	slices.SortFunc(list, format.CompareXattrs)
	if err := check(list, s.g.BlockSize+len(n)); err != nil {
		return wrap(ino, &format.DamagedError{Structure: "attributes", Offset: -1, Detail: err.Error()})
	}
	return nil
}

// edit is one change of the block of an inode.
type edit struct {
	*Store
	tx    txn
	space Space
	ino   format.Ino
}

// place puts list, sorted, into a block and returns it, 0 for no attributes;
// old is the block that the inode has now, if any.
func (e edit) place(old format.Block, list []format.Xattr) (format.Block, error) {
	if len(list) == 0 {
		return 0, e.leave(old)
	}
	same, private, err := e.compare(old, list)
	if err != nil || same {
		return old, err
	}
	raw := make([]byte, e.g.BlockSize)
	if err := format.EncodeXattrBlock(raw, list, 1); err != nil {
		return 0, wrap(e.ino, err)
	}
	hash := format.XattrBlock(raw).Hash()
	if b, err := e.join(hash, list); b != 0 || err != nil {
		return b, firstError(err, func() error { return e.leave(old) })
	}
	if private {
		return old, e.rewrite(old, raw)
	}
	b, err := e.create(old, raw)
	return b, firstError(err, func() error { return e.leave(old) })
}

// firstError returns err, or else what next returns.
func firstError(err error, next func() error) error {
	if err != nil {
		return err
	}
	return next()
}

// compare tells whether block b, if any, holds just list, and whether it has
// only one user.
func (e edit) compare(b format.Block, list []format.Xattr) (same, private bool, err error) {
	if b == 0 {
		return false, false, nil
	}
	now, refs, err := e.block(e.tx, e.ino, b)
	return err == nil && equal(now, list), refs == 1, err
}

// equal reports whether both hold the same attributes; b is sorted.
func equal(a, b []format.Xattr) bool {
	a = slices.SortedFunc(slices.Values(a), format.CompareXattrs)
	return slices.EqualFunc(a, b, func(x, y format.Xattr) bool {
		return format.CompareXattrs(x, y) == 0 && x.ValueInum == y.ValueInum && slices.Equal(x.Value, y.Value)
	})
}

// join makes the inode a user of a block that is there and holds list; 0 if
// none is known or may be shared.
func (e edit) join(hash uint32, list []format.Xattr) (format.Block, error) {
	for _, b := range e.shared.find(hash) {
		now, refs, err := e.block(e.tx, e.ino, b)
		if err != nil || refs >= format.MaxXattrRefs || !equal(now, list) {
			continue // a hint is no more than that
		}
		return b, e.setRefs(b, refs+1)
	}
	return 0, nil
}

// leave makes the inode no user of block b any more; the last one frees it.
func (e edit) leave(b format.Block) error {
	if b == 0 {
		return nil
	}
	_, refs, err := e.block(e.tx, e.ino, b)
	if err != nil {
		return err
	}
	if refs > 1 {
		return e.setRefs(b, refs-1)
	}
	e.shared.forget(b)
	if err := e.space.FreeBlock(b); err != nil {
		return wrap(e.ino, err)
	}
	return nil
}

func (e edit) setRefs(b format.Block, refs uint32) error {
	raw, err := e.tx.Change(b)
	if err != nil {
		return err
	}
	format.XattrBlock(raw).SetRefcount(refs)
	e.sums.SealXattrBlock(b, raw)
	e.shared.add(format.XattrBlock(raw).Hash(), b)
	return nil
}

// rewrite puts raw into block b, which has no other user.
func (e edit) rewrite(b format.Block, raw []byte) error {
	dst, err := e.tx.Change(b)
	if err != nil {
		return err
	}
	e.shared.forget(b)
	e.fill(b, dst, raw)
	return nil
}

// create puts raw into a new block. Should the transaction be forgotten, so is
// the hint: the block may become anything then.
func (e edit) create(near format.Block, raw []byte) (format.Block, error) {
	if near == 0 {
		group, _ := e.g.InodeLocation(e.ino)
		near = e.g.GroupFirst(group)
	}
	b, err := e.space.AllocBlock(near)
	if err != nil {
		return 0, wrap(e.ino, err)
	}
	dst, err := e.tx.New(b)
	if err != nil {
		return 0, err
	}
	e.tx.OnAbort(func() { e.shared.forget(b) })
	e.fill(b, dst, raw)
	return b, nil
}

func (e edit) fill(b format.Block, dst, raw []byte) {
	copy(dst, raw)
	e.sums.SealXattrBlock(b, dst)
	e.shared.add(format.XattrBlock(dst).Hash(), b)
}

// txn is Tx with a version that is an interface.
type txn interface {
	reader
	Change(b format.Block) ([]byte, error)
	New(b format.Block) ([]byte, error)
	OnAbort(fn func())
}

type writer struct{ Tx }

func (w writer) get(b format.Block) (version, error) { return w.Get(b) }
