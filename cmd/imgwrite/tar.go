package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/spf13/pflag"

	"drydock/device"
	"drydock/ext4"
	"drydock/format"
	"drydock/internal/cli"
)

// xattrRecord is in front of an attribute's name in a PAX record.
const xattrRecord = "SCHILY.xattr."

var tarInVerb = verb{
	use: "tar-in TAR|- [DST]", short: "unpack a tar (plain, gzip or zstd) below a directory", min: 1, max: 2,
	example: "rootfs.img rootfs.tar.zst\nrootfs.img - /opt < app.tar\n",
	new:     func() operation { return &tarInOp{} },
}

type tarInOp struct{ owner string }

func (o *tarInOp) flags(f *pflag.FlagSet) {
	f.StringVar(&o.owner, "owner", "", "numeric `U:G` that owns what is unpacked (default: as in the tar)")
}

func (o *tarInOp) changes([]string) bool { return true }

func (o *tarInOp) check([]string) error {
	return checkOwner(o.owner)
}

func (o *tarInOp) run(ctx context.Context, s *session, args []string) error {
	dst := "/"
	if len(args) > 1 {
		dst = args[1]
	}
	if !s.isDir(dst) {
		if err := mkdirAll(s.edit, dst, 0o755); err != nil {
			return err
		}
	}
	in, err := openTar(ctx, s, args[0])
	if err != nil {
		return err
	}
	defer in.Close()
	u := unpack{ctx: ctx, s: s, dst: dst, tar: tar.NewReader(in)}
	if o.owner != "" {
		if u.owner, err = parseOwner(o.owner); err != nil {
			return err
		}
	}
	if err := u.all(); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return nil
}

// openTar opens an archive and unpacks its compression.
func openTar(ctx context.Context, s *session, name string) (io.ReadCloser, error) {
	var in io.ReadCloser = io.NopCloser(cli.Input(ctx, s.env.Stdin, s.bar))
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		in = f
	}
	buffered := bufio.NewReaderSize(in, 1<<16)
	magic, _ := buffered.Peek(4)
	var plain io.Reader = buffered
	var err error
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		plain, err = gzip.NewReader(buffered)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		plain, err = zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<27))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), in.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{plain, in}, nil
}

// unpack is an archive on its way into an image.
type unpack struct {
	ctx   context.Context
	s     *session
	dst   string
	tar   *tar.Reader
	owner ext4.Attr
	dirs  []dirTime // directories get their times at the end
	buf   []byte
}

type dirTime struct {
	name  string
	mtime format.Time
}

// all unpacks every member.
func (u *unpack) all() error {
	for {
		h, err := u.tar.Next()
		if err == io.EOF {
			return u.setDirTimes()
		}
		if err = errors.Join(err, u.ctx.Err()); err != nil {
			return err
		}
		if err := u.member(h); err != nil {
			return fmt.Errorf("member %q: %w", h.Name, err)
		}
		u.s.bar.Done(0, 1)
	}
}

// target is the place of a member's name in the image.
func (u *unpack) target(name string) (string, error) {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errors.New("the name leads upwards")
		}
	}
	return join(u.dst, name), nil
}

// member unpacks one member.
func (u *unpack) member(h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	to, err := u.target(h.Name)
	if err != nil {
		return err
	}
	if !u.s.isDir(path.Dir(to)) {
		if err := mkdirAll(u.s.edit, path.Dir(to), 0o755); err != nil {
			return err
		}
	}
	attr, xattrs := u.attributes(h)
	switch h.Typeflag {
	case tar.TypeReg, 0, tar.TypeGNUSparse: // old archives have 0
		return u.file(h, to, attr, xattrs)
	case tar.TypeDir:
		return u.dir(to, attr, xattrs)
	case tar.TypeLink:
		first, err := u.target(h.Linkname)
		if err != nil {
			return err
		}
		return u.s.together(func(e editor) error { return relink(e, first, to) })
	case tar.TypeSymlink, tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return u.special(h, to, attr, xattrs)
	}
	return fmt.Errorf("members of type %q are not known", h.Typeflag)
}

// attributes returns what a member's header says beyond name and data.
func (u *unpack) attributes(h *tar.Header) (ext4.Attr, []ext4.Xattr) {
	mode := h.FileInfo().Mode()
	uid, gid := uint32(h.Uid), uint32(h.Gid)
	mtime := format.TimeOf(h.ModTime).Clamp()
	attr := ext4.Attr{Mode: &mode, UID: first(u.owner.UID, &uid), GID: first(u.owner.GID, &gid), Atime: &mtime, Mtime: &mtime}
	if h.Typeflag == tar.TypeSymlink {
		attr.Mode = nil
	}
	var xattrs []ext4.Xattr
	for key, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(key, xattrRecord); ok {
			xattrs = append(xattrs, ext4.Xattr{Name: name, Value: []byte(value)})
		}
	}
	slices.SortFunc(xattrs, func(a, b ext4.Xattr) int { return cmp.Compare(a.Name, b.Name) })
	return attr, xattrs
}

