package mkfs

import (
	"bytes"
	"fmt"
	"slices"

	"drydock/format"
)

// lostFound is the directory that fsck puts what it finds into.
const lostFound = "lost+found"

// walk is the order of a tree: a directory's entries get inode numbers
// together, in the order of their names; directories follow one another from
// the root down, first to last, before their neighbours.
type walk struct {
	inos    []format.Ino // of each node; 0: not reached
	order   []uint32     // nodes by inode number, from firstIno on; the root is not among them
	dirs    []uint32     // directories in walk order, the root first
	parents []format.Ino // of each of dirs
	subdirs []uint32     // directories in each of dirs
	first   format.Ino   // of order[0]
	lost    uint32       // the node of /lost+found; 0: none
}

// newWalk numbers the tree of c from the inode number first on. lost+found
// comes first, as mke2fs has it. A node reached as a directory twice is an
// error: a tree has no loops.
func newWalk(c *Content, first format.Ino) (*walk, error) {
	w := &walk{inos: make([]format.Ino, len(c.Nodes)), order: make([]uint32, 0, len(c.Nodes)), first: first}
	w.inos[0] = format.RootIno
	for _, e := range c.entries(0) {
		if c.isDir(e.Node) && bytes.Equal(c.Names.Get(e.Name), []byte(lostFound)) {
			w.number(e.Node)
			w.lost = e.Node
		}
	}
	type level struct {
		node   uint32
		parent format.Ino
	}
	stack := []level{{0, format.RootIno}}
	for len(stack) > 0 {
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		w.dirs = append(w.dirs, top.node)
		w.parents = append(w.parents, top.parent)
		depth := len(stack)
		for _, e := range c.entries(top.node) {
			fresh := w.number(e.Node)
			if !c.isDir(e.Node) {
				continue
			}
			if !fresh && (top.node != 0 || e.Node != w.lost || string(c.Names.Get(e.Name)) != lostFound) {
				return nil, fmt.Errorf("directory %q: has a second name, which ext4 does not allow", c.Names.Get(e.Name))
			}
			stack = append(stack, level{e.Node, w.inos[top.node]})
		}
		w.subdirs = append(w.subdirs, uint32(len(stack)-depth))
		slices.Reverse(stack[depth:])
	}
	return w, nil
}

// number gives the node the next inode number unless it has one.
func (w *walk) number(node uint32) (fresh bool) {
	if w.inos[node] != 0 {
		return false
	}
	w.inos[node] = w.first + format.Ino(len(w.order))
	w.order = append(w.order, node)
	return true
}

// entries returns the names in a directory.
func (c *Content) entries(dir uint32) []Entry {
	n := &c.Nodes[dir]
	return c.Entries[n.First : n.First+n.Count]
}

func (c *Content) kind(node uint32) uint16 { return c.Nodes[node].Mode & format.ModeType }

func (c *Content) isDir(node uint32) bool { return c.kind(node) == format.ModeDir }

// Path returns the path of a node, the first in walk order; "" for the root.
// It searches the whole tree: for messages.
func (c *Content) Path(node uint32) string {
	parents := make(map[uint32]Entry) // directory -> the entry that leads to it and, in Node, its parent
	stack := []uint32{0}
	for len(stack) > 0 {
		dir := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, e := range c.entries(dir) {
			if e.Node == node {
				return c.join(parents, dir, e.Name)
			}
			if _, seen := parents[e.Node]; c.isDir(e.Node) && !seen {
				parents[e.Node] = Entry{e.Name, dir}
				stack = append(stack, e.Node)
			}
		}
	}
	return ""
}

func (c *Content) join(parents map[uint32]Entry, dir uint32, name NameRef) string {
	path := string(c.Names.Get(name))
	for dir != 0 {
		e := parents[dir]
		path = string(c.Names.Get(e.Name)) + "/" + path
		dir = e.Node
	}
	return path
}

// addLostFound puts a directory lost+found into the root, unless there is
// something of that name.
func (c *Content) addLostFound(now format.Time) {
	root := c.entries(0)
	at, found := slices.BinarySearchFunc(root, []byte(lostFound), func(e Entry, name []byte) int {
		return bytes.Compare(c.Names.Get(e.Name), name)
	})
	if found {
		return
	}
	entry := Entry{c.Names.Add(lostFound), uint32(len(c.Nodes))}
	c.Nodes = append(c.Nodes, Node{Mode: format.ModeDir | 0o700, Links: 1, Mtime: now})
	c.Nodes[0].First = uint32(len(c.Entries))
	c.Nodes[0].Count++
	c.Entries = append(c.Entries, root[:at]...)
	c.Entries = append(c.Entries, entry)
	c.Entries = append(c.Entries, root[at:]...)
}
