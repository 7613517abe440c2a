package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"drydock/ext4"
	"drydock/internal/cli"
)

var mkdirVerb = verb{
	use: "mkdir PATH...", short: "make directories", min: 1, max: -1,
	example: "rootfs.img -p /var/lib/app\n",
	new:     func() operation { return &mkdirOp{} },
}

type mkdirOp struct {
	parents bool
	mode    string
}

func (o *mkdirOp) flags(f *pflag.FlagSet) {
	f.BoolVarP(&o.parents, "parents", "p", false, "parents too, and no error for what exists")
	f.StringVarP(&o.mode, "mode", "m", "755", "permissions of the last directory, octal or as u=rwx,go=rx (`MODE`)")
}

func (o *mkdirOp) changes([]string) bool { return true }

func (o *mkdirOp) check([]string) error {
	_, err := parseMode(o.mode)
	return err
}

func (o *mkdirOp) run(_ context.Context, s *session, args []string) error {
	change, err := parseMode(o.mode)
	if err != nil {
		return err
	}
	perm := change.apply(0o777, true)
	for _, name := range args {
		if o.parents {
			err = mkdirAll(s.edit, name, perm)
		} else {
			err = mkdirMode(s.edit, name, perm)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mkdirMode makes a directory with exactly these permissions.
func mkdirMode(e editor, name string, perm fs.FileMode) error {
	if err := e.Mkdir(name, perm); err != nil {
		return err
	}
	if perm&^fs.ModePerm == 0 {
		return nil
	}
	return e.SetAttr(name, ext4.Attr{Mode: &perm})
}

// mkdirAll makes a directory and those above it that are missing, with mode 755.
func mkdirAll(e editor, name string, perm fs.FileMode) error {
	info, err := e.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if parent := path.Dir(path.Clean("/" + name)); parent != "/" {
		if err := mkdirAll(e, parent, 0o755); err != nil {
			return err
		}
	}
	return mkdirMode(e, name, perm)
}

var rmVerb = verb{
	use: "rm PATH...", short: "remove files and directories", min: 1, max: -1,
	example: "rootfs.img -r /var/cache\nrootfs.img -f '/tmp/*.log'\n",
	new:     func() operation { return &rmOp{} },
}

type rmOp struct{ recursive, force, dir bool }

func (o *rmOp) flags(f *pflag.FlagSet) {
	f.BoolVarP(&o.recursive, "recursive", "r", false, "directories with all they hold")
	f.BoolVarP(&o.dir, "dir", "d", false, "empty directories")
	f.BoolVarP(&o.force, "force", "f", false, "no error for what does not exist")
}

func (o *rmOp) changes([]string) bool { return true }

func (o *rmOp) run(ctx context.Context, s *session, args []string) error {
	for _, arg := range args {
		names, err := s.glob(arg)
		if err != nil && (!o.force || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
		for _, name := range names {
			if err := errors.Join(ctx.Err(), o.remove(s, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes one name.
func (o *rmOp) remove(s *session, name string) error {
	info, err := s.edit.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.force:
		return nil
	case err != nil:
		return err
	case path.Clean("/"+name) == "/":
		return &fs.PathError{Op: "rm", Path: name, Err: syscall.EBUSY}
	case info.IsDir() && o.recursive:
		return s.edit.RemoveAll(name)
	case info.IsDir() && !o.dir:
		return cli.WithHint(&fs.PathError{Op: "rm", Path: name, Err: syscall.EISDIR}, "-r removes directories")
	}
	return s.edit.Remove(name)
}

var mvVerb = verb{
	use: "mv SRC... DST", short: "rename or move files and directories", min: 2, max: -1,
	example: "rootfs.img /etc/motd /etc/motd.old\n",
	new:     func() operation { return &mvOp{} },
}

type mvOp struct{ keep, force, plain bool }

func (o *mvOp) flags(f *pflag.FlagSet) {
	f.BoolVarP(&o.force, "force", "f", false, "replace what exists (as without it)")
	f.BoolVarP(&o.keep, "no-clobber", "n", false, "leave what exists, and what was to replace it")
	f.BoolVarP(&o.plain, "no-target-directory", "T", false, "DST is the new name even where it is a directory")
}

func (o *mvOp) changes([]string) bool { return true }

func (o *mvOp) run(_ context.Context, s *session, args []string) error {
	return s.intoTarget(args, o.plain, func(from, to string) error {
		if o.keep {
			if there, err := s.exists(to); there || err != nil {
				return err
			}
		}
		return s.edit.Rename(from, to)
	})
}

// intoTarget calls do for each of the sources and its target, as cp, mv and ln
// name targets: below the last argument if that is a directory, else the last
// argument itself.
func (s *session) intoTarget(args []string, plain bool, do func(from, to string) error) error {
	dst := args[len(args)-1]
	sources, err := s.expand(args[:len(args)-1])
	if err != nil {
		return err
	}
	into := !plain && s.isDir(dst)
	if !into && (len(sources) > 1 || strings.HasSuffix(dst, "/")) {
		return &fs.PathError{Op: "target", Path: dst, Err: syscall.ENOTDIR}
	}
	for _, from := range sources {
		to := dst
		if into {
			to = join(dst, path.Base(from))
		}
		if err := do(from, to); err != nil {
			return err
		}
	}
	return nil
}

var lnVerb = verb{
	use: "ln TARGET... LINK", short: "make hard and symbolic links", min: 2, max: -1,
	example: "rootfs.img -s ../lib/systemd/systemd /sbin/init\n",
	new:     func() operation { return &lnOp{} },
}

type lnOp struct{ symbolic, force, plain bool }

func (o *lnOp) flags(f *pflag.FlagSet) {
	f.BoolVarP(&o.symbolic, "symbolic", "s", false, "symbolic links; TARGET is stored as it is")
	f.BoolVarP(&o.force, "force", "f", false, "replace what exists")
	f.BoolVarP(&o.plain, "no-target-directory", "T", false, "LINK is the new name even where it is a directory")
}

func (o *lnOp) changes([]string) bool { return true }

func (o *lnOp) run(_ context.Context, s *session, args []string) error {
	if o.symbolic && len(args) == 2 {
		to := args[1]
		if !o.plain && s.isDir(to) {
			to = join(to, path.Base(args[0]))
		}
		return o.link(s, args[0], to)
	}
	return s.intoTarget(args, o.plain, func(from, to string) error { return o.link(s, from, to) })
}

// link makes one link; with force what exists is replaced in one step.
func (o *lnOp) link(s *session, target, name string) error {
	return s.together(func(e editor) error {
		if o.force {
			if err := removeOld(e, name); err != nil {
				return err
			}
		}
		if o.symbolic {
			return e.Symlink(target, name)
		}
		return e.Link(target, name)
	})
}

// removeOld removes what is under name; a directory is an error.
func removeOld(e editor, name string) error {
	info, err := e.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "replace", Path: name, Err: syscall.EISDIR}
	}
	return e.Remove(name)
}

// together does several changes in one transaction: that of the script if there
// is one, else one of its own.
func (s *session) together(do func(e editor) error) error {
	if s.staged != nil {
		return do(s.edit)
	}
	return s.fs.Update(func(tx *ext4.Tx) error { return do(tx) })
}

var mknodVerb = verb{
	use: "mknod PATH b|c|p|s [MAJOR MINOR]", short: "make a device, fifo or socket", min: 2, max: 4,
	example: "rootfs.img /dev/null c 1 3 -m 666\n",
	new:     func() operation { return &mknodOp{} },
}

type mknodOp struct{ mode string }

func (o *mknodOp) flags(f *pflag.FlagSet) {
	f.StringVarP(&o.mode, "mode", "m", "644", "permissions, octal or as u=rw,go=r (`MODE`)")
}

func (o *mknodOp) changes([]string) bool { return true }

// check reports arguments that make no sense before the image is opened.
func (o *mknodOp) check(args []string) error {
	_, _, _, err := o.parse(args)
	return err
}

func (o *mknodOp) run(_ context.Context, s *session, args []string) error {
	mode, major, minor, err := o.parse(args)
	if err != nil {
		return err
	}
	return s.edit.Mknod(args[0], mode, major, minor)
}

// parse returns what the arguments and flags ask for.
func (o *mknodOp) parse(args []string) (mode fs.FileMode, major, minor uint32, err error) {
	types := map[string]fs.FileMode{"b": fs.ModeDevice, "c": fs.ModeDevice | fs.ModeCharDevice, "u": fs.ModeDevice | fs.ModeCharDevice,
		"p": fs.ModeNamedPipe, "s": fs.ModeSocket}
	kind, known := types[args[1]]
	device := kind&fs.ModeDevice != 0
	change, err := parseMode(o.mode)
	switch {
	case err != nil:
		return 0, 0, 0, err
	case !known:
		return 0, 0, 0, cli.Usagef("mknod: unknown type %q, want b, c, p or s", args[1])
	case device && len(args) != 4:
		return 0, 0, 0, cli.Usagef("mknod: a device has MAJOR and MINOR")
	case !device && len(args) != 2:
		return 0, 0, 0, cli.Usagef("mknod: a %s has neither MAJOR nor MINOR", typeName(kind))
	}
	mode = kind | change.apply(0o666, false)
	if !device {
		return mode, 0, 0, nil
	}
	major, err = number(args[2], 12)
	if err != nil {
		return 0, 0, 0, cli.Usagef("mknod: major %w", err)
	}
	if minor, err = number(args[3], 20); err != nil {
		return 0, 0, 0, cli.Usagef("mknod: minor %w", err)
	}
	return mode, major, minor, nil
}

// number parses a number of at most that many bits: decimal, 0x or 0 in front as in C.
func number(text string, bits int) (uint32, error) {
	n, err := strconv.ParseUint(text, 0, bits)
	if err != nil {
		return 0, fmt.Errorf("number %q is none below %d", text, uint64(1)<<bits)
	}
	return uint32(n), nil
}

var truncateVerb = verb{
	use: "truncate PATH...", short: "set the size of files", min: 1, max: -1,
	example: "rootfs.img -s 1G /swapfile\nrootfs.img -s -4K /var/log/lastlog\n",
	new:     func() operation { return &truncateOp{} },
}

type truncateOp struct {
	size     string
	noCreate bool
}

func (o *truncateOp) flags(f *pflag.FlagSet) {
	f.StringVarP(&o.size, "size", "s", "", "new size; +`SIZE` and -SIZE change it by so much")
	f.BoolVarP(&o.noCreate, "no-create", "c", false, "leave alone what does not exist")
}

func (o *truncateOp) changes([]string) bool { return true }

func (o *truncateOp) check([]string) error {
	_, _, err := o.parse()
	return err
}

// parse returns the size, and the sign of a change.
func (o *truncateOp) parse() (n int64, sign int64, err error) {
	text := o.size
	switch {
	case text == "":
		return 0, 0, cli.Usagef("truncate: --size is missing")
	case text[0] == '+':
		sign, text = 1, text[1:]
	case text[0] == '-':
		sign, text = -1, text[1:]
	}
	n, err = cli.ParseSize(text)
	if err != nil {
		return 0, 0, &cli.UsageError{Err: fmt.Errorf("--size: %w", err)}
	}
	return n, sign, nil
}

func (o *truncateOp) run(_ context.Context, s *session, args []string) error {
	n, sign, err := o.parse()
	if err != nil {
		return err
	}
	names, err := s.expand(args)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := o.truncate(s, name, n, sign); err != nil {
			return err
		}
	}
	return nil
}

// truncate sets the size of one file, which is made if it does not exist.
func (o *truncateOp) truncate(s *session, name string, n, sign int64) error {
	info, err := s.edit.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.noCreate:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if err := s.edit.Mknod(name, 0o644, 0, 0); err != nil {
			return err
		}
	case err != nil:
		return err
	case sign != 0:
		n = info.Size() + sign*n
	}
	return s.onFile(name, os.O_WRONLY, func(f *ext4.File) error { return f.Truncate(max(n, 0)) })
}
