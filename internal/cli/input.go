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
// reader from then on; when ctx is done a read of it may be left hanging.
func Input(ctx context.Context, r io.Reader) io.Reader {
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return f
		}
	}
	reader, writer := io.Pipe()
	context.AfterFunc(ctx, func() { writer.CloseWithError(ctx.Err()) })
	go func() {
		// Without the wrapping, the copy would be in smaller pieces.
		_, err := io.CopyBuffer(writer, struct{ io.Reader }{r}, make([]byte, inputChunk))
		writer.CloseWithError(err)
	}()
	return reader
}
