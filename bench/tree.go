package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// tree is a folder of files to make an image of.
type tree struct {
	dir   string
	files []treeFile // regular files with data, in the order of their names
	dirs  int
	other int // neither: symlinks, empty files
	bytes int64
}

type treeFile struct {
	path string
	size int64
}

// look lists a tree. It also brings its inodes into memory.
func look(dir string) (*tree, error) {
	t := &tree{dir: dir}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			t.dirs++
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() == 0 {
			t.other++
			return nil
		}
		t.files = append(t.files, treeFile{path, info.Size()})
		t.bytes += info.Size()
		return nil
	})
	return t, err
}

// warm reads all data, so that it is in the page cache.
func (t *tree) warm() error {
	buf := make([]byte, 256<<10)
	for _, f := range t.files {
		if err := readThrough(f.path, buf); err != nil {
			return err
		}
	}
	return nil
}

// readThrough reads a file by way of buf.
func readThrough(path string, buf []byte) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for err == nil {
		_, err = f.Read(buf)
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// what describes the tree in words.
func (t *tree) what() string {
	return fmt.Sprintf("%d files, %d directories, %.1f MB", len(t.files)+t.other, t.dirs, float64(t.bytes)/1e6)
}

// inodes is how many inodes the tree takes.
func (t *tree) inodes() int { return len(t.files) + t.other + t.dirs }

// room is a size of an image, in MiB, that holds the tree in blocks of 4 KiB
// and a quarter more.
func (t *tree) room() int64 {
	blocks := int64(t.inodes()) // directories, targets, inodes
	for _, f := range t.files {
		blocks += (f.size + 4095) / 4096
	}
	return blocks*4096/(1<<20)*5/4 + 128
}

// treeMark is a file beside a tree that says that the tree is complete.
const treeMark = ".complete"

// makeTree makes a tree with what write writes, unless it is there from an
// earlier run.
func (b *runner) makeTree(name string, write func(dir string) error) (*tree, error) {
	dir := b.path(name)
	if _, err := os.Stat(dir + treeMark); errors.Is(err, fs.ErrNotExist) {
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		if err := write(dir); err != nil {
			return nil, err
		}
		if err := os.WriteFile(dir+treeMark, nil, 0o644); err != nil {
			return nil, err
		}
	}
	return b.warmTree(dir)
}

// warmTree looks at a tree and reads it.
func (b *runner) warmTree(dir string) (*tree, error) {
	t, err := look(dir)
	if err != nil {
		return nil, err
	}
	return t, t.warm()
}

// text is data that compresses as text does, always the same for a seed.
func text(seed uint64, n int) []byte {
	random := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = "etaoinshrdlu cmfwyp\nvbgkjqxz0123"[random.Uint32()&31]
	}
	return b
}

// writeSmallFiles writes files of 1 to most bytes, per to a directory.
func writeSmallFiles(dir string, files, per, most int) error {
	random := rand.New(rand.NewPCG(uint64(files), 2))
	data := text(3, most*2)
	for i := range files {
		folder := filepath.Join(dir, fmt.Sprintf("d%02d", i/per/100), fmt.Sprintf("e%02d", i/per%100))
		if i%per == 0 {
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
		}
		start := random.IntN(most)
		part := data[start : start+1+random.IntN(most)]
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("f%03d.txt", i%per)), part, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeFlat writes files of so many bytes into one directory.
func writeFlat(dir string, files, size int) error {
	for i := range files {
		path := filepath.Join(dir, fmt.Sprintf("file-%06d.dat", i))
		if err := os.WriteFile(path, text(uint64(i), size), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeLarge writes files of so many MiB each.
func writeLarge(dir string, files, mib int) error {
	for i := range files {
		if err := writeLargeFile(filepath.Join(dir, fmt.Sprintf("large%02d", i)), uint64(i), mib); err != nil {
			return err
		}
	}
	return nil
}

func writeLargeFile(path string, seed uint64, mib int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	source := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	w := bufio.NewWriterSize(f, 1<<20)
	piece := make([]byte, 1<<20)
	for range mib {
		_, _ = source.Read(piece) // never fails
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return errors.Join(w.Flush(), f.Sync())
}
