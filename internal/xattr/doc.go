// Package xattr reads and writes the extended attributes of inodes.
//
//	inode:  | 128 bytes | i_extra_isize | magic | entries ->  0000  <- values |
//	block:  | header, 32 bytes          | entries ->      0000      <- values |
//
// Place splits a set over the two. Table finds inodes whose blocks would be
// the same and lets up to 1,024 of them share one, for an image that is built at
// once; Store does so for one that is in use, one inode after the other, within
// transactions of the journal:
//
//	inode's block     attributes wanted in a block        becomes
//	none              those of a block that is there  ->  that block, one more user
//	own or shared     the same as now                 ->  stays
//	own               others                          ->  rewritten in place
//	shared            others                          ->  a new block; the old one has a user less
//	any               none                            ->  none; freed by its last user
//
// Which blocks are there is known from hints, a bounded table of hashes. FromHost
// and ToHost convert between the names and values that programs see and those
// on the disk, where POSIX ACLs have a form of their own; InheritACL, ChmodACL
// and ModeOfACL say how ACLs and modes depend on each other.
package xattr
