package ext4

import (
	"io/fs"
	"syscall"

	"drydock/format"
)

// maxDepth bounds how deep Walk goes below its start, and with it the memory
// that a hostile image makes it use.
const maxDepth = 10_000

// Walk calls fn for name and everything below it, in the order of the names;
// it does what fs.WalkDir does, for names of any bytes, without looking each one up again,
// and ends on a damaged tree, too: a directory reached a second time is reported to
// fn as damaged and not entered. Each fs.DirEntry is a *DirEntry. A symbolic link is
// not followed, name itself neither.
func (fsys *FS) Walk(name string, fn fs.WalkDirFunc) error {
	start := &DirEntry{fs: fsys, name: baseName(name)}
	err := fsys.lookup(name, false, func(in *inode) error {
		start.ino, start.mode = in.num, FileMode(in.raw.Mode()).Type()
		return nil
	})
	if err != nil {
		err = fn(name, nil, pathError("lstat", name, err))
	} else {
		w := walker{fs: fsys, fn: fn, seen: map[format.Ino]struct{}{}}
		err = w.visit(name, start, 0)
	}
	if err == fs.SkipDir || err == fs.SkipAll {
		return nil
	}
	return err
}

type walker struct {
	fs   *FS
	fn   fs.WalkDirFunc
	seen map[format.Ino]struct{} // directories entered
}

// visit calls fn for an entry and for what is below it. fs.SkipDir comes back
// only where it means the rest of the directory that the entry is in.
func (w *walker) visit(path string, d *DirEntry, depth int) error {
	err := w.fn(path, d, nil)
	if err != nil || !d.IsDir() {
		if err == fs.SkipDir && d.IsDir() {
			err = nil
		}
		return err
	}
	list, err := w.enter(d, depth)
	if err != nil {
		if err = w.fn(path, d, pathError("readdir", path, err)); err != nil {
			if err == fs.SkipDir {
				err = nil
			}
			return err
		}
	}
	for _, child := range list {
		err := w.visit(join(path, child.Name()), child.(*DirEntry), depth+1)
		if err == fs.SkipDir {
			break
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// enter lists a directory that was not listed before.
func (w *walker) enter(d *DirEntry, depth int) (list []fs.DirEntry, err error) {
	err = w.fs.view(func(r reader) error {
		in, err := r.liveInode(d.ino)
		if err != nil {
			return err
		}
		if _, again := w.seen[d.ino]; again {
			return in.damaged("directory has a second name")
		}
		if depth > maxDepth {
			return syscall.ENAMETOOLONG
		}
		w.seen[d.ino] = struct{}{}
		list, err = in.readDir()
		return err
	})
	return list, err
}

// join is path.Join without cleaning: names keep their bytes.
func join(dir, name string) string {
	switch {
	case dir == ".":
		return name
	case dir[len(dir)-1] == '/':
		return dir + name
	}
	return dir + "/" + name
}
