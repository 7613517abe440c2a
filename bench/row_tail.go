//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"drydock/device"
	"drydock/ext4"
	"drydock/journal"
)

const (
	tailFiles = 100_000
	tailTime  = 4 * time.Second
	tailPause = 200 * time.Microsecond
)

var tailRow = row{
	name: "tail", title: "Metadata updates while commits run on a device of 5 ms a write",
	goals:     "99.99 % and maximum at most those of always copying, with at most 5 % of its copies",
	published: "jbd2, a writer waits for buffers on their way into the log: 99.99 % 3,640,656 us; metadata copied first: 537 us",
	prepare: func(*runner) (race, error) {
		return race{
			what: fmt.Sprintf("a change of mode of one of %d files every %v for %v, and a commit after each commit", tailFiles, tailPause, tailTime),
			contest: []contestant{
				{name: "drydock", run: tail(journal.CopyOnDemand)},
				{name: "drydock, always copying", run: tail(journal.CopyAlways)},
				{name: "drydock, waiting", run: tail(journal.CopyWait)},
			},
		}, nil
	},
}

// tail returns the run with one way of copying.
func tail(policy journal.CopyPolicy) func(context.Context) ([]figure, error) {
	return func(ctx context.Context) ([]figure, error) {
		dev := &waitDevice{Mem: device.NewMem(512 << 20)}
		fsys, err := modelImage(dev, dev.Mem, ext4.Compare{JournalCopy: policy})
		if err != nil {
			return nil, err
		}
		for d := range tailFiles / 1000 {
			if err := fsys.Mkdir(fmt.Sprintf("/d%d", d), 0o755); err != nil {
				return nil, err
			}
		}
		for i := range tailFiles {
			if err := fsys.WriteFile(tailName(i), nil, 0o644); err != nil {
				return nil, err
			}
		}
		if err := fsys.Sync(); err != nil {
			return nil, err
		}
		before := fsys.Stats().Journal
		dev.took = 5 * time.Millisecond
		times, err := changeModes(ctx, fsys)
		dev.took = 0
		after := fsys.Stats().Journal
		return []figure{
			cost("99.99 %", micros(times.at(0.9999)), "us"),
			cost("maximum", micros(times.at(1)), "us"),
			cost("average", micros(times.mean()), "us"),
			cost("copies", float64(after.CopyOuts+after.AlwaysCopies-before.CopyOuts-before.AlwaysCopies), ""),
			rate("commits", float64(after.Commits-before.Commits), ""),
		}, errors.Join(err, fsys.Close())
	}
}

func tailName(i int) string { return fmt.Sprintf("/d%d/f%d", i/1000, i) }

// changeModes changes modes while commits follow one another.
func changeModes(ctx context.Context, fsys *ext4.FS) (times latencies, err error) {
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if err := fsys.Sync(); err != nil {
				stopped <- err
				return
			}
		}
	}()
	for i, start := 0, time.Now(); time.Since(start) < tailTime && ctx.Err() == nil && err == nil; i++ {
		name := tailName(i * 7919 % tailFiles)
		err = times.timed(func() error { return fsys.Chmod(name, fs.FileMode(i&0o777)) })
		time.Sleep(tailPause)
	}
	close(stop)
	return times, errors.Join(err, <-stopped)
}
