package build

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// tarInput is the bytes of an archive, after decompression.
type tarInput interface {
	// read fills p. It is io.EOF if there is nothing left and
	// io.ErrUnexpectedEOF if there is less than p.
	read(p []byte) error
	// skip leaves out n bytes, which must be there.
	skip(n int64) error
	// pos is how many bytes were read or left out.
	pos() int64
	// drain reads what follows the archive, so that what checks the whole is checked.
	drain() error
}

// fileInput reads an archive whose parts can be read in any order. Data that
// is left out is not read.
type fileInput struct {
	f    io.ReaderAt
	at   int64 // where the archive begins in f
	size int64 // of the archive
	off  int64

	buf     []byte
	bufOff  int64
	bufSize int
}

const inputBuffer = 128 << 10

func newFileInput(f io.ReaderAt, at, size int64) *fileInput {
	return &fileInput{f: f, at: at, size: size, buf: make([]byte, inputBuffer)}
}

func (in *fileInput) pos() int64 { return in.off }

func (in *fileInput) drain() error { return nil }

func (in *fileInput) skip(n int64) error {
	if n < 0 || n > in.size-in.off {
		in.off = in.size
		return io.ErrUnexpectedEOF
	}
	in.off += n
	return nil
}

func (in *fileInput) read(p []byte) error {
	for done := 0; done < len(p); {
		b, err := in.buffered()
		if err == io.EOF && done > 0 {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		n := copy(p[done:], b)
		done += n
		in.off += int64(n)
	}
	return nil
}

// buffered returns some bytes from off on.
func (in *fileInput) buffered() ([]byte, error) {
	i := in.off - in.bufOff
	if i < 0 || i >= int64(in.bufSize) {
		n, err := in.f.ReadAt(in.buf[:max(0, min(int64(len(in.buf)), in.size-in.off))], in.at+in.off)
		if n == 0 {
			if err == nil {
				err = io.EOF
			}
			return nil, err
		}
		in.bufOff, in.bufSize = in.off, n
		i = 0
	}
	return in.buf[i:in.bufSize], nil
}

// streamInput reads an archive from its beginning to its end.
type streamInput struct {
	r    *bufio.Reader
	off  int64
	stop func() // frees what decompresses
}

func (in *streamInput) pos() int64 { return in.off }

func (in *streamInput) read(p []byte) error {
	n, err := io.ReadFull(in.r, p)
	in.off += int64(n)
	return in.explain(err)
}

func (in *streamInput) skip(n int64) error {
	if n < 0 {
		return io.ErrUnexpectedEOF
	}
	m, err := io.CopyN(io.Discard, in.r, n)
	in.off += m
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return in.explain(err)
}

// maxPadding is how much is read after the end of an archive, in bytes, so
// that who writes it into a pipe can finish.
const maxPadding = 16 << 20

// drain reads the rest. After the compressed data there may be padding, which
// is not a compressed member of its own.
func (in *streamInput) drain() (err error) {
	if in.stop == nil {
		_, err = io.CopyN(io.Discard, in.r, maxPadding)
	} else {
		_, err = io.Copy(io.Discard, in.r)
	}
	if err == io.EOF || errors.Is(err, gzip.ErrHeader) {
		return nil
	}
	return in.explain(err)
}

// contextReader is a reader that fails when ctx is done.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// explain tells an end of the compressed data from one of the archive in it.
func (in *streamInput) explain(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if in.stop != nil && errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("compressed data ends early: %w", err)
	}
	return err
}

// zstdWindow is the largest window that is accepted, as with zstd itself.
const zstdWindow = 128 << 20

// Magics of compressed files.
var (
	magicGzip = []byte{0x1F, 0x8B}
	magicZstd = []byte{0x28, 0xB5, 0x2F, 0xFD}
)

// foreignMagics are files that are taken for archives but cannot be read.
var foreignMagics = []struct{ magic, name, hint string }{
	{"\xFD7zXZ\x00", "xz", "xz -dc FILE | mkimg OUT --from -"},
	{"BZh", "bzip2", "bzip2 -dc FILE | mkimg OUT --from -"},
	{"\x04\x22\x4D\x18", "lz4", "lz4 -dc FILE | mkimg OUT --from -"},
	{"\x89LZO\x00", "lzop", "lzop -dc FILE | mkimg OUT --from -"},
	{"PK\x03\x04", "zip", "unpack it and give the directory"},
	{"070701", "cpio", "unpack it and give the directory"},
	{"070707", "cpio", "unpack it and give the directory"},
	{"!<arch>\n", "ar", "unpack it and give the directory"},
	{"7z\xBC\xAF\x27\x1C", "7z", "unpack it and give the directory"},
}

// peekLen is how many bytes of a file tell its kind.
const peekLen = 8

// isCompressed reports whether a file that begins so must be decompressed.
func isCompressed(head []byte) bool {
	return bytes.HasPrefix(head, magicGzip) || isZstd(head)
}

// isZstd finds a frame, also one that is to be skipped.
func isZstd(head []byte) bool {
	return bytes.HasPrefix(head, magicZstd) ||
		len(head) >= 4 && head[0]&0xF0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2A, 0x4D, 0x18})
}

// FormatError says that a source is of a kind that cannot be read.
type FormatError struct {
	Archive string
	Kind    string
	hint    string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s: is a file of the kind %s, which cannot be read", e.Archive, e.Kind)
}

// Hint says what to do about it.
func (e *FormatError) Hint() string { return e.hint }

// checkFormat refuses files that are known to be something else.
func checkFormat(archive string, head []byte) error {
	for _, f := range foreignMagics {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return &FormatError{Archive: archive, Kind: f.name, hint: f.hint}
		}
	}
	return nil
}

// newStreamInput decompresses r if it needs to be.
func newStreamInput(r *bufio.Reader) (*streamInput, error) {
	head, err := r.Peek(peekLen)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, magicGzip):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		return &streamInput{r: bufio.NewReaderSize(z, inputBuffer), stop: func() { _ = z.Close() }}, nil
	case isZstd(head):
		z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return &streamInput{r: bufio.NewReaderSize(z, inputBuffer), stop: z.Close}, nil
	}
	return &streamInput{r: r}, nil
}

// close ends the decompression.
func (in *streamInput) close() {
	if in.stop != nil {
		in.stop()
	}
}
