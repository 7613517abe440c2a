package main

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"

	"drydock/device"
	"drydock/ext4"
	"drydock/internal/cli"
)

// TestMain makes mkimg and small helpers programs that scripts can run.
func TestMain(m *testing.M) {
	os.Setenv("PATH", os.Getenv("PATH")+string(os.PathListSeparator)+"/usr/sbin"+string(os.PathListSeparator)+"/sbin")
	testscript.Main(m, map[string]func(){
		"mkimg":   main,
		"lsimage": program(lsimage),
		"mktar":   program(mktar),
		"cut":     program(cutFile),
		"fill":    program(fill),
		"sum":     program(sum),
	})
}

// program makes a function a program.
func program(run func(args []string) error) func() {
	return func() {
		if err := run(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// lsimage IMG [OFFSET]: a line a file of the image: mode, owner, size or
// device number, time, links, path and target, xattrs.
func lsimage(args []string) error {
	dev, err := device.Open(args[0], device.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer dev.Close()
	var location cli.Location
	if len(args) > 1 {
		if err := location.Offset.Set(args[1]); err != nil {
			return err
		}
	}
	window, err := location.Window(dev)
	if err != nil {
		return err
	}
	fsys, err := ext4.Open(window, ext4.Options{})
	if err != nil {
		return err
	}
	defer fsys.Close()
	return fsys.Walk(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		line, err := describe(fsys, path, d)
		fmt.Println(line)
		return err
	})
}

// describe is the line of one file.
func describe(fsys *ext4.FS, path string, d fs.DirEntry) (string, error) {
	info, err := d.Info()
	if err != nil {
		return "", err
	}
	st := ext4.StatOf(info)
	size := strconv.FormatInt(st.Size, 10)
	if info.Mode()&fs.ModeDevice != 0 {
		size = fmt.Sprintf("%d,%d", st.Major, st.Minor)
	}
	line := fmt.Sprintf("%v %d:%d %s %s %d %s", info.Mode(), st.UID, st.GID, size, info.ModTime().UTC().Format("2006-01-02T15:04:05.999999999"), st.Nlink, path)
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := fs.ReadLink(fsys.FS(), path)
		if err != nil {
			return line, err
		}
		line += " -> " + target
	}
	attrs, err := fsys.Lxattrs(path)
	for _, x := range attrs {
		line += fmt.Sprintf(" %s=%q", x.Name, x.Value)
	}
	return line, err
}

// mktar OUT SPEC: a tar, compressed as OUT's name says, of the lines in SPEC:
// "dir PATH", "file PATH TEXT", "symlink PATH TARGET", "link PATH TARGET";
// "uid:gid" or "xattr:NAME=VALUE" may follow. @N is a text, a target or a value of N bytes.
func mktar(args []string) (err error) {
	spec, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	compressed, err := compressor(args[0], f)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	for line := range strings.Lines(string(spec)) {
		if err := addEntry(archive, strings.Fields(line)); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

// compressor returns the writer that the name's ending asks for.
func compressor(name string, w io.WriteCloser) (io.WriteCloser, error) {
	switch filepath.Ext(name) {
	case ".gz":
		return gzip.NewWriter(w), nil
	case ".zst":
		return zstd.NewWriter(w)
	}
	return w, nil
}

// addEntry adds the entry that the words of a line describe.
func addEntry(archive *tar.Writer, words []string) error {
	if len(words) < 2 {
		return nil
	}
	kinds := map[string]byte{"dir": tar.TypeDir, "file": tar.TypeReg, "symlink": tar.TypeSymlink, "link": tar.TypeLink}
	h := &tar.Header{Typeflag: kinds[words[0]], Name: stretch(words[1]), Mode: 0o644, PAXRecords: map[string]string{}, Format: tar.FormatPAX}
	text, rest := "", words[2:]
	if words[0] == "dir" {
		h.Mode = 0o755
	} else {
		text, rest = stretch(rest[0]), rest[1:]
	}
	for _, word := range rest {
		if attr, ok := strings.CutPrefix(word, "xattr:"); ok {
			name, value, _ := strings.Cut(attr, "=")
			h.PAXRecords["SCHILY.xattr."+name] = stretch(value)
			continue
		}
		if _, err := fmt.Sscanf(word, "%d:%d", &h.Uid, &h.Gid); err != nil {
			return err
		}
	}
	if h.Typeflag != tar.TypeReg {
		h.Linkname = text
		return archive.WriteHeader(h)
	}
	h.Size = int64(len(text))
	if err := archive.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.WriteString(archive, text)
	return err
}

// stretch returns text, or N bytes for @N.
func stretch(text string) string {
	digits, ok := strings.CutPrefix(text, "@")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil {
		return text
	}
	return strings.Repeat("x", n)
}

// cut FROM OFFSET SIZE OUT: copies a part of a file.
func cutFile(args []string) error {
	from, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer from.Close()
	offset, err := cli.ParseSize(args[1])
	if err != nil {
		return err
	}
	size, err := cli.ParseSize(args[2])
	if err != nil {
		return err
	}
	out, err := os.Create(args[3])
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.NewSectionReader(from, offset, size))
	return err
}

// fill FILE SIZE BYTE: makes a file of equal bytes.
func fill(args []string) error {
	size, err := cli.ParseSize(args[1])
	if err != nil {
		return err
	}
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for range size {
		w.WriteByte(args[2][0])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// sum FILE...: the SHA-256 of each file, a line each.
func sum(args []string) error {
	for _, name := range args {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return err
		}
		f.Close()
		fmt.Printf("%x\n", h.Sum(nil))
	}
	return nil
}
