package ext4

import (
	"io/fs"
	"os"
	"strings"
	"syscall"

	"drydock/format"
)

// Create makes a regular file, or empties one that is there, and opens it for
// reading and writing. New files have mode 0666.
func (fsys *FS) Create(name string) (*File, error) {
	return fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenFile opens a file with the flags of os.OpenFile: os.O_RDONLY, O_WRONLY or
// O_RDWR, and O_APPEND, O_CREATE, O_EXCL, O_SYNC, O_TRUNC. With O_CREATE a file that
// is not there is made, with permissions perm (there is no umask here). Symbolic
// links are followed, also to create what one leads to, but not with O_EXCL.
func (fsys *FS) OpenFile(name string, flag int, perm fs.FileMode) (*File, error) {
	f, err := fsys.openForUse(name, flag, perm)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	f.flag = flag
	if flag&os.O_TRUNC != 0 {
		if err := f.openTruncate(); err != nil {
			_ = f.Close()
			return nil, pathError("open", name, err)
		}
	}
	return f, nil
}

// writing reports whether a file opened with these flags can be written to.
func writing(flag int) bool { return flag&(os.O_WRONLY|os.O_RDWR) != 0 }

func (fsys *FS) openForUse(name string, flag int, perm fs.FileMode) (*File, error) {
	if (writing(flag) || flag&(os.O_TRUNC|os.O_CREATE) != 0) && !fsys.opts.ReadWrite {
		return fsys.openReadOnly(name, flag)
	}
	var missing gap
	f, err := fsys.openFile(name, func(r reader) (*inode, error) {
		if flag&os.O_CREATE != 0 {
			return r.findOrGap(name, flag, &missing)
		}
		return r.findToOpen(name, flag)
	})
	if err != syscall.ENOENT || flag&os.O_CREATE == 0 {
		return f, err
	}
	return fsys.createFile(name, flag, perm, missing)
}

// gap is a place where nothing was when the file system had seen so many merges.
// The zero value is none.
type gap struct {
	place  place
	merges uint64
}

// findOrGap is findToOpen; where it ends with ENOENT because of the last element,
// which is a name, the gap says so.
func (r reader) findOrGap(name string, flag int, g *gap) (*inode, error) {
	merges := r.fs.merges.Load()
	p, err := r.place(name)
	if err != nil || !p.isName() || p.slash {
		return r.findToOpen(name, flag)
	}
	in, err := p.childOrNil()
	switch {
	case err != nil:
		return nil, err
	case in == nil:
		*g = gap{p, merges}
		return nil, syscall.ENOENT
	case in.isSymlink():
		return r.findToOpen(name, flag)
	case flag&os.O_EXCL != 0:
		return nil, syscall.EEXIST
	}
	return in, in.mayOpen(flag)
}

// still returns the place of a gap, as the transaction sees it, if nothing was
// changed since it was found.
func (g gap) still(t *Tx) (p place, ok bool) {
	if g.place.dir == nil || g.merges != t.fs.merges.Load() || t.j.Size() > 0 {
		return place{}, false
	}
	dir := *g.place.dir
	dir.reader = t.reader
	return place{dir: &dir, above: []*inode{&dir}, name: g.place.name}, true
}

// openReadOnly is the error of opening a file for changes in a file system that
// takes none: what the name alone brings about comes first.
func (fsys *FS) openReadOnly(name string, flag int) (*File, error) {
	err := fsys.view(func(r reader) error {
		_, err := r.findToOpen(name, flag)
		return err
	})
	if err == nil || err == syscall.ENOENT && flag&os.O_CREATE != 0 {
		err = syscall.EROFS
	}
	return nil, err
}

// findToOpen returns the inode that a name leads to, if it may be opened so.
func (r reader) findToOpen(name string, flag int) (*inode, error) {
	exclusive := flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL
	in, err := r.resolve(name, !exclusive)
	switch {
	case err != nil:
		return nil, err
	case exclusive:
		return nil, syscall.EEXIST
	}
	return in, in.mayOpen(flag)
}

// mayOpen decides whether an inode can be opened with these flags.
func (in *inode) mayOpen(flag int) error {
	switch {
	case in.isDir() && (writing(flag) || flag&(os.O_CREATE|os.O_TRUNC) != 0):
		return syscall.EISDIR
	case in.isDir():
		return nil
	case (writing(flag) || flag&os.O_TRUNC != 0) && in.raw.HasFlags(format.InodeImmutable):
		return syscall.EPERM
	case in.raw.HasFlags(format.InodeAppend) && (flag&os.O_TRUNC != 0 || writing(flag) && flag&os.O_APPEND == 0):
		return syscall.EPERM
	}
	return in.readable()
}

// createFile makes a regular file and opens it. Somebody else may have made it
// meanwhile; then that one is opened.
func (fsys *FS) createFile(name string, flag int, perm fs.FileMode, g gap) (f *File, err error) {
	var n *node
	err = fsys.update(func(t *Tx) error {
		ino, err := t.createIn(g, name, flag, format.ModeRegular|diskPerm(perm))
		if err != nil {
			return err
		}
		var busy <-chan struct{}
		if n, busy = fsys.openNode(ino); busy != nil {
			return syscall.EAGAIN // cannot be: a name leads to the inode, so nobody deletes it
		}
		t.j.OnAbort(func() { fsys.undoOpen(n) })
		return nil
	})
	if err != nil {
		return nil, err
	}
	return newFile(fsys, n, name), nil
}

// createIn is createAt for a name that led to a gap a moment ago.
func (t *Tx) createIn(g gap, name string, flag int, mode uint16) (format.Ino, error) {
	if p, ok := g.still(t); ok {
		return t.createHere(p, mode)
	}
	return t.createAt(name, flag, mode)
}

// createAt makes a regular file without data, or returns what is there already.
func (t *Tx) createAt(name string, flag int, mode uint16) (format.Ino, error) {
	p, err := t.createPlace(name, flag&os.O_EXCL == 0)
	if err != nil {
		return 0, err
	}
	if p.slash || !p.isName() {
		return 0, syscall.EISDIR
	}
	there, err := p.childOrNil()
	switch {
	case err != nil:
		return 0, err
	case there != nil && flag&os.O_EXCL != 0:
		return 0, syscall.EEXIST
	case there != nil:
		return there.num, there.mayOpen(flag)
	}
	return t.createHere(p, mode)
}

// createHere makes a regular file without data where there is nothing.
func (t *Tx) createHere(p place, mode uint16) (format.Ino, error) {
	if err := p.dir.mayAdd(p.name); err != nil {
		return 0, err
	}
	ino, _, err := t.newInode(p.dir, mode, 1)
	if err != nil {
		return 0, err
	}
	return ino, t.addName(p, ino, mode)
}

// createPlace returns where a file is to be made: where the name leads, or the
// target of the symbolic links that it leads to, which need not exist.
func (t *Tx) createPlace(name string, follow bool) (place, error) {
	r, err := t.start(name)
	if err != nil {
		return place{}, err
	}
	for {
		p, err := r.place(name)
		if err != nil || !p.isName() || !follow {
			return p, err
		}
		in, err := p.childOrNil()
		if err != nil || in == nil || !in.isSymlink() {
			return p, err
		}
		r.steps = p.above
		if name, err = r.link(in, strings.Repeat("/", b2i(p.slash))); err != nil {
			return place{}, err
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// mayAdd decides whether a name can be put into a directory.
func (in *inode) mayAdd(name string) error {
	switch {
	case len(name) > maxName:
		return syscall.ENAMETOOLONG
	case strings.IndexByte(name, 0) >= 0:
		return syscall.EINVAL
	case in.raw.LinksCount() == 0:
		return syscall.ENOENT
	case in.raw.HasFlags(format.InodeImmutable):
		return syscall.EPERM
	case in.raw.HasFlags(format.InodeEncrypt):
		return ErrEncrypted
	}
	return nil
}

// addName puts a name into its directory.
func (t *Tx) addName(p place, ino format.Ino, mode uint16) error {
	d, err := t.openDir(p.dir.num)
	if err != nil {
		return err
	}
	if err := d.insert(p.name, ino, mode); err != nil {
		return err
	}
	return t.touchDir(p.dir.num)
}

// touchDir sets the times of a directory whose names have changed.
func (t *Tx) touchDir(ino format.Ino) error {
	raw, err := t.changeInode(ino)
	if err != nil {
		return err
	}
	raw.SetMtime(t.time)
	t.touch(raw)
	return nil
}

// touch sets the time of change, and counts it.
func (t *Tx) touch(raw format.Inode) {
	raw.SetCtime(t.time)
	raw.SetVersion(raw.Version() + 1)
	if raw.Version() == 0 {
		raw.SetVersionHi(raw.VersionHi() + 1)
	}
}

// newPlace returns where something is to be made that is not there yet.
func (t *Tx) newPlace(name string, isDir bool) (place, error) {
	p, err := t.place(name)
	if err != nil {
		return place{}, err
	}
	if !p.isName() {
		return place{}, syscall.EEXIST
	}
	there, err := p.childOrNil()
	switch {
	case err != nil:
		return place{}, err
	case there != nil:
		return place{}, syscall.EEXIST
	case p.slash && !isDir:
		return place{}, syscall.ENOENT
	}
	return p, p.dir.mayAdd(p.name)
}

// Mkdir makes a directory.
func (fsys *FS) Mkdir(name string, perm fs.FileMode) error {
	return pathError("mkdir", name, fsys.update(func(t *Tx) error { return t.mkdir(name, perm) }))
}

// Mkdir is FS.Mkdir in the transaction.
func (t *Tx) Mkdir(name string, perm fs.FileMode) error {
	return pathError("mkdir", name, t.try(func(t *Tx) error { return t.mkdir(name, perm) }))
}

func (t *Tx) mkdir(name string, perm fs.FileMode) error {
	p, err := t.newPlace(name, true)
	if err != nil {
		return err
	}
	if err := p.dir.mayHoldDir(); err != nil {
		return err
	}
	ino, raw, err := t.newInode(p.dir, format.ModeDir|diskPerm(perm), 2)
	if err != nil {
		return err
	}
	d, err := t.openDir(ino)
	if err != nil {
		return err
	}
	if err := d.editor.Init(p.dir.num); err != nil {
		return err
	}
	if err := t.addName(p, ino, raw.Mode()); err != nil {
		return err
	}
	return t.addSubdir(p.dir.num)
}

// mayHoldDir decides whether a directory can have one more below it.
func (in *inode) mayHoldDir() error {
	many := in.fs.geo.Features.HasROCompat(format.ROCompatDirNlink) && in.raw.HasFlags(format.InodeIndex)
	if in.raw.LinksCount() >= format.LinkMax && !many {
		return syscall.EMLINK
	}
	return nil
}

// addSubdir counts a directory's new subdirectory. An indexed one with too many
// has 1 from then on (kernel: ext4_inc_count).
func (t *Tx) addSubdir(ino format.Ino) error {
	raw, err := t.changeInode(ino)
	if err != nil {
		return err
	}
	links := raw.LinksCount() + 1
	if raw.HasFlags(format.InodeIndex) && (links > format.LinkMax || links == 2) {
		links = 1
	}
	raw.SetLinksCount(links)
	return nil
}

// dropSubdir counts a subdirectory less (kernel: ext4_dec_count).
func (t *Tx) dropSubdir(ino format.Ino) error {
	raw, err := t.changeInode(ino)
	if err == nil && raw.LinksCount() > 2 {
		raw.SetLinksCount(raw.LinksCount() - 1)
	}
	return err
}

// MkdirAll makes a directory and those above it that are not there yet, as
// os.MkdirAll does.
func (fsys *FS) MkdirAll(name string, perm fs.FileMode) error {
	return fsys.update(func(t *Tx) error { return t.mkdirAll(name, perm) })
}

// MkdirAll is FS.MkdirAll in the transaction.
func (t *Tx) MkdirAll(name string, perm fs.FileMode) error {
	return t.try(func(t *Tx) error { return t.mkdirAll(name, perm) })
}

func (t *Tx) mkdirAll(name string, perm fs.FileMode) error {
	for end := 0; end < len(name); {
		end += len(name[end:]) - len(strings.TrimLeft(name[end:], "/"))
		if i := strings.IndexByte(name[end:], '/'); i >= 0 {
			end += i
		} else {
			end = len(name)
		}
		in, err := t.resolve(name[:end], true)
		if err == syscall.ENOENT || err == syscall.ELOOP {
			err = t.mkdir(name[:end], perm) // EEXIST for a link that leads nowhere
		} else if err == nil && !in.isDir() {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return pathError("mkdir", name[:end], err)
		}
	}
	if name == "" {
		return pathError("mkdir", name, syscall.ENOENT)
	}
	return nil
}

// Symlink makes a symbolic link. target is kept as it is; syscall.ENAMETOOLONG
// is the error if it has more than 4,095 bytes or does not fit a block,
// syscall.ENOENT if it is empty.
func (fsys *FS) Symlink(target, name string) error {
	return linkError("symlink", target, name, fsys.update(func(t *Tx) error { return t.symlink(target, name) }))
}

// Symlink is FS.Symlink in the transaction.
func (t *Tx) Symlink(target, name string) error {
	return linkError("symlink", target, name, t.try(func(t *Tx) error { return t.symlink(target, name) }))
}

func (t *Tx) symlink(target, name string) error {
	switch {
	case target == "":
		return syscall.ENOENT
	case len(target) > maxTarget:
		return syscall.ENAMETOOLONG
	case strings.IndexByte(target, 0) >= 0:
		return syscall.EINVAL
	}
	p, err := t.newPlace(name, false)
	if err != nil {
		return err
	}
	if len(target) >= t.fs.geo.BlockSize {
		return syscall.ENAMETOOLONG
	}
	const mode = format.ModeSymlink | 0o777
	ino, raw, err := t.newInode(p.dir, mode, 1)
	if err != nil {
		return err
	}
	if err := t.putTarget(ino, raw, target); err != nil {
		return err
	}
	return t.addName(p, ino, mode)
}

// putTarget stores the target of a new symbolic link: in the inode, or in a
// block that is journaled like metadata, so that it is there when the name is.
func (t *Tx) putTarget(ino format.Ino, raw format.Inode, target string) error {
	if len(target) <= format.FastSymlinkMax {
		raw.SetFlags(raw.Flags() &^ format.InodeExtents)
		clear(raw.IBlock())
		copy(raw.IBlock(), target)
		raw.SetSize(uint64(len(target)))
		return nil
	}
	b, err := t.addBlock(ino, 0, t.fs.alloc.GoalFor(ino))
	if err != nil {
		return err
	}
	block, err := t.j.New(b)
	if err != nil {
		return err
	}
	copy(block, target)
	if raw, err = t.changeInode(ino); err == nil {
		raw.SetSize(uint64(len(target)))
	}
	return err
}

// Mknod makes a file of any type but directory and symbolic link: a regular
// file, or with fs.ModeDevice (and fs.ModeCharDevice), fs.ModeNamedPipe or
// fs.ModeSocket one of those. major (12 bits) and minor (20 bits) count for devices.
func (fsys *FS) Mknod(name string, mode fs.FileMode, major, minor uint32) error {
	return pathError("mknod", name, fsys.update(func(t *Tx) error { return t.mknod(name, mode, major, minor) }))
}

// Mknod is FS.Mknod in the transaction.
func (t *Tx) Mknod(name string, mode fs.FileMode, major, minor uint32) error {
	return pathError("mknod", name, t.try(func(t *Tx) error { return t.mknod(name, mode, major, minor) }))
}

func (t *Tx) mknod(name string, mode fs.FileMode, major, minor uint32) error {
	disk, err := DiskMode(mode)
	if err != nil {
		return err
	}
	switch disk & format.ModeType {
	case format.ModeDir:
		return syscall.EPERM
	case format.ModeSymlink:
		return syscall.EINVAL
	}
	if major >= 1<<12 || minor >= 1<<20 {
		return syscall.EINVAL
	}
	p, err := t.newPlace(name, false)
	if err != nil {
		return err
	}
	ino, raw, err := t.newInode(p.dir, disk, 1)
	if err != nil {
		return err
	}
	if raw.HasDevice() {
		raw.SetDevice(major, minor)
	}
	return t.addName(p, ino, disk)
}
