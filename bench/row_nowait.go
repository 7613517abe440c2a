//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"drydock/cache"
	"drydock/ext4"
)

const (
	noWaitFile   = 256 << 20
	noWaitWrites = 400_000
	noWaitSample = 16 // every so many writes one is timed
)

var (
	noWaitSeqRow  = noWaitRow("nowait-seq", "sequential", false, "329 -> 1,032 MiB/s (3.1 times)")
	noWaitRandRow = noWaitRow("nowait-rand", "random", true, "307 -> 909 MiB/s (3.0 times)")
)

// noWaitRow measures writes that do not wait.
func noWaitRow(name, order string, random bool, published string) row {
	return row{
		name: name, title: "No-wait buffered 4 KiB writes at depth 1, " + order,
		goals:     "at least 3 times handing each write to a worker; median at most 300 ns",
		published: "io_uring buffered writes, workers -> no wait: " + published,
		prepare: func(b *runner) (race, error) {
			work := noWait{random}
			o := ext4.Options{Memory: 1 << 30}
			return race{
				what: fmt.Sprintf("%d writes into a file of 256 MiB, each waited for before the next", noWaitWrites),
				contest: []contestant{
					b.drydock("drydock", 1<<30, o, func(img *image) ([]figure, error) { return work.run(img, work.queue) }),
					b.drydock("drydock, a worker for each write", 1<<30, o, func(img *image) ([]figure, error) { return work.run(img, work.worker) }),
				},
			}, nil
		},
	}
}

// noWait is a pattern of writes.
type noWait struct{ random bool }

// submit writes and returns when the write is complete.
type submit func(off int64, p []byte) error

// run writes into a new file through what start starts.
func (w noWait) run(img *image, start func(*ext4.File) (submit, func() error)) ([]figure, error) {
	f, err := img.fs.Create("/f")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	write, end := start(f)
	rng := rand.New(rand.NewPCG(5, 5))
	data := make([]byte, 4096)
	var times latencies
	begin := time.Now()
	for i := range int64(noWaitWrites) {
		off := i * 4096 % noWaitFile
		if w.random {
			off = rng.Int64N(noWaitFile/4096) * 4096
		}
		do := func() error { return write(off, data) }
		if i%noWaitSample == 0 {
			err = times.timed(do)
		} else {
			err = do()
		}
		if err != nil {
			return nil, err
		}
	}
	seconds := time.Since(begin).Seconds()
	if err := end(); err != nil {
		return nil, err
	}
	return []figure{
		rate("written", noWaitWrites*4096/seconds/(1<<20), "MiB/s"),
		cost("median", float64(times.at(0.5).Nanoseconds()), "ns"),
		cost("99.99 %", micros(times.at(0.9999)), "us"),
	}, nil
}

// queue is a cache.Queue: its caller writes what needs no waiting.
func (noWait) queue(f *ext4.File) (submit, func() error) {
	return throughQueue(f, cache.QueueOptions{})
}

// worker is a queue that hands every write to a worker.
func (noWait) worker(f *ext4.File) (submit, func() error) {
	return throughQueue(f, cache.QueueOptions{Punt: true})
}

func throughQueue(f *ext4.File, o cache.QueueOptions) (submit, func() error) {
	q := cache.NewQueue(f, o)
	return func(off int64, p []byte) error {
		if err := q.Submit(off, p, 0); err != nil {
			return err
		}
		done, _ := q.Wait()
		return done.Err
	}, q.Close
}
