package ext4

import (
	"errors"
	"io"
	"io/fs"
	"os"
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

// File is an open file or directory. ReadAt and WriteAt may be called by many
// goroutines at once; Read, Write, Seek and ReadDir share one position, which a
// lock guards.
type File struct {
	fs     *FS
	n      *node
	name   string
	flag   int           // os.O_* as given to OpenFile
	seen   atomic.Uint64 // the last error of writing back that this file was told of
	wrote  atomic.Bool
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
	f, err := fsys.openFile(name, func(r reader) (*inode, error) {
		in, err := r.resolve(name, true)
		if err == nil && !in.isDir() {
			err = in.readable()
		}
		return in, err
	})
	return f, pathError("open", name, err)
}

// OpenInode opens an inode of any type by its number. Errors call it "inode 12".
func (fsys *FS) OpenInode(ino format.Ino) (*File, error) {
	name := inodeName(ino)
	if fsys.closed.Load() {
		return nil, pathError("open", name, fs.ErrClosed)
	}
	f, err := fsys.openFile(name, func(r reader) (*inode, error) { return r.liveInode(ino) })
	return f, pathError("open", name, err)
}

// openFile opens the inode that find returns.
func (fsys *FS) openFile(name string, find func(reader) (*inode, error)) (*File, error) {
	for {
		var n *node
		var busy <-chan struct{}
		err := fsys.view(func(r reader) error {
			in, err := find(r)
			if err == nil {
				n, busy = fsys.openNode(in.num)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if n != nil {
			return newFile(fsys, n, name), nil
		}
		<-busy
	}
}

func newFile(fsys *FS, n *node, name string) *File {
	f := &File{fs: fsys, n: n, name: name}
	if d := n.loaded(); d != nil {
		last, _ := d.errs.since(0)
		f.seen.Store(last)
	}
	return f
}

// ReadFile returns the data of a file of at most 1 GiB; a larger one fails
// with syscall.EFBIG and is for Open.
func (fsys *FS) ReadFile(name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, err := f.data()
	if err != nil {
		return nil, pathError("read", name, err)
	}
	if d == nil {
		var data []byte
		err = f.withInode(func(in *inode) (err error) {
			data, err = in.readAll(maxReadFile)
			return err
		})
		return data, pathError("read", name, err)
	}
	size := d.size.Load()
	if size > maxReadFile {
		return nil, pathError("read", name, syscall.EFBIG)
	}
	data := make([]byte, size)
	n, err := d.readSome(data, 0)
	if err == io.EOF {
		err = nil
	}
	return data[:n], pathError("read", name, err)
}

// data returns the data of a regular file, nil without an error for one that
// lies in its inode.
func (f *File) data() (*fileData, error) {
	d, err := f.n.fileData()
	if errors.Is(err, errInline) {
		return nil, nil
	}
	return d, err
}

// withInode calls fn with the inode as it is now, inside a View.
func (f *File) withInode(fn func(in *inode) error) error {
	return f.fs.view(func(r reader) error {
		in, err := r.inode(f.n.ino)
		if err != nil {
			return err
		}
		return fn(in)
	})
}

// Name returns the name that was given to Open.
func (f *File) Name() string { return f.name }

// Ino returns the inode number.
func (f *File) Ino() format.Ino { return f.n.ino }

// Stat describes the file; Sys of the result is a *Stat.
func (f *File) Stat() (fs.FileInfo, error) {
	if err := f.check("stat"); err != nil {
		return nil, err
	}
	info, err := f.fs.statInode(baseName(f.name), func(r reader) (*inode, error) { return r.inode(f.n.ino) })
	if err != nil {
		return nil, f.error("stat", err)
	}
	return info, nil
}

// Close ends the use of the file.
func (f *File) Close() error {
	if f.closed.Swap(true) {
		return f.error("close", fs.ErrClosed)
	}
	err := f.finish()
	f.fs.closeNode(f.n)
	return f.error("close", err)
}

// finish does what the end of writing to a file asks for: what was cut to nothing
// and written again is not left empty by a crash for long.
func (f *File) finish() error {
	if !f.wrote.Load() || f.fs.closed.Load() {
		return nil
	}
	d := f.n.loaded()
	if d == nil {
		return nil
	}
	f.fs.files.stream.yield(d)
	if d.emptied.Swap(false) && !f.fs.files.faults.stayEmpty {
		return d.flush(true)
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

func (f *File) readAt(p []byte, off int64) (n int, err error) {
	if err := f.check("read"); err != nil {
		return 0, err
	}
	if f.flag&accessMode == os.O_WRONLY {
		return 0, f.error("read", syscall.EBADF)
	}
	d, err := f.data()
	switch {
	case err != nil:
	case d != nil:
		n, err = d.readSome(p, off)
	default:
		err = f.withInode(func(in *inode) error {
			n, err = in.readSome(p, off)
			return err
		})
	}
	if err != nil && err != io.EOF {
		err = f.error("read", err)
	}
	return n, err
}

// accessMode is the part of the flags of OpenFile that says what may be done.
const accessMode = os.O_RDONLY | os.O_WRONLY | os.O_RDWR

// readSome reads what there is from off on.
func (in *inode) readSome(p []byte, off int64) (int, error) {
	if err := in.readable(); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, syscall.EINVAL
	}
	if len(p) == 0 {
		return 0, nil
	}
	left := int64(in.size()) - off
	if left <= 0 {
		return 0, io.EOF
	}
	n := int(min(left, int64(len(p))))
	if err := in.readAt(p[:n], off); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// size returns the size in bytes, and whether the file is a directory.
func (f *File) size() (size int64, isDir bool, err error) {
	if d := f.n.loaded(); d != nil {
		return d.size.Load(), false, nil
	}
	err = f.withInode(func(in *inode) error {
		size, isDir = int64(in.size()), in.isDir()
		return nil
	})
	return size, isDir, err
}

// WriteTo writes the rest of the file to w in large pieces; io.Copy uses it.
func (f *File) WriteTo(w io.Writer) (total int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	size, _, err := f.size()
	if err != nil {
		return 0, f.error("read", err)
	}
	left := size - f.off
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
	size, isDir, err := f.size()
	if err != nil {
		return 0, f.error("seek", err)
	}
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.off
	case io.SeekEnd:
		offset += size
	default:
		return 0, f.error("seek", syscall.EINVAL)
	}
	if offset < 0 || isDir && offset != 0 {
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
		f.listErr = f.withInode(func(in *inode) (err error) {
			f.entries, err = in.readDir()
			return err
		})
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
	var target string
	err := f.withInode(func(in *inode) (err error) {
		target, err = in.readlink()
		return err
	})
	return target, f.error("readlink", err)
}

// Xattrs returns the extended attributes, sorted by name.
func (f *File) Xattrs() ([]Xattr, error) {
	if err := f.check("getxattr"); err != nil {
		return nil, err
	}
	var list []Xattr
	err := f.withInode(func(in *inode) (err error) {
		list, err = in.xattrs()
		return err
	})
	return list, f.error("getxattr", err)
}

// check fails if the file or its file system was closed.
func (f *File) check(op string) error {
	if f.closed.Load() || f.fs.closed.Load() {
		return f.error(op, fs.ErrClosed)
	}
	return nil
}

func (f *File) error(op string, err error) error { return pathError(op, f.name, err) }