// dir makes a directory, or gives one that exists its attributes.
func (u *unpack) dir(to string, attr ext4.Attr, xattrs []ext4.Xattr) error {
	u.dirs = append(u.dirs, dirTime{to, *attr.Mtime})
	return u.s.together(func(e editor) error {
		info, err := e.Lstat(to)
		switch {
		case err == nil && info.IsDir():
		case err == nil:
			if err := e.Remove(to); err != nil {
				return err
			}
			fallthrough
		case errors.Is(err, fs.ErrNotExist):
			if err := e.Mkdir(to, 0o700); err != nil {
				return err
			}
		default:
			return err
		}
		return dress(e, to, attr, xattrs)
	})
}

// setDirTimes sets the times of directories, which unpacking below them changed.
func (u *unpack) setDirTimes() error {
	for _, d := range u.dirs {
		err := u.s.edit.LsetAttr(d.name, ext4.Attr{Atime: &d.mtime, Mtime: &d.mtime})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a later member may have replaced it
			return err
		}
	}
	return nil
}

// special makes a symbolic link, device or fifo.
func (u *unpack) special(h *tar.Header, to string, attr ext4.Attr, xattrs []ext4.Xattr) error {
	return u.s.together(func(e editor) error {
		if err := removeOld(e, to); err != nil {
			return err
		}
		var err error
		if h.Typeflag == tar.TypeSymlink {
			err = e.Symlink(h.Linkname, to)
		} else {
			err = e.Mknod(to, h.FileInfo().Mode(), uint32(h.Devmajor), uint32(h.Devminor))
		}
		if err != nil {
			return err
		}
		return dress(e, to, attr, xattrs)
	})
}

// file unpacks a regular file.
func (u *unpack) file(h *tar.Header, to string, attr ext4.Attr, xattrs []ext4.Xattr) error {
	f, err := u.s.nameless(to, func(f *ext4.File) error { return u.fill(f, h) })
	if err != nil {
		return err
	}
	defer f.Close()
	return u.s.together(func(e editor) error {
		if err := e.LinkFile(f, to, true); err != nil {
			return err
		}
		return dress(e, to, attr, xattrs)
	})
}

// sparse tells whether the archive noted holes.
func sparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// fill copies a member's data; of a sparse one, zeros become holes.
func (u *unpack) fill(f *ext4.File, h *tar.Header) error {
	if u.buf == nil {
		u.buf = make([]byte, copyBuffer)
	}
	f.SetSizeHint(h.Size)
	dig := sparse(h)
	for off := int64(0); ; {
		n, err := io.ReadFull(u.tar, u.buf[:min(copyBuffer, max(h.Size-off, 1))])
		if n > 0 && (!dig || !device.IsZero(u.buf[:n])) {
			if err := u.write(f, u.buf[:n], off, dig); err != nil {
				return err
			}
		}
		off += int64(n)
		u.s.bar.Done(int64(n), 0)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return errors.Join(u.ctx.Err(), f.Truncate(off))
		}
		if err = errors.Join(err, u.ctx.Err()); err != nil {
			return err
		}
	}
}

// write writes one piece, without its blocks of zeros if dig is set.
func (u *unpack) write(f *ext4.File, p []byte, off int64, dig bool) error {
	if !dig {
		return writeBulk(f, p, off)
	}
	const step = 4096
	for at := 0; at < len(p); at += step {
		piece := p[at:min(at+step, len(p))]
		if device.IsZero(piece) {
			continue
		}
		if _, err := f.WriteAt(piece, off+int64(at)); err != nil {
			return err
		}
	}
	return nil
}

var tarOutVerb = verb{
	use: "tar-out TAR|- [SRC...]", short: "pack files and trees into a tar (plain, or gzip or zstd by its name)", min: 1, max: -1,
	example: "rootfs.img rootfs.tar.zst\nrootfs.img - /etc | tar -t\n",
	new:     func() operation { return tarOutOp{} },
}

type tarOutOp struct{}

func (tarOutOp) flags(*pflag.FlagSet)  {}
func (tarOutOp) changes([]string) bool { return false }

