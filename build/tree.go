package build

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"drydock/format"
	"drydock/internal/mkfs"
)

// RootNode is the number of the root directory's node.
const RootNode = 0

// Limits of ext4 that do not depend on the image's geometry.
const (
	maxName   = 255   // bytes of a name
	maxTarget = 4095  // bytes of a symlink target; also at most the block size less one
	maxLinks  = 65000 // names of one file
	maxNodes  = 1<<32 - 2
)

// TreeOptions says what a tree takes of a source and what it changes. The
// zero value keeps everything.
type TreeOptions struct {
	BlockSize   int          // of the image, in bytes; 0: 4096
	MaxFileSize uint64       // in bytes; 0: what 2^32-1 blocks hold
	Exclude     *Exclude     // paths to leave out
	Owner       *OwnerMap    // changes of owners
	Xattrs      *XattrFilter // xattrs to keep; nil: all
	Epoch       *format.Time // later times become this one
	Time        format.Time  // of directories that no source has, as missing parents in a tar
}

// Tree collects what one or more sources hold, in any order, and makes it into
// mkfs.Content. It may be used by several goroutines at once.
//
// It is made of nodes (inodes) and links (names). Both lie in slabs without
// pointers, about 100 bytes a file with its name, so that a tree of millions of
// files is possible.
type Tree struct {
	o TreeOptions

	mu       sync.Mutex // guards what follows
	nodes    slab[mkfs.Node]
	links    slab[link]
	names    nameSlab
	ranges   slab[mkfs.Range]
	xattrs   xattrSets
	index    linkIndex
	warnings warnings
	skipped  []Unreadable
	full     error // the first thing that found no room
}

// link is a name in a directory. Links of one directory form a list, whose
// head is the directory's Node.First until the tree is finished; link 0 is its
// end. A link to node 0 (the root, which has no name) was taken away.
type link struct {
	parent, node uint32
	next         uint32
	name         mkfs.NameRef
	layer        uint32 // of several archives, the one that gave it
}

// NewTree returns a tree with nothing but a root directory of mode 0755 that
// belongs to root.
func NewTree(o TreeOptions) *Tree {
	if o.BlockSize == 0 {
		o.BlockSize = 4096
	}
	if o.MaxFileSize == 0 {
		o.MaxFileSize = uint64(o.BlockSize) * (1<<32 - 1)
	}
	t := &Tree{o: o, warnings: make(warnings)}
	t.nodes.add(mkfs.Node{Mode: format.ModeDir | 0o755, Mtime: o.Time})
	t.links.add(link{})
	return t
}

// Options returns what NewTree was given, with defaults filled in.
func (t *Tree) Options() TreeOptions { return t.o }

// AddNode adds a node that no name leads to yet. Of its fields First and Count
// must be zero for a directory; Links is counted by Finish.
func (t *Tree) AddNode(n mkfs.Node) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addNode(n)
}

func (t *Tree) addNode(n mkfs.Node) uint32 {
	if t.nodes.n >= maxNodes {
		t.setFull("files")
		return RootNode
	}
	return t.nodes.add(n)
}

// Node returns a copy of a node.
func (t *Tree) Node(i uint32) mkfs.Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *t.nodes.at(i)
}

// SetNode changes the attributes of a node to those of n. A directory keeps
// its names; the type of a directory cannot change.
func (t *Tree) SetNode(i uint32, n mkfs.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setNode(i, n)
}

func (t *Tree) setNode(i uint32, n mkfs.Node) {
	old := t.nodes.at(i)
	if isDir(old) {
		n.First = old.First
		n.Mode = n.Mode&^format.ModeType | format.ModeDir
	}
	*old = n
}

// Link gives a node a name in a directory that does not have the name yet. A
// directory has one name.
func (t *Tree) Link(dir uint32, name []byte, node uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.link(dir, name, node)
}

