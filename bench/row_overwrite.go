//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"drydock/ext4"
)

const (
	overwriteFile = 128 << 20 // bytes of the file that is overwritten
	overwriteSize = 4096      // bytes a write
	overwrites    = 3000
)

var overwriteRow = row{
	name: "overwrite4k", title: "Random 4 KiB overwrites into 64 KiB folios, a data sync after each",
	goals: "1.00 bytes of device writes a byte; at least 1.6 times the whole-folio scheme, 1.5 times Linux on a loop device, " +
		"0.85 times raw pwrite and fdatasync",
	published: "dirty bits a block in iomap: 1,087 against 678 IOPS (1.60 times), ext4 960",
	prepare: func(b *runner) (race, error) {
		const size = 512 << 20
		return race{
			what: fmt.Sprintf("a file of 128 MiB is written once, then %d random writes of 4 KiB, each followed by fdatasync", overwrites),
			contest: []contestant{
				b.drydock("drydock", size, ext4.Options{FolioSize: 64 << 10}, overwriteImage),
				b.drydock("drydock, whole folios", size, ext4.Options{FolioSize: 64 << 10, Compare: ext4.Compare{WholeFolio: true}}, overwriteImage),
				b.linux(size, overwriteLinux),
				{name: "raw pwrite and fdatasync", run: b.overwriteRaw},
			},
		}, nil
	},
}

// overwriteImage overwrites a file of an image.
func overwriteImage(img *image) ([]figure, error) {
	f, err := img.fs.Create("/f")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, 1<<20)
	for off := int64(0); off < overwriteFile; off += int64(len(data)) {
		if _, err := f.WriteAt(data, off); err != nil {
			return nil, err
		}
	}
	if err := img.fs.Sync(); err != nil {
		return nil, err
	}
	before := img.dev.written.Load()
	return overwrite(f.WriteAt, f.Datasync, func() int64 { return img.dev.written.Load() - before })
}

// overwrite writes and syncs at random places and returns the figures.
func overwrite(write func([]byte, int64) (int, error), sync func() error, written func() int64) ([]figure, error) {
	rng := rand.New(rand.NewPCG(1, 1))
	data := make([]byte, overwriteSize)
	var times latencies
	start := time.Now()
	for i := range overwrites {
		data[0] = byte(i)
		if _, err := write(data, rng.Int64N(overwriteFile/overwriteSize)*overwriteSize); err != nil {
			return nil, err
		}
		if err := times.timed(sync); err != nil {
			return nil, err
		}
	}
	seconds := time.Since(start).Seconds()
	return []figure{
		rate("writes", overwrites/seconds, "/s"),
		cost("device bytes a byte", float64(written())/(overwrites*overwriteSize), ""),
		cost("sync, average", micros(times.mean()), "us"),
		cost("sync, 99.99 %", micros(times.at(0.9999)), "us"),
	}, nil
}

// overwriteRaw overwrites a plain file.
func (b *runner) overwriteRaw(context.Context) ([]figure, error) {
	f, err := os.Create(b.path("raw"))
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	data := make([]byte, 1<<20)
	for off := int64(0); off < overwriteFile; off += int64(len(data)) {
		if _, err := f.WriteAt(data, off); err != nil {
			return nil, err
		}
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	return overwrite(f.WriteAt, func() error { return unix.Fdatasync(int(f.Fd())) }, func() int64 { return overwrites * overwriteSize })
}

// fioResult is what is read of fio's JSON.
type fioResult struct {
	Jobs []struct {
		Write struct {
			IOPS float64 `json:"iops"`
		} `json:"write"`
		Sync struct {
			Lat struct {
				Mean        float64            `json:"mean"` // ns
				Percentiles map[string]float64 `json:"percentile"`
			} `json:"lat_ns"`
		} `json:"sync"`
	} `json:"jobs"`
}

// overwriteLinux runs the same by fio.
func overwriteLinux(m *mounted) ([]figure, error) {
	if missing("fio") != "" {
		return nil, errors.New("fio is not installed")
	}
	name := filepath.Join(m.dir, "f")
	base := []string{"--name=f", "--filename=" + name, "--ioengine=psync", fmt.Sprintf("--size=%d", overwriteFile), "--output-format=json"}
	if out, err := exec.Command("fio", append(base, "--rw=write", "--bs=1m", "--end_fsync=1")...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("fio: %w: %s", err, firstLine(string(out)))
	}
	before := m.written()
	out, err := exec.Command("fio", append(base, "--rw=randwrite", "--bs=4k", "--fdatasync=1", "--overwrite=1", "--norandommap",
		fmt.Sprintf("--number_ios=%d", overwrites))...).Output()
	if err != nil {
		return nil, fmt.Errorf("fio: %w", err)
	}
	var result fioResult
	if err := json.Unmarshal(out, &result); err != nil || len(result.Jobs) == 0 {
		return nil, fmt.Errorf("fio: no result: %w", err)
	}
	job := result.Jobs[0]
	return []figure{
		rate("writes", job.Write.IOPS, "/s"),
		cost("device bytes a byte", float64(m.written()-before)/(overwrites*overwriteSize), ""),
		cost("sync, average", job.Sync.Lat.Mean/1e3, "us"),
		cost("sync, 99.99 %", job.Sync.Lat.Percentiles["99.990000"]/1e3, "us"),
	}, nil
}