func (tarOutOp) run(ctx context.Context, s *session, args []string) error {
	sources := args[1:]
	if len(sources) == 0 {
		sources = []string{"/"}
	}
	names, err := s.expand(sources)
	if err != nil {
		return err
	}
	if args[0] == "-" {
		return packTo(ctx, s, s.env.Stdout, names)
	}
	return writeWhole(args[0], func(w io.Writer) error { return packCompressed(ctx, s, args[0], w, names) })
}

// writeWhole writes a file of the host that appears when it is complete.
func writeWhole(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(dirOf(name), ".tar-out-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone once renamed
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// dirOf is the directory of a host path.
func dirOf(name string) string {
	if dir, _ := path.Split(name); dir != "" {
		return dir
	}
	return "."
}

// packCompressed packs with the compression that the archive's name asks for.
func packCompressed(ctx context.Context, s *session, archive string, w io.Writer, names []string) error {
	var z io.WriteCloser
	switch {
	case strings.HasSuffix(archive, ".gz"), strings.HasSuffix(archive, ".tgz"):
		z = gzip.NewWriter(w)
	case strings.HasSuffix(archive, ".zst"), strings.HasSuffix(archive, ".tzst"):
		var err error
		if z, err = zstd.NewWriter(w); err != nil {
			return err
		}
	default:
		return packTo(ctx, s, w, names)
	}
	return errors.Join(packTo(ctx, s, z, names), z.Close())
}

// packTo packs names and all below them.
func packTo(ctx context.Context, s *session, w io.Writer, names []string) error {
	buffered := bufio.NewWriterSize(w, 1<<16)
	p := pack{s: s, tar: tar.NewWriter(buffered), links: map[format.Ino]string{}}
	for _, name := range names {
		base := path.Dir(path.Clean("/" + name))
		err := s.below(ctx, path.Clean("/"+name), true, func(name string, info fs.FileInfo) error { return p.member(name, base, info) })
		if err != nil {
			return err
		}
	}
	return errors.Join(p.tar.Close(), buffered.Flush())
}

// pack is an archive in the making.
type pack struct {
	s     *session
	tar   *tar.Writer
	links map[format.Ino]string // member of the first name of a file with several
}

// member packs one file, under its path below base.
func (p *pack) member(name, base string, info fs.FileInfo) error {
	h, err := p.header(name, base, info)
	if err != nil || h == nil {
		return err
	}
	if err := p.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.s.bar.Done(h.Size, 1)
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	f, err := p.s.fs.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(p.tar, f)
	return err
}

// header describes one member; nil for what a tar cannot hold.
func (p *pack) header(name, base string, info fs.FileInfo) (*tar.Header, error) {
	st := ext4.StatOf(info)
	h := &tar.Header{Name: memberName(name, base, info.IsDir()), Mode: int64(st.Mode & 0o7777), Uid: int(st.UID), Gid: int(st.GID),
		ModTime: st.Mtime.Time(), AccessTime: st.Atime.Time(), Format: tar.FormatPAX, PAXRecords: map[string]string{}}
	switch info.Mode().Type() {
	case 0:
		h.Typeflag, h.Size = tar.TypeReg, st.Size
	case fs.ModeDir:
		h.Typeflag = tar.TypeDir
	case fs.ModeSymlink:
		target, err := p.s.edit.Readlink(name)
		if err != nil {
			return nil, err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
	case fs.ModeDevice:
		h.Typeflag, h.Devmajor, h.Devminor = tar.TypeBlock, int64(st.Major), int64(st.Minor)
	case fs.ModeDevice | fs.ModeCharDevice:
		h.Typeflag, h.Devmajor, h.Devminor = tar.TypeChar, int64(st.Major), int64(st.Minor)
	case fs.ModeNamedPipe:
		h.Typeflag = tar.TypeFifo
	default:
		p.s.env.Warnf("%s: left out: a tar holds no %s", printable(name), typeName(info.Mode()))
		return nil, nil
	}
	if firstName, ok := p.links[st.Ino]; ok && !info.IsDir() {
		h.Typeflag, h.Size, h.Linkname = tar.TypeLink, 0, firstName
		return h, nil
	}
	if st.Nlink > 1 && !info.IsDir() {
		p.links[st.Ino] = h.Name
	}
	return h, p.addXattrs(h, name)
}

// addXattrs adds the extended attributes to a header.
func (p *pack) addXattrs(h *tar.Header, name string) error {
	attrs, err := p.s.edit.Lxattrs(name)
	for _, x := range attrs {
		h.PAXRecords[xattrRecord+x.Name] = string(x.Value)
	}
	return err
}

// memberName is a path in the archive: below base, without a slash in front.
func memberName(name, base string, dir bool) string {
	name = strings.TrimPrefix(strings.TrimPrefix(name, base), "/")
	if name == "" {
		name = "."
	}
	if dir {
		name += "/"
	}
	return name
}
