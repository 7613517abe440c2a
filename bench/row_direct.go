//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"drydock/device"
	"drydock/ext4"
	"drydock/format"
)

// The device model: a device that does one thing at a time, with a cost for each
// write that does not go on where the last one ended.
const (
	modelSeek  = 10 * time.Millisecond
	modelSpeed = 500 << 20 // bytes a second
)

// seekDevice is memory with the times of the model.
type seekDevice struct {
	*device.Mem

	mu    sync.Mutex
	head  int64
	seeks int
	time  time.Duration
}

func (d *seekDevice) spend(off, n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	took := time.Duration(float64(n) / modelSpeed * 1e9)
	if off != d.head {
		d.seeks++
		took += modelSeek
	}
	d.head = off + n
	d.time += took
	time.Sleep(took)
}

// WriteAt implements device.Device.
func (d *seekDevice) WriteAt(p []byte, off int64) (int, error) {
	d.spend(off, int64(len(p)))
	return d.Mem.WriteAt(p, off)
}

// WritevAt implements device.VectorWriter.
func (d *seekDevice) WritevAt(bufs [][]byte, off int64) (int, error) {
	d.spend(off, totalLen(bufs))
	return device.Writev(d.Mem, bufs, off)
}

func totalLen(bufs [][]byte) (n int64) {
	for _, p := range bufs {
		n += int64(len(p))
	}
	return n
}

const (
	directWriters = 10
	directFile    = 16 << 20
	directWrite   = 2 << 20
)

var directRow = row{
	name: "direct10", title: "Ten writers of direct allocating writes",
	goals:     "one extent a file; an ascending stream; at least 3.2 times unserialised allocation",
	published: "f2fs, allocation and submission under one lock, 10 threads x 16 MiB, 2 MiB a write: 3,145 -> 10,033 KB/s (3.19 times)",
	prepare: func(*runner) (race, error) {
		return race{
			what: fmt.Sprintf("%d files of 16 MiB, 2 MiB a write, on a model of a device: %v a seek, %d MiB/s", directWriters, modelSeek, modelSpeed>>20),
			contest: []contestant{
				{name: "drydock", run: direct(ext4.Compare{})},
				{name: "drydock, allocation and submission apart", run: direct(ext4.Compare{UnserialisedAlloc: true})},
			},
		}, nil
	},
}

// direct returns the run of all writers on a new image.
func direct(compare ext4.Compare) func(context.Context) ([]figure, error) {
	return func(context.Context) ([]figure, error) {
		dev := &seekDevice{Mem: device.NewMem(512 << 20)}
		fsys, err := modelImage(dev, dev.Mem, compare)
		if err != nil {
			return nil, err
		}
		dev.time, dev.seeks = 0, 0
		start := time.Now()
		var group errgroup.Group
		for i := range directWriters {
			group.Go(func() error { return writeDirect(fsys, i) })
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		seconds, seeks := time.Since(start).Seconds(), dev.seeks
		extents, err := countExtents(fsys)
		return []figure{
			rate("written", directWriters*directFile/1e3/seconds, "KB/s"),
			cost("seeks", float64(seeks), ""),
			cost("extents a file", float64(extents)/directWriters, ""),
		}, errors.Join(err, fsys.Close())
	}
}

// modelImage formats memory and opens it through dev.
func modelImage(dev device.Device, mem *device.Mem, compare ext4.Compare) (*ext4.FS, error) {
	if err := ext4.Format(mem, ext4.FormatOptions{Clean: true, Inodes: uint64(mem.Size() >> 12)}); err != nil {
		return nil, err
	}
	return ext4.Open(dev, ext4.Options{ReadWrite: true, Compare: compare})
}

// writeDirect writes one file.
func writeDirect(fsys *ext4.FS, i int) error {
	f, err := fsys.Create(fmt.Sprintf("/f%d", i))
	if err != nil {
		return err
	}
	defer f.Close()
	f.SetSizeHint(directFile)
	data := make([]byte, directWrite)
	for off := int64(0); off < directFile; off += directWrite {
		if _, err := f.WriteDirect(data, off); err != nil {
			return err
		}
	}
	return nil
}

// countExtents counts the extents of all files, those that only the longest
// length of an extent parts as one.
func countExtents(fsys *ext4.FS) (n int, err error) {
	for i := range directWriters {
		var end format.Block
		for x, err := range fsys.Extents(fmt.Sprintf("/f%d", i)) {
			if err != nil {
				return n, err
			}
			if x.Start != end {
				n++
			}
			end = x.Start + format.Block(x.Len)
		}
	}
	return n, nil
}

const (
	overwriters    = 16
	overwriterFile = 4 << 20
	overwriterRuns = 400
)

var overwritersRow = row{
	name: "overwrite16", title: "16 random overwriters of direct writes",
	goals:     "at least 0.98 of writing without an allocation lock",
	published: "f2fs with the lock around all writeback: 17.7 -> 8.5 MB/s (0.48 times)",
	prepare: func(*runner) (race, error) {
		return race{
			what: fmt.Sprintf("%d files, %d overwrites of 4 KiB each, on a device that takes 100 us for each write and any number at once", overwriters, overwriterRuns),
			contest: []contestant{
				{name: "drydock", run: overwriteDirect(ext4.Compare{})},
				{name: "drydock, no allocation lock", run: overwriteDirect(ext4.Compare{UnserialisedAlloc: true})},
				{name: "drydock, overwrites under the lock", run: overwriteDirect(ext4.Compare{OverwriteLock: true})},
			},
		}, nil
	},
}

// waitDevice is memory on which each write takes a while.
type waitDevice struct {
	*device.Mem
	took time.Duration
}

// WriteAt implements device.Device.
func (d *waitDevice) WriteAt(p []byte, off int64) (int, error) {
	time.Sleep(d.took)
	return d.Mem.WriteAt(p, off)
}

// WritevAt implements device.VectorWriter.
func (d *waitDevice) WritevAt(bufs [][]byte, off int64) (int, error) {
	time.Sleep(d.took)
	return device.Writev(d.Mem, bufs, off)
}

// overwriteDirect returns the run of all overwriters on a new image.
func overwriteDirect(compare ext4.Compare) func(context.Context) ([]figure, error) {
	return func(context.Context) ([]figure, error) {
		dev := &waitDevice{Mem: device.NewMem(512 << 20)}
		fsys, err := modelImage(dev, dev.Mem, compare)
		if err != nil {
			return nil, err
		}
		files := make([]*ext4.File, overwriters)
		for i := range files {
			if files[i], err = fsys.Create(fmt.Sprintf("/f%d", i)); err != nil {
				return nil, err
			}
			if _, err := files[i].WriteAt(make([]byte, overwriterFile), 0); err != nil {
				return nil, err
			}
		}
		if err := fsys.Sync(); err != nil {
			return nil, err
		}
		dev.took = 100 * time.Microsecond
		start := time.Now()
		var group errgroup.Group
		for i, f := range files {
			group.Go(func() error { return overwriteAtRandom(f, uint64(i)) })
		}
		err = group.Wait()
		seconds := time.Since(start).Seconds()
		dev.took = 0
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
		return []figure{rate("writes", overwriters*overwriterRuns/seconds, "/s")}, errors.Join(err, fsys.Close())
	}
}

func overwriteAtRandom(f *ext4.File, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 2))
	data := make([]byte, 4096)
	for range overwriterRuns {
		if _, err := f.WriteDirect(data, rng.Int64N(overwriterFile/4096)*4096); err != nil {
			return err
		}
	}
	return nil
}
