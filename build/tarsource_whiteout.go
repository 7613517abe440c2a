package build

import (
	"errors"
	"strings"

	"drydock/format"
	"drydock/internal/mkfs"
)

const (
	whiteoutPrefix = ".wh."
	whiteoutMeta   = ".wh..wh." // of AUFS, which keeps files of its own there
	whiteoutOpaque = ".wh..wh..opq"
)

var errWhiteoutName = errors.New("a whiteout that names nothing")

// overlayOpaque is what marks an opaque directory in overlayfs.
var overlayOpaque = format.Xattr{Index: format.XattrTrusted, Name: "overlay.opaque", Value: []byte("y")}

// whiteout applies a whiteout in the directory at a path. What the same layer
// gave stays, wherever it stands in the archive. Caller holds the tree's lock.
func (a *tarApplier) whiteout(parent, base string) error {
	if base == whiteoutOpaque {
		return a.makeOpaque(parent)
	}
	if strings.HasPrefix(base, whiteoutMeta) {
		return nil
	}
	name := strings.TrimPrefix(base, whiteoutPrefix)
	if name == "" || name == "." || name == ".." {
		return errWhiteoutName
	}
	if a.s.o.Whiteouts == WhiteoutsOverlay {
		return a.overlayWhiteout(parent, name)
	}
	dir, ok, err := a.dir(parent, false)
	if err != nil || !ok {
		return err
	}
	if l := a.t.index.find(a.t, dir, []byte(name)); l != 0 {
		a.hide(l)
		a.forget()
	}
	return nil
}

// hide takes away what lower layers gave at a link.
func (a *tarApplier) hide(l uint32) {
	stack := []uint32{l}
	for len(stack) > 0 {
		e := a.t.links.at(stack[len(stack)-1])
		stack = stack[:len(stack)-1]
		if e.node == RootNode {
			continue
		}
		if e.layer>>1 != a.layer {
			e.node = RootNode
			continue
		}
		n := a.t.nodes.at(e.node)
		if !isDir(n) {
			continue
		}
		if e.layer&1 == 0 { // this layer only led through it: its attributes are those of a lower one
			a.t.setNode(e.node, mkfs.Node{Mode: madeDir, Mtime: a.t.o.Time})
		}
		stack = a.children(stack, e.node)
	}
}

// children appends the links of a directory.
func (a *tarApplier) children(list []uint32, dir uint32) []uint32 {
	for l := a.t.nodes.at(dir).First; l != 0; l = a.t.links.at(l).next {
		list = append(list, l)
	}
	return list
}

// makeOpaque takes away all that lower layers gave in a directory.
func (a *tarApplier) makeOpaque(path string) error {
	overlay := a.s.o.Whiteouts == WhiteoutsOverlay
	dir, ok, err := a.dir(path, overlay)
	if err != nil || !ok {
		return err
	}
	for _, l := range a.children(nil, dir) {
		a.hide(l)
	}
	a.forget()
	if overlay {
		a.opaque[dir] = true
	}
	return nil
}

// overlayWhiteout puts a character device 0/0 in the place of a name, or makes
// the directory opaque that this layer has there.
func (a *tarApplier) overlayWhiteout(parent, name string) error {
	dir, _, err := a.dir(parent, true)
	if err != nil {
		return err
	}
	if err := checkName(name); err != nil {
		return err
	}
	l := a.t.index.find(a.t, dir, []byte(name))
	if l != 0 {
		a.hide(l)
		a.forget()
		if node := a.t.links.at(l).node; node != RootNode {
			if isDir(a.t.nodes.at(node)) {
				a.opaque[node] = true
			}
			return nil
		}
	}
	a.setLink(l, dir, name, a.t.addNode(mkfs.Node{Mode: format.ModeChar, Mtime: a.t.o.Time}), true)
	return nil
}

// isWhiteout reports whether a node that a link of the current layer leads to
// stands for a whiteout.
func (a *tarApplier) isWhiteout(layer uint32, n *mkfs.Node) bool {
	return a.s.o.Whiteouts == WhiteoutsOverlay && layer>>1 == a.layer &&
		n.Mode == format.ModeChar && n.First == 0 && n.Count == 0
}
