package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// blockBytes is the block size that all programs are given.
const blockBytes = 4096

// treeRace is the usual race: everything that can make an image of a tree.
func (b *runner) treeRace(t *tree) (race, error) {
	floor, err := b.floor(t)
	if err != nil {
		return race{}, err
	}
	return race{what: t.what(), programs: []program{
		b.mkimgOf(t, "mkimg"),
		b.mke2fsOf(t, "mke2fs -d"),
		b.mkimgOf(t, "mkimg --sync", "--sync"),
		b.withoutSync(b.mke2fsOf(t, "mke2fs -d, its fsync left out")),
		b.genext2fs(t),
		b.tar2ext4(t),
		{name: "go-diskfs", skip: "a library without a command"},
		floor,
	}}, nil
}

// image is where programs write to, in the working folder.
func (b *runner) image() string { return b.path("out.img") }

// mkimgOf is mkimg with a tree, at its defaults: the smallest size.
func (b *runner) mkimgOf(t *tree, name string, flags ...string) program {
	args := append([]string{b.mkimg, b.image(), "--from", t.dir}, flags...)
	return program{name: name, args: args, out: b.image(), ours: true}
}

// mke2fsOf is mke2fs at its defaults, with as many inodes and as much space as
// are needed and more. On an image file it leaves the inode tables unwritten, as
// holes, and so does mkimg.
func (b *runner) mke2fsOf(t *tree, name string) program {
	return program{
		name: name, out: b.image(), skip: missing("mke2fs"),
		args: []string{find("mke2fs"), "-q", "-F", "-t", "ext4", "-b", strconv.Itoa(blockBytes), "-d", t.dir,
			"-N", strconv.Itoa(t.inodes() + 1000), b.image(), strconv.FormatInt(t.room(), 10) + "M"},
	}
}

// genext2fs is genext2fs, which makes ext2: no extents, journal or checksums.
func (b *runner) genext2fs(t *tree) program {
	return program{
		name: "genext2fs", out: b.image(), optional: true, skip: missing("genext2fs"),
		args: []string{find("genext2fs"), "-B", strconv.Itoa(blockBytes), "-b", strconv.FormatInt(t.room()<<20/blockBytes, 10),
			"-N", strconv.Itoa(t.inodes() + 1000), "-d", t.dir, b.image()},
	}
}

// tar2ext4 is hcsshim's tar2ext4, with a tar made beforehand.
func (b *runner) tar2ext4(t *tree) program {
	p := program{name: "tar2ext4", out: b.image(), optional: true, skip: missing("tar2ext4")}
	if p.skip != "" {
		return p
	}
	tar := b.path("tree.tar")
	if err := exec.CommandContext(b.ctx, "tar", "-C", t.dir, "-cf", tar, ".").Run(); err != nil {
		p.skip = "tar: " + err.Error()
	}
	p.args = []string{find("tar2ext4"), "-i", tar, "-o", b.image()}
	return p
}

// floor is this program as the floor.
func (b *runner) floor(t *tree) (program, error) {
	self, err := os.Executable()
	if err != nil {
		return program{}, err
	}
	list := b.path("floor.list")
	return program{
		name: "floor", args: []string{self, floorCommand, list, b.image()},
		out: b.image(), itself: true, ours: true,
	}, writeFloorList(t, list)
}

// noSync is a library that takes the place of the C library's syncing.
const noSync = `int fsync(int fd) { (void)fd; return 0; }
int fdatasync(int fd) { (void)fd; return 0; }
`

// withoutSync is a program whose fsync does nothing. mke2fs ends with an fsync,
// mkimg without --sync does not.
func (b *runner) withoutSync(p program) program {
	library := filepath.Join(b.bin, "nosync.so")
	source := filepath.Join(b.bin, "nosync.c")
	err := os.WriteFile(source, []byte(noSync), 0o644)
	if err == nil {
		err = exec.CommandContext(b.ctx, "cc", "-shared", "-fPIC", "-o", library, source).Run()
	}
	if err != nil && p.skip == "" {
		p.skip = "needs a C compiler: " + err.Error()
	}
	p.env = append(p.env, "LD_PRELOAD="+library)
	return p
}

// find returns the path of a program, also from where users' PATH does not
// lead; "" if it is not installed.
func find(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// missing says that a program is not installed, "" if it is.
func missing(name string) string {
	if find(name) == "" {
		return "not installed"
	}
	return ""
}

// errRoot says why a row cannot run.
var errRoot = errors.New("needs root, for loop mounts")
