package build

import (
	"context"
	"errors"
	"io"
	"os"
)

// Source is something that an image is made from. It is used in this order:
// one Scan, then any number of Open, in parallel, then Close.
type Source interface {
	// Scan reads everything but the data of files and puts it into t. It
	// returns ctx's error soon after ctx is done.
	Scan(ctx context.Context, t *Tree) error

	// Open opens the data of a regular file. The handle is the Source field of
	// the mkfs.Node that Scan made for it; files of size 0 have none.
	Open(handle uint64) (Data, error)

	// Close ends the use of the source. No Data may be open.
	Close() error
}

// Data is the data of one regular file, from byte 0 up to the node's size;
// reading beyond that is an error of the caller. Holes read as zeros.
//
// Close reports what reading alone does not show: that the file was changed
// while it was read. What was read is of use only if Close returns nil.
type Data interface {
	io.ReaderAt
	io.Closer
}

// FileRanger is a Data whose bytes are a plain run of bytes of a host file:
// byte n of the data is byte off+n of f. Such data can be copied without
// passing through memory. f belongs to the Data and must neither be closed nor
// moved; its file position means nothing. A nil f says that this Data is no
// such run.
type FileRanger interface {
	FileRange() (f *os.File, off int64)
}

// DirOpener is a Source whose files are files of a host directory. OpenAt
// does what Open does, for less: files of one directory that are opened one
// after the other cost one system call each.
type DirOpener interface {
	// OpenAt opens the file for reading and returns its descriptor, which the
	// caller closes. It fails if the file is not the one that was scanned.
	OpenAt(handle uint64) (fd int, err error)

	// CheckAt fails if the file has changed since it was scanned. It is called
	// after the last read and before fd is closed, as Data.Close does.
	CheckAt(handle uint64, fd int) error
}

// ErrChanged says that a source is not what it was when it was scanned.
var ErrChanged = errors.New("changed while it was read")
