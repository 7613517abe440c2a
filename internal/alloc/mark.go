package alloc

import (
	"errors"

	"drydock/format"
	"drydock/journal"
)

var errStub = errors.New("stub")

// Find picks stub.
func (a *Allocator) Find(goal format.Block, want uint32, reserved bool) (start format.Block, n uint32, err error) {
	return 0, 0, errStub
}

// FindIn picks stub.
func (a *Allocator) FindIn(w *Window, goal format.Block, want, expect uint32, reserved bool) (start format.Block, n uint32, err error) {
	return 0, 0, errStub
}

// Drop stub.
func (a *Allocator) Drop(w *Window) {}

// Release stub.
func (a *Allocator) Release(start format.Block, n uint32, toReserved bool) {}

// Mark stub.
func (a *Allocator) Mark(tx *journal.Tx, start format.Block, n uint32) error { return errStub }

// MarkMany stub.
func (a *Allocator) MarkMany(tx *journal.Tx, runs []Run) error { return errStub }

// AllocBlock stub.
func (a *Allocator) AllocBlock(tx *journal.Tx, goal format.Block) (format.Block, error) {
	return 0, errStub
}

// AllocReserved stub.
func (a *Allocator) AllocReserved(tx *journal.Tx, goal format.Block) (format.Block, error) {
	return 0, errStub
}

// Free stub.
func (a *Allocator) Free(tx *journal.Tx, start format.Block, n uint32) error { return errStub }

// Claim stub: marks blocks wherever they are not marked yet (fast-commit replay).
func (a *Allocator) Claim(tx *journal.Tx, start format.Block, n uint32) error { return errStub }

// NewInode stub.
func (a *Allocator) NewInode(tx *journal.Tx, parent format.Ino, dir bool) (format.Ino, error) {
	return 0, errStub
}

// FreeInode stub.
func (a *Allocator) FreeInode(tx *journal.Tx, ino format.Ino, dir bool) error { return errStub }

// ClaimInode stub: marks an inode as in use if it is not (fast-commit replay).
func (a *Allocator) ClaimInode(tx *journal.Tx, ino format.Ino, dir bool) error { return errStub }

// InodeInUse stub. src is a Journal within View, or a Tx.
func (a *Allocator) InodeInUse(src source, ino format.Ino) (bool, error) { return false, errStub }

// GoalFor stub.
func (a *Allocator) GoalFor(ino format.Ino) format.Block { return 0 }

// Window stub.
type Window struct{}
type windowList struct{}

func (*windowList) init(int) {}

type blockMap struct{}
type pendingInodes struct{}

func (a *Allocator) reservedInodes(g format.Group) uint32 { return 0 }
