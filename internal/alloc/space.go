package alloc

import (
	"fmt"
	"sync"
	"syscall"
)

// SpaceError says that there is no space, and what there is. It is
// syscall.ENOSPC for errors.Is.
type SpaceError struct {
	Inodes   bool   // inodes are lacking, not blocks; Reserved is 0 then
	Wanted   uint64 // how many
	Free     uint64 // that could be taken now, if none were reserved
	Reserved uint64 // of those, promised to others
	Pending  uint64 // freed, and free to be taken once the transaction that freed them is durable
}

func (e *SpaceError) Error() string {
	what := "blocks"
	if e.Inodes {
		what = "inodes"
	}
	s := fmt.Sprintf("no space left: %d %s wanted, %d free", e.Wanted, what, e.Free)
	if e.Reserved > 0 {
		s += fmt.Sprintf(", %d of them reserved", e.Reserved)
	}
	if e.Pending > 0 {
		s += fmt.Sprintf(", %d more after the next commit", e.Pending)
	}
	return s
}

// Is makes errors.Is(err, syscall.ENOSPC) true.
func (e *SpaceError) Is(target error) bool { return target == syscall.ENOSPC }

// space is the account of all blocks and inodes. Its mutex is the innermost
// lock: nothing is called while it is held.
//
//	what descriptors count as free = free + picked + pending + lost
type space struct {
	mu       sync.Mutex
	free     int64 // blocks that can be picked; less than 0 never stays
	reserved int64 // of those, promised by Reserve
	pending  int64 // blocks freed in transactions that are not durable yet

	freeInodes    int64
	pendingInodes int64

	sums Totals // what the descriptors add up to, changes of the open Tx included
}

// limit is how many of want blocks could be taken now, at least 1: out of what
// is reserved, or out of what is not.
func (s *space) limit(want uint32, reserved bool) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(int64(want), s.available(reserved))
	if n < 1 {
		return 0, s.shortage(int(want))
	}
	return int(n), nil
}

// available is how many blocks take could take; the caller holds mu.
func (s *space) available(reserved bool) int64 {
	if reserved {
		return min(s.reserved, s.free)
	}
	return s.free - s.reserved
}

// take takes want blocks, or as many as there still are.
func (s *space) take(want int, reserved bool) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(int64(want), s.available(reserved))
	if n < 1 {
		return 0, s.shortage(want)
	}
	s.free -= n
	if reserved {
		s.reserved -= n
	}
	return int(n), nil
}

// give undoes take.
func (s *space) give(n int, reserved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += int64(n)
	if reserved {
		s.reserved += int64(n)
	}
}

// now is how many blocks can be picked.
func (s *space) now() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}

// lose takes n blocks out of what is free, promised or not: a group turned out
// bad, or blocks were claimed.
func (s *space) lose(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free -= int64(n)
}

// shortage is the error for want blocks; the caller holds mu.
func (s *space) shortage(want int) *SpaceError {
	return &SpaceError{Wanted: uint64(want), Free: uint64(max(s.free, 0)), Reserved: uint64(s.reserved), Pending: uint64(s.pending)}
}

// noSpace is shortage for callers without mu.
func (s *space) noSpace(want int) *SpaceError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shortage(want)
}

// noInodes is the error of a file system without a free inode.
func (s *space) noInodes() *SpaceError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &SpaceError{Inodes: true, Wanted: 1, Free: uint64(max(s.freeInodes, 0)), Pending: uint64(s.pendingInodes)}
}

// freed moves n blocks in or, with n below 0, out of what is pending; when they
// leave because their transaction is durable, they become free.
func (s *space) freed(n int64, durable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending += n
	if durable {
		s.free -= n
	}
}

// freedInodes is freed for inodes.
func (s *space) freedInodes(n int64, durable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pendingInodes += n
	if durable {
		s.freeInodes -= n
	}
}

// tookInode takes n inodes out of what is free.
func (s *space) tookInode(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeInodes -= n
}

// count changes the sums of the descriptors.
func (s *space) count(blocks, inodes, dirs int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sums.FreeBlocks += uint64(blocks)
	s.sums.FreeInodes += uint64(inodes)
	s.sums.Dirs += uint64(dirs)
}

// Reserve promises n blocks to the caller: a later Find with reserved set gets
// them. It fails with a *SpaceError when fewer are free, not counting those that
// are promised already or were freed by a transaction that is not durable.
func (a *Allocator) Reserve(n uint64) error {
	s := &a.space
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.free - s.reserved; n > uint64(max(have, 0)) {
		return &SpaceError{Wanted: n, Free: uint64(max(s.free, 0)), Reserved: uint64(s.reserved), Pending: uint64(s.pending)}
	}
	s.reserved += int64(n)
	return nil
}

// Unreserve gives up a promise of n blocks that were not taken by Find.
func (a *Allocator) Unreserve(n uint64) {
	a.space.mu.Lock()
	defer a.space.mu.Unlock()
	a.space.reserved -= min(int64(n), a.space.reserved)
}

// Totals returns how many blocks can be picked now, how many of them are
// reserved, how many become free when the transactions that freed them are
// durable, and how many inodes can be had now.
func (a *Allocator) Totals() (freeBlocks, reserved, pendingFree, freeInodes uint64) {
	s := &a.space
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(max(s.free, 0)), uint64(s.reserved), uint64(s.pending), uint64(max(s.freeInodes, 0))
}

// Sums returns what the descriptors of all groups add up to: the numbers for
// the superblock. Changes of an open Tx are in it.
func (a *Allocator) Sums() Totals {
	a.space.mu.Lock()
	defer a.space.mu.Unlock()
	return a.space.sums
}
