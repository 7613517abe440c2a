package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// row is one comparison.
type row struct {
	name  string
	title string
	goals string // what has to be reached, in words

	published string // the figures that others reported for the same work

	// prepare makes what the row needs and says what runs.
	prepare func(b *runner) (race, error)
}

// rows are all comparisons, in the order of the report.
var rows = append([]row{goTreeRow, smallFilesRow, flatRow, minbaseRow, emptyRow, fileSizeRow, xfsRow, btrfsRow}, writeRows...)

// race is what a row runs: programs that are timed, or contestants that measure
// themselves. Skip says why nothing runs.
type race struct {
	what     string // is read or done, in words
	programs []program
	contest  []contestant
	skip     string
	done     func() error // cleans up; may be nil
}

// result is what came of a row. The JSON names are stable.
type result struct {
	Row       string  `json:"row"`
	Title     string  `json:"title"`
	Goals     string  `json:"goals"`
	What      string  `json:"what,omitempty"`
	Skipped   string  `json:"skipped,omitempty"`
	Programs  []stats `json:"programs,omitempty"`
	Contest   []entry `json:"contest,omitempty"`
	Published string  `json:"published,omitempty"`
}

// stats is what came of one program's runs. Times are in seconds.
type stats struct {
	Name    string   `json:"name"`
	Command []string `json:"command,omitempty"`
	Skipped string   `json:"skipped,omitempty"`
	Runs    int      `json:"runs"`
	Median  float64  `json:"median_seconds"`
	Min     float64  `json:"min_seconds"`
	Max     float64  `json:"max_seconds"`
	CPU     float64  `json:"cpu_seconds"`    // median
	RSS     int64    `json:"peak_rss_bytes"` // largest
	Disk    int64    `json:"disk_bytes"`     // largest
}

// runner measures rows.
type runner struct {
	ctx    context.Context
	o      options
	dir    string
	remove bool // dir, at the end
	mkimg  string
	bin    string // folder of programs built for the measurement
}

func newRunner(ctx context.Context, o options) (*runner, error) {
	b := &runner{ctx: ctx, o: o, dir: o.dir, remove: o.dir == ""}
	var err error
	if b.remove {
		b.dir, err = os.MkdirTemp(".", "bench-")
	} else {
		err = os.MkdirAll(b.dir, 0o755)
	}
	if err != nil {
		return nil, err
	}
	if b.dir, err = filepath.Abs(b.dir); err != nil {
		return nil, err
	}
	b.bin = filepath.Join(b.dir, "bin")
	b.mkimg = filepath.Join(b.bin, "mkimg")
	if err := b.build(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// build builds mkimg as it is in the source.
func (b *runner) build() error {
	command := exec.CommandContext(b.ctx, "go", "build", "-o", b.mkimg, "drydock/cmd/mkimg")
	command.Env = append(os.Environ(), "CGO_ENABLED=0") // static, as README.md has it
	command.Stderr = os.Stderr
	return command.Run()
}

func (b *runner) close() error {
	if b.remove {
		return os.RemoveAll(b.dir)
	}
	return nil
}

// path is a place in the working folder.
func (b *runner) path(name string) string { return filepath.Join(b.dir, name) }

// say tells how far it has come.
func (b *runner) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}

// measure runs all programs of a row in turn, round after round.
func (b *runner) measure(r row) (res result, err error) {
	res = result{Row: r.name, Title: r.title, Goals: r.goals, Published: r.published}
	b.say("%s: preparing", r.name)
	race, err := r.prepare(b)
	if race.done != nil {
		defer func() { err = errors.Join(err, race.done()) }()
	}
	if err != nil {
		return res, err
	}
	res.What, res.Skipped = race.what, race.skip
	if race.contest != nil {
		res.Contest, err = b.contest(race.contest)
		return res, err
	}
	samples := make([][]sample, len(race.programs))
	for round := range b.o.rounds {
		b.say("%s: round %d of %d", r.name, round+1, b.o.rounds)
		if err := b.round(race.programs, samples); err != nil {
			return res, err
		}
	}
	for i, p := range race.programs {
		res.Programs = append(res.Programs, newStats(p, samples[i]))
	}
	return res, nil
}

// slow is the time after which a program that is not mkimg or mke2fs is not run again.
const slow = 20 * time.Second

// round runs each program once. One that fails is not run again, unless it is
// mkimg, whose failure ends all.
func (b *runner) round(programs []program, samples [][]sample) error {
	for i := range programs {
		p := &programs[i]
		if p.skip != "" || p.optional && len(samples[i]) > 0 && samples[i][0].wall > slow {
			continue
		}
		s, err := p.run(b.ctx)
		if b.ctx.Err() != nil {
			return b.ctx.Err()
		}
		if err != nil && p.ours {
			return err
		}
		if err != nil {
			p.skip = "failed: " + err.Error()
			b.say("  %s: %s", p.name, p.skip)
			continue
		}
		b.say("  %s: %s", p.name, seconds(s.wall.Seconds()))
		samples[i] = append(samples[i], s)
	}
	return nil
}

func newStats(p program, samples []sample) stats {
	s := stats{Name: p.name, Command: p.shown(), Skipped: p.skip, Runs: len(samples)}
	if len(samples) == 0 {
		return s
	}
	var wall, cpu []float64
	for _, sample := range samples {
		wall = append(wall, sample.wall.Seconds())
		cpu = append(cpu, sample.cpu.Seconds())
		s.RSS = max(s.RSS, sample.rss)
		s.Disk = max(s.Disk, sample.disk)
	}
	s.Median, s.Min, s.Max = median(wall), slices.Min(wall), slices.Max(wall)
	s.CPU = median(cpu)
	return s
}

// median is the middle value, of an even number the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
