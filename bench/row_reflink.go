package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

var (
	xfsRow   = reflinkRow("xfs")
	btrfsRow = reflinkRow("btrfs")
)

// reflinkRow measures on a host file system that can share blocks.
func reflinkRow(kind string) row {
	return row{
		name: "reflink-" + kind, title: "1 GiB of data on " + kind + ", which shares blocks",
		goals: "data is shared; under 0.3 s",
		prepare: func(b *runner) (race, error) {
			return b.reflinkRace(kind)
		},
	}
}

func (b *runner) reflinkRace(kind string) (r race, err error) {
	if os.Geteuid() != 0 {
		r.skip = errRoot.Error()
		return r, nil
	}
	if missing("mkfs."+kind) != "" {
		r.skip = "mkfs." + kind + " is not installed"
		return r, nil
	}
	dir, done, err := b.mountNew(kind)
	r.done = done
	if err != nil {
		return r, err
	}
	source := filepath.Join(dir, "tree")
	if err := os.Mkdir(source, 0o755); err != nil {
		return r, err
	}
	if err := writeLarge(source, 16, 64); err != nil {
		return r, err
	}
	t, err := b.warmTree(source)
	if err != nil {
		return r, err
	}
	r.what = t.what()
	copied := filepath.Join(dir, "copy")
	r.programs = []program{
		b.mkimgOf(t, "mkimg"), b.mke2fsOf(t, "mke2fs -d"),
		{name: "cp -r --reflink=always", args: []string{"cp", "-r", "--reflink=always", source, copied}, out: copied},
	}
	return r, b.onDisk(dir, r.programs)
}

// onDisk lets programs write to a file system of their own, and asks that for
// the space that is taken.
func (b *runner) onDisk(dir string, programs []program) error {
	free, err := freeBytes(dir)
	for i := range programs {
		p := &programs[i]
		for j, arg := range p.args {
			if arg == b.image() {
				p.args[j] = filepath.Join(dir, "out.img")
			}
		}
		if p.out == b.image() {
			p.out = filepath.Join(dir, "out.img")
		}
		p.disk = func() (int64, error) {
			left, err := freeBytes(dir)
			return max(0, free-left), err
		}
	}
	return err
}

// diskMiB is the size of the file system of a reflink row.
const diskMiB = 4096

// mountNew makes and mounts a file system. The function that it returns undoes
// that, also after an error.
func (b *runner) mountNew(kind string) (dir string, done func() error, err error) {
	image, dir := b.path(kind+".disk"), b.path(kind)
	done = func() error {
		_ = exec.Command("umount", dir).Run() // it may not be mounted
		return errors.Join(os.Remove(dir), os.Remove(image))
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return "", done, err
	}
	if err := os.Truncate(image, diskMiB<<20); err != nil {
		return "", done, err
	}
	for _, args := range [][]string{{find("mkfs." + kind), "-q", image}, {"mount", "-o", "loop", "-t", kind, image, dir}} {
		if out, err := exec.CommandContext(b.ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", done, fmt.Errorf("%s: %w: %s", args[0], err, firstLine(string(out)))
		}
	}
	return dir, done, nil
}
