package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"drydock/device"
	"drydock/ext4"
	"drydock/internal/cli"
)

var putVerb = verb{
	use: "put HOST... DST", short: "copy files and trees in, with all attributes", min: 2, max: -1,
	example: "rootfs.img hostname /etc/hostname\nrootfs.img -r overlay/. /\nrootfs.img -r --owner 0:0 app /opt\n",
	new:     func() operation { return &putOp{} },
}

// putOp copies from the host into the image as cp -a does: mode, owner, times,
// xattrs, links and holes are kept, and what exists is replaced file by file, each
// in one step.
type putOp struct {
	recursive, plain bool
	owner            string
}

func (o *putOp) flags(f *pflag.FlagSet) {
	f.BoolVarP(&o.recursive, "recursive", "r", false, "directories with all they hold")
	f.StringVar(&o.owner, "owner", "", "numeric `U:G` that owns what is copied (default: as on the host)")
	f.BoolVarP(&o.plain, "no-target-directory", "T", false, "DST is the new name even where it is a directory")
}

func (o *putOp) changes([]string) bool { return true }

func (o *putOp) check([]string) error {
	return checkOwner(o.owner)
}

func (o *putOp) run(ctx context.Context, s *session, args []string) error {
	c := copyIn{ctx: ctx, s: s, links: map[hostID]string{}, owner: o.owner}
	dst := args[len(args)-1]
	sources := args[:len(args)-1]
	into := !o.plain && s.isDir(dst)
	if !into && (len(sources) > 1 || (strings.HasSuffix(dst, "/") && !o.recursive)) {
		return &fs.PathError{Op: "put", Path: dst, Err: syscall.ENOTDIR}
	}
	for _, source := range sources {
		to := dst
		if into {
			to = join(dst, targetName(source))
		}
		if err := o.put(&c, source, to); err != nil {
			return err
		}
	}
	return nil
}

// targetName is the name that a source gets below a directory; that of "dir/."
// is the directory itself, as with cp.
func targetName(source string) string {
	if strings.HasSuffix(source, "/.") || source == "." {
		return ""
	}
	return filepath.Base(source)
}

// put copies one source to the name that it is to have.
func (o *putOp) put(c *copyIn, source, to string) error {
	info, err := os.Lstat(source)
	if err != nil {
		return err
	}
	if info.IsDir() && !o.recursive {
		return cli.WithHint(&fs.PathError{Op: "put", Path: source, Err: syscall.EISDIR}, "-r copies directories")
	}
	return c.copy(source, info, to)
}

// hostID identifies a file of the host.
type hostID struct{ dev, ino uint64 }

// copyIn copies from the host into an image.
type copyIn struct {
	ctx   context.Context
	s     *session
	links map[hostID]string // where in the image the first name of a hard-linked file is
	owner string
	tree  bool // inside a directory that is being copied
	buf   []byte
}

// copy copies what is at source, and for a directory all below it.
func (c *copyIn) copy(source string, info fs.FileInfo, to string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	host := hostOf(info)
	if first, ok := c.links[host.id]; ok && host.nlink > 1 && !info.IsDir() {
		return c.s.together(func(e editor) error { return relink(e, first, to) })
	}
	attr, xattrs, err := c.attributes(source, info, host)
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		return c.copyDir(source, to, attr, xattrs)
	case info.Mode().IsRegular():
		err = c.copyFile(source, to, attr, xattrs)
	default:
		err = c.copySpecial(source, info, host, to, attr, xattrs)
	}
	if err == nil && host.nlink > 1 {
		c.links[host.id] = to
	}
	return err
}

// relink makes to another name of the file first, in place of what is there.
func relink(e editor, first, to string) error {
	a, errA := e.Lstat(first)
	b, errB := e.Lstat(to)
	if errA == nil && errB == nil && ext4.StatOf(a).Ino == ext4.StatOf(b).Ino {
		return nil
	}
	if err := removeOld(e, to); err != nil {
		return err
	}
	return e.Link(first, to)
}

// attributes returns what the copy of a file is to have.
func (c *copyIn) attributes(source string, info fs.FileInfo, host hostFacts) (ext4.Attr, []ext4.Xattr, error) {
	mode := info.Mode()
	attr := ext4.Attr{Mode: &mode, UID: &host.uid, GID: &host.gid, Atime: &host.atime, Mtime: &host.mtime}
	if c.owner != "" {
		owner, err := parseOwner(c.owner)
		if err != nil {
			return attr, nil, err
		}
		attr.UID, attr.GID = first(owner.UID, attr.UID), first(owner.GID, attr.GID)
	}
	if mode&fs.ModeSymlink != 0 {
		attr.Mode = nil
	}
	xattrs, err := hostXattrs(source)
	return attr, xattrs, err
}

