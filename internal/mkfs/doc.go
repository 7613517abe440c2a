// Package mkfs plans and writes a new file system, empty or full.
//
//	Content --New--> Plan --(data copied to Plan.Extents)--> Plan.Write
//
// A Plan is made before the first byte is written. It fixes the size, the
// groups, the place of every block and the number of every inode, as a
// function of the content and the options alone:
//
//	groups   super, descriptors, reserved descriptors, bitmaps, inode tables
//	stream   every other block, in ascending order; position n is the n-th
//
// Everything else is laid along the stream in one pass: the resize inode's
// block, journal, orphan file, directories, long symlinks and xattr blocks,
// then file data with the extent nodes of a file behind its data. What lies
// behind the end of the pass is free. So a file is one extent wherever no
// metadata interrupts the stream, and the smallest size that works is where
// the pass ends.
package mkfs
