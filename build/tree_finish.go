package build

import (
	"bytes"
	"fmt"
	"slices"

	"drydock/format"
	"drydock/internal/mkfs"
)

// What the next step may add without a copy of everything: lost+found is a
// node, a name, and the entries of the root again.
const (
	spareNodes = 4
	spareNames = 256
)

// Finish makes the tree into content: names sorted bytewise, links counted,
// what is excluded or out of reach left out, owners and times changed as the
// options say. The content depends on what was added alone, not on the order;
// only where a name lies in Names does. Finish may be called once; the tree's
// names and options may be used afterwards.
func (t *Tree) Finish() (*mkfs.Content, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.full != nil {
		return nil, t.full
	}
	f := &finish{t: t, order: make([]uint32, t.nodes.n)}
	if err := f.walk(); err != nil {
		return nil, err
	}
	if err := f.limits.err(); err != nil {
		return nil, err
	}
	slices.SortFunc(t.skipped, compareUnreadable)
	t.links.free()
	t.index = linkIndex{}
	return f.content(), nil
}

// finish is the state of Finish.
type finish struct {
	t       *Tree
	order   []uint32 // node -> its new number plus 1; 0: not reached
	live    uint32   // nodes reached
	entries []mkfs.Entry
	stack   []finishDir
	path    []byte // of the directory at work
	limits  limitErrors
}

// finishDir is a directory whose entries are still to be taken. Its path is
// the first parent bytes of the path, which its parent wrote, and its name.
type finishDir struct {
	node   uint32
	parent int
	name   mkfs.NameRef
}

// walk goes through all directories, each before those in it and these in the
// order of their names, and makes their entries.
func (f *finish) walk() error {
	f.entries = make([]mkfs.Entry, 0, int(f.t.links.n)+int(f.count(RootNode))+spareNodes)
	f.number(RootNode)
	f.attributes(RootNode, func() string { return rootName })
	if err := f.dir(RootNode); err != nil {
		return err
	}
	for len(f.stack) > 0 {
		d := f.stack[len(f.stack)-1]
		f.stack = f.stack[:len(f.stack)-1]
		f.path = f.join(f.path[:d.parent], d.name)
		if err := f.dir(d.node); err != nil {
			return err
		}
	}
	return nil
}

// count returns the links of a directory.
func (f *finish) count(dir uint32) (n uint32) {
	for l := f.t.nodes.at(dir).First; l != 0; l = f.t.links.at(l).next {
		n++
	}
	return n
}

// dir takes the entries of a directory, whose path is f.path.
func (f *finish) dir(dir uint32) error {
	first := len(f.entries)
	for l := f.t.nodes.at(dir).First; l != 0; {
		e := f.t.links.at(l)
		if e.node != RootNode && !f.excluded(e) {
			f.entries = append(f.entries, mkfs.Entry{Name: e.name, Node: e.node})
		}
		l = e.next
	}
	entries := f.entries[first:]
	f.sort(entries)
	n := f.t.nodes.at(dir)
	n.First, n.Count = uint32(first), uint32(len(entries))
	depth, parent := len(f.stack), len(f.path)
	for i, e := range entries {
		if i > 0 && bytes.Equal(f.t.names.get(e.Name), f.t.names.get(entries[i-1].Name)) {
			return fmt.Errorf("%s: the name is in its directory twice: the source was changed while it was read", quotePath(f.entryPath(e)))
		}
		if f.entry(e) && isDir(f.t.nodes.at(e.Node)) {
			f.stack = append(f.stack, finishDir{e.Node, parent, e.Name})
		}
	}
	slices.Reverse(f.stack[depth:])
	return nil
}

func (f *finish) sort(entries []mkfs.Entry) {
	names := &f.t.names
	slices.SortFunc(entries, func(a, b mkfs.Entry) int {
		return bytes.Compare(names.get(a.Name), names.get(b.Name))
	})
}

// entry counts a name and numbers and checks its node if it is the first. It
// reports whether it is.
func (f *finish) entry(e mkfs.Entry) (first bool) {
	if n := len(f.t.names.get(e.Name)); n > maxName {
		f.limits.add(&LimitError{Path: f.entryPath(e), What: "name", Unit: "bytes", Value: uint64(n), Limit: maxName,
			Hint: "rename it or leave it out with --exclude"})
	}
	if first = f.number(e.Node); first {
		f.attributes(e.Node, func() string { return f.entryPath(e) })
		f.check(e)
	}
	n := f.t.nodes.at(e.Node)
	n.Links++
	if n.Links == maxLinks+1 && !isDir(n) {
		f.limits.add(&LimitError{Path: f.entryPath(e), What: "file", Unit: "names (hard links)", Value: uint64(n.Links), Limit: maxLinks,
			Hint: "copy the file in place of some of the hard links"})
	}
	return first
}

// number gives the node the next number unless it has one.
func (f *finish) number(node uint32) bool {
	if f.order[node] != 0 {
		return false
	}
	f.live++
	f.order[node] = f.live
	return true
}

