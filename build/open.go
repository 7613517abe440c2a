package build

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// openSource opens what the image is made from: a directory, one or more tars,
// or nothing.
func (b *builder) openSource() (err error) {
	b.source = emptySource{}
	switch {
	case b.o.Source != nil:
		b.source = b.o.Source
	case len(b.o.From) == 1:
		b.source, err = b.openOne(b.o.From[0])
	case len(b.o.From) > 1:
		b.source, err = b.openTars(b.o.From)
	}
	if err != nil {
		b.source = emptySource{}
	}
	return err
}

func (b *builder) openOne(from string) (Source, error) {
	if from != "-" {
		info, err := os.Stat(from)
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			return b.openDir(from)
		}
	}
	return b.openTars([]string{from})
}

// openDir leaves the image itself out of the tree that it may lie in.
func (b *builder) openDir(path string) (Source, error) {
	o := DirOptions{Workers: b.o.Workers, Holes: b.o.Holes, SkipUnreadable: b.o.SkipUnreadable}
	if info, err := os.Stat(b.o.Out); err == nil {
		o.Skip = append(o.Skip, info)
	}
	return NewDirSource(path, o)
}

// openTars opens archives as layers. Data that can be read only once is kept
// beside the image, where there must be room for it anyway.
func (b *builder) openTars(paths []string) (Source, error) {
	inputs := make([]TarInput, len(paths))
	for i, path := range paths {
		inputs[i] = TarInput{Name: path}
		if path == "-" {
			inputs[i] = TarInput{Name: "standard input", Reader: b.stdin()}
		}
	}
	spool := filepath.Dir(b.o.Out)
	if b.target.block != nil {
		spool = ""
	}
	return NewTarSource(inputs, TarOptions{Whiteouts: b.o.Whiteouts, Holes: b.o.Holes, SpoolDir: spool})
}

func (b *builder) stdin() io.Reader {
	if b.o.Stdin != nil {
		return b.o.Stdin
	}
	return os.Stdin
}

// emptySource has nothing but a root directory.
type emptySource struct{}

func (emptySource) Scan(ctx context.Context, _ *Tree) error { return ctx.Err() }

func (emptySource) Open(uint64) (Data, error) { return nil, errors.New("an empty source has no files") }

func (emptySource) Close() error { return nil }
