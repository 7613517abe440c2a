package ext4

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"drydock/format"
	"drydock/internal/dir"
)

// DirEntry is a name in a directory; it is what the fs.DirEntry values of this
// package are.
type DirEntry struct {
	fs   *FS
	name string
	ino  format.Ino
	mode fs.FileMode // type bits
}

var _ fs.DirEntry = (*DirEntry)(nil)

// Name returns the name, of any bytes.
func (d *DirEntry) Name() string { return d.name }

// IsDir reports whether the name leads to a directory.
func (d *DirEntry) IsDir() bool { return d.mode.IsDir() }

// Type returns the type bits; without the filetype feature those of the inode.
func (d *DirEntry) Type() fs.FileMode { return d.mode }

// String is of the form "d name/".
func (d *DirEntry) String() string { return fs.FormatDirEntry(d) }

// Ino returns the number of the inode that the name leads to.
func (d *DirEntry) Ino() format.Ino { return d.ino }

// Info describes the inode that the name leads to, a symbolic link itself.
func (d *DirEntry) Info() (fs.FileInfo, error) {
	info, err := d.fs.statInode(d.name, func(r reader) (*inode, error) { return r.liveInode(d.ino) })
	if err != nil {
		return nil, pathError("lstat", d.name, err)
	}
	return info, nil
}

// ReadDir returns the entries of a directory, sorted by name, without dot and
// dot-dot; each is a *DirEntry. With an error it returns what could be read.
func (fsys *FS) ReadDir(name string) (list []fs.DirEntry, err error) {
	err = fsys.lookup(name, true, func(in *inode) (err error) {
		list, err = in.readDir()
		return err
	})
	return list, pathError("readdir", name, err)
}

// readDir returns the entries, sorted by name.
func (in *inode) readDir() ([]fs.DirEntry, error) {
	if !in.isDir() {
		return nil, syscall.ENOTDIR
	}
	var found []*DirEntry
	err := in.walkDir(func(d format.Dirent) bool {
		if name := string(d.Name); name != "." && name != ".." {
			found = append(found, in.entry(name, d))
		}
		return true
	})
	slices.SortFunc(found, func(a, b *DirEntry) int { return strings.Compare(a.name, b.name) })
	list := make([]fs.DirEntry, len(found))
	for i, d := range found {
		list[i] = d
	}
	return list, err
}

// entry makes a DirEntry. The inode has the last word on the type where the
// entry has none; one that cannot be read leaves it irregular.
func (in *inode) entry(name string, d format.Dirent) *DirEntry {
	e := &DirEntry{fs: in.fs, name: name, ino: d.Ino, mode: fs.ModeIrregular}
	if mode, ok := dirTypes[d.Type]; ok {
		e.mode = mode
	} else if target, err := in.inode(d.Ino); err == nil {
		e.mode = FileMode(target.raw.Mode()).Type()
	}
	return e
}

// walkDir calls fn for each entry in use until it returns false. The name in a
// Dirent is lost when fn returns.
func (in *inode) walkDir(fn func(format.Dirent) bool) error {
	if in.inline() {
		return in.walkInlineDir(fn)
	}
	v, err := in.dirView()
	if err != nil {
		return err
	}
	v.Blocks = &walkedBlocks{*v.Blocks.(*dirBlocks), map[format.Block]struct{}{}}
	return v.Walk(func(_ format.LBlock, d format.Dirent) bool { return fn(d) })
}

func (in *inode) walkInlineDir(fn func(format.Dirent) bool) error {
	value, err := in.inlineRest()
	if err != nil {
		return err
	}
	return in.wrap(format.WalkInlineDir(in.raw.IBlock(), value, func(d format.Dirent) bool {
		return d.Ino == 0 || fn(d)
	}))
}

// lookup returns the inode number behind a name in a directory.
func (in *inode) lookup(name string) (format.Ino, error) {
	if in.inline() {
		return in.lookupInline(name)
	}
	v, err := in.dirView()
	if err != nil {
		return 0, err
	}
	e, found, err := in.lookupIndexed(v, []byte(name))
	if v.Indexed && (errors.Is(err, format.ErrDamaged) || errors.Is(err, format.ErrUnsupported)) {
		if v, err = in.dirView(); err == nil { // go on as if there were no index
			e, found, err = v.LookupLinear([]byte(name))
		}
	}
	if err == nil && !found {
		err = syscall.ENOENT
	}
	return e.Ino, err
}

// lookupIndexed uses the index, unless it is one by hashes of other forms of the names.
func (in *inode) lookupIndexed(v *dir.View, name []byte) (e dir.Entry, found bool, err error) {
	if in.raw.Flags()&(format.InodeCasefold|format.InodeEncrypt) != 0 {
		return v.LookupLinear(name)
	}
	return v.Lookup(name)
}

func (in *inode) lookupInline(name string) (ino format.Ino, err error) {
	err = in.walkInlineDir(func(d format.Dirent) bool {
		if string(d.Name) == name {
			ino = d.Ino
		}
		return ino == 0
	})
	if err == nil && ino == 0 {
		err = syscall.ENOENT
	}
	return ino, err
}

// dirLength returns how many blocks a directory has.
func (in *inode) dirLength() (format.LBlock, error) {
	blocks := ceilDiv(in.size(), uint64(in.fs.geo.BlockSize))
	if blocks > uint64(in.fs.geo.BlocksCount) || blocks > format.MaxLBlock {
		return 0, in.damaged("directory of %d bytes in a file system of %d blocks", in.size(), in.fs.geo.BlocksCount)
	}
	return format.LBlock(blocks), nil
}

// dirView returns the directory as package dir reads it, for one walk or lookup.
func (in *inode) dirView() (*dir.View, error) {
	f := in.fs
	blocks, err := in.dirLength()
	if err != nil {
		return nil, err
	}
	d := newDirBlocks(in, blocks)
	return &dir.View{
		Blocks:        &d,
		BlockSize:     f.geo.BlockSize,
		Ino:           in.num,
		Generation:    in.raw.Generation(),
		Indexed:       in.raw.HasFlags(format.InodeIndex),
		LargeDir:      f.geo.Features.HasIncompat(format.IncompatLargeDir),
		HashUnsigned:  f.super.Flags()&format.FlagUnsignedHash != 0,
		HashSeed:      f.super.HashSeed(),
		Checksums:     f.csum,
		SkipChecksums: f.opts.IgnoreChecksums,
	}, nil
}

func ceilDiv(a, b uint64) uint64 { return (a + b - 1) / b }
