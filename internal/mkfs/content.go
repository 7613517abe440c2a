package mkfs

import (
	"drydock/format"
)

// Content is everything that a new file system holds from the start: a tree of
// nodes (inodes) and the names that lead to them. It is kept in few large
// slices without pointers, so that millions of files cost little memory and
// no garbage collection. Node numbers and Entry order are free: the plan
// orders both by the tree itself, so the same tree gives the same image.
type Content struct {
	Nodes   []Node           // Nodes[0] is the root directory
	Entries []Entry          // the names of one directory lie together, sorted bytewise, each once
	Names   Names            // names and symlink targets
	Xattrs  [][]format.Xattr // the distinct sets, values in disk form; Node.Xattrs-1 is an index
	Ranges  []Range          // data ranges of files with holes
}

// Node is one inode to be. Which of the fields have a meaning depends on the
// type in Mode.
type Node struct {
	Mtime  format.Time // also the inode's atime, ctime and crtime
	Size   uint64      // bytes: regular files only
	Source uint64      // the source's own handle on the data; mkfs never looks at it
	UID    uint32
	GID    uint32
	First  uint32 // directory: first Entry; sparse file: first Range; symlink: NameRef of its target; device: major
	Count  uint32 // directory: Entries; sparse file: Ranges (0: one big hole); device: minor
	Xattrs uint32 // index in Content.Xattrs plus 1; 0: none
	Links  uint32 // names that lead here; a directory's count is computed
	Mode   uint16 // type and permissions as on disk (format.ModeDir | 0755)
	Sparse bool   // regular file whose data lies in Ranges only; otherwise it is all data
}

// Entry is a name in a directory and the node it leads to.
type Entry struct {
	Name NameRef
	Node uint32
}

// Range is a run of bytes that holds data. First and last byte may lie
// anywhere; the plan widens both to whole blocks. Ranges of a file ascend and
// do not touch.
type Range struct {
	Off, Len uint64
}

// NameRef is the place of a string in Names.
type NameRef uint32

// Names holds strings of at most 65,535 bytes, each with its length in front (2 bytes, little-endian).
type Names []byte

// Add appends s and returns its place.
func (n *Names) Add(s string) NameRef {
	ref := NameRef(len(*n))
	*n = append(*n, byte(len(s)), byte(len(s)>>8))
	*n = append(*n, s...)
	return ref
}

// Get returns the string at ref; the bytes belong to n.
func (n Names) Get(ref NameRef) []byte {
	size := int(n[ref]) | int(n[ref+1])<<8
	start := int(ref) + 2
	return n[start : start+size : start+size]
}
