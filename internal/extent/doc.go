// Package extent holds one file's map from file blocks to blocks on the disk:
// the extent tree of ext4 and the indirect blocks of ext2 and ext3.
//
//	inode i_block (60 bytes)            node block
//	+--------+------------------+       +--------+-----------------------+------+
//	| header | up to 4 entries  | ----> | header | up to Max entries     | csum |
//	+--------+------------------+       +--------+-----------------------+------+
//	                                    index entries lead one level down, at
//	                                    depth 0 the entries are extents
//
// Build makes the tree of a file whose extents are all known. File reads the
// map of an inode: Map yields it in order, Lookup finds one block, Nodes
// yields the blocks that the map itself takes. Every node is checked before it
// is used, so a damaged map ends in an error that matches format.ErrDamaged
// and never in a panic, an endless walk or unbounded memory.
//
// Editor changes a tree within a transaction of the journal. All its changes are
// one operation, splice: entries of a node are replaced by others, which splits
// a node that is too full (and the root grows), frees one that is empty, and
// keeps the keys above and the checksums right.
//
//	Insert, Convert, Remove -> replace (extents of a leaf, merged) -> splice -> split, drop, rekey
//
// Status is what is known of a file's blocks in memory, such as that data waits
// for blocks to be chosen, which no tree can say.
package extent
