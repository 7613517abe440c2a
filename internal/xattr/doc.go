// Package xattr decides where the extended attributes of an inode lie.
//
//	inode:  | 128 bytes | i_extra_isize | magic | entries ->  0000  <- values |
//	block:  | header, 32 bytes          | entries ->      0000      <- values |
//
// Place splits a set over the two. Table finds inodes whose blocks would be
// the same and lets up to 1,024 of them share one. FromHost and ToHost convert
// between the names and values that programs see and those on the disk, where
// POSIX ACLs have a form of their own.
package xattr
