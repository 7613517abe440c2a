package main

import "fmt"

var emptyRow = row{
	name: "empty20g", title: "An empty image of 20 GiB",
	goals: "at most 25 ms and 6 MiB of disk",
	prepare: func(b *runner) (race, error) {
		return race{what: "nothing", programs: []program{
			{name: "mkimg", args: []string{b.mkimg, b.image(), "--size", "20G"}, out: b.image(), ours: true},
			{name: "mke2fs", args: []string{find("mke2fs"), "-q", "-F", "-t", "ext4", b.image(), "20G"}, out: b.image(), skip: missing("mke2fs")},
		}}, nil
	},
}

var fileSizeRow = row{
	name: "filesize", title: "One file, small and large: memory",
	goals: "memory does not grow with the size of files",
	prepare: func(b *runner) (race, error) {
		r := race{what: "one file of 16 MiB or 2 GiB"}
		for _, mib := range []int{16, 2048} {
			t, err := b.makeTree(fmt.Sprintf("file%d", mib), func(dir string) error { return writeLarge(dir, 1, mib) })
			if err != nil {
				return r, err
			}
			r.programs = append(r.programs, b.mkimgOf(t, fmt.Sprintf("mkimg, %d MiB", mib)))
			r.programs = append(r.programs, b.mke2fsOf(t, fmt.Sprintf("mke2fs -d, %d MiB", mib)))
		}
		return r, nil
	},
}
