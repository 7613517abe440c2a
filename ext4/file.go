package ext4

import (
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"

	"drydock/format"
)

const (
	// copyChunk is how much WriteTo reads at once, in bytes.
	copyChunk = 1 << 20
	// maxReadFile is the largest file that ReadFile and ReadDir of an inline
	// directory take into memory, in bytes.
	maxReadFile = 1 << 30
)

// File is an open file or directory. ReadAt may be called by many goroutines
// at once; Read, Seek and ReadDir share one position, which a lock guards.
type File struct {
	in     *inode
	name   string
	closed atomic.Bool

	mu      sync.Mutex
	off     int64         // position of Read
	entries []fs.DirEntry // what ReadDir has not returned yet
	listed  bool          // entries was filled
	listErr error         // what kept the directory from being listed whole
}

var (
	_ fs.ReadDirFile = (*File)(nil)
	_ io.ReaderAt    = (*File)(nil)
	_ io.Seeker      = (*File)(nil)
	_ io.WriterTo    = (*File)(nil)
)

// Open opens a regular file or a directory; symbolic links are followed. A
// device, fifo or socket is a *SpecialError.
func (fsys *FS) Open(name string) (*File, error) {
	in, err := fsys.resolve(name, true)
	if err == nil && !in.isDir() {
		err = in.readable()
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &File{in: in, name: name}, nil
}

// OpenInode opens an inode of any type by its number. Errors call it "inode 12".
func (fsys *FS) OpenInode(ino format.Ino) (*File, error) {
	name := inodeName(ino)
	if fsys.closed.Load() {
		return nil, pathError("open", name, fs.ErrClosed)
	}
	in, err := fsys.inode(ino)
	if err == nil {
		err = in.check()
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &File{in: in, name: name}, nil
}

// ReadFile returns the data of a file of at most 1 GiB; a larger one fails
// with syscall.EFBIG and is for Open.
func (fsys *FS) ReadFile(name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.in.readable(); err != nil {
		return nil, pathError("read", name, err)
	}
	data, err := f.in.readAll(maxReadFile)
	return data, pathError("read", name, err)
}

// Name returns the name that was given to Open.
func (f *File) Name() string { return f.name }

// Ino returns the inode number.
func (f *File) Ino() format.Ino { return f.in.num }

// Stat describes the file; Sys of the result is a *Stat.
func (f *File) Stat() (fs.FileInfo, error) {
	if err := f.check("stat"); err != nil {
		return nil, err
	}
	return f.in.info(baseName(f.name)), nil
}

// Close ends the use of the file.
func (f *File) Close() error {
	if f.closed.Swap(true) {
		return f.error("close", fs.ErrClosed)
	}
	return nil
}

// Read reads from the file's position on.
func (f *File) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.readAt(p, f.off)
	f.off += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// ReadAt reads from off on; holes and unwritten space are zeros. At the end of
// the file it returns io.EOF.
func (f *File) ReadAt(p []byte, off int64) (int, error) { return f.readAt(p, off) }

func (f *File) readAt(p []byte, off int64) (int, error) {
	if err := f.check("read"); err != nil {
		return 0, err
	}
	if err := f.in.readable(); err != nil {
		return 0, f.error("read", err)
	}
	if off < 0 {
		return 0, f.error("read", syscall.EINVAL)
	}
	if len(p) == 0 {
		return 0, nil
	}
	left := int64(f.in.size()) - off
	if left <= 0 {
		return 0, io.EOF
	}
	n := int(min(left, int64(len(p))))
	if err := f.in.readAt(p[:n], off); err != nil {
		return 0, f.error("read", err)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteTo writes the rest of the file to w in large pieces; io.Copy uses it.
func (f *File) WriteTo(w io.Writer) (total int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := int64(f.in.size()) - f.off
	p := make([]byte, max(min(left, copyChunk), 1))
	for {
		n, err := f.readAt(p, f.off)
		if err != nil && err != io.EOF {
			return total, err
		}
		if n == 0 {
			return total, nil
		}
		wrote, err := w.Write(p[:n])
		f.off += int64(wrote)
		total += int64(wrote)
		if err != nil {
			return total, err
		}
	}
}

// Seek sets the position of the next Read. A directory can only be set back to
// its start.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	if err := f.check("seek"); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.off
	case io.SeekEnd:
		offset += int64(f.in.size())
	default:
		return 0, f.error("seek", syscall.EINVAL)
	}
	if offset < 0 || f.in.isDir() && offset != 0 {
		return 0, f.error("seek", syscall.EINVAL)
	}
	f.off, f.entries, f.listed = offset, nil, false
	return offset, nil
}

// ReadDir returns the next n entries, all that are left if n <= 0, sorted by
// name; see fs.ReadDirFile. Each is a *DirEntry. Where the directory is damaged,
// the error comes with or after the entries that could be read.
func (f *File) ReadDir(n int) ([]fs.DirEntry, error) {
	if err := f.check("readdir"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.listed {
		f.entries, f.listErr = f.in.readDir()
		f.listed = true
	}
	list := f.entries
	if n > 0 {
		list = list[:min(n, len(list)):min(n, len(list))]
	}
	f.entries = f.entries[len(list):]
	switch {
	case f.listErr != nil && (n <= 0 || len(list) == 0):
		return list, f.error("readdir", f.listErr)
	case n > 0 && len(list) == 0:
		return nil, io.EOF
	}
	return list, nil
}

// Readlink returns the target of a symbolic link opened with OpenInode.
func (f *File) Readlink() (string, error) {
	if err := f.check("readlink"); err != nil {
		return "", err
	}
	target, err := f.in.readlink()
	return target, f.error("readlink", err)
}

// Xattrs returns the extended attributes, sorted by name.
func (f *File) Xattrs() ([]Xattr, error) {
	if err := f.check("getxattr"); err != nil {
		return nil, err
	}
	list, err := f.in.xattrs()
	return list, f.error("getxattr", err)
}

// check fails if the file or its file system was closed.
func (f *File) check(op string) error {
	if f.closed.Load() || f.in.fs.closed.Load() {
		return f.error(op, fs.ErrClosed)
	}
	return nil
}

func (f *File) error(op string, err error) error { return pathError(op, f.name, err) }
