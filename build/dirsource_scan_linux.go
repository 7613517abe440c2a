package build

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"drydock/format"
	"drydock/internal/mkfs"
)

const (
	listBuffer  = 64 << 10  // bytes of names read from a directory at once
	commitFiles = 256       // files that go into the tree together
	maxReadlink = maxString // bytes of a target
)

// struct linux_dirent64: offsets in bytes, numbers in the host's byte order.
const (
	direntLen  = 16 // u16, length of the record
	direntType = 18 // u8, DT_*
	direntName = 19 // ends with a zero byte
)

// scanWorker lists directories and reads the attributes of what is in them.
type scanWorker struct {
	c     *dirScan
	s     *DirSource
	list  []byte
	text  []byte // a target
	data  []byte // contents, to look for zeros
	found []foundFile
}

// foundFile is what was read about one file.
type foundFile struct {
	node   mkfs.Node
	name   string
	target string
	id     hostID // of files with several names
	attrs  []format.Xattr
	ranges []mkfs.Range
	stamp  uint32
}

func newScanWorker(c *dirScan) *scanWorker {
	return &scanWorker{c: c, s: c.s, list: make([]byte, listBuffer)}
}

// run works on items until there are none.
func (w *scanWorker) run() {
	for {
		item, ok := w.c.pop()
		if !ok {
			return
		}
		w.c.done(w.item(item))
	}
}

// item reads one item. An error is one that ends the scan.
func (w *scanWorker) item(item scanItem) error {
	if err := w.c.ctx.Err(); err != nil {
		return err
	}
	ref, err := w.s.cache.acquire(item.dir)
	if err != nil {
		w.c.fail(w.s.dirPath(item.dir), "directory", err)
		return nil
	}
	defer w.s.cache.release(ref)
	if item.names != nil {
		return w.names(item.dir, ref, item.names)
	}
	return w.dir(item.dir, ref)
}

// dir lists a directory. It hands names to other workers if those wait.
func (w *scanWorker) dir(dir uint32, ref *dirRef) error {
	for {
		n, err := unix.Getdents(ref.fd, w.list)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			w.c.fail(w.s.dirPath(dir), "directory", err)
			return nil
		}
		if n <= 0 {
			return nil
		}
		if n > listBuffer/2 && w.c.idle() {
			w.c.push(scanItem{dir, bytes.Clone(w.list[:n])})
			continue
		}
		if err := w.names(dir, ref, w.list[:n]); err != nil {
			return err
		}
	}
}

// names reads what the names in a listing lead to.
func (w *scanWorker) names(dir uint32, ref *dirRef, list []byte) error {
	path := ""
	if w.s.tree.o.Exclude != nil {
		path = w.s.dirPath(dir)
	}
	for _, e := range w.entries(list) {
		w.file(dir, ref, path, e)
		if len(w.found) >= commitFiles {
			if err := w.commit(dir); err != nil {
				return err
			}
		}
	}
	return w.commit(dir)
}

type listEntry struct {
	name string
	kind uint8 // DT_*, DT_UNKNOWN where the host does not say
}

// entries reads a listing. The names come in descending order: so the tree,
// which puts a new link in front of the others, has them in ascending order and
// little to sort, and the nodes of neighbours lie together.
func (w *scanWorker) entries(list []byte) []listEntry {
	var entries []listEntry
	for len(list) > direntName {
		n := int(binary.NativeEndian.Uint16(list[direntLen:]))
		if n <= direntName || n > len(list) {
			break
		}
		name := list[direntName:n]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		if s := string(name); s != "." && s != ".." && s != "" {
			entries = append(entries, listEntry{s, list[direntType]})
		}
		list = list[n:]
	}
	slices.SortFunc(entries, func(a, b listEntry) int { return strings.Compare(b.name, a.name) })
	if w.s.o.shuffle != nil {
		w.s.o.shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	}
	return entries
}

// file reads the attributes of one file and appends it to those found. Of
// what is excluded it touches nothing.
func (w *scanWorker) file(dir uint32, ref *dirRef, path string, e listEntry) {
	known := e.kind != unix.DT_UNKNOWN
	if known && w.excluded(path, e.name, e.kind == unix.DT_DIR) {
		return
	}
	var st unix.Stat_t
	if err := unix.Fstatat(ref.fd, e.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if known || !w.excluded(path, e.name, false) && !w.excluded(path, e.name, true) {
			w.fail(dir, e.name, "attributes", err)
		}
		return
	}
	kind := st.Mode & unix.S_IFMT
	isDir := kind == unix.S_IFDIR
	if !known && w.excluded(path, e.name, isDir) || kind == unix.S_IFREG && w.s.skip[idOf(&st)] {
		return
	}
	f := foundFile{node: nodeOf(&st), name: e.name}
	if !isDir && st.Nlink > 1 {
		f.id = idOf(&st)
		if w.linked(dir, f) {
			return
		}
	}
	if w.content(dir, ref, &st, &f) {
		f.attrs = w.s.readXattrs(w.c, dir, ref, e.name)
		w.found = append(w.found, f)
	}
}

