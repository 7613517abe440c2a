package ext4

import (
	"sync"
	"sync/atomic"

	"drydock/format"
)

// node is an inode in use: it has open files, data that is not written yet, or
// is unlinked and waits to be deleted. What belongs to the inode itself lies in
// the journal's blocks, not here.
type node struct {
	fs  *FS
	ino format.Ino

	// Guarded by fs.nodes.mu.
	refs     int           // users of the node, open files among them
	opens    int           // open files
	unlinked bool          // no name leads to the inode any more, once this is set
	dying    chan struct{} // closed when a transaction that may delete the inode has ended; nil: there is none

	wbMu sync.Mutex    // one writeback of the file at a time
	mu   sync.RWMutex  // guards data
	data *fileData     // nil until needed
	tid  atomic.Uint32 // the transaction that changed the inode last, a format.Tid
}

// nodeTable holds the nodes of a file system.
type nodeTable struct {
	mu   sync.Mutex
	byNo map[format.Ino]*node
}

// getNode returns the node of an inode, with a reference that putNode gives
// back. It returns nil and a channel where a transaction is about to delete the
// inode: when the channel is closed, the name has to be looked up again. It
// may be called inside a View, so that the inode is still the one that was found.
func (fsys *FS) getNode(ino format.Ino) (n *node, busy <-chan struct{}) {
	return fsys.takeNode(ino, 0)
}

// openNode is getNode for an open file, which closeNode ends.
func (fsys *FS) openNode(ino format.Ino) (n *node, busy <-chan struct{}) {
	return fsys.takeNode(ino, 1)
}

// undoOpen takes openNode back in a transaction that is aborted.
func (fsys *FS) undoOpen(n *node) {
	fsys.nodes.mu.Lock()
	n.opens--
	fsys.nodes.mu.Unlock()
	fsys.dropRef(n)
}

func (fsys *FS) takeNode(ino format.Ino, opens int) (n *node, busy <-chan struct{}) {
	t := &fsys.nodes
	t.mu.Lock()
	defer t.mu.Unlock()
	if n = t.byNo[ino]; n == nil {
		n = &node{fs: fsys, ino: ino}
		n.tid.Store(uint32(fsys.j.Running())) // when it changed last is not known
		t.byNo[ino] = n
	}
	if n.dying != nil {
		return nil, n.dying
	}
	n.refs++
	n.opens += opens
	return n, nil
}

// peekNode returns the node of an inode with a reference, nil if it has none.
func (fsys *FS) peekNode(ino format.Ino) *node {
	t := &fsys.nodes
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byNo[ino]
	if n == nil || n.dying != nil {
		return nil
	}
	n.refs++
	return n
}

// putNode gives a reference back. The last one of an unlinked inode deletes
// that, which takes transactions: the caller holds none.
func (fsys *FS) putNode(n *node) {
	switch fsys.dropRef(n) {
	case nodeUnused:
		n.gone()
	case nodeDoomed:
		fsys.deleteNode(n)
	}
}

// nodeFate is what becomes of a node when a reference is given back.
type nodeFate int

const (
	nodeUsed   nodeFate = iota // somebody else has one
	nodeUnused                 // it is not in the table any more
	nodeDoomed                 // it stays there until its inode is deleted, which is due now
)

func (fsys *FS) dropRef(n *node) nodeFate {
	t := &fsys.nodes
	t.mu.Lock()
	defer t.mu.Unlock()
	n.refs--
	switch {
	case n.refs > 0:
		return nodeUsed
	case n.unlinked:
		n.dying = make(chan struct{})
		return nodeDoomed
	}
	delete(t.byNo, n.ino)
	return nodeUnused
}

// claim takes an inode for deletion by a transaction, until release. It returns
// nil if the inode is in use.
func (fsys *FS) claim(ino format.Ino) *node {
	t := &fsys.nodes
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byNo[ino] != nil {
		return nil
	}
	n := &node{fs: fsys, ino: ino, dying: make(chan struct{})}
	t.byNo[ino] = n
	return n
}

// release ends a claim, or the deletion of a node, at the latest when the
// transaction that frees the inode is merged: from then on another may get its
// number.
func (fsys *FS) release(n *node) {
	t := &fsys.nodes
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byNo[n.ino] == n && n.dying != nil {
		close(n.dying)
		delete(t.byNo, n.ino)
	}
}

// closeNode ends an open file. Data of an unlinked inode that nobody has open
// is forgotten before it is written.
func (fsys *FS) closeNode(n *node) {
	if fsys.closed.Load() {
		return
	}
	fsys.nodes.mu.Lock()
	n.opens--
	useless := n.unlinked && n.opens == 0
	fsys.nodes.mu.Unlock()
	if useless {
		n.drop()
	}
	fsys.putNode(n)
}

// setUnlinked notes whether an inode in use has lost its last name.
func (t *nodeTable) setUnlinked(ino format.Ino, unlinked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.byNo[ino]; n != nil {
		n.unlinked = unlinked
	}
}

// remove takes a node out of the table.
func (t *nodeTable) remove(ino format.Ino) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byNo, ino)
}

// stamp notes the transaction that changed inodes last.
func (t *nodeTable) stamp(inos []format.Ino, tid format.Tid) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byNo) == 0 {
		return
	}
	for _, ino := range inos {
		if n := t.byNo[ino]; n != nil {
			n.tid.Store(uint32(tid))
		}
	}
}
