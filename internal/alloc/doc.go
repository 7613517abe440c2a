// Package alloc keeps account of used and free space: bitmaps as they lie on
// the disk, counters a group, and the Allocator that hands out blocks and inodes
// of a file system that is in use.
//
//	bit 0 of byte 0 is the first block (or inode) of the group; 1 is used
//
// # The states of a block
//
//	        Find               Mark, Commit
//	free ---------> picked -----------------> used
//	 ^ ^               |                       |
//	 | +---------------+                       | Free, Commit
//	 |     Release                             v
//	 +------------------------------------- pending
//	     the transaction is durable
//
// A picked block exists in memory only, so that data can be written to it before
// any transaction knows of it; after a crash it is free. A pending block is free
// on the disk, but if the machine stops before the transaction is durable it
// still belongs to its file: nobody may write to it. In memory both are busy,
// as are used blocks. A Tx that is aborted takes back what Mark and Free did.
//
// Reservations promise numbers of blocks, not places. A reservation can always
// be used: what is promised is never handed to others, and windows, which keep
// room for growing files, are given up first.
//
// # Memory
//
// Of each group the Allocator keeps some 32 bytes, and bitmaps only of those in
// use lately, up to a limit; a bitmap with picked or pending blocks stays. The
// next group with room is found by a tree over the groups' longest runs, which
// are upper bounds: they are found out where a search fails.
//
// # Locks
//
// Mark, Free, NewInode and FreeInode belong to one Tx at a time. Find, Release,
// Reserve and the rest may be called by anybody, with a Tx or without, but not
// within Journal.View, since they use it; Reserve, Unreserve, Totals, Sums and
// InodeInUse may be called there too. No lock is held while Warn is told.
//
// # Damage
//
// A group whose descriptor, bitmap or counts contradict each other is not used
// any more: nothing is taken from it, what is freed in it stays in use, and Warn
// is told once. The account of free space is right without it.
package alloc
