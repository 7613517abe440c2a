package cli

import (
	"context"
	"io"
	"os"
)

// inputChunk is how many bytes are read from an input at a time.
const inputChunk = 256 << 10

// Input returns r as a reader that fails with ctx's error as soon as ctx is
// done, even while r has nothing to give: a pipe may never have more. A regular
// file is returned as it is, so that it can be read anywhere. r belongs to the
// reader from then on; when ctx is done a read of it may be left hanging. What
// is read of anything but a file counts as done for p, which may be nil.
func Input(ctx context.Context, r io.Reader, p *Progress) io.Reader {
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return f
		}
	}
	reader, writer := io.Pipe()
	context.AfterFunc(ctx, func() { writer.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.CopyBuffer(writer, counted{r, p}, make([]byte, inputChunk))
		writer.CloseWithError(err)
	}()
	return reader
}

// counted is a Reader, and nothing but a Reader, that counts its bytes as done.
type counted struct {
	r io.Reader
	p *Progress
}

// Read reads from r.
func (c counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.p.Done(int64(n), 0)
	return n, err
}
