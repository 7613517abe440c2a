package ext4

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"drydock/format"
)

// ErrNeedsRecovery is what errors.Is finds when Open refuses a file system
// whose journal holds changes that were not yet carried out.
var ErrNeedsRecovery = errors.New("journal needs recovery")

// ErrEncrypted is what errors.Is finds when something can be read with a key only.
var ErrEncrypted = fmt.Errorf("encrypted: %w without the key", format.ErrUnsupported)

// NotExt4Error is the error of Open for a device with something else on it.
type NotExt4Error struct {
	Found string // what Identify says
}

func (e *NotExt4Error) Error() string {
	return "not an ext2, ext3 or ext4 file system: found " + e.Found
}

// SpecialError is the error of reading data from an inode that has none of its own:
// a device, a fifo, a socket or a symbolic link. errors.Is finds syscall.ENXIO in it.
type SpecialError struct {
	Type         fs.FileMode // fs.ModeNamedPipe and others
	Major, Minor uint32      // devices only
}

func (e *SpecialError) Error() string {
	if e.Type&fs.ModeDevice != 0 {
		return fmt.Sprintf("is a %s (%d:%d): it holds no data", typeName(e.Type), e.Major, e.Minor)
	}
	return fmt.Sprintf("is a %s: it holds no data", typeName(e.Type))
}

// Unwrap returns syscall.ENXIO, what open(2) gives for a device without a driver.
func (e *SpecialError) Unwrap() error { return syscall.ENXIO }

func typeName(m fs.FileMode) string {
	if name, ok := typeNames[m.Type()]; ok {
		return name
	}
	return "file of unknown type"
}
