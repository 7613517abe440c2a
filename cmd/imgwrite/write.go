package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/pflag"

	"drydock/ext4"
	"drydock/internal/cli"
)

var writeVerb = verb{
	use: "write PATH", short: "write standard input into a file, in place", min: 1, max: 1, ownOffset: true,
	example: "rootfs.img /etc/motd < motd\nrootfs.img --offset 446 /boot/mbr.bin < table\nrootfs.img --append /var/log/messages < lines\n",
	new:     func() operation { return &writeOp{} },
}

type writeOp struct {
	offset           cli.Size
	appendTo, cut    bool
	offsetGiven      func() bool
	noCreate, direct bool
}

func (o *writeOp) flags(f *pflag.FlagSet) {
	f.Var(&o.offset, "offset", "byte of the file to start at; without it the file is replaced from its start and cut behind what is written")
	f.BoolVarP(&o.appendTo, "append", "a", false, "at the end of the file")
	f.BoolVarP(&o.cut, "truncate", "t", false, "with --offset: cut the file behind what is written")
	f.BoolVarP(&o.noCreate, "no-create", "c", false, "the file has to exist")
	f.BoolVar(&o.direct, "direct", false, "past the cache")
	o.offsetGiven = func() bool { return f.Changed("offset") }
}

func (o *writeOp) changes([]string) bool { return true }

func (o *writeOp) check([]string) error {
	if o.appendTo && o.offsetGiven() {
		return cli.Usagef("write: --append and --offset exclude each other")
	}
	return nil
}

func (o *writeOp) run(ctx context.Context, s *session, args []string) error {
	flag := os.O_WRONLY
	if !o.noCreate {
		flag |= os.O_CREATE
	}
	f, err := s.fs.OpenFile(args[0], flag, 0o644)
	if err != nil {
		return err
	}
	err = o.write(ctx, s, f)
	return errors.Join(err, f.Close())
}

// write copies the input to its place in f.
func (o *writeOp) write(ctx context.Context, s *session, f *ext4.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	off := int64(o.offset)
	if o.appendTo {
		off = info.Size()
	}
	in := cli.Input(ctx, s.env.Stdin, s.bar)
	buf := make([]byte, copyBuffer)
	for {
		n, err := io.ReadFull(in, buf)
		if n > 0 {
			if err := o.put(f, buf[:n], off); err != nil {
				return err
			}
			off += int64(n)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if o.cut || (!o.appendTo && !o.offsetGiven()) {
		return f.Truncate(off)
	}
	return nil
}

// put writes one piece.
func (o *writeOp) put(f *ext4.File, p []byte, off int64) error {
	if o.direct {
		_, err := f.WriteDirect(p, off)
		return err
	}
	_, err := f.WriteAt(p, off)
	return err
}

var fallocateVerb = verb{
	use: "fallocate PATH", short: "give a range of a file blocks that read as zeros", min: 1, max: 1,
	example: "rootfs.img -l 512M /swapfile\nrootfs.img -z -o 4K -l 8K /var/db\n", ownOffset: true,
	new: func() operation { return &fallocateOp{} },
}

type fallocateOp struct {
	offset, length cli.Size
	keepSize, zero bool
}

func (o *fallocateOp) flags(f *pflag.FlagSet) {
	f.VarP(&o.offset, "offset", "o", "first byte of the range")
	f.VarP(&o.length, "length", "l", "bytes in the range")
	f.BoolVarP(&o.keepSize, "keep-size", "n", false, "the file's size stays, even where the range reaches beyond it")
	f.BoolVarP(&o.zero, "zero-range", "z", false, "what the range holds becomes zeros")
}

func (o *fallocateOp) changes([]string) bool { return true }

func (o *fallocateOp) check([]string) error { return checkRange("fallocate", o.offset, o.length) }

// checkRange wants a range that is one.
func checkRange(verb string, off, n cli.Size) error {
	if n <= 0 || off < 0 {
		return cli.Usagef("%s: --length is missing, or the range is empty", verb)
	}
	return nil
}

func (o *fallocateOp) run(_ context.Context, s *session, args []string) error {
	return s.onFile(args[0], os.O_RDWR|os.O_CREATE, func(f *ext4.File) error {
		if o.zero {
			return f.ZeroRange(int64(o.offset), int64(o.length), o.keepSize)
		}
		return f.Allocate(int64(o.offset), int64(o.length), o.keepSize)
	})
}

// onFile opens a file for do.
func (s *session) onFile(name string, flag int, do func(*ext4.File) error) error {
	f, err := s.fs.OpenFile(name, flag, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

var punchVerb = verb{
	use: "punch PATH", short: "make a range of a file a hole", min: 1, max: 1, ownOffset: true,
	example: "rootfs.img -o 1M -l 64K /var/db\n",
	new:     func() operation { return &punchOp{} },
}

type punchOp struct{ offset, length cli.Size }

func (o *punchOp) flags(f *pflag.FlagSet) {
	f.VarP(&o.offset, "offset", "o", "first byte of the range")
	f.VarP(&o.length, "length", "l", "bytes in the range")
}

func (o *punchOp) changes([]string) bool { return true }

func (o *punchOp) check([]string) error { return checkRange("punch", o.offset, o.length) }

func (o *punchOp) run(_ context.Context, s *session, args []string) error {
	return s.onFile(args[0], os.O_RDWR, func(f *ext4.File) error { return f.PunchHole(int64(o.offset), int64(o.length)) })
}
