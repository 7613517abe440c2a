// Package dir makes, reads and changes one directory.
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
// directory takes more reads than it has blocks. Where its Blocks are Shared it
// copies nothing and verifies a block once.
//
// An Editor changes a directory by single names, as Linux does:
//
//	linear   the first gap that is large enough, else a new block
//	1 block  full and with dir_index: becomes a root and two leaves
//	indexed  the leaf of the hash; a full one is closed up if that makes room,
//	         else its upper half moves to a new leaf, whose hash enters the index:
//
//	root  [ - | 40 ]              root  [ - | 20 | 40 ]
//	        |    |         ->             |    |    |
//	      01 23 35  47 80         01 13'  23 35  47 80       ' inserted
//
// A full node of the index is split the same way, and a full root gets a level
// of nodes below it, up to 2 levels of tables, or 3 with large_dir; beyond that
// the directory is full (ENOSPC). If a run of one hash is cut in two, bit 0 of
// the upper part's hash says so. Removing a name leaves the index as it is.
// What an Editor is told to do wrong or finds damaged changes nothing.
package dir
