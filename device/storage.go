package device

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/diskfs/go-diskfs/backend"
)

// storageDevice is a backend.Storage as a Device. It makes up for what the
// interface lacks: a size, bounds, a flush.
type storageDevice struct {
	s    backend.Storage
	w    backend.WritableFile // nil: read-only
	size int64
}

// FromStorage returns any storage of go-diskfs as a Device. Flush uses the
// storage's own Sync if it has one, else that of the file it lies in; a storage
// with neither has no way to make anything durable, and Flush does nothing. The
// storage's position is kept; Close closes the storage.
func FromStorage(s backend.Storage) (Device, error) {
	if own, ok := s.(*deviceStorage); ok {
		return own.dev, nil
	}
	size, err := storageSize(s)
	if err != nil {
		return nil, pathError("open", storageName(s), err)
	}
	d := &storageDevice{s: s, size: size}
	switch w, err := s.Writable(); {
	case err == nil:
		d.w = w
	case !errors.Is(err, backend.ErrIncorrectOpenMode) && !errors.Is(err, backend.ErrNotSuitable):
		return nil, pathError("open", storageName(s), err)
	}
	return d, nil
}

// storageSize finds out the size by seeking, since Stat tells that of the whole
// file for a part and 0 for a block device. A part may claim to be longer than
// what it lies in, so its last byte is read.
func storageSize(s backend.Storage) (int64, error) {
	at, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	size, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	if _, err := s.Seek(at, io.SeekStart); err != nil {
		return 0, err
	}
	if size > 0 {
		if n, err := s.ReadAt(make([]byte, 1), size-1); n < 1 {
			return 0, fmt.Errorf("claims to have %d bytes, but the last cannot be read: %w", size, early(err))
		}
	}
	return size, nil
}

func storageName(s backend.Storage) string {
	if p := s.Path(); p != "" {
		return p
	}
	return "storage"
}

func (d *storageDevice) Path() string { return storageName(d.s) }

func (d *storageDevice) ReadOnly() bool { return d.w == nil }

func (d *storageDevice) Size() int64 { return d.size }

func (d *storageDevice) Close() error { return d.s.Close() }

func (d *storageDevice) ReadAt(p []byte, off int64) (int, error) {
	want, end := readable(d.Path(), off, len(p), d.size)
	if want == 0 {
		return 0, end
	}
	n, err := d.s.ReadAt(p[:want], off)
	if n < want {
		return max(n, 0), opError("read", d.Path(), off, int64(want), early(err))
	}
	return n, end
}

func (d *storageDevice) WriteAt(p []byte, off int64) (int, error) {
	if d.w == nil {
		return 0, opError("write", d.Path(), off, int64(len(p)), ErrReadOnly)
	}
	if err := checkRange("write", d.Path(), off, int64(len(p)), d.size); err != nil {
		return 0, err
	}
	n, err := d.w.WriteAt(p, off)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return max(n, 0), opError("write", d.Path(), off, int64(len(p)), err)
}

func (d *storageDevice) Flush() error {
	if d.w == nil {
		return nil
	}
	for _, part := range []any{d.w, d.s} {
		if s, ok := part.(interface{ Sync() error }); ok {
			return pathError("flush", d.Path(), s.Sync())
		}
	}
	f, err := d.s.Sys()
	if err != nil || f == nil {
		return nil
	}
	return pathError("flush", d.Path(), f.Sync())
}

// deviceStorage is a Device as a backend.Storage that go-diskfs can write.
type deviceStorage struct {
	dev Device

	mu  sync.Mutex
	pos int64 // of Read and Seek
}

// ToStorage returns a device as a storage for go-diskfs, whose partition tables
// for instance can then be read from and written to it. It has a Sync, which is
// Flush. Close does nothing: the device stays its owner's.
func ToStorage(d Device) backend.Storage { return &deviceStorage{dev: d} }

func (s *deviceStorage) Stat() (fs.FileInfo, error) { return deviceInfo{s.dev}, nil }

func (s *deviceStorage) ReadAt(p []byte, off int64) (int, error) { return s.dev.ReadAt(p, off) }

func (s *deviceStorage) WriteAt(p []byte, off int64) (int, error) { return s.dev.WriteAt(p, off) }

func (s *deviceStorage) Sync() error { return s.dev.Flush() }

func (s *deviceStorage) Close() error { return nil }

func (s *deviceStorage) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.dev.ReadAt(p, s.pos)
	s.pos += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

func (s *deviceStorage) Seek(offset int64, whence int) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += s.pos
	case io.SeekEnd:
		offset += s.dev.Size()
	default:
		return 0, backend.ErrNotSuitable
	}
	if offset < 0 {
		return 0, opError("seek", Name(s.dev), offset, 0, ErrOutOfRange)
	}
	s.pos = offset
	return offset, nil
}

// Sys is the file of a whole file device; others have none that would do, as
// their offsets differ.
func (s *deviceStorage) Sys() (*os.File, error) {
	switch d := s.dev.(type) {
	case *File:
		return d.f, nil
	case *Temp:
		return d.f, nil
	}
	return nil, backend.ErrNotSuitable
}

func (s *deviceStorage) Writable() (backend.WritableFile, error) {
	if ReadOnly(s.dev) {
		return nil, backend.ErrIncorrectOpenMode
	}
	return s, nil
}

// Path is the path of a device that has one.
func (s *deviceStorage) Path() string {
	if _, err := s.Sys(); err != nil {
		return ""
	}
	return Name(s.dev)
}

// deviceInfo is what Stat says of a device.
type deviceInfo struct{ dev Device }

func (i deviceInfo) Name() string       { return filepath.Base(Name(i.dev)) }
func (i deviceInfo) Size() int64        { return i.dev.Size() }
func (i deviceInfo) ModTime() time.Time { return time.Time{} }
func (i deviceInfo) IsDir() bool        { return false }
func (i deviceInfo) Sys() any           { return nil }

func (i deviceInfo) Mode() fs.FileMode {
	if ReadOnly(i.dev) {
		return 0o444
	}
	return 0o666
}
