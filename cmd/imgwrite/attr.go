package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"drydock/ext4"
	"drydock/format"
	"drydock/internal/cli"
)

// below calls fn for name and, if recursive, for everything below it; symbolic
// links are not followed.
func (s *session) below(ctx context.Context, name string, recursive bool, fn func(name string, info fs.FileInfo) error) error {
	info, err := s.edit.Lstat(name)
	if err != nil {
		return err
	}
	if err := errors.Join(ctx.Err(), fn(name, info)); err != nil || !recursive || !info.IsDir() {
		return err
	}
	entries, err := s.edit.ReadDir(name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := s.below(ctx, path.Join(name, e.Name()), true, fn); err != nil {
			return err
		}
	}
	return nil
}

var chmodVerb = verb{
	use: "chmod MODE PATH...", short: "change permissions", min: 2, max: -1,
	example: "rootfs.img 4755 /bin/su\nrootfs.img -R go-w /etc\n",
	new:     func() operation { return &chmodOp{} },
}

type chmodOp struct{ recursive bool }

func (o *chmodOp) flags(f *pflag.FlagSet) {
	f.BoolVarP(&o.recursive, "recursive", "R", false, "everything below directories, too")
}

func (o *chmodOp) changes([]string) bool { return true }

func (o *chmodOp) check(args []string) error {
	_, err := parseMode(args[0])
	return err
}