// check refuses a node that ext4 cannot hold.
func (f *finish) check(e mkfs.Entry) {
	n := f.t.nodes.at(e.Node)
	switch n.Mode & format.ModeType {
	case format.ModeRegular:
		if n.Size > f.t.o.MaxFileSize {
			f.limits.add(&LimitError{Path: f.entryPath(e), What: "file", Unit: "bytes", Value: n.Size, Limit: f.t.o.MaxFileSize,
				Hint: "larger blocks (--block-size) allow larger files"})
		}
	case format.ModeSymlink:
		limit := min(maxTarget, f.t.o.BlockSize-1)
		if size := len(f.t.names.get(mkfs.NameRef(n.First))); size > limit {
			f.limits.add(&LimitError{Path: f.entryPath(e), What: "symlink target", Unit: "bytes", Value: uint64(size), Limit: uint64(limit),
				Hint: targetHint(limit)})
		}
	}
}

func targetHint(limit int) string {
	if limit < maxTarget {
		return "larger blocks (--block-size) allow longer targets"
	}
	return "shorten the target or leave the symlink out with --exclude"
}

// attributes changes owner and times of a node as the options say.
func (f *finish) attributes(node uint32, path func() string) {
	t, n := f.t, f.t.nodes.at(node)
	n.Links = 0
	if mtime := n.Mtime.Clamp(); mtime != n.Mtime {
		t.warnings.add(warnTime, path())
		n.Mtime = mtime
	}
	if t.o.Epoch != nil && t.o.Epoch.Before(n.Mtime) {
		n.Mtime = *t.o.Epoch
	}
	n.UID, n.GID = t.o.Owner.Map(n.UID, n.GID)
}

const warnTime = "time outside of what ext4 can hold, 1901-12-13 to 2446-05-10: the nearest is used"

func (f *finish) excluded(e *link) bool {
	if f.t.o.Exclude == nil {
		return false
	}
	parent := len(f.path)
	f.path = f.join(f.path, e.name)
	match := f.t.o.Exclude.Match(f.path, isDir(f.t.nodes.at(e.node)))
	f.path = f.path[:parent]
	return match
}

// join appends a name to the path of a directory.
func (f *finish) join(dir []byte, name mkfs.NameRef) []byte {
	if len(dir) > 0 {
		dir = append(dir, '/')
	}
	return append(dir, f.t.names.get(name)...)
}

func (f *finish) entryPath(e mkfs.Entry) string {
	return joinPath(string(f.path), string(f.t.names.get(e.Name)))
}

// content moves everything that was reached into slices of the exact size.
func (f *finish) content() *mkfs.Content {
	t := f.t
	c := &mkfs.Content{Entries: f.entries}
	for i := range c.Entries {
		c.Entries[i].Node = f.order[c.Entries[i].Node] - 1
	}
	f.permute()
	f.order = nil
	c.Nodes = t.nodes.flatten(f.live, spareNodes)
	c.Names = t.names.flatten(spareNames)
	c.Ranges = f.takeRanges(c.Nodes)
	c.Xattrs = f.takeXattrs(c.Nodes)
	return c
}

// permute brings the nodes into their new order, in place: those that were
// reached come first.
func (f *finish) permute() {
	next := f.live
	for i, n := range f.order {
		if n == 0 {
			next++
			f.order[i] = next
		}
	}
	nodes := &f.t.nodes
	to := func(i uint32) uint32 { return f.order[i] - 1 }
	for i := range uint32(len(f.order)) {
		for to(i) != i {
			j := to(i)
			a, b := nodes.at(i), nodes.at(j)
			*a, *b = *b, *a
			f.order[i], f.order[j] = f.order[j], f.order[i]
		}
	}
}

// takeRanges copies the ranges of all sparse files, in the order of the nodes.
func (f *finish) takeRanges(nodes []mkfs.Node) []mkfs.Range {
	total := 0
	for i := range nodes {
		if nodes[i].Sparse {
			total += int(nodes[i].Count)
		}
	}
	list := make([]mkfs.Range, 0, total)
	for i := range nodes {
		n := &nodes[i]
		if !n.Sparse {
			continue
		}
		first := uint32(len(list))
		for r := range n.Count {
			list = append(list, *f.t.ranges.at(n.First + r))
		}
		n.First = first
	}
	f.t.ranges.free()
	return list
}

// takeXattrs takes the sets that are in use, in the order of the nodes.
func (f *finish) takeXattrs(nodes []mkfs.Node) [][]format.Xattr {
	var list [][]format.Xattr
	number := make([]uint32, len(f.t.xattrs.sets)+1)
	for i := range nodes {
		x := &nodes[i].Xattrs
		if *x == 0 {
			continue
		}
		if number[*x] == 0 {
			list = append(list, f.t.o.Owner.mapACLs(f.t.xattrs.get(*x)))
			number[*x] = uint32(len(list))
		}
		*x = number[*x]
	}
	f.t.xattrs = xattrSets{}
	return list
}
