package build

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"drydock/format"
	"drydock/internal/mkfs"
)

// maxFollow is how many symlinks a path may lead through, as in Linux.
const maxFollow = 40

var (
	errTarRoot    = errors.New("the root can only be a directory")
	errTarLoop    = fmt.Errorf("its directory leads through more than %d symlinks", maxFollow)
	errTarTarget  = errors.New("a symlink without a target")
	errTarLinkDir = errors.New("hard link to a directory")
)

// tarApplier puts members into a tree, each as if the members before it had
// been unpacked: the last one of a name wins, whatever it replaces.
//
// A link of the tree knows the layer that gave it, times two, plus one if that
// layer has a member for it and did not only lead through it.
type tarApplier struct {
	s       *TarSource
	t       *Tree
	layer   uint32
	pending []pendingLink
	waiting map[uint32]int  // node that stands for a pending link -> index in pending
	opaque  map[uint32]bool // directories that hide what is below them in overlayfs

	dirPath string // the directory that was looked up last
	dirNode uint32
	dirOK   bool
}

// pendingLink is a hard link whose target is not there yet. A node without a
// type stands for it.
type pendingLink struct {
	link, node     uint32
	member, target string
	at             int64
	visited        int // by the walk of this number
}

func newTarApplier(s *TarSource, t *Tree) *tarApplier {
	return &tarApplier{s: s, t: t, waiting: make(map[uint32]int), opaque: make(map[uint32]bool)}
}

// cleanPath is the path of a member or of a hard link's target from the root,
// without "." and "..", which cannot leave it. The root is "".
func cleanPath(name string) string {
	if !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, ".") &&
		!strings.Contains(name, "//") && !strings.Contains(name, "/.") {
		return strings.TrimSuffix(name, "/")
	}
	var parts []string
	for p := range strings.SplitSeq(name, "/") {
		switch p {
		case "", ".":
		case "..":
			parts = parts[:max(0, len(parts)-1)]
		default:
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, "/")
}

