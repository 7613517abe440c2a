package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// program is one that makes an image at out.
type program struct {
	name     string
	args     []string
	env      []string // beside the usual
	out      string
	skip     string // why it does not run
	ours     bool   // it must not fail
	optional bool   // it is run once only if it is slow
	itself   bool   // it prints its time as JSON: {"seconds":1.5}

	// disk returns how many bytes of disk the image takes. The default asks
	// for the file's blocks.
	disk func() (int64, error)
}

// sample is what one run took.
type sample struct {
	wall, cpu time.Duration
	rss       int64 // peak, bytes
	disk      int64 // bytes
}

// runLimit ends a run that does not.
const runLimit = 15 * time.Minute

// run runs the program once and removes what it made.
func (p *program) run(ctx context.Context) (s sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	if err := p.clean(); err != nil {
		return s, err
	}
	done, err := launch(ctx, p.args, p.env)
	if err != nil {
		return s, err
	}
	s = sample{wall: done.Wall, cpu: done.CPU, rss: done.RSS}
	if p.itself {
		if err := s.readTime(done.Stdout); err != nil {
			return s, err
		}
	}
	s.disk, err = p.diskBytes()
	return s, errors.Join(err, p.clean())
}

// readTime takes the time that a program has measured itself.
func (s *sample) readTime(stdout string) error {
	var own struct{ Seconds float64 }
	err := json.Unmarshal([]byte(stdout), &own)
	s.wall = time.Duration(own.Seconds * float64(time.Second))
	return err
}

// clean removes the image.
func (p *program) clean() error {
	if err := os.RemoveAll(p.out); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (p *program) diskBytes() (int64, error) {
	if p.disk != nil {
		return p.disk()
	}
	info, err := os.Stat(p.out)
	if err != nil {
		return 0, err
	}
	return diskBytes(info), nil
}

// shown is the command line for the report, without the places of this run.
func (p *program) shown() []string {
	shown := append([]string{}, p.env...)
	for i, arg := range p.args {
		if arg == p.out {
			arg = "OUT"
		}
		if i == 0 || filepath.IsAbs(arg) {
			arg = filepath.Base(arg)
		}
		shown = append(shown, arg)
	}
	for i := range p.env {
		shown[i] = strings.ReplaceAll(shown[i], filepath.Dir(p.out)+"/", "")
	}
	return shown
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