func (t *Tree) link(dir uint32, name []byte, node uint32) uint32 {
	ref, ok := t.names.add(name)
	if !ok || t.links.n >= maxNodes {
		t.setFull("names")
		return 0
	}
	return t.linkRef(dir, ref, node)
}

func (t *Tree) linkRef(dir uint32, name mkfs.NameRef, node uint32) uint32 {
	head := &t.nodes.at(dir).First
	l := t.links.add(link{parent: dir, node: node, next: *head, name: name})
	*head = l
	t.index.add(t, l)
	return l
}

// Lookup returns the node that a name in a directory leads to.
func (t *Tree) Lookup(dir uint32, name []byte) (node uint32, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := t.nodes.at(dir).First; l != 0; l = t.links.at(l).next {
		if e := t.links.at(l); e.node != RootNode && bytes.Equal(t.names.get(e.name), name) {
			return e.node, true
		}
	}
	return 0, false
}

// AddString keeps the target of a symlink, for Node.First.
func (t *Tree) AddString(s []byte) mkfs.NameRef {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addString(s)
}

func (t *Tree) addString(s []byte) mkfs.NameRef {
	ref, ok := t.names.add(s)
	if !ok {
		t.setFull("names")
	}
	return ref
}

// AddRanges keeps the data ranges of a sparse file, for Node.First and Count.
func (t *Tree) AddRanges(ranges []mkfs.Range) (first, count uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addRanges(ranges)
}

func (t *Tree) addRanges(ranges []mkfs.Range) (first, count uint32) {
	first = t.ranges.n
	if uint64(first)+uint64(len(ranges)) > maxNodes {
		t.setFull("ranges of sparse files")
		return 0, 0
	}
	for _, r := range ranges {
		t.ranges.add(r)
	}
	return first, uint32(len(ranges))
}

// AddXattrs keeps a set of xattrs, values in disk form, for Node.Xattrs. The
// filter of the options is the caller's to apply, see KeepXattr.
func (t *Tree) AddXattrs(attrs []format.Xattr) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.xattrs.add(attrs)
}

// KeepXattr reports whether an xattr of this full name is to be kept.
func (t *Tree) KeepXattr(name string) bool { return t.o.Xattrs.Keep(name) }

// Excluded reports whether the path, relative to the root, is to be left out.
// Finish leaves it out at any rate; a source that asks saves the work.
func (t *Tree) Excluded(path []byte, dir bool) bool { return t.o.Exclude.Match(path, dir) }

// Warn counts something that is not in the image as it is in the source.
func (t *Tree) Warn(what, path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.warnings.add(what, path)
}

// Warnings returns what was counted, ordered.
func (t *Tree) Warnings() []Warning {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.warnings.list()
}

// Skipped returns what could not be read and was left out, ordered by path.
func (t *Tree) Skipped() []Unreadable {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.skipped
}

// Discard frees the tree's memory early. It is harmless after Finish.
func (t *Tree) Discard() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nodes.free()
	t.links.free()
	t.ranges.free()
	t.names.free()
}

// Err returns an error once the tree has no room for more. What is added from
// then on is lost.
func (t *Tree) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.full
}

// ErrTooLarge says that a source has more files, or longer names in total,
// than one image can be made from.
var ErrTooLarge = errors.New("the source is too large")

func (t *Tree) setFull(what string) {
	if t.full == nil {
		t.full = fmt.Errorf("too many %s: %w", what, ErrTooLarge)
	}
}

func isDir(n *mkfs.Node) bool { return n.Mode&format.ModeType == format.ModeDir }

// reportUnreadable turns what could not be read into an error or, if it is to
// be skipped, into what Skipped returns.
func (t *Tree) reportUnreadable(files []Unreadable, skip bool) error {
	if len(files) == 0 {
		return nil
	}
	slices.SortFunc(files, compareUnreadable)
	if !skip {
		return &UnreadableError{Files: files}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.skipped = append(t.skipped, files...)
	return nil
}