func (o *chmodOp) run(ctx context.Context, s *session, args []string) error {
	change, err := parseMode(args[0])
	if err != nil {
		return err
	}
	names, err := s.expand(args[1:])
	if err != nil {
		return err
	}
	for _, name := range names {
		if !o.recursive {
			err = o.change(s, name, change)
		} else {
			err = s.below(ctx, name, true, func(name string, info fs.FileInfo) error {
				if info.Mode()&fs.ModeSymlink != 0 {
					return nil // has no permissions of its own
				}
				return o.change(s, name, change)
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// change changes the permissions of what name leads to.
func (o *chmodOp) change(s *session, name string, change modeChange) error {
	info, err := s.edit.Stat(name)
	if err != nil {
		return err
	}
	mode := change.apply(info.Mode(), info.IsDir())
	return s.edit.SetAttr(name, ext4.Attr{Mode: &mode})
}

var chownVerb = verb{
	use: "chown UID[:GID] PATH...", short: "change owner and group, by number", min: 2, max: -1,
	example: "rootfs.img -R 1000:1000 /home/user\nrootfs.img :50 /var/mail\n",
	new:     func() operation { return &chownOp{} },
}

type chownOp struct{ recursive, noFollow bool }

func (o *chownOp) flags(f *pflag.FlagSet) {
	f.BoolVarP(&o.recursive, "recursive", "R", false, "everything below directories, too; symbolic links themselves")
	f.BoolVarP(&o.noFollow, "no-dereference", "h", false, "symbolic links themselves")
	f.Bool("help", false, "help for chown") // leaves -h to the flag above
}

func (o *chownOp) changes([]string) bool { return true }

func (o *chownOp) check(args []string) error {
	_, err := parseOwner(args[0])
	return err
}

func (o *chownOp) run(ctx context.Context, s *session, args []string) error {
	attr, err := parseOwner(args[0])
	if err != nil {
		return err
	}
	names, err := s.expand(args[1:])
	if err != nil {
		return err
	}
	for _, name := range names {
		switch {
		case o.recursive:
			err = s.below(ctx, name, true, func(name string, _ fs.FileInfo) error { return s.edit.LsetAttr(name, attr) })
		case o.noFollow:
			err = s.edit.LsetAttr(name, attr)
		default:
			err = s.edit.SetAttr(name, attr)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkOwner reports an --owner that parseOwner cannot read; none is fine.
func checkOwner(text string) error {
	if text == "" {
		return nil
	}
	_, err := parseOwner(text)
	return err
}

// parseOwner reads "UID", "UID:GID" or ":GID".
func parseOwner(text string) (a ext4.Attr, err error) {
	user, group, both := strings.Cut(text, ":")
	if user == "" && group == "" {
		return a, cli.Usagef("owner %q: want UID, UID:GID or :GID", text)
	}
	parse := func(text string) (*uint32, error) {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n == 1<<32-1 {
			return nil, cli.WithHint(cli.Usagef("owner %q: %q is no number below 4294967295", text, text), "names are not looked up; give numbers")
		}
		id := uint32(n)
		return &id, nil
	}
	if user != "" {
		if a.UID, err = parse(user); err != nil {
			return a, err
		}
	}
	if both && group != "" {
		a.GID, err = parse(group)
	}
	return a, err
}

var touchVerb = verb{
	use: "touch PATH...", short: "set times, making files that do not exist", min: 1, max: -1,
	example: "rootfs.img /etc/machine-id\nrootfs.img -d 2024-02-29T12:00:00Z /etc/issue\n",
	new:     func() operation { return &touchOp{} },
}

type touchOp struct {
	noCreate, atime, mtime, noFollow bool
	date, reference                  string
}

func (o *touchOp) flags(f *pflag.FlagSet) {
	f.BoolVarP(&o.noCreate, "no-create", "c", false, "leave alone what does not exist")
	f.BoolVarP(&o.atime, "atime", "a", false, "the access time only")
	f.BoolVarP(&o.mtime, "mtime", "m", false, "the modification time only")
	f.StringVarP(&o.date, "date", "d", "", "`TIME` as 2006-01-02, 2006-01-02T15:04:05Z or @seconds (default: now)")
	f.StringVarP(&o.reference, "reference", "r", "", "times of the image's file `PATH`")
	f.BoolVarP(&o.noFollow, "no-dereference", "h", false, "symbolic links themselves")
	f.Bool("help", false, "help for touch") // leaves -h to the flag above
}

func (o *touchOp) changes([]string) bool { return true }

func (o *touchOp) check([]string) error {
	if o.date != "" && o.reference != "" {
		return cli.Usagef("touch: --date and --reference exclude each other")
	}
	_, err := parseTime(o.date)
	return err
}

func (o *touchOp) run(_ context.Context, s *session, args []string) error {
	attr, err := o.times(s)
	if err != nil {
		return err
	}
	for _, arg := range args {
		names, err := s.glob(arg)
		if errors.Is(err, fs.ErrNotExist) {
			names, err = []string{arg}, nil // nothing to match: it is the name of a new file
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := o.touch(s, name, attr); err != nil {
				return err
			}
		}
	}
	return nil
}

// times returns the times to set.
func (o *touchOp) times(s *session) (a ext4.Attr, err error) {
	when, err := parseTime(o.date)
	if err != nil {
		return a, err
	}
	atime, mtime := when, when
	if o.reference != "" {
		info, err := s.edit.Stat(o.reference)
		if err != nil {
			return a, err
		}
		atime, mtime = ext4.StatOf(info).Atime, ext4.StatOf(info).Mtime
	}
	if o.atime || !o.mtime {
		a.Atime = &atime
	}
	if o.mtime || !o.atime {
		a.Mtime = &mtime
	}
	return a, nil
}

// touch sets the times of one name.
func (o *touchOp) touch(s *session, name string, attr ext4.Attr) error {
	stat, set := s.edit.Stat, s.edit.SetAttr
	if o.noFollow {
		stat, set = s.edit.Lstat, s.edit.LsetAttr
	}
	if _, err := stat(name); errors.Is(err, fs.ErrNotExist) {
		if o.noCreate {
			return nil
		}
		return s.together(func(e editor) error {
			if err := e.Mknod(name, 0o644, 0, 0); err != nil {
				return err
			}
			return e.SetAttr(name, attr)
		})
	}
	return set(name, attr)
}

// parseTime reads a time; nothing is now.
func parseTime(text string) (format.Time, error) {
	if text == "" {
		return format.TimeOf(time.Now()), nil
	}
	if seconds, ok := strings.CutPrefix(text, "@"); ok {
		n, err := strconv.ParseFloat(seconds, 64)
		whole, errWhole := strconv.ParseInt(seconds, 10, 64)
		switch {
		case errWhole == nil:
			return inRange(time.Unix(whole, 0), text)
		case err == nil && n > -1e10 && n < 1e11:
			return inRange(time.Unix(0, 0).Add(time.Duration(n*1e9)), text)
		}
		return format.Time{}, cli.Usagef("time %q: no number of seconds", text)
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return inRange(t, text)
		}
	}
	return format.Time{}, cli.Usagef("time %q: want 2006-01-02, 2006-01-02T15:04:05Z or @seconds", text)
}

// inRange is t if an inode can hold it.
func inRange(t time.Time, text string) (format.Time, error) {
	when := format.TimeOf(t)
	if when.Clamp() != when {
		return when, cli.Usagef("time %q: ext4 has times from %s to %s", text,
			format.MinTime.Time().Format(time.DateOnly), format.MaxTime.Time().Format(time.DateOnly))
	}
	return when, nil
}

var xattrVerb = verb{
	use: "xattr PATH [NAME [VALUE]]", short: "list, print, set and remove extended attributes", min: 1, max: 3,
	example: "rootfs.img /bin/ping\nrootfs.img /bin/ping user.note text\nrootfs.img /bin/ping user.bytes 0x00ff\nrootfs.img -x user.note /bin/ping\n",
	new:     func() operation { return &xattrOp{} },
}

type xattrOp struct {
	remove   string
	noFollow bool
}

func (o *xattrOp) flags(f *pflag.FlagSet) {
	f.StringVarP(&o.remove, "remove", "x", "", "remove attribute `NAME`")
	f.BoolVarP(&o.noFollow, "no-dereference", "h", false, "of symbolic links themselves")
	f.Bool("help", false, "help for xattr") // leaves -h to the flag above
}

func (o *xattrOp) changes(args []string) bool { return o.remove != "" || len(args) == 3 }

func (o *xattrOp) check(args []string) error {
	if o.remove != "" && len(args) > 1 {
		return cli.Usagef("xattr: --remove has the name of the attribute")
	}
	if len(args) == 3 {
		_, err := decodeValue(args[2])
		return err
	}
	return nil
}

func (o *xattrOp) run(_ context.Context, s *session, args []string) error {
	get, set, remove := s.edit.Xattrs, s.edit.SetXattr, s.edit.RemoveXattr
	if o.noFollow {
		get, set, remove = s.edit.Lxattrs, s.edit.LsetXattr, s.edit.LremoveXattr
	}
	switch {
	case o.remove != "":
		return remove(args[0], o.remove)
	case len(args) == 3:
		value, err := decodeValue(args[2])
		if err != nil {
			return err
		}
		return set(args[0], args[1], value, 0)
	}
	attrs, err := get(args[0])
	if err != nil {
		return err
	}
	return printXattrs(s, attrs, args)
}

// printXattrs prints all attributes, or the value of one as it is.
func printXattrs(s *session, attrs []ext4.Xattr, args []string) error {
	for _, a := range attrs {
		switch {
		case len(args) == 1:
			if err := s.env.Printf("%s=%s\n", printable(a.Name), encodeValue(a.Value)); err != nil {
				return err
			}
		case a.Name == args[1]:
			_, err := s.env.Stdout.Write(a.Value)
			return err
		}
	}
	if len(args) == 1 {
		return nil
	}
	return &fs.PathError{Op: "xattr", Path: args[0], Err: fmt.Errorf("no attribute %q", args[1])}
}

// decodeValue reads a value as setfattr does: 0x is hexadecimal, 0s base64,
// anything else stands for itself.
func decodeValue(text string) ([]byte, error) {
	rest := text[min(2, len(text)):]
	switch {
	case strings.HasPrefix(text, "0x"), strings.HasPrefix(text, "0X"):
		value, err := hex.DecodeString(rest)
		if err != nil {
			return nil, cli.Usagef("value %q: %w", text, err)
		}
		return value, nil
	case strings.HasPrefix(text, "0s"), strings.HasPrefix(text, "0S"):
		value, err := base64.StdEncoding.DecodeString(rest)
		if err != nil {
			return nil, cli.Usagef("value %q: %w", text, err)
		}
		return value, nil
	}
	return []byte(text), nil
}

// encodeValue is a value as getfattr prints it: in quotes, or base64 with 0s.
func encodeValue(value []byte) string {
	if utf8.Valid(value) && !strings.ContainsFunc(string(value), func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return strconv.Quote(string(value))
	}
	return "0s" + base64.StdEncoding.EncodeToString(value)
}
