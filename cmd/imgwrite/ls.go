package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"

	"github.com/spf13/pflag"
)

var lsVerb = verb{
	use: "ls [PATH...]", short: "list directories", min: 0, max: -1,
	example: "rootfs.img -l /etc\nrootfs.img --json -R /\n",
	new:     func() operation { return &lsOp{} },
}

type lsOp struct {
	long, recursive, self, inodes, all, json bool
}

func (o *lsOp) flags(f *pflag.FlagSet) {
	f.BoolVarP(&o.long, "long", "l", false, "mode, links, owner, size and time of each entry")
	f.BoolVarP(&o.all, "all", "a", false, "names with a leading dot too")
	f.BoolVarP(&o.recursive, "recursive", "R", false, "all directories below, too")
	f.BoolVarP(&o.self, "directory", "d", false, "a directory itself, not what it holds")
	f.BoolVarP(&o.inodes, "inode", "i", false, "number of the inode in front")
	f.BoolVar(&o.json, "json", false, "print one JSON document")
}

func (o *lsOp) changes([]string) bool { return false }

// listing is a directory and what it holds, or names that stand alone.
type listing struct {
	dir     string // "": names that stand alone
	entries []facts
}

func (o *lsOp) run(ctx context.Context, s *session, args []string) error {
	if len(args) == 0 {
		args = []string{"/"}
	}
	names, err := s.expand(args)
	if err != nil {
		return err
	}
	lists, err := o.collect(ctx, s, names)
	if err != nil {
		return err
	}
	if o.json {
		all := []facts{}
		for _, l := range lists {
			all = append(all, l.entries...)
		}
		return s.env.JSON(all)
	}
	return o.print(s.env.Stdout, lists, len(names) > 1 || o.recursive)
}

// collect returns the names that stand alone and then one listing a directory.
func (o *lsOp) collect(ctx context.Context, s *session, names []string) ([]listing, error) {
	var alone listing
	var dirs []listing
	for _, name := range names {
		info, err := s.edit.Lstat(name)
		if err != nil {
			return nil, err
		}
		if !o.self && (info.IsDir() || (info.Mode()&fs.ModeSymlink != 0 && !o.long && s.isDir(name))) {
			if err := o.directory(ctx, s, name, &dirs); err != nil {
				return nil, err
			}
			continue
		}
		f, err := s.describe(name, info)
		if err != nil {
			return nil, err
		}
		alone.entries = append(alone.entries, f)
	}
	if len(alone.entries) > 0 {
		dirs = append([]listing{alone}, dirs...)
	}
	return dirs, nil
}

// directory adds the listing of a directory and, if asked for, those below it.
func (o *lsOp) directory(ctx context.Context, s *session, name string, to *[]listing) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := s.edit.ReadDir(name)
	if err != nil {
		return err
	}
	l := listing{dir: name}
	for _, e := range entries {
		if !o.all && !o.json && e.Name()[0] == '.' {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		f, err := s.describe(path.Join(name, e.Name()), info)
		if err != nil {
			return err
		}
		l.entries = append(l.entries, f)
	}
	*to = append(*to, l)
	if !o.recursive {
		return nil
	}
	for _, f := range l.entries {
		if f.mode.IsDir() {
			if err := o.directory(ctx, s, f.Path, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// print prints the listings; heads says whether each directory is named.
func (o *lsOp) print(w io.Writer, lists []listing, heads bool) error {
	out := bufio.NewWriter(w)
	for i, l := range lists {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if heads && l.dir != "" {
			fmt.Fprintf(out, "%s:\n", printable(l.dir))
		}
		o.printEntries(out, l)
	}
	return out.Flush()
}

// printEntries prints the entries of one listing.
func (o *lsOp) printEntries(out io.Writer, l listing) {
	width := widths(l.entries)
	for _, f := range l.entries {
		name := f.Path
		if l.dir != "" {
			name = path.Base(f.Path)
		}
		if o.inodes {
			fmt.Fprintf(out, "%*d ", width.ino, f.Ino)
		}
		if !o.long {
			fmt.Fprintln(out, printable(name))
			continue
		}
		fmt.Fprintf(out, "%s %*d %*d %*d %*s %s %s%s\n", modeText(f.mode), width.links, f.Nlink, width.uid, f.UID, width.gid, f.GID,
			width.size, f.sizeText(), f.when.UTC().Format("2006-01-02 15:04:05"), printable(name), f.arrow())
	}
}

// sizeText is the size, or what stands in its place for a device.
func (f facts) sizeText() string {
	if f.Device != "" {
		return f.Device
	}
	return strconv.FormatInt(f.Size, 10)
}

// columns are the widths of numbers in a long listing.
type columns struct{ ino, links, uid, gid, size int }

func widths(entries []facts) (c columns) {
	for _, f := range entries {
		c.ino = max(c.ino, len(strconv.Itoa(int(f.Ino))))
		c.links = max(c.links, len(strconv.Itoa(int(f.Nlink))))
		c.uid = max(c.uid, len(strconv.Itoa(int(f.UID))))
		c.gid = max(c.gid, len(strconv.Itoa(int(f.GID))))
		c.size = max(c.size, len(f.sizeText()))
	}
	return c
}
