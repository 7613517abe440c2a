package xattr

import (
	"errors"
	"fmt"
	"slices"

	"drydock/format"
	"drydock/journal"
)

// Getter is where attributes are read; *journal.Journal and *journal.Tx are.
type Getter interface {
	Get(b format.Block) (*journal.Version, error)
}

// Tx is where attributes are changed; a *journal.Tx is one.
type Tx interface {
	Getter
	Change(b format.Block) ([]byte, error)
	New(b format.Block) ([]byte, error)
	OnAbort(fn func())
}

// Space gives and takes blocks. FreeBlock also makes the transaction forget
// what it knows of the block.
type Space interface {
	AllocBlock(goal format.Block) (format.Block, error)
	FreeBlock(b format.Block) error
}

// Store reads and writes the attributes of the inodes of one file system. It
// may be used by several goroutines, as far as the transactions may; there is
// one at a time. A method that returns an error may leave its changes half
// done: the transaction, or the part of it around the call, must be forgotten
// then. The caller seals the inode.
type Store struct {
	g      *format.Geometry
	sums   format.Checksums
	shared hints
}

// NewStore returns a store for a file system.
func NewStore(g *format.Geometry, sums format.Checksums) *Store {
	return &Store{g: g, sums: sums}
}

// area returns the bytes of an inode that hold attributes. An inode that does
// not say where its fields end has none.
func (s *Store) area(ino format.Ino, n format.Inode) ([]byte, error) {
	extra := int(n.ExtraIsize())
	if extra == 0 || len(n) <= format.GoodOldInodeSize {
		return nil, nil
	}
	if extra%4 != 0 || extra > len(n)-format.GoodOldInodeSize {
		return nil, wrap(ino, &format.DamagedError{Structure: "inode", Offset: format.GoodOldInodeSize,
			Detail: fmt.Sprintf("i_extra_isize %d, want a multiple of 4 up to %d", extra, len(n)-format.GoodOldInodeSize)})
	}
	return n[format.GoodOldInodeSize+extra:], nil
}

// Read returns all attributes of an inode, those in the inode first. The
// values are copies. What is in the block under the name of one in the inode is
// hidden by it, as in Linux.
func (s *Store) Read(tx Getter, ino format.Ino, n format.Inode) ([]format.Xattr, error) {
	return s.read(getter{tx}, ino, n)
}

func (s *Store) read(tx reader, ino format.Ino, n format.Inode) ([]format.Xattr, error) {
	inside, err := s.inside(ino, n)
	if err != nil || n.FileACL() == 0 {
		return inside, err
	}
	outside, _, err := s.block(tx, ino, n.FileACL())
	if err != nil {
		return nil, err
	}
	for _, x := range outside {
		if Find(inside, x.Index, x.Name) < 0 {
			inside = append(inside, x)
		}
	}
	return inside, nil
}

// inside returns the attributes in the inode itself.
func (s *Store) inside(ino format.Ino, n format.Inode) ([]format.Xattr, error) {
	area, err := s.area(ino, n)
	if err != nil {
		return nil, err
	}
	list, err := format.DecodeInodeXattrs(area)
	if err != nil {
		return nil, wrap(ino, err)
	}
	return cloned(list), nil
}

// block returns the attributes in block b and the number of its users.
func (s *Store) block(tx reader, ino format.Ino, b format.Block) (list []format.Xattr, refs uint32, err error) {
	if b <= s.g.FirstDataBlock || !s.g.ValidBlock(b) {
		return nil, 0, wrap(ino, &format.DamagedError{Structure: "inode", Offset: -1,
			Detail: fmt.Sprintf("attributes in block %d, want %d to %d", b, s.g.FirstDataBlock+1, s.g.BlocksCount-1)})
	}
	v, err := tx.get(b)
	if err != nil {
		return nil, 0, wrap(ino, fmt.Errorf("xattr block %d: %w", b, err))
	}
	raw := format.XattrBlock(v.Bytes())
	list, err = format.DecodeXattrBlock(raw)
	if err != nil {
		return nil, 0, wrap(ino, atBlock(err, b))
	}
	refs = raw.Refcount()
	if err := s.checkBlock(v, b, refs); err != nil {
		return nil, 0, wrap(ino, err)
	}
	return cloned(list), refs, nil
}

func (s *Store) checkBlock(v version, b format.Block, refs uint32) error {
	if refs == 0 || refs > format.MaxXattrRefs {
		return &format.DamagedError{Structure: "xattr block", Block: b, Offset: 4,
			Detail: fmt.Sprintf("%d users, want 1 to %d", refs, format.MaxXattrRefs)}
	}
	if v.Checked() {
		return nil
	}
	if !s.sums.VerifyXattrBlock(b, v.Bytes()) {
		return &format.DamagedError{Structure: "xattr block", Block: b, Offset: -1, Detail: "checksum does not match"}
	}
	v.SetChecked()
	return nil
}

// cloned makes values that are part of a block ones of their own.
func cloned(list []format.Xattr) []format.Xattr {
	for i := range list {
		list[i].Value = slices.Clone(list[i].Value)
	}
	return list
}

// reader is Getter with a version that is an interface.
type reader interface {
	get(b format.Block) (version, error)
}

// version is what is needed of a *journal.Version.
type version interface {
	Bytes() []byte
	Checked() bool
	SetChecked()
}

type getter struct{ Getter }

func (g getter) get(b format.Block) (version, error) { return g.Get(b) }

// wrap says which inode an error is about.
func wrap(ino format.Ino, err error) error { return fmt.Errorf("inode %d: %w", ino, err) }

// atBlock puts the block into a damage report that has none.
func atBlock(err error, b format.Block) error {
	var d *format.DamagedError
	if !errors.As(err, &d) || d.Block != 0 {
		return err
	}
	placed := *d
	placed.Block = b
	return &placed
}
