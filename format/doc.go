// Package format turns the bytes of an ext4 file system and its jbd2 journal
// into meaning and back. It is made of pure functions of bytes: no I/O, no clock,
// no randomness. SPEC.md lists every field.
//
// A file system is a row of groups of blocks:
//
//	block 0        | group 0                                     | group 1 ...
//	1 KiB nothing  | super | descriptors | reserved | block and inode bitmap | inode table | data
//
// # Views
//
// A structure on disk is a view over its bytes: Superblock, GroupDesc, Inode and
// others are slices with a getter and a setter for each field, so bytes that
// nobody knows survive. A view is cut to its full length once, by whoever reads
// the block, and that length is what the view trusts: a group descriptor of 32
// bytes has no high halves, an inode of 128 bytes no creation time. Views that
// are too short for their fixed part panic, as any slice does; nothing that the
// bytes hold can make them panic.
//
// # Numbers
//
// Block, LBlock, Ino, Group and Tid are types of their own, because they are so
// easily mistaken for each other. All of ext4 is little-endian; the journal is
// big-endian.
//
// # Trust
//
// GeometryOf and ValidateSuperblock, and the functions that return an error,
// check what they read. Errors are DamagedError (errors.Is ErrDamaged) or
// UnsupportedError (errors.Is ErrUnsupported) and say where.
//
// Checksums are apart from all that: Checksums seals and verifies each kind of
// metadata, and does nothing when the file system has none.
package format
