package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"drydock/device"
	"drydock/ext4"
)

// counter is a device that counts the bytes written to it.
type counter struct {
	*device.File
	written atomic.Int64
}

func (c *counter) WriteAt(p []byte, off int64) (int, error) {
	c.written.Add(int64(len(p)))
	return c.File.WriteAt(p, off)
}

func (c *counter) WritevAt(bufs [][]byte, off int64) (int, error) {
	for _, p := range bufs {
		c.written.Add(int64(len(p)))
	}
	return c.File.WritevAt(bufs, off)
}

func (c *counter) WriteFUA(p []byte, off int64) (int, error) {
	c.written.Add(int64(len(p)))
	return c.File.WriteFUA(p, off)
}

// image is an open image in a file of the working folder.
type image struct {
	dev *counter
	fs  *ext4.FS
}

// newImage makes an image of size bytes and opens it.
func (b *runner) newImage(name string, size int64, o ext4.Options) (*image, error) {
	path := b.path(name)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	file, err := device.Create(path, size)
	if err != nil {
		return nil, err
	}
	if err := ext4.Format(file, ext4.FormatOptions{Clean: true}); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return openImage(file, o)
}

func openImage(file *device.File, o ext4.Options) (*image, error) {
	o.ReadWrite = true
	img := &image{dev: &counter{File: file}}
	var err error
	if img.fs, err = ext4.Open(img.dev, o); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return img, nil
}

func (i *image) close() error { return errors.Join(i.fs.Close(), i.dev.Close()) }

// onImage runs do on a new image and removes it afterwards.
func (b *runner) onImage(size int64, o ext4.Options, do func(*image) ([]figure, error)) ([]figure, error) {
	img, err := b.newImage("write.img", size, o)
	if err != nil {
		return nil, err
	}
	figures, err := do(img)
	return figures, errors.Join(err, img.close(), os.Remove(b.path("write.img")))
}

// loopMount mounts a new ext4 file system of mke2fs through a loop device whose
// file lies in the working folder.
func (b *runner) loopMount(size int64) (m *mounted, err error) {
	m = &mounted{dir: b.path("linux"), image: b.path("linux.img")}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(m.image, nil, 0o600); err != nil {
		return nil, err
	}
	if err := os.Truncate(m.image, size); err != nil {
		return nil, err
	}
	steps := [][]string{
		{find("mke2fs"), "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", m.image},
		{"mount", "-o", "loop", m.image, m.dir},
	}
	for _, args := range steps {
		if out, err := exec.CommandContext(b.ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w: %s", args[0], err, firstLine(string(out))), m.close())
		}
	}
	return m, nil
}

// mounted is a file system that Linux has mounted.
type mounted struct{ dir, image string }

func (m *mounted) close() error {
	_ = exec.Command("umount", m.dir).Run() // it may not be mounted
	return errors.Join(os.Remove(m.dir), os.Remove(m.image))
}

// written is how many bytes were written to the loop device so far.
func (m *mounted) written() int64 {
	source, err := exec.Command("findmnt", "-n", "-o", "SOURCE", m.dir).Output()
	if err != nil {
		return 0
	}
	stat, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(strings.TrimSpace(string(source))), "stat"))
	fields := strings.Fields(string(stat))
	if err != nil || len(fields) < 7 {
		return 0
	}
	sectors, _ := strconv.ParseInt(fields[6], 10, 64)
	return sectors * 512
}

// onLinux runs do on a new file system mounted by Linux.
func (b *runner) onLinux(size int64, do func(*mounted) ([]figure, error)) ([]figure, error) {
	m, err := b.loopMount(size)
	if err != nil {
		return nil, err
	}
	figures, err := do(m)
	return figures, errors.Join(err, m.close())
}

// linuxSkip says why Linux cannot be measured here, "" if it can.
func linuxSkip() string {
	switch {
	case os.Geteuid() != 0:
		return errRoot.Error()
	case missing("mke2fs") != "":
		return "mke2fs is not installed"
	}
	return ""
}

// linux is the contestant that Linux is.
func (b *runner) linux(size int64, do func(*mounted) ([]figure, error)) contestant {
	return contestant{name: "Linux ext4 on a loop device", skip: linuxSkip(), run: func(context.Context) ([]figure, error) {
		return b.onLinux(size, do)
	}}
}

// drydock is a contestant on an image of ours.
func (b *runner) drydock(name string, size int64, o ext4.Options, do func(*image) ([]figure, error)) contestant {
	return contestant{name: name, run: func(context.Context) ([]figure, error) { return b.onImage(size, o, do) }}
}

// latencies are the times of many operations.
type latencies []time.Duration

// timed adds the time that do takes.
func (l *latencies) timed(do func() error) error {
	start := time.Now()
	err := do()
	*l = append(*l, time.Since(start))
	return err
}

// at returns the latency that a share of the operations does not pass.
func (l latencies) at(share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(l))
	return sorted[min(len(sorted)-1, int(math.Ceil(share*float64(len(sorted))))-1)]
}

// mean is the average.
func (l latencies) mean() time.Duration {
	var sum time.Duration
	for _, d := range l {
		sum += d
	}
	return sum / time.Duration(max(1, len(l)))
}

// micros is a duration in microseconds.
func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
