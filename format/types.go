package format

// Block is the number of a physical file system block, counted from the start
// of the file system in units of the block size.
type Block uint64

// LBlock is the number of a block within one file, counted from its start.
type LBlock uint32

// Ino is an inode number. The first inode is 1; 0 means none.
type Ino uint32

// Group is the number of a block group, counted from 0.
type Group uint32

// Tid is a jbd2 transaction number. It wraps around at 2^32.
type Tid uint32

// Before reports whether t is older than u, for numbers less than half the
// range apart, across a wrap too.
func (t Tid) Before(u Tid) bool { return int32(t-u) < 0 }
