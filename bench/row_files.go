//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"drydock/device"
	"drydock/ext4"
)

const createFiles = 100_000

var createRow = row{
	name: "create100k", title: "100,000 new files of 100 bytes in 100 directories, and a sync",
	goals: "at least 5 times Linux on a loop device",
	prepare: func(b *runner) (race, error) {
		const size = 2 << 30
		return race{
			what: "files are created, written and closed one after the other; then all is synced",
			contest: []contestant{
				b.drydock("drydock", size, ext4.Options{}, createImage),
				b.linux(size, createLinux),
			},
		}, nil
	},
}

func createImage(img *image) ([]figure, error) {
	return create(func(dir string) error { return img.fs.Mkdir(dir, 0o755) },
		func(name string, data []byte) error { return img.fs.WriteFile(name, data, 0o644) }, img.fs.Sync)
}

func createLinux(m *mounted) ([]figure, error) {
	return create(func(dir string) error { return os.Mkdir(filepath.Join(m.dir, dir), 0o755) },
		func(name string, data []byte) error { return os.WriteFile(filepath.Join(m.dir, name), data, 0o644) },
		func() error {
			f, err := os.Open(m.dir)
			if err != nil {
				return err
			}
			defer f.Close()
			return unix.Syncfs(int(f.Fd()))
		})
}

// create makes all files and syncs them.
func create(mkdir func(string) error, write func(string, []byte) error, sync func() error) ([]figure, error) {
	data := make([]byte, 100)
	for d := range 100 {
		if err := mkdir(fmt.Sprintf("/d%d", d)); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	for i := range createFiles {
		if err := write(fmt.Sprintf("/d%d/file%06d", i/1000, i), data); err != nil {
			return nil, err
		}
	}
	made := time.Since(start)
	if err := sync(); err != nil {
		return nil, err
	}
	return []figure{
		rate("files", createFiles/time.Since(start).Seconds(), "/s"),
		cost("without the sync", made.Seconds(), "s"),
	}, nil
}

var millionRow = row{
	name: "open1M", title: "Opening a file system of 10 GB with 1,000,000 files",
	goals: "open in under 50 ms; memory within its budget",
	prepare: func(b *runner) (race, error) {
		path := b.path("million.img")
		done := func() error { return os.Remove(path) }
		if err := b.makeMillion(path); err != nil {
			return race{done: done}, err
		}
		return race{
			what: "the time to open it for writing, and then to stat 10,000 of the files",
			done: done,
			contest: []contestant{
				{name: "drydock", run: func(context.Context) ([]figure, error) { return openMillion(path) }},
				{name: "Linux mount on a loop device", skip: linuxSkip(), run: func(context.Context) ([]figure, error) { return b.mountMillion(path) }},
			},
		}, nil
	},
}

// makeMillion makes the file system.
func (b *runner) makeMillion(path string) error {
	file, err := device.Create(path, 10<<30)
	if err != nil {
		return err
	}
	if err := ext4.Format(file, ext4.FormatOptions{Clean: true, Inodes: 1_200_000}); err != nil {
		return errors.Join(err, file.Close())
	}
	img, err := openImage(file, ext4.Options{NoSync: true})
	if err != nil {
		return err
	}
	for d := range 1000 {
		if err := img.fs.Mkdir(fmt.Sprintf("/d%d", d), 0o755); err != nil {
			return errors.Join(err, img.close())
		}
		for i := range 1000 {
			if err := img.fs.WriteFile(millionName(d*1000+i), nil, 0o644); err != nil {
				return errors.Join(err, img.close())
			}
		}
	}
	return img.close()
}

func millionName(i int) string { return fmt.Sprintf("/d%d/f%d", i/1000, i) }

func openMillion(path string) ([]figure, error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	file, err := device.Open(path, device.Options{})
	if err != nil {
		return nil, err
	}
	img, err := openImage(file, ext4.Options{})
	if err != nil {
		return nil, err
	}
	opened := time.Since(start)
	stat, err := statMillion(func(name string) error {
		_, err := img.fs.Stat(name)
		return err
	})
	runtime.GC()
	runtime.ReadMemStats(&after)
	return []figure{
		cost("open", opened.Seconds()*1e3, "ms"),
		cost("10,000 stats", stat.Seconds()*1e3, "ms"),
		cost("memory kept", float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/1e6, "MB"),
	}, errors.Join(err, img.close())
}

// statMillion looks at 10,000 files.
func statMillion(stat func(string) error) (time.Duration, error) {
	start := time.Now()
	for i := range 10_000 {
		if err := stat(millionName(i * 7919 % 1_000_000)); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

func (b *runner) mountMillion(path string) ([]figure, error) {
	dir := b.path("million")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	defer os.Remove(dir)
	start := time.Now()
	if out, err := exec.CommandContext(b.ctx, "mount", "-o", "loop", path, dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mount: %w: %s", err, firstLine(string(out)))
	}
	opened := time.Since(start)
	stat, err := statMillion(func(name string) error {
		_, err := os.Stat(filepath.Join(dir, name))
		return err
	})
	out, errUmount := exec.Command("umount", dir).CombinedOutput()
	if errUmount != nil {
		err = errors.Join(err, fmt.Errorf("umount: %w: %s", errUmount, firstLine(string(out))))
	}
	return []figure{cost("open", opened.Seconds()*1e3, "ms"), cost("10,000 stats", stat.Seconds()*1e3, "ms")}, err
}
