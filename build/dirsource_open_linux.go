package build

import (
	"io"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"drydock/format"
)

// maxDirs is the number of directories that are kept open.
const maxDirs = 128

// dirCache holds descriptors of directories that were used lately, so that
// files of one directory cost an openat each and long paths never matter.
type dirCache struct {
	s *DirSource

	mu    sync.Mutex // guards what follows
	dirs  map[uint32]*dirRef
	clock uint64
}

// dirRef is an open directory. It stays open while someone uses it.
type dirRef struct {
	fd   int
	uses int
	last uint64 // the clock when it was used last
}

func (c *dirCache) init(s *DirSource) {
	c.s = s
	c.dirs = map[uint32]*dirRef{0: {fd: s.root, uses: 1}}
}

// close closes all directories but the root, which belongs to the source.
func (c *dirCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for dir, ref := range c.dirs {
		if dir != 0 {
			unix.Close(ref.fd)
		}
	}
	c.dirs = nil
}

// acquire opens a directory, by way of the nearest one above it that is open.
// The caller releases it.
func (c *dirCache) acquire(dir uint32) (*dirRef, error) {
	var chain []uint32
	var names []string
	ref := c.get(dir)
	for ref == nil {
		chain = append(chain, dir)
		dir = c.s.parent(dir, &names)
		ref = c.get(dir)
	}
	for i, dir := range slices.Backward(chain) {
		fd, err := openRetry(ref.fd, names[i], dirOpen|unix.O_NOFOLLOW)
		c.release(ref)
		if err != nil {
			return nil, err
		}
		ref = c.put(dir, fd)
	}
	return ref, nil
}

// get takes a directory that is open, nil if it is not.
func (c *dirCache) get(dir uint32) *dirRef {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.use(dir)
}

// use counts a use of an open directory. Caller holds mu.
func (c *dirCache) use(dir uint32) *dirRef {
	ref := c.dirs[dir]
	if ref != nil {
		c.clock++
		ref.uses++
		ref.last = c.clock
	}
	return ref
}

// put keeps a descriptor, unless someone else opened the same directory.
func (c *dirCache) put(dir uint32, fd int) *dirRef {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ref := c.use(dir); ref != nil {
		unix.Close(fd)
		return ref
	}
	if len(c.dirs) >= maxDirs {
		c.evict()
	}
	c.dirs[dir] = &dirRef{fd: fd}
	return c.use(dir)
}

// evict closes the directory that was used longest ago and is not in use.
func (c *dirCache) evict() {
	var oldest *dirRef
	var at uint32
	for dir, ref := range c.dirs {
		if ref.uses == 0 && (oldest == nil || ref.last < oldest.last) {
			oldest, at = ref, dir
		}
	}
	if oldest != nil {
		unix.Close(oldest.fd)
		delete(c.dirs, at)
	}
}

func (c *dirCache) release(ref *dirRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ref.uses--
}

// OpenAt opens a file that Scan found and makes sure that it is still the same.
func (s *DirSource) OpenAt(handle uint64) (fd int, err error) {
	index, _ := splitHandle(handle)
	dir, name, err := s.record(index)
	if err != nil {
		return -1, err
	}
	ref, err := s.cache.acquire(dir)
	if err != nil {
		return -1, s.pathError(dir, name, err)
	}
	fd, err = s.openFile(ref.fd, name)
	s.cache.release(ref)
	if err != nil {
		return -1, s.pathError(dir, name, err)
	}
	if err := s.CheckAt(handle, fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// CheckAt returns an error that is ErrChanged if the open file is not what it
// was when it was scanned.
func (s *DirSource) CheckAt(handle uint64, fd int) error {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	index, stamp := splitHandle(handle)
	if err == nil && stampFile(&st) == stamp {
		return nil
	}
	dir, name, _ := s.record(index)
	if err != nil {
		return s.pathError(dir, name, err)
	}
	return changedError(joinPath(s.dirPath(dir), name))
}

// pathError says which file of the source an error is about. A name that is
// gone, or a symlink or another type by now, is a change.
func (s *DirSource) pathError(dir uint32, name string, err error) error {
	path := joinPath(s.dirPath(dir), name)
	if err == unix.ENOENT || err == unix.ELOOP || err == unix.ENOTDIR || err == unix.ENXIO {
		return changedError(path)
	}
	return &os.PathError{Op: "open", Path: path, Err: err}
}

// stampFile is the stamp of a file: its identity, type, size and time of change.
func stampFile(st *unix.Stat_t) uint32 {
	return stampOf(uint64(st.Dev), uint64(st.Ino), uint64(st.Mode&unix.S_IFMT), uint64(st.Size),
		uint64(st.Mtim.Sec), uint64(st.Mtim.Nsec))
}

// Open opens the data of a file.
func (s *DirSource) Open(handle uint64) (Data, error) {
	fd, err := s.OpenAt(handle)
	if err != nil {
		return nil, err
	}
	index, _ := splitHandle(handle)
	_, name, _ := s.record(index)
	return &hostData{os.NewFile(uintptr(fd), name), s, handle}, nil
}

// hostData is a file of the host.
type hostData struct {
	*os.File
	s      *DirSource
	handle uint64
}

// FileRange is the file itself.
func (d *hostData) FileRange() (*os.File, int64) { return d.File, 0 }

// Close closes the file and fails if it was changed since the scan.
func (d *hostData) Close() error {
	changed := d.s.CheckAt(d.handle, int(d.Fd()))
	if err := d.File.Close(); changed == nil {
		return err
	}
	return changed
}

// fdReader reads from a descriptor.
type fdReader int

// ReadAt reads until p is full or the file ends.
func (fd fdReader) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		m, err := unix.Pread(int(fd), p[n:], off+int64(n))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return n, err
		case m == 0:
			return n, io.EOF
		}
		n += m
	}
	return n, nil
}

// timeOf is a time of the host.
func timeOf(ts unix.Timespec) format.Time {
	return format.Time{Sec: int64(ts.Sec), Nsec: uint32(ts.Nsec)}
}
