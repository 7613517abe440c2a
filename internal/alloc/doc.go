// Package alloc keeps account of used and free space: bitmaps as they lie on
// the disk, and counters a group.
//
//	bit 0 of byte 0 is the first block (or inode) of the group; 1 is used
package alloc
