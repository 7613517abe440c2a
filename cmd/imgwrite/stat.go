package main

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"

	"github.com/spf13/pflag"

	"drydock/ext4"
)

var statVerb = verb{
	use: "stat PATH...", short: "print all that is known of files", min: 1, max: -1,
	example: "rootfs.img /bin/ping\nrootfs.img --json /dev/null\n",
	new:     func() operation { return &statOp{} },
}

type statOp struct{ follow, json bool }

func (o *statOp) flags(f *pflag.FlagSet) {
	f.BoolVarP(&o.follow, "dereference", "L", false, "follow symbolic links")
	f.BoolVar(&o.json, "json", false, "print one JSON document")
}

func (o *statOp) changes([]string) bool { return false }

func (o *statOp) run(_ context.Context, s *session, args []string) error {
	names, err := s.expand(args)
	if err != nil {
		return err
	}
	all := []facts{}
	for _, name := range names {
		f, err := o.one(s, name)
		if err != nil {
			return err
		}
		all = append(all, f)
	}
	if o.json {
		return s.env.JSON(all)
	}
	out := bufio.NewWriter(s.env.Stdout)
	for _, f := range all {
		f.print(out)
	}
	return out.Flush()
}

// one returns the facts of one name, with its attributes.
func (o *statOp) one(s *session, name string) (facts, error) {
	stat, xattrs := s.edit.Lstat, s.edit.Lxattrs
	if o.follow {
		stat, xattrs = s.edit.Stat, s.edit.Xattrs
	}
	info, err := stat(name)
	if err != nil {
		return facts{}, err
	}
	f, err := s.describe(name, info)
	if err != nil {
		return f, err
	}
	attrs, err := xattrs(name)
	for _, a := range attrs {
		f.Xattrs = append(f.Xattrs, attrFacts{a.Name, encodeValue(a.Value)})
	}
	return f, err
}

// print prints the facts, a line a subject.
func (f facts) print(w *bufio.Writer) {
	fmt.Fprintf(w, "%s%s\n", printable(f.Path), f.arrow())
	fmt.Fprintf(w, "  type    %s", f.Type)
	if f.Device != "" {
		fmt.Fprintf(w, " %s", f.Device)
	}
	fmt.Fprintf(w, "\n  size    %d bytes, %d blocks of 512\n", f.Size, f.Blocks)
	fmt.Fprintf(w, "  inode   %d, %d links, flags 0x%x\n", f.Ino, f.Nlink, f.Flags)
	fmt.Fprintf(w, "  mode    %s %s, owner %d:%d\n", f.Mode, modeText(f.mode), f.UID, f.GID)
	fmt.Fprintf(w, "  atime   %s\n  mtime   %s\n  ctime   %s\n", f.Atime, f.Mtime, f.Ctime)
	if f.Crtime != "" {
		fmt.Fprintf(w, "  crtime  %s\n", f.Crtime)
	}
	for _, a := range f.Xattrs {
		fmt.Fprintf(w, "  xattr   %s=%s\n", printable(a.Name), a.Value)
	}
}

var dfVerb = verb{
	use: "df", short: "print how much space is used and free", min: 0, max: 0,
	example: "rootfs.img\n",
	new:     func() operation { return &dfOp{} },
}

type dfOp struct{ json bool }

func (o *dfOp) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.json, "json", false, "print one JSON document")
}

func (o *dfOp) changes([]string) bool { return false }

// usage is what df prints. The JSON names are a contract.
type usage struct {
	Label      string `json:"label"`
	BlockSize  int    `json:"block_size"`
	Bytes      uint64 `json:"bytes"`
	Free       uint64 `json:"free_bytes"`
	Avail      uint64 `json:"available_bytes"` // free and not reserved for root
	Inodes     uint64 `json:"inodes"`
	FreeInodes uint64 `json:"free_inodes"`
}

func (o *dfOp) run(_ context.Context, s *session, _ []string) error {
	st, err := s.fs.Statfs()
	if err != nil {
		return err
	}
	u := newUsage(s.fs, st)
	if o.json {
		return s.env.JSON(u)
	}
	return s.env.Printf("%-7s %16s %16s %16s %16s\n%-7s %16d %16d %16d %16d\n%-7s %16d %16d %16d\n",
		"", "total", "used", "free", "available", "bytes", u.Bytes, u.Bytes-u.Free, u.Free, u.Avail,
		"inodes", u.Inodes, u.Inodes-u.FreeInodes, u.FreeInodes)
}

func newUsage(fsys *ext4.FS, st ext4.Statfs) usage {
	bs := uint64(st.BlockSize)
	return usage{Label: fsys.Label(), BlockSize: st.BlockSize, Bytes: st.Blocks * bs, Free: st.Free * bs,
		Avail: st.Avail * bs, Inodes: st.Inodes, FreeInodes: st.FreeNodes}
}

var labelVerb = verb{
	use: "label [TEXT]", short: "print or set the volume label", min: 0, max: 1,
	example: "rootfs.img\nrootfs.img root\n",
	new:     func() operation { return labelOp{} },
}

type labelOp struct{}

func (labelOp) flags(*pflag.FlagSet)       {}
func (labelOp) changes(args []string) bool { return len(args) > 0 }

func (labelOp) run(_ context.Context, s *session, args []string) error {
	if len(args) > 0 {
		return s.fs.SetLabel(args[0])
	}
	return s.env.Printf("%s\n", printable(s.fs.Label()))
}

var syncVerb = verb{
	use: "sync", short: "replay the journal and make everything durable", min: 0, max: 0, alone: true,
	example: "rootfs.img\n",
	new:     func() operation { return syncOp{} },
}

type syncOp struct{}

func (syncOp) flags(*pflag.FlagSet)  {}
func (syncOp) changes([]string) bool { return true }

func (syncOp) run(_ context.Context, s *session, _ []string) error { return s.fs.Sync() }

// modeBits returns the permission bits of an octal number with setuid, setgid
// and sticky as io/fs has them.
func modeBits(octal uint32) fs.FileMode {
	mode := fs.FileMode(octal & 0o777)
	for bit, set := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if octal&bit != 0 {
			mode |= set
		}
	}
	return mode
}
