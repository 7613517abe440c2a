//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"drydock/ext4"
)

const (
	copyJobs = 4               // copies at once
	copyTime = 1 * time.Second // of each
)

var (
	copy256Row  = copyRow(256, 500, "105,077 -> 184,940 KB/s (1.76 times)")
	copy1024Row = copyRow(1024, 2000, "422,965 -> 732,716 KB/s (1.73 times)")
	copy4096Row = copyRow(4096, 8000, "1,429,092 -> 2,427,152 KB/s (1.70 times)")
)

// copyRow repeats the file copies of UnixBench.
func copyRow(buffer, blocks int, published string) row {
	return row{
		name: fmt.Sprintf("copy%d", buffer), title: fmt.Sprintf("Copies from file to file through a buffer of %d bytes", buffer),
		goals:     "at least 1.7 times a transaction a write; at least 3 times Linux on a loop device",
		published: "no transaction in delayed-allocation writes, UnixBench with 56 copies at once: " + published,
		prepare: func(b *runner) (race, error) {
			const size = 512 << 20
			work := copyWork{buffer, blocks}
			return race{
				what: fmt.Sprintf("%d copies at once of files of %d blocks, over and over for %v, as UnixBench's fstime does", copyJobs, blocks, copyTime),
				contest: []contestant{
					b.drydock("drydock", size, ext4.Options{}, work.image),
					b.drydock("drydock, a transaction a write", size, ext4.Options{Compare: ext4.Compare{TxPerWrite: true}}, work.image),
					b.linux(size, work.linux),
				},
			}, nil
		},
	}
}

// copyWork is how the copies are made.
type copyWork struct{ buffer, blocks int }

// copyFile is an open file as fstime uses it.
type copyFile interface {
	io.Reader
	io.Writer
	io.Seeker
	io.Closer
}

func (w copyWork) image(img *image) ([]figure, error) {
	return w.run(func(name string) (copyFile, error) { return img.fs.OpenFile("/"+name, os.O_RDWR|os.O_CREATE, 0o644) })
}

func (w copyWork) linux(m *mounted) ([]figure, error) {
	return w.run(func(name string) (copyFile, error) {
		return os.OpenFile(filepath.Join(m.dir, name), os.O_RDWR|os.O_CREATE, 0o644)
	})
}

// run makes all copies at once and counts what was copied.
func (w copyWork) run(open func(name string) (copyFile, error)) ([]figure, error) {
	group, _ := errgroup.WithContext(context.Background())
	copied := make([]int64, copyJobs)
	for i := range copyJobs {
		group.Go(func() (err error) {
			copied[i], err = w.job(open, i)
			return err
		})
	}
	err := group.Wait()
	var total int64
	for _, n := range copied {
		total += n
	}
	return []figure{rate("copied", float64(total)/1e3/copyTime.Seconds(), "KB/s")}, err
}

// job copies one file to another for a while.
func (w copyWork) job(open func(name string) (copyFile, error), i int) (copied int64, err error) {
	from, err := open(fmt.Sprintf("from%d", i))
	if err != nil {
		return 0, err
	}
	defer from.Close()
	to, err := open(fmt.Sprintf("to%d", i))
	if err != nil {
		return 0, err
	}
	defer to.Close()
	buf := make([]byte, w.buffer)
	for range w.blocks {
		if _, err := from.Write(buf); err != nil {
			return 0, err
		}
	}
	for start := time.Now(); time.Since(start) < copyTime; {
		n, err := w.pass(from, to, buf)
		if err != nil {
			return copied, err
		}
		copied += n
	}
	return copied, nil
}

// pass copies the whole file once.
func (w copyWork) pass(from, to copyFile, buf []byte) (copied int64, err error) {
	_, errFrom := from.Seek(0, io.SeekStart)
	_, errTo := to.Seek(0, io.SeekStart)
	if err := errors.Join(errFrom, errTo); err != nil {
		return 0, err
	}
	for range w.blocks {
		n, err := from.Read(buf)
		if err != nil {
			return copied, err
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return copied, err
		}
		copied += int64(n)
	}
	return copied, nil
}
