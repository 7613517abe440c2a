//go:build !linux

package build

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"drydock/format"
	"drydock/internal/mkfs"
)

// DirSource is a directory of the host and all that is below it. On this
// system names, types, permissions, times and targets are kept, owners and hard
// links except on Windows; xattrs, device numbers and holes are not.
type DirSource struct {
	o     DirOptions
	path  string
	tree  *Tree
	dirs  []dirRec
	files []fileRec
	hard  map[hostID]uint32 // files with several names -> their nodes
}

// dirRec is a directory of the host, known by its index; 0 is the root.
type dirRec struct {
	parent uint32
	node   uint32
	name   string
}

// NewDirSource opens the directory at path, which may be a symlink to one.
func NewDirSource(path string, o DirOptions) (*DirSource, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	return &DirSource{o: o, path: path, dirs: []dirRec{{}}, hard: make(map[hostID]uint32)}, nil
}

// Close ends the use of the directory.
func (s *DirSource) Close() error { return nil }

// warnHost says what a system lacks.
const warnHost = "on " + runtime.GOOS + " xattrs, device numbers and holes cannot be read (on Windows no owners and hard links either)"

// Scan reads the whole tree. What cannot be read is listed in one
// UnreadableError at the end, or left out if the options say so.
func (s *DirSource) Scan(ctx context.Context, t *Tree) error {
	s.tree = t
	info, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	root, _ := infoNode(info)
	t.SetNode(RootNode, root)
	t.Warn(warnHost, rootName)
	var failed []Unreadable
	for i := 0; i < len(s.dirs); i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		failed = append(failed, s.dir(uint32(i))...)
	}
	if err := t.Err(); err != nil {
		return err
	}
	return t.reportUnreadable(failed, s.o.SkipUnreadable)
}

// dir reads one directory.
func (s *DirSource) dir(dir uint32) (failed []Unreadable) {
	path := s.dirPath(dir)
	names, err := os.ReadDir(filepath.Join(s.path, path))
	if err != nil {
		return []Unreadable{{Path: path, What: "directory", Err: err}}
	}
	for _, e := range names {
		at := joinPath(filepath.ToSlash(path), e.Name())
		if s.tree.Excluded([]byte(at), e.IsDir()) {
			continue
		}
		if what, err := s.file(dir, at, e.Name()); err != nil {
			failed = append(failed, Unreadable{Path: at, What: what, Err: err})
		}
	}
	return failed
}

// file reads one file.
func (s *DirSource) file(dir uint32, at, name string) (what string, err error) {
	info, err := os.Lstat(filepath.Join(s.path, at))
	if err != nil {
		return "attributes", err
	}
	if info.Mode().IsRegular() && s.skipped(info) {
		return "", nil
	}
	t, parent := s.tree, s.dirs[dir].node
	n, id := infoNode(info)
	if node, known := s.hard[id]; known {
		t.Link(parent, []byte(name), node)
		return "", nil
	}
	switch n.Mode & format.ModeType {
	case format.ModeSymlink:
		target, err := os.Readlink(filepath.Join(s.path, at))
		if err != nil {
			return "target", err
		}
		n.First = uint32(t.AddString([]byte(filepath.ToSlash(target))))
	case format.ModeRegular:
		if n.Size = uint64(info.Size()); n.Size > 0 {
			n.Source = dirHandle(uint32(len(s.files)), stampInfo(info))
			s.files = append(s.files, fileRec{dir: dir, name: t.AddString([]byte(name))})
		}
	}
	node := t.AddNode(n)
	t.Link(parent, []byte(name), node)
	if info.IsDir() {
		s.dirs = append(s.dirs, dirRec{dir, node, name})
	} else if id != (hostID{}) {
		s.hard[id] = node
	}
	return "", nil
}

func (s *DirSource) skipped(info fs.FileInfo) bool {
	for _, skip := range s.o.Skip {
		if os.SameFile(skip, info) {
			return true
		}
	}
	return false
}

// dirPath returns the path of a directory within the source, "" for the root.
func (s *DirSource) dirPath(dir uint32) string {
	if dir == 0 {
		return ""
	}
	return joinPath(s.dirPath(s.dirs[dir].parent), s.dirs[dir].name)
}

// infoNode is a node with the attributes that Go tells of a file, and what the
// file is known by if it has several names.
func infoNode(info fs.FileInfo) (mkfs.Node, hostID) {
	uid, gid, id := statOf(info)
	return mkfs.Node{Mode: modeOf(info.Mode()), UID: uid, GID: gid, Mtime: format.TimeOf(info.ModTime())}, id
}

// modeOf is a mode of Go's as it is on the disk.
func modeOf(m fs.FileMode) uint16 {
	mode := uint16(m.Perm())
	for _, x := range []struct {
		from fs.FileMode
		to   uint16
	}{{fs.ModeSetuid, format.ModeSetUID}, {fs.ModeSetgid, format.ModeSetGID}, {fs.ModeSticky, format.ModeSticky}} {
		if m&x.from != 0 {
			mode |= x.to
		}
	}
	switch {
	case m.IsDir():
		return mode | format.ModeDir
	case m&fs.ModeSymlink != 0:
		return mode | format.ModeSymlink
	case m&fs.ModeNamedPipe != 0:
		return mode | format.ModeFifo
	case m&fs.ModeSocket != 0:
		return mode | format.ModeSocket
	case m&fs.ModeCharDevice != 0:
		return mode | format.ModeChar
	case m&fs.ModeDevice != 0:
		return mode | format.ModeBlock
	}
	return mode | format.ModeRegular
}

func stampInfo(info fs.FileInfo) uint32 {
	return stampOf(uint64(info.Mode().Type()), uint64(info.Size()), uint64(info.ModTime().UnixNano()))
}

// Open opens the data of a file.
func (s *DirSource) Open(handle uint64) (Data, error) {
	index, stamp := splitHandle(handle)
	rec := s.files[index]
	s.tree.mu.Lock()
	name := string(s.tree.names.get(rec.name))
	s.tree.mu.Unlock()
	path := joinPath(s.dirPath(rec.dir), name)
	f, err := os.Open(filepath.Join(s.path, path))
	if err != nil {
		return nil, err
	}
	d := &hostData{f, path, stamp}
	if err := d.check(); err != nil {
		f.Close()
		return nil, err
	}
	return d, nil
}

// hostData is a file of the host.
type hostData struct {
	*os.File
	path  string
	stamp uint32
}

// FileRange is the file itself.
func (d *hostData) FileRange() (*os.File, int64) { return d.File, 0 }

func (d *hostData) check() error {
	info, err := d.Stat()
	if err == nil && stampInfo(info) != d.stamp {
		return changedError(d.path)
	}
	return err
}

// Close closes the file and fails if it was changed since the scan.
func (d *hostData) Close() error {
	changed := d.check()
	if err := d.File.Close(); changed == nil {
		return err
	}
	return changed
}
