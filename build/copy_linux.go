package build

import (
	"context"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"drydock/internal/mkfs"
)

// newSmallReader returns the fastest reader for a source.
func newSmallReader(ctx context.Context, src Source, c *mkfs.Content) smallReader {
	if dir, ok := src.(*DirSource); ok {
		if r, err := newRingReader(ctx, dir, c); err == nil {
			return r
		}
	}
	if dir, ok := src.(DirOpener); ok {
		return openReader{dir, c}
	}
	return dataReader{src, c}
}

// openReader is a smallReader for host directories.
type openReader struct {
	src     DirOpener
	content *mkfs.Content
}

func (r openReader) read(j *job, todo []int) (failed int, err error) {
	for _, i := range todo {
		if err := r.readPiece(j, &j.pieces[i]); err != nil {
			return i, err
		}
	}
	return 0, nil
}

func (r openReader) close() {}

// readPiece reads a file, and a byte more to see whether it has grown: that
// byte's place in the buffer belongs to padding, to the next file or to
// nothing, and is filled later or not used. CheckAt is left out: a file read at
// once is either all old or all new.
func (r openReader) readPiece(j *job, p *piece) error {
	fd, err := r.src.OpenAt(r.content.Nodes[p.node].Source)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := fdReader(fd).ReadAt(j.buf[p.at:p.at+p.n+1], 0)
	if n != p.n && (err == nil || err == io.EOF) {
		return ErrChanged
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// fileSystemOf tells the file systems of the host apart.
func fileSystemOf(f *os.File) uint64 {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0
	}
	return st.Dev
}
