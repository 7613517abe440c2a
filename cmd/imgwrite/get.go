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

	"drydock/ext4"
	"drydock/format"
	"drydock/internal/cli"
)

var getVerb = verb{
	use: "get SRC... HOST", short: "copy files and trees out, with all attributes", min: 2, max: -1,
	example: "rootfs.img /etc/hostname .\nrootfs.img -r /etc ./etc\n",
	new:     func() operation { return &getOp{} },
}

// getOp copies from the image to the host as cp -a does. Everything below the
// target is opened through os.Root, so no name and no link in an image leads
// outside.
type getOp struct {
	recursive, plain, noXattrs bool
	owner                      string
}

func (o *getOp) flags(f *pflag.FlagSet) {
	f.BoolVarP(&o.recursive, "recursive", "r", false, "directories with all they hold")
	f.StringVar(&o.owner, "owner", "", "numeric `U:G` that owns what is copied (default: as in the image; without root, whoever runs this)")
	f.BoolVar(&o.noXattrs, "no-xattrs", false, "leave extended attributes out")
	f.BoolVarP(&o.plain, "no-target-directory", "T", false, "HOST is the new name even where it is a directory")
}

func (o *getOp) changes([]string) bool { return false }

func (o *getOp) check([]string) error {
	return checkOwner(o.owner)
}

func (o *getOp) run(ctx context.Context, s *session, args []string) error {
	dst := args[len(args)-1]
	sources, err := s.expand(args[:len(args)-1])
	if err != nil {
		return err
	}
	info, err := os.Stat(dst)
	into := err == nil && info.IsDir() && !o.plain
	if !into && len(sources) > 1 {
		return &fs.PathError{Op: "get", Path: dst, Err: syscall.ENOTDIR}
	}
	for _, source := range sources {
		dir, name := filepath.Split(filepath.Clean(dst))
		if into {
			dir, name = dst, imageBase(source)
		}
		if err := o.get(ctx, s, source, dir, name); err != nil {
			return err
		}
	}
	return nil
}

// imageBase is the name that a source gets below a directory of the host.
func imageBase(source string) string {
	if strings.HasSuffix(source, "/.") || path.Clean("/"+source) == "/" {
		return "."
	}
	return path.Base(source)
}

// get copies one source to a name in a host directory.
func (o *getOp) get(ctx context.Context, s *session, source, dir, name string) error {
	if dir == "" {
		dir = "."
	}
	if name == ".." || name == "" {
		return &fs.PathError{Op: "get", Path: filepath.Join(dir, name), Err: syscall.EINVAL}
	}
	info, err := s.edit.Lstat(source)
	if err != nil {
		return err
	}
	if info.IsDir() && !o.recursive {
		return cli.WithHint(&fs.PathError{Op: "get", Path: source, Err: syscall.EISDIR}, "-r copies directories")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	c := copyOut{ctx: ctx, s: s, op: o, root: root, links: map[format.Ino]string{}, keepOwner: os.Geteuid() == 0}
	return c.copy(source, info, name)
}

// copyOut copies from an image to the host.
type copyOut struct {
	ctx       context.Context
	s         *session
	op        *getOp
	root      *os.Root
	links     map[format.Ino]string // host name of the first copy of a file with several names
	keepOwner bool
}

// copy copies what is at source, and for a directory all below it. to is a path
// below the root.
func (c *copyOut) copy(source string, info fs.FileInfo, to string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	st := ext4.StatOf(info)
	if firstName, ok := c.links[st.Ino]; ok && !info.IsDir() {
		return c.link(firstName, to)
	}
	if err := c.make(source, info, st, to); err != nil {
		return err
	}
	if st.Nlink > 1 && !info.IsDir() {
		c.links[st.Ino] = to
	}
	if err := c.dress(source, info, st, to); err != nil {
		return err
	}
	c.s.bar.Done(0, 1)
	return nil
}

// make makes the file, directory, link or device itself.
func (c *copyOut) make(source string, info fs.FileInfo, st *ext4.Stat, to string) error {
	if !info.IsDir() {
		if err := c.clear(to); err != nil {
			return err
		}
	}
	switch info.Mode().Type() {
	case 0:
		return c.copyFile(source, to)
	case fs.ModeDir:
		return c.copyDir(source, to)
	case fs.ModeSymlink:
		target, err := c.s.edit.Readlink(source)
		if err != nil {
			return err
		}
		return c.root.Symlink(target, to)
	}
	return c.at(to, func(p place) error { return p.mknod(st) })
}

// clear removes a file that is to be replaced.
func (c *copyOut) clear(to string) error {
	info, err := c.root.Lstat(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "get", Path: to, Err: syscall.EISDIR}
	}
	return c.root.Remove(to)
}

