// Package dir makes and reads one directory.
//
// A directory is a file of blocks. Small ones, and all of a file system
// without dir_index, are linear: entries one after the other, in any order. A
// larger one is indexed, an htree: block 0 holds "." and ".." and the root of an
// index by the hash of the names, and the entries lie in leaves that part the
// hash values among them.
//
//	Builder lays an indexed directory out like this, rows of the index first:
//
//	block 0   1 ... n           n+1 ...
//	+------+ +------+------+   +------+------+------+------+
//	| root | | node | node |   | leaf | leaf | leaf | leaf |   hashes ascend
//	+------+ +------+------+   +------+------+------+------+
//
// A Builder writes whole directories in bulk: Blocks counts without inode
// numbers, so that a plan can be made before there are any, and Build then
// gives exactly that many blocks. A View reads a directory, trusting nothing
// that it finds: damage is an error that matches format.ErrDamaged, and no
// directory takes more reads than it has blocks.
package dir
