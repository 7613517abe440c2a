package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"drydock/internal/mkfs"
)

// DirSource is a directory of the host and all that is below it, mounts
// included. Symlinks are never followed.
type DirSource struct {
	o     DirOptions
	path  string
	root  int // descriptor of the root
	skip  map[hostID]bool
	read  readRights
	xattr xattrReader

	tree  *Tree // its lock also guards what follows
	dirs  slab[dirRec]
	files slab[fileRec]
	hard  map[hostID]uint32 // files with several names -> their nodes

	cache   dirCache
	noAtime atomic.Bool // files can be opened without a change of their access times, as root and owners may
}

// dirRec is a directory of the host, known by its index; 0 is the root.
type dirRec struct {
	parent uint32
	node   uint32
	name   mkfs.NameRef
}

func idOf(st *unix.Stat_t) hostID { return hostID{uint64(st.Dev), uint64(st.Ino)} }

// dirOpen is how directories are opened: for listing and as a place to start from.
const dirOpen = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

// NewDirSource opens the directory at path, which may be a symlink to one.
func NewDirSource(path string, o DirOptions) (*DirSource, error) {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	root, err := openRetry(unix.AT_FDCWD, path, dirOpen)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	s := &DirSource{o: o, path: path, root: root, skip: skipIDs(o.Skip), hard: make(map[hostID]uint32)}
	s.read = newReadRights()
	s.xattr = newXattrReader(root)
	s.noAtime.Store(os.Geteuid() == 0)
	s.cache.init(s)
	return s, nil
}

// skipIDs returns the inodes behind what os.Stat told of files.
func skipIDs(infos []os.FileInfo) map[hostID]bool {
	ids := make(map[hostID]bool, len(infos))
	for _, info := range infos {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			ids[hostID{uint64(st.Dev), uint64(st.Ino)}] = true
		}
	}
	return ids
}

// Close closes the directory.
func (s *DirSource) Close() error {
	s.cache.close()
	s.dirs.free()
	s.files.free()
	return unix.Close(s.root)
}

// Scan reads the whole tree. What cannot be read is listed in one
// UnreadableError at the end, or left out if the options say so.
func (s *DirSource) Scan(ctx context.Context, t *Tree) error {
	c, err := s.begin(ctx, t)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for range s.o.Workers {
		wg.Go(newScanWorker(c).run)
	}
	wg.Wait()
	return c.result()
}

// begin reads the root's attributes and puts it on the list.
func (s *DirSource) begin(ctx context.Context, t *Tree) (*dirScan, error) {
	s.tree = t
	s.dirs.add(dirRec{node: RootNode})
	c := &dirScan{s: s, ctx: ctx, items: []scanItem{{}}}
	c.ready.L = &c.mu
	return c, c.rootNode()
}

// dirScan is the state that the workers of a Scan share: directories that wait
// to be read, the last found first so that they stay few, and pieces of large
// ones.
type dirScan struct {
	s   *DirSource
	ctx context.Context

	mu         sync.Mutex // guards what follows
	ready      sync.Cond  // items or done changed
	items      []scanItem
	busy       int // workers at work on an item
	err        error
	unreadable []Unreadable
}

// scanItem is a directory to list or, if names is not nil, some of the names in it.
type scanItem struct {
	dir   uint32
	names []byte // as getdents wrote them
}

func (c *dirScan) push(items ...scanItem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items = append(c.items, items...)
	c.ready.Broadcast()
}

// pop waits for an item. It is false when there is nothing left to do.
func (c *dirScan) pop() (item scanItem, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.items) == 0 && c.busy > 0 && c.err == nil {
		c.ready.Wait()
	}
	if len(c.items) == 0 || c.err != nil {
		c.ready.Broadcast()
		return item, false
	}
	item = c.items[len(c.items)-1]
	c.items = c.items[:len(c.items)-1]
	c.busy++
	return item, true
}

// done ends the work on an item. An error ends the scan.
func (c *dirScan) done(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
	if c.err == nil {
		c.err = err
	}
	if c.busy == 0 || c.err != nil {
		c.ready.Broadcast()
	}
}

// idle reports whether a worker waits for an item.
func (c *dirScan) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.items) == 0 && c.busy < c.s.o.Workers
}

// fail notes something that could not be read.
func (c *dirScan) fail(path, what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if path == "" {
		path = rootName
	}
	c.unreadable = append(c.unreadable, Unreadable{Path: path, What: what, Err: err})
}

// result ends the scan.
func (c *dirScan) result() error {
	if c.err != nil {
		return c.err
	}
	return c.s.tree.reportUnreadable(c.unreadable, c.s.o.SkipUnreadable)
}

// rootNode reads the attributes of the root itself.
func (c *dirScan) rootNode() error {
	s := c.s
	var st unix.Stat_t
	if err := unix.Fstat(s.root, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: s.path, Err: err}
	}
	n := nodeOf(&st)
	n.Xattrs = s.tree.AddXattrs(s.readXattrs(c, 0, &dirRef{fd: s.root}, ""))
	s.tree.SetNode(RootNode, n)
	return nil
}

// nodeOf is a node with the attributes that stat tells.
func nodeOf(st *unix.Stat_t) mkfs.Node {
	return mkfs.Node{Mode: uint16(st.Mode), UID: st.Uid, GID: st.Gid, Mtime: timeOf(st.Mtim)}
}

// openFile opens a file to be read. What is no regular file any more does not
// make it wait.
func (s *DirSource) openFile(dir int, name string) (int, error) {
	flags := unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	if s.noAtime.Load() {
		fd, err := openRetry(dir, name, flags|unix.O_NOATIME)
		if !errors.Is(err, unix.EPERM) {
			return fd, err
		}
		s.noAtime.Store(false)
	}
	return openRetry(dir, name, flags)
}

// openRetry is openat, again where a signal came in between.
func openRetry(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// dirPath returns the path of a directory within the source, "" for the root.
func (s *DirSource) dirPath(dir uint32) string {
	var names []string
	for ; dir != 0; dir = s.parent(dir, &names) {
	}
	path := ""
	for i := len(names) - 1; i >= 0; i-- {
		path = joinPath(path, names[i])
	}
	return path
}

// parent returns the parent of a directory and appends the name.
func (s *DirSource) parent(dir uint32, names *[]string) uint32 {
	s.tree.mu.Lock()
	defer s.tree.mu.Unlock()
	rec := *s.dirs.at(dir)
	*names = append(*names, string(s.tree.names.get(rec.name)))
	return rec.parent
}

// record returns where a file was found.
func (s *DirSource) record(index uint32) (dir uint32, name string, err error) {
	s.tree.mu.Lock()
	defer s.tree.mu.Unlock()
	if index >= s.files.n {
		return 0, "", fmt.Errorf("handle of file %d of %d", index, s.files.n)
	}
	rec := *s.files.at(index)
	return rec.dir, string(s.tree.names.get(rec.name)), nil
}
