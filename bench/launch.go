package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// launchCommand is the first argument that makes this program a launcher:
//
//	bench launch PROGRAM ARG...
//
// It runs a program and prints what it took. The peak of a process's memory
// counts what its parent had when it was started, so the parent has to be
// smaller than what it measures: this one has 5 to 10 MB.
const launchCommand = "launch"

// launched is what a program took.
type launched struct {
	Wall, CPU time.Duration
	RSS       int64 // peak, bytes
	Stdout    string
	Failed    string // why it is no success, "" if it is
}

// launcher is the program as a launcher.
func launcher(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("want: launch PROGRAM and its arguments")
	}
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, args[1], args[2:]...)
	command.Stdout, command.Stderr = &stdout, &stderr
	start := time.Now()
	err := command.Run()
	done := launched{Wall: time.Since(start), Stdout: stdout.String()}
	if err != nil {
		done.Failed = fmt.Sprintf("%s: %v: %s", filepath.Base(args[1]), err, firstLine(stderr.String()))
	}
	if state := command.ProcessState; state != nil {
		done.CPU, done.RSS = state.UserTime()+state.SystemTime(), peakRSS(state)
	}
	return json.NewEncoder(os.Stdout).Encode(done)
}

// launch runs a program by way of a launcher.
func launch(ctx context.Context, args, env []string) (done launched, err error) {
	self, err := os.Executable()
	if err != nil {
		return done, err
	}
	command := exec.CommandContext(ctx, self, append([]string{launchCommand}, args...)...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = time.Minute
	command.Env = append(os.Environ(), env...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return done, err
	}
	if err := json.Unmarshal(out, &done); err != nil {
		return done, err
	}
	if done.Failed != "" {
		return done, errors.New(done.Failed)
	}
	return done, nil
}
