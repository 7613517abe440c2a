package partition

import (
	"io"
	"io/fs"

	"github.com/diskfs/go-diskfs/backend"

	"drydock/device"
)

// File is a device as the file that go-diskfs reads and writes tables on.
type File struct {
	*io.SectionReader
	disk device.Device
}

var _ backend.WritableFile = File{}

// NewFile returns disk as a file.
func NewFile(disk device.Device) File {
	return File{io.NewSectionReader(disk, 0, disk.Size()), disk}
}

// WriteAt writes to the device.
func (f File) WriteAt(p []byte, off int64) (int, error) { return f.disk.WriteAt(p, off) }

// Sync makes what was written durable; go-diskfs calls it where it finds it.
func (f File) Sync() error { return f.disk.Flush() }

// Stat is not supported: a device is not always a file.
func (f File) Stat() (fs.FileInfo, error) { return nil, backend.ErrNotSuitable }

// Close leaves the device open: it belongs to the caller.
func (f File) Close() error { return nil }
