package main

import (
	"os/exec"
	"path/filepath"
	"strings"
)

var goTreeRow = row{
	name: "gotree", title: "The tree of the Go toolchain",
	goals: "at most 0.25 of mke2fs -d, aim at 0.20; at most 1.3 times the floor",
	prepare: func(b *runner) (race, error) {
		out, err := exec.CommandContext(b.ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return race{}, err
		}
		t, err := b.warmTree(strings.TrimSpace(string(out)))
		if err != nil {
			return race{}, err
		}
		return b.treeRace(t)
	},
}

var smallFilesRow = row{
	name: "small300k", title: "300,000 files of 1 to 2,000 bytes in 3,000 directories",
	goals: "at most 0.14 of mke2fs -d; at most 1.3 times the floor; at most 100 MB of memory",
	prepare: func(b *runner) (race, error) {
		t, err := b.makeTree("small300k", func(dir string) error { return writeSmallFiles(dir, 300_000, 100, 2000) })
		if err != nil {
			return race{}, err
		}
		return b.treeRace(t)
	},
}

var flatRow = row{
	name: "flat20k", title: "20,000 files of 100 bytes in one directory",
	goals: "at most 0.02 of mke2fs -d; at most 1.3 times the floor",
	prepare: func(b *runner) (race, error) {
		t, err := b.makeTree("flat20k", func(dir string) error { return writeFlat(dir, 20_000, 100) })
		if err != nil {
			return race{}, err
		}
		return b.treeRace(t)
	},
}

var minbaseRow = row{
	name: "minbase", title: "Debian, as debootstrap --variant=minbase makes it",
	prepare: func(b *runner) (race, error) {
		if b.o.minbase == "" {
			return race{skip: "needs -minbase DIR"}, nil
		}
		dir, err := filepath.Abs(b.o.minbase)
		if err != nil {
			return race{}, err
		}
		t, err := b.warmTree(dir)
		if err != nil {
			return race{}, err
		}
		return b.treeRace(t)
	},
}