// first is the first pointer that is not nil.
func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// copyDir copies a directory with all below it. One that exists is kept and gets
// the attributes.
func (c *copyIn) copyDir(source, to string, attr ext4.Attr, xattrs []ext4.Xattr) error {
	err := c.s.edit.Mkdir(to, 0o700)
	if err != nil && (!errors.Is(err, fs.ErrExist) || !c.s.isDir(to)) {
		return err
	}
	c.tree = true
	entries, err := os.ReadDir(source)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone meanwhile
		}
		if err != nil {
			return err
		}
		if err := c.copy(filepath.Join(source, e.Name()), info, path.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return c.s.together(func(e editor) error { return dress(e, to, attr, xattrs) })
}

// dress gives a name its attributes; a symbolic link is not followed.
func dress(e editor, name string, attr ext4.Attr, xattrs []ext4.Xattr) error {
	for _, x := range xattrs {
		if err := e.LsetXattr(name, x.Name, x.Value, 0); err != nil {
			return err
		}
	}
	return e.LsetAttr(name, attr)
}

// copySpecial copies a symbolic link, device, fifo or socket.
func (c *copyIn) copySpecial(source string, info fs.FileInfo, host hostFacts, to string, attr ext4.Attr, xattrs []ext4.Xattr) error {
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if target, err = os.Readlink(source); err != nil {
			return err
		}
	}
	return c.s.together(func(e editor) error {
		if err := removeOld(e, to); err != nil {
			return err
		}
		var err error
		if info.Mode()&fs.ModeSymlink != 0 {
			err = e.Symlink(target, to)
		} else {
			err = e.Mknod(to, info.Mode(), host.major, host.minor)
		}
		if err != nil {
			return err
		}
		return dress(e, to, attr, xattrs)
	})
}

// copyFile copies a regular file. What is under the name is replaced when the
// copy is complete.
func (c *copyIn) copyFile(source, to string, attr ext4.Attr, xattrs []ext4.Xattr) error {
	if info, err := c.s.edit.Lstat(to); err == nil && info.IsDir() {
		return &fs.PathError{Op: "put", Path: to, Err: syscall.EISDIR}
	}
	if there, err := c.s.exists(to); err != nil || (c.tree && !there && c.s.staged == nil) {
		if err != nil {
			return err
		}
		return c.create(source, to, attr, xattrs)
	}
	f, err := c.s.nameless(filepath.Clean(source), func(f *ext4.File) error { return c.fill(f, source) })
	if err != nil {
		return err
	}
	defer f.Close()
	return c.s.together(func(e editor) error {
		if err := e.LinkFile(f, to, true); err != nil {
			return err
		}
		return dress(e, to, attr, xattrs)
	})
}

// create copies a file of a tree to a name that does not exist.
func (c *copyIn) create(source, to string, attr ext4.Attr, xattrs []ext4.Xattr) error {
	f, err := c.s.fs.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(c.fill(f, source), f.Close()); err != nil {
		return err
	}
	return c.s.together(func(e editor) error { return dress(e, to, attr, xattrs) })
}

// nameless returns a file without a name that fill has filled: one that was
// prepared under this key, or a new one.
func (s *session) nameless(key string, fill func(*ext4.File) error) (*ext4.File, error) {
	if s.staged != nil {
		return s.staged.take(key)
	}
	f, err := s.fs.OpenTemp(0o600)
	if err != nil {
		return nil, err
	}
	if err := fill(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

const copyBuffer = 1 << 20

// fill copies the data of a host file; holes stay holes.
func (c *copyIn) fill(f *ext4.File, source string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	f.SetSizeHint(size)
	for segment, err := range device.FileSegments(in, 0, size) {
		if err != nil {
			return err
		}
		if err := c.copyRange(f, in, segment.Off, segment.Len); err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
	}
	c.s.bar.Done(0, 1)
	return f.Truncate(size)
}

// copyRange copies n bytes at off.
func (c *copyIn) copyRange(f *ext4.File, in io.ReaderAt, off, n int64) error {
	if c.buf == nil {
		c.buf = make([]byte, copyBuffer)
	}
	for n > 0 {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		piece := c.buf[:min(n, copyBuffer)]
		got, err := in.ReadAt(piece, off)
		if err != nil && err != io.EOF {
			return err
		}
		if got == 0 {
			return nil // it has become shorter
		}
		if err := writeBulk(f, piece[:got], off); err != nil {
			return err
		}
		off, n = off+int64(got), n-int64(got)
		c.s.bar.Done(int64(got), 0)
	}
	return nil
}

// writeBulk writes large pieces past the cache and small ones through it.
func writeBulk(f *ext4.File, p []byte, off int64) error {
	if len(p) < 1<<18 {
		_, err := f.WriteAt(p, off)
		return err
	}
	_, err := f.WriteDirect(p, off)
	return err
}
