package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/spf13/pflag"

	"drydock/device"
	"drydock/ext4"
	"drydock/internal/cli"
)

// openOptions says how the image is opened.
type openOptions struct {
	at     cli.Location
	data   string
	noSync bool
	record string
	memory cli.Size
}

func (o *openOptions) flags(f *pflag.FlagSet, ownOffset bool) {
	if ownOffset {
		f.Var(&o.at.Offset, "image-offset", "byte at which the file system starts")
		f.IntVar(&o.at.Partition, "partition", 0, "number of the GPT or MBR partition that holds the file system")
	} else {
		o.at.Flags(f)
	}
	f.StringVar(&o.data, "data", "ordered", "`MODE` ordered or journal: whether file data goes through the journal too")
	f.BoolVar(&o.noSync, "no-sync", false, "do not wait for the disk: faster, and a power cut may damage the image")
	f.StringVar(&o.record, "record", "", "write all that happens to the image into the trace file `TRACE`")
	f.Var(&o.memory, "memory", "memory for file data that is not yet written (default 64M)")
	f.Lookup("memory").DefValue = ""
}

// ext4 returns the options for package ext4.
func (o openOptions) ext4(write bool) (ext4.Options, error) {
	opts := ext4.Options{ReadWrite: write, NoSync: o.noSync, Memory: int64(o.memory)}
	switch o.data {
	case "ordered":
	case "journal":
		opts.Data = ext4.DataJournal
	default:
		return opts, cli.Usagef("--data: unknown mode %q, want ordered or journal", o.data)
	}
	return opts, nil
}

// editor is what changes the namespace and attributes: a file system, where every
// call is a transaction, or a transaction that holds several calls.
type editor interface {
	Lstat(name string) (fs.FileInfo, error)
	Stat(name string) (fs.FileInfo, error)
	Readlink(name string) (string, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	Xattrs(name string) ([]ext4.Xattr, error)
	Lxattrs(name string) ([]ext4.Xattr, error)

	Mkdir(name string, perm fs.FileMode) error
	Remove(name string) error
	RemoveAll(name string) error
	Rename(from, to string) error
	Link(from, to string) error
	LinkFile(f *ext4.File, name string, replace bool) error
	Symlink(target, name string) error
	Mknod(name string, mode fs.FileMode, major, minor uint32) error
	SetAttr(name string, a ext4.Attr) error
	LsetAttr(name string, a ext4.Attr) error
	SetXattr(name, attr string, value []byte, flags ext4.XattrFlags) error
	LsetXattr(name, attr string, value []byte, flags ext4.XattrFlags) error
	RemoveXattr(name, attr string) error
	LremoveXattr(name, attr string) error
}

// session is an open image and what belongs to it.
type session struct {
	env    *cli.Env
	fs     *ext4.FS
	edit   editor // fs, or the transaction of a script that is being put together
	bar    *cli.Progress
	disk   *device.File
	record *recording
	staged *staging // of a script's transaction; nil outside
}

// onImage opens an image for one operation, runs it and closes the image.
func onImage(ctx context.Context, env *cli.Env, o openOptions, img string, op operation, args []string) error {
	if check, ok := op.(interface{ check(args []string) error }); ok {
		if err := check.check(args); err != nil {
			return err
		}
	}
	s, err := open(env, o, img, op.changes(args))
	if err != nil {
		return withOpenHint(err)
	}
	defer s.bar.Close()
	err = op.run(ctx, s, args)
	return errors.Join(err, s.close(ctx, err == nil))
}

// open opens an image.
func open(env *cli.Env, o openOptions, img string, write bool) (*session, error) {
	opts, err := o.ext4(write)
	if err != nil {
		return nil, err
	}
	if o.record != "" && !write {
		return nil, cli.Usagef("--record: nothing is written to the image here")
	}
	disk, err := device.Open(img, device.Options{ReadOnly: !write})
	if err != nil {
		return nil, err
	}
	s := &session{env: env, disk: disk}
	if err := s.openFS(o, opts); err != nil {
		return nil, errors.Join(err, s.record.close(), disk.Close())
	}
	s.edit = s.fs
	s.bar = env.Progress("copying")
	return s, nil
}

// openFS opens the file system on the session's disk.
func (s *session) openFS(o openOptions, opts ext4.Options) error {
	dev, err := o.at.Window(s.disk)
	if err != nil {
		return err
	}
	if o.record != "" {
		if s.record, err = newRecording(o.record, dev); err != nil {
			return err
		}
		dev = s.record.dev
	}
	if s.fs, err = ext4.Open(dev, opts); err != nil {
		return fmt.Errorf("%s: %w", s.disk.Path(), err)
	}
	return nil
}

// close closes everything. After it, all that was done is durable.
func (s *session) close(ctx context.Context, done bool) error {
	err := s.fs.Close()
	if err == nil && done {
		s.record.mark(promise{Sync: "close"})
	}
	if ctx.Err() != nil && err == nil {
		s.env.Notef("%s: interrupted; the image is consistent", s.disk.Path())
	}
	return errors.Join(err, s.record.close(), s.disk.Close())
}

// withOpenHint adds to an error of opening what helps.
func withOpenHint(err error) error {
	switch {
	case errors.Is(err, device.ErrMounted):
		return cli.WithHint(err, "unmount it first, or change it through the mount")
	case errors.Is(err, ext4.ErrNeedsRecovery):
		return cli.WithHint(err, "fsck or e2fsck says more and repairs it")
	case errors.Is(err, fs.ErrPermission):
		return cli.WithHint(err, "the image has to be readable, and for changes writable")
	}
	return err
}

// join puts a name below a directory of the image.
func join(dir, name string) string { return path.Join("/", dir, name) }

// isDir tells whether name leads to a directory; symbolic links are followed.
func (s *session) isDir(name string) bool {
	info, err := s.edit.Stat(name)
	return err == nil && info.IsDir()
}

// exists tells whether there is something under name.
func (s *session) exists(name string) (bool, error) {
	_, err := s.edit.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// recording is a trace file in the making. A nil one does nothing.
type recording struct {
	dev  *device.Recorder
	file *os.File
}

// newRecording starts to record what happens to dev.
func newRecording(name string, dev device.Device) (*recording, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return &recording{device.NewRecorderTo(dev, file), file}, nil
}

// mark notes in the trace what was promised at this point.
func (r *recording) mark(p promise) {
	if r != nil {
		r.dev.Mark(p.String())
	}
}

// close ends the trace.
func (r *recording) close() error {
	if r == nil {
		return nil
	}
	err := errors.Join(r.dev.CloseTrace(), r.file.Close())
	if err != nil {
		return fmt.Errorf("trace %s: %w", r.file.Name(), err)
	}
	return nil
}
