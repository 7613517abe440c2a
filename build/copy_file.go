package build

import (
	"errors"
	"io"
	"os"

	"drydock/internal/mkfs"
)

// openFile is a large file that a worker has open: what it copies next is
// often of the same file. The zero value is no file.
type openFile struct {
	node uint32
	seq  uint64 // job that it was opened for
	data Data
	host *os.File // holds the data from byte base on; nil if there is no such file
	base int64

	fileSystem uint64 // that host is on
}

func newOpenFile(node uint32, seq uint64, data Data) openFile {
	f := openFile{node: node, seq: seq, data: data}
	if r, ok := data.(FileRanger); ok {
		f.host, f.base = r.FileRange()
	}
	if f.host != nil {
		f.fileSystem = fileSystemOf(f.host)
	}
	return f
}

// close closes the file, if there is one. It fails if the file was changed.
func (f *openFile) close() error {
	if f.data == nil {
		return nil
	}
	data := f.data
	f.data, f.host = nil, nil
	return data.Close()
}

// readFull fills b with the data at off. An end before that is ErrChanged.
func readFull(d io.ReaderAt, b []byte, off int64) error {
	n, err := d.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return ErrChanged
	}
	return err
}

// dataReader is a smallReader for any source.
type dataReader struct {
	src     Source
	content *mkfs.Content
}

func (r dataReader) read(j *job, todo []int) (failed int, err error) {
	for _, i := range todo {
		p := &j.pieces[i]
		if err := readWhole(r.src, r.content.Nodes[p.node].Source, j.data(p)); err != nil {
			return i, err
		}
	}
	return 0, nil
}

func (r dataReader) close() {}

// readWhole reads all data of a file into b.
func readWhole(src Source, handle uint64, b []byte) error {
	data, err := src.Open(handle)
	if err != nil {
		return err
	}
	if err := readFull(data, b, 0); err != nil {
		_ = data.Close()
		return err
	}
	return data.Close()
}