// link makes to another name of a file that was copied already.
func (c *copyOut) link(firstName, to string) error {
	if err := c.clear(to); err != nil {
		return err
	}
	return c.root.Link(firstName, to)
}

// copyDir copies a directory with all below it.
func (c *copyOut) copyDir(source, to string) error {
	if to != "." {
		if err := c.root.Mkdir(to, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if info, err := c.root.Lstat(to); err != nil || !info.IsDir() {
		return errors.Join(err, &fs.PathError{Op: "get", Path: to, Err: syscall.ENOTDIR})
	}
	entries, err := c.s.edit.ReadDir(source)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if name == "." || name == ".." || strings.ContainsAny(name, "/\x00"+string(filepath.Separator)) {
			return &format.DamagedError{Structure: "directory " + source, Offset: -1, Detail: fmt.Sprintf("an entry with the name %q", name)}
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if err := c.copy(path.Join(source, name), info, filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies the data of a file; holes stay holes.
func (c *copyOut) copyFile(source, to string) error {
	in, err := c.s.fs.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = c.copyData(out, in)
	if errClose := out.Close(); err == nil {
		err = errClose
	}
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	return nil
}

// copyData copies all data that lies in blocks.
func (c *copyOut) copyData(out *os.File, in *ext4.File) error {
	info, err := in.Stat()
	if err != nil {
		return err
	}
	for segment, err := range in.Segments(0, info.Size()) {
		if err != nil {
			return err
		}
		src := io.NewSectionReader(in, segment.Off, segment.Len)
		n, err := io.Copy(io.NewOffsetWriter(ctxFile{c.ctx, out}, segment.Off), src)
		if err != nil {
			return err
		}
		c.s.bar.Done(n, 0)
	}
	return out.Truncate(info.Size())
}

// ctxFile is a file whose writes fail when the context is done.
type ctxFile struct {
	ctx context.Context
	f   *os.File
}

func (w ctxFile) WriteAt(p []byte, off int64) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.f.WriteAt(p, off)
}

// dress gives a copy its attributes, the owner first: a change of owner drops
// setuid bits and capabilities.
func (c *copyOut) dress(source string, info fs.FileInfo, st *ext4.Stat, to string) error {
	return c.at(to, func(p place) error {
		if err := c.chown(p, st); err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if err := p.chmod(st.Mode); err != nil {
				return err
			}
		}
		if err := c.setXattrs(p, source); err != nil {
			return err
		}
		return p.chtimes(st.Atime, st.Mtime)
	})
}

// chown sets the owner if it can be kept or was asked for.
func (c *copyOut) chown(p place, st *ext4.Stat) error {
	uid, gid := st.UID, st.GID
	if c.op.owner != "" {
		owner, err := parseOwner(c.op.owner)
		if err != nil {
			return err
		}
		uid, gid = *first(owner.UID, &uid), *first(owner.GID, &gid)
	} else if !c.keepOwner {
		return nil
	}
	return p.chown(uid, gid)
}

// setXattrs copies the extended attributes. Those that only root may set are left
// out for others, with a warning.
func (c *copyOut) setXattrs(p place, source string) error {
	if c.op.noXattrs {
		return nil
	}
	attrs, err := c.s.edit.Lxattrs(source)
	if err != nil {
		return err
	}
	for _, x := range attrs {
		err := p.setXattr(x)
		switch {
		case errors.Is(err, syscall.EPERM) && !c.keepOwner, errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.ENOTSUP):
			c.s.env.Warnf("%s: attribute %s left out: %v", printable(source), printable(x.Name), err)
		case err != nil:
			return err
		}
	}
	return nil
}

// at calls do with the place of a path below the root.
func (c *copyOut) at(to string, do func(place) error) error {
	dir, err := c.root.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer dir.Close()
	return do(place{dir, filepath.Base(to)})
}
