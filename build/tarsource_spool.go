package build

import (
	"context"
	"errors"
	"io"
	"os"
)

// spool keeps the data of members of archives that can be read only once, in
// a temporary file that has no name. It is written from one goroutine and then
// read from many.
type spool struct {
	dir  string
	f    *os.File
	name string // to be removed at the end, where the host cannot do it at once
	size int64  // bytes written
	buf  []byte // what follows them
}

const (
	spoolBuffer = 256 << 10
	spoolAlign  = 4096     // large files begin at a multiple of it, for hosts that share blocks
	spoolLarge  = 64 << 10 // bytes of a large file
)

// add copies n bytes of in to the spool and returns where they lie. They can
// be read after a flush.
func (s *spool) add(ctx context.Context, in tarInput, n int64) (off int64, err error) {
	if err := s.begin(n); err != nil {
		return 0, err
	}
	off = s.size + int64(len(s.buf))
	for n > 0 {
		if len(s.buf) == cap(s.buf) {
			if err := errors.Join(ctx.Err(), s.flush()); err != nil {
				return 0, err
			}
		}
		used := len(s.buf)
		b := s.buf[used:min(int64(cap(s.buf)), int64(used)+n)]
		if err := in.read(b); err != nil {
			return 0, short(err)
		}
		s.buf = s.buf[:used+len(b)]
		n -= int64(len(b))
	}
	return off, nil
}

// begin opens the spool and aligns it for a large file.
func (s *spool) begin(n int64) (err error) {
	if s.f == nil {
		if s.dir == "" {
			s.dir = os.TempDir()
		}
		if s.f, s.name, err = openUnnamed(s.dir); err != nil {
			return err
		}
		s.buf = make([]byte, 0, spoolBuffer)
	}
	if n < spoolLarge {
		return nil
	}
	err = s.flush()
	s.size = (s.size + spoolAlign - 1) &^ (spoolAlign - 1)
	return err
}

// flush writes what was added.
func (s *spool) flush() error {
	if len(s.buf) == 0 {
		return nil
	}
	_, err := s.f.WriteAt(s.buf, s.size)
	s.size += int64(len(s.buf))
	s.buf = s.buf[:0]
	return err
}

// close gives the space back.
func (s *spool) close() error {
	if s.f == nil {
		return nil
	}
	err := s.f.Close()
	if s.name != "" {
		if gone := os.Remove(s.name); err == nil {
			err = gone
		}
	}
	s.f = nil
	return err
}

// openTemp makes a temporary file and takes its name away, or returns the name
// if the host does not let it.
func openTemp(dir string) (f *os.File, name string, err error) {
	f, err = os.CreateTemp(dir, ".mkimg-*")
	if err != nil {
		return nil, "", err
	}
	if os.Remove(f.Name()) != nil {
		return f, f.Name(), nil
	}
	return f, "", nil
}

// tarRun is the data of a member that lies in one piece in a host file.
type tarRun struct {
	*io.SectionReader
	f     *os.File
	off   int64
	check func() error
}

// FileRange is where the data lies in the archive or the spool.
func (d *tarRun) FileRange() (*os.File, int64) { return d.f, d.off }

// Close fails if the archive was changed since the scan.
func (d *tarRun) Close() error { return d.check() }

// tarSparse is the data of a sparse member.
type tarSparse struct {
	*sparseData
	check func() error
}

// Close fails if the archive was changed since the scan.
func (d *tarSparse) Close() error { return d.check() }
