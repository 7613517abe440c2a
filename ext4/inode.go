package ext4

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"drydock/format"
)

// inode is an inode as it was read; its bytes do not change.
type inode struct {
	reader
	num format.Ino
	raw format.Inode
}

// inodePlace returns the block that holds an inode, and its offset there.
func (r reader) inodePlace(ino format.Ino) (b format.Block, at int, err error) {
	geo := &r.fs.geo
	if !geo.ValidIno(ino) {
		return 0, 0, &format.DamagedError{Structure: "inode number", Offset: -1,
			Detail: fmt.Sprintf("%d, want 1 to %d", ino, geo.InodesCount)}
	}
	g, index := geo.InodeLocation(ino)
	table, err := r.inodeTable(g)
	if err != nil {
		return 0, 0, fmt.Errorf("inode %d: %w", ino, err)
	}
	off := int64(index) * int64(geo.InodeSize)
	return table + format.Block(off/int64(geo.BlockSize)), int(off % int64(geo.BlockSize)), nil
}

// inode reads an inode, whatever state it is in.
func (r reader) inode(ino format.Ino) (*inode, error) {
	n, at, err := r.inodePlace(ino)
	if err != nil {
		return nil, err
	}
	block, err := r.get(n)
	if err != nil {
		return nil, fmt.Errorf("inode %d in the inode table: %w", ino, err)
	}
	raw := format.Inode(bytes.Clone(block[at : at+r.fs.geo.InodeSize]))
	tx, ok := r.src.(txSource)
	unsealed := ok && slices.Contains(tx.t.unsealed, ino)
	if !unsealed && !r.fs.sealed(r.fs.csum.VerifyInode(ino, raw)) {
		return nil, &format.DamagedError{Structure: fmt.Sprintf("inode %d", ino), Block: n, Offset: at, Detail: "wrong checksum"}
	}
	return &inode{reader: r, num: ino, raw: raw}, nil
}

// liveInode reads an inode that a name leads to: it must be in use.
func (r reader) liveInode(ino format.Ino) (*inode, error) {
	in, err := r.inode(ino)
	if err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	return in, nil
}

// check says what makes the inode one that cannot be used.
func (in *inode) check() error {
	extra := int(in.raw.ExtraIsize())
	switch {
	case in.raw.LinksCount() == 0 || in.raw.Mode() == 0:
		return in.damaged("deleted, but a name leads to it")
	case in.size() > math.MaxInt64:
		return in.damaged("size %d", in.size())
	case len(in.raw) > format.GoodOldInodeSize && (extra%4 != 0 || format.GoodOldInodeSize+extra > len(in.raw)):
		return in.damaged("extra size %d in an inode of %d bytes", extra, len(in.raw))
	}
	return nil
}

func (in *inode) isDir() bool     { return in.raw.IsType(format.ModeDir) }
func (in *inode) isRegular() bool { return in.raw.IsType(format.ModeRegular) }
func (in *inode) isSymlink() bool { return in.raw.IsType(format.ModeSymlink) }

// inline reports whether the data lies in the inode itself (inline_data).
func (in *inode) inline() bool {
	return in.raw.HasFlags(format.InodeInlineData) && in.fs.geo.Features.HasIncompat(format.IncompatInlineData)
}

// size returns the size in bytes. Only regular files, and with large_dir
// directories, have the high half.
func (in *inode) size() uint64 {
	if in.isRegular() || in.fs.geo.Features.HasIncompat(format.IncompatLargeDir) {
		return in.raw.Size()
	}
	return in.raw.Size() & math.MaxUint32
}

// damaged makes the error of an inode that breaks a rule.
func (in *inode) damaged(detail string, args ...any) error {
	return &format.DamagedError{Structure: fmt.Sprintf("inode %d", in.num), Offset: -1, Detail: fmt.Sprintf(detail, args...)}
}

// wrap adds the inode to an error from below.
func (in *inode) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("inode %d: %w", in.num, err)
}

// inodeName is what errors call an inode that was opened by its number.
func inodeName(ino format.Ino) string { return fmt.Sprintf("inode %d", ino) }
