package ext4

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"testing"

	"drydock/format"
)

// FuzzOpen changes bytes of a small image and reads all that is there: no
// panic, no endless loop, memory in proportion. Four bytes of edits are an
// offset (24 bits, little-endian) and a value.
func FuzzOpen(f *testing.F) {
	images := [][]byte{}
	for _, name := range append(filled, "plain") {
		images = append(images, gunzip(f, filepath.Join("testdata", name+".img.gz")))
	}
	for i := range images {
		f.Add(uint8(i), []byte(nil))
		f.Add(uint8(i), []byte{0x58, 4, 0, 1, 0x60, 4, 0, 0xff})       // inode size, features
		f.Add(uint8(i), []byte{0, 0x10, 1, 7, 4, 0x10, 1, 0xff})       // directories
		f.Add(uint8(i), []byte{0x84, 0x40, 0, 0xff, 0xa8, 0x41, 0, 9}) // inodes
	}
	f.Fuzz(func(t *testing.T, image uint8, edits []byte) {
		b := bytes.Clone(images[int(image)%len(images)])
		for ; len(edits) >= 4; edits = edits[4:] {
			off := int(edits[0]) | int(edits[1])<<8 | int(edits[2])<<16
			b[off%len(b)] = edits[3]
		}
		fsys, err := Open(imageBytes(b), Options{IgnoreChecksums: true, IgnoreJournal: true})
		if err == nil {
			useAll(fsys)
		}
	})
}

// useAll calls everything on everything, whatever fails; by their paths the
// first few.
func useAll(fsys *FS) {
	_, _ = fsys.Statfs()
	paths := 0
	_ = fsys.Walk(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if paths++; paths < 60 {
			_, _ = fsys.Stat(path)
			_, _ = fsys.Readlink(path)
			_, _ = fsys.Lxattrs(path)
		}
		if f, err := fsys.OpenInode(d.(*DirEntry).Ino()); err == nil {
			useFile(f)
		}
		return nil
	})
	for ino := range format.Ino(20) {
		if f, err := fsys.OpenInode(ino); err == nil {
			useFile(f)
		}
	}
}

func useFile(f *File) {
	p := make([]byte, 9000)
	for _, off := range []int64{0, 8000, 1 << 20, 1 << 40} {
		_, _ = f.ReadAt(p, off)
	}
	_, _ = f.ReadDir(-1)
	_, _ = f.Readlink()
	n := 0
	for range f.Extents() {
		if n++; n > 10000 {
			break
		}
	}
}