// splitPath separates the last name from its directory.
func splitPath(path string) (dir, base string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// node makes the node of a member; data comes later.
func (a *tarApplier) node(m *tarMember) (n mkfs.Node, err error) {
	n = mkfs.Node{UID: m.uid, GID: m.gid, Mtime: m.mtime, Size: m.size}
	switch m.kind {
	case tarFile:
		n.Mode = format.ModeRegular
	case tarDir:
		n.Mode = format.ModeDir
	case tarFifo:
		n.Mode = format.ModeFifo
	case tarChar:
		n.Mode, n.First, n.Count = format.ModeChar, m.devMajor, m.devMinor
	case tarBlockDev:
		n.Mode, n.First, n.Count = format.ModeBlock, m.devMajor, m.devMinor
	case tarSymlink:
		n.Mode = format.ModeSymlink
		if n.First, err = a.target(m.link); err != nil {
			return n, err
		}
	case tarHardLink:
		return n, nil
	}
	n.Mode |= m.mode
	n.Xattrs, err = a.xattrs(m)
	return n, err
}

// target keeps the target of a symlink. What is too long for ext4 is refused
// when the tree is finished, if it is still there then.
func (a *tarApplier) target(target string) (uint32, error) {
	if target == "" {
		return 0, errTarTarget
	}
	if len(target) > maxString {
		return 0, fmt.Errorf("symlink target of %d bytes, at most %d are possible", len(target), maxTarget)
	}
	return uint32(a.t.AddString([]byte(target))), nil
}

// xattrs keeps the xattrs of a member.
func (a *tarApplier) xattrs(m *tarMember) (uint32, error) {
	if a.t.o.Xattrs.None() {
		return 0, nil
	}
	all, err := m.pax.attributes()
	if err != nil {
		return 0, err
	}
	var attrs []format.Xattr
	for name, value := range all {
		if !a.t.KeepXattr(name) {
			continue
		}
		x, known, err := newXattr(name, []byte(value))
		if err != nil {
			return 0, fmt.Errorf("xattr %q: %w", name, err)
		}
		if !known {
			a.t.Warn(warnXattr(name), cleanPath(m.name))
			continue
		}
		attrs = append(attrs, x)
	}
	if m.pax.aclNFS4 {
		a.t.Warn("NFSv4 ACL is left out, ext4 has no such ACLs", cleanPath(m.name))
	}
	if attrs, err = m.textACLs(attrs, a.t.KeepXattr); err != nil {
		return 0, err
	}
	return a.t.AddXattrs(attrs), nil
}

// put puts a member into the tree.
func (a *tarApplier) put(m *tarMember, n mkfs.Node) error {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	path := cleanPath(m.name)
	if path == "" {
		return a.putRoot(m, n)
	}
	parent, base := splitPath(path)
	if a.s.o.Whiteouts != WhiteoutsKeep && strings.HasPrefix(base, whiteoutPrefix) {
		return a.whiteout(parent, base)
	}
	dir, _, err := a.dir(parent, true)
	if err != nil {
		return err
	}
	if err := checkName(base); err != nil {
		return err
	}
	if m.kind == tarHardLink {
		return a.hardLink(m, dir, base)
	}
	return a.putNode(dir, base, n)
}

// putRoot sets the attributes of the root.
func (a *tarApplier) putRoot(m *tarMember, n mkfs.Node) error {
	if m.kind != tarDir {
		return errTarRoot
	}
	a.t.setNode(RootNode, n)
	return nil
}

// checkName refuses names that cannot be kept. Others that are too long for
// ext4 are refused when the tree is finished.
func checkName(name string) error {
	if len(name) > maxString {
		return fmt.Errorf("name of %d bytes, at most %d are possible", len(name), maxName)
	}
	return nil
}

// putNode gives a name to a new node, or to a directory that has the name new
// attributes. Caller holds the tree's lock.
func (a *tarApplier) putNode(dir uint32, base string, n mkfs.Node) error {
	l := a.t.index.find(a.t, dir, []byte(base))
	if l == 0 || a.t.links.at(l).node == RootNode {
		a.setLink(l, dir, base, a.t.addNode(n), true)
		return nil
	}
	e := a.t.links.at(l)
	old := a.t.nodes.at(e.node)
	if isDir(&n) && isDir(old) {
		a.t.setNode(e.node, n)
		e.layer = a.layer<<1 | 1
		return nil
	}
	node := a.t.addNode(n)
	if isDir(&n) && a.isWhiteout(e.layer, old) {
		a.opaque[node] = true
	}
	a.setLink(l, dir, base, node, true)
	return nil
}

// setLink makes a name lead to a node. l is the link of the name, 0 if it
// never had one.
func (a *tarApplier) setLink(l, dir uint32, base string, node uint32, member bool) uint32 {
	if l == 0 {
		l = a.t.link(dir, []byte(base), node)
	} else {
		a.forget()
	}
	e := a.t.links.at(l)
	e.node, e.layer = node, a.layer<<1
	if member {
		e.layer |= 1
	}
	return l
}

// forget drops what dir remembers.
func (a *tarApplier) forget() { a.dirOK = false }

// dir returns the directory at a path. Symlinks on the way are followed as if
// the root of the tree were the root of all. With create, what is missing is
// made, and what is no directory makes way for one. Caller holds the tree's
// lock.
func (a *tarApplier) dir(path string, create bool) (node uint32, ok bool, err error) {
	if create && a.dirOK && a.dirPath == path {
		return a.dirNode, true, nil
	}
	w := tarWalk{a: a, create: create, rest: path, way: []uint32{RootNode}}
	for w.rest != "" {
		if ok, err = w.step(); err != nil || !ok {
			return 0, false, err
		}
	}
	node = w.way[len(w.way)-1]
	if create {
		a.dirPath, a.dirNode, a.dirOK = path, node, true
	}
	return node, true, nil
}

// tarWalk is a path on its way.
type tarWalk struct {
	a        *tarApplier
	create   bool
	rest     string
	way      []uint32 // directories from the root to where it has come
	followed int
}

// step goes to the next name of the path. It is false if there is no such directory.
func (w *tarWalk) step() (ok bool, err error) {
	name, rest, _ := strings.Cut(w.rest, "/")
	w.rest = rest
	switch name {
	case "", ".":
		return true, nil
	case "..":
		w.way = w.way[:max(1, len(w.way)-1)]
		return true, nil
	}
	t, dir := w.a.t, w.way[len(w.way)-1]
	l := t.index.find(t, dir, []byte(name))
	if l != 0 {
		if n := t.nodes.at(t.links.at(l).node); t.links.at(l).node != RootNode && n.Mode&format.ModeType == format.ModeSymlink {
			return true, w.follow(string(t.names.get(mkfs.NameRef(n.First))))
		}
	}
	return w.enter(dir, name, l)
}

// follow goes on with the target of a symlink.
func (w *tarWalk) follow(target string) error {
	if w.followed++; w.followed > maxFollow {
		return errTarLoop
	}
	if strings.HasPrefix(target, "/") {
		w.way = w.way[:1]
	}
	w.rest = target + "/" + w.rest
	return nil
}

// enter goes into the directory that link l leads to, which it makes first if
// it has to and may.
func (w *tarWalk) enter(dir uint32, name string, l uint32) (ok bool, err error) {
	t := w.a.t
	if l != 0 {
		if e := t.links.at(l); e.node != RootNode && isDir(t.nodes.at(e.node)) {
			if w.create && e.layer>>1 != w.a.layer {
				e.layer = w.a.layer << 1
			}
			w.way = append(w.way, e.node)
			return true, nil
		}
	}
	if !w.create {
		return false, nil
	}
	if err := checkName(name); err != nil {
		return false, err
	}
	node := t.addNode(mkfs.Node{Mode: madeDir, Mtime: t.o.Time})
	if l != 0 {
		if e := t.links.at(l); e.node != RootNode && w.a.isWhiteout(e.layer, t.nodes.at(e.node)) {
			w.a.opaque[node] = true
		}
	}
	w.a.setLink(l, dir, name, node, false)
	w.way = append(w.way, node)
	return true, nil
}

// hardLink gives a further name to what the target of a hard link is. If that
// is not there yet, it waits for the end of the layer.
func (a *tarApplier) hardLink(m *tarMember, dir uint32, base string) error {
	target, ok, err := a.find(m.link)
	if err != nil {
		return err
	}
	if ok && isDir(a.t.nodes.at(target)) {
		return fmt.Errorf("%w %s", errTarLinkDir, quotePath(m.link))
	}
	l := a.t.index.find(a.t, dir, []byte(base))
	if ok && !a.isPending(target) {
		a.setLink(l, dir, base, target, true)
		return nil
	}
	node := a.t.addNode(mkfs.Node{})
	a.waiting[node] = len(a.pending)
	l = a.setLink(l, dir, base, node, true)
	a.pending = append(a.pending, pendingLink{link: l, node: node, member: m.name, target: m.link, at: m.at})
	return nil
}

// find returns the node at a path, without following a symlink at its end.
func (a *tarApplier) find(name string) (node uint32, ok bool, err error) {
	parent, base := splitPath(cleanPath(name))
	dir, ok, err := a.dir(parent, false)
	if err != nil || !ok {
		return 0, false, err
	}
	if base == "" {
		return RootNode, true, nil
	}
	l := a.t.index.find(a.t, dir, []byte(base))
	if l == 0 || a.t.links.at(l).node == RootNode {
		return 0, false, nil
	}
	return a.t.links.at(l).node, true, nil
}

func (a *tarApplier) isPending(node uint32) bool {
	_, pending := a.waiting[node]
	return pending
}

// resolveLinks finds the targets of the hard links of a layer that wait.
func (a *tarApplier) resolveLinks(archive string) error {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	for i := range a.pending {
		p := &a.pending[i]
		if a.t.links.at(p.link).node != p.node {
			continue // replaced by a later member, or resolved
		}
		if err := a.resolve(i); err != nil {
			return &TarError{Archive: archive, Member: p.member, Offset: p.at, Err: err}
		}
	}
	a.pending = nil
	clear(a.waiting)
	a.forget()
	return nil
}

// resolve follows hard links that wait for one another up to one that does not.
func (a *tarApplier) resolve(first int) error {
	var chain []int
	for i := first; ; {
		p := &a.pending[i]
		target, ok, err := a.find(p.target)
		switch {
		case err != nil:
			return err
		case !ok:
			return fmt.Errorf("hard link to %s, which is not there", quotePath(p.target))
		case isDir(a.t.nodes.at(target)):
			return fmt.Errorf("%w %s", errTarLinkDir, quotePath(p.target))
		case p.visited == first+1:
			return fmt.Errorf("hard link to %s, which is a hard link that leads back", quotePath(p.target))
		}
		p.visited = first + 1
		chain = append(chain, i)
		next, waits := a.waiting[target]
		if !waits {
			for _, i := range slices.Backward(chain) {
				a.t.links.at(a.pending[i].link).node = target
			}
			return nil
		}
		i = next
	}
}

// finish marks directories that hide what is below them.
func (a *tarApplier) finish() {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	for node := range a.opaque {
		n := a.t.nodes.at(node)
		attrs := slices.DeleteFunc(slices.Clone(a.t.xattrs.get(n.Xattrs)), func(x format.Xattr) bool {
			return x.Index == overlayOpaque.Index && x.Name == overlayOpaque.Name
		})
		n.Xattrs = a.t.xattrs.add(append(attrs, overlayOpaque))
	}
}

// madeDir is the mode of directories that no archive has.
const madeDir = format.ModeDir | 0o755
