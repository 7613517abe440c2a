// Package alloc keeps account of used and free space: bitmaps as they lie on
// the disk, counters a group, and runs of free blocks to hand out.
//
//	bit 0 of byte 0 is the first block (or inode) of the group; 1 is used
//
//	free   0000 1111 0000 0000 1100
//	Runs   ====      ==== ====   ==      ascending; Take cuts from the front
package alloc