// excluded reports whether the options leave the path out.
func (w *scanWorker) excluded(dir, name string, isDir bool) bool {
	x := w.s.tree.o.Exclude
	return x != nil && x.Match([]byte(joinPath(dir, name)), isDir)
}

func (w *scanWorker) fail(dir uint32, name, what string, err error) {
	w.c.fail(joinPath(w.s.dirPath(dir), name), what, err)
}

// linked adds a further name of a file that is known, if it is.
func (w *scanWorker) linked(dir uint32, f foundFile) bool {
	t := w.s.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	node, known := w.s.hard[f.id]
	if known {
		t.link(w.s.dirs.at(dir).node, []byte(f.name), node)
	}
	return known
}

// content reads what the type of a file asks for beyond its attributes. It is
// false if the file is to be left out.
func (w *scanWorker) content(dir uint32, ref *dirRef, st *unix.Stat_t, f *foundFile) bool {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return w.regular(dir, ref, st, f)
	case unix.S_IFLNK:
		target, err := w.readlink(ref.fd, f.name, int(st.Size))
		if err != nil {
			w.fail(dir, f.name, "target", err)
			return false
		}
		f.target = target
	case unix.S_IFCHR, unix.S_IFBLK:
		f.node.First, f.node.Count = unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev))
	}
	return true
}

// readlink reads the target of a symlink that is said to have size bytes.
func (w *scanWorker) readlink(dir int, name string, size int) (string, error) {
	for size = max(size, 0) + 1; ; size *= 2 {
		w.text = slices.Grow(w.text[:0], min(size, maxReadlink))
		buf := w.text[:cap(w.text)]
		n, err := unix.Readlinkat(dir, name, buf)
		if err != nil {
			return "", err
		}
		if n < len(buf) || n >= maxReadlink {
			return string(buf[:min(n, maxReadlink)]), nil
		}
	}
}

// regular finds the data of a regular file and makes sure that it can be read.
func (w *scanWorker) regular(dir uint32, ref *dirRef, st *unix.Stat_t, f *foundFile) bool {
	f.node.Size = uint64(st.Size)
	f.stamp = stampFile(st)
	if st.Size == 0 {
		return true
	}
	holes := w.s.o.Holes
	if holes == HolesDig || holes != HolesFill && (st.Blocks*512 < st.Size || st.Size >= sparseCheck) {
		if err := w.findData(ref, f); err != nil {
			w.fail(dir, f.name, "data", err)
			return false
		}
		return true
	}
	if err := w.s.read.check(ref.fd, f.name, st); err != nil {
		w.fail(dir, f.name, "data", err)
		return false
	}
	return true
}

// findData asks the host where a file has data and, to dig holes, reads it.
func (w *scanWorker) findData(ref *dirRef, f *foundFile) error {
	fd, err := w.s.openFile(ref.fd, f.name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ranges := dataRanges(fd, f.node.Size)
	if w.s.o.Holes == HolesDig {
		if w.data == nil {
			w.data = make([]byte, digBuffer)
		}
		if ranges, err = digRanges(fdReader(fd), ranges, f.node.Size, w.s.tree.o.BlockSize, w.data); err != nil {
			return err
		}
	}
	if isSparse(ranges, f.node.Size) {
		f.node.Sparse = true
		f.ranges = ranges
	}
	return nil
}

// commit puts the files found in a directory into the tree, and directories
// among them on the list.
func (w *scanWorker) commit(dir uint32) error {
	if err := w.c.ctx.Err(); err != nil {
		return err
	}
	var subdirs []scanItem
	t := w.s.tree
	t.mu.Lock()
	parent := w.s.dirs.at(dir).node
	for i := range w.found {
		if sub := w.s.put(dir, parent, &w.found[i]); sub != 0 {
			subdirs = append(subdirs, scanItem{dir: sub})
		}
	}
	err := t.full
	t.mu.Unlock()
	clear(w.found)
	w.found = w.found[:0]
	if len(subdirs) > 0 {
		w.c.push(subdirs...)
	}
	return err
}

// put adds a file that was found in a directory to the tree. It returns the
// number of a directory, 0 for anything else. Caller holds the tree's lock.
func (s *DirSource) put(dir, parent uint32, f *foundFile) (subdir uint32) {
	t := s.tree
	name := t.addString([]byte(f.name))
	if node, known := s.hard[f.id]; known && f.id != (hostID{}) {
		t.linkRef(parent, name, node) // another worker was faster
		return 0
	}
	n := &f.node
	n.Xattrs = t.xattrs.add(f.attrs)
	switch n.Mode & format.ModeType {
	case format.ModeSymlink:
		n.First = uint32(t.addString([]byte(f.target)))
	case format.ModeRegular:
		if n.Sparse {
			n.First, n.Count = t.addRanges(f.ranges)
		}
		if n.Size > 0 {
			n.Source = dirHandle(s.files.add(fileRec{dir, name}), f.stamp)
		}
	}
	node := t.addNode(*n)
	t.linkRef(parent, name, node)
	if f.id != (hostID{}) {
		s.hard[f.id] = node
	}
	if isDir(n) {
		return s.dirs.add(dirRec{parent: dir, node: node, name: name})
	}
	return 0
}
