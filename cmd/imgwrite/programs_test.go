package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"drydock/build"
	"drydock/device"
	"drydock/internal/cli"
)

// TestMain makes imgwrite and small helpers programs that scripts can run.
func TestMain(m *testing.M) {
	os.Setenv("PATH", os.Getenv("PATH")+string(os.PathListSeparator)+"/usr/sbin"+string(os.PathListSeparator)+"/sbin")
	testscript.Main(m, map[string]func(){
		"imgwrite": main,
		"mkimage":  program(mkimage),
		"marks":    program(marks),
		"replay":   program(replay),
	})
}

// program makes a function a program.
func program(run func(args []string) error) func() {
	return func() {
		if err := run(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// mkimage OUT SIZE [DIR]: an image, at the place in a partition if OUT ends in .disk.
func mkimage(args []string) error {
	size, err := cli.ParseSize(args[1])
	if err != nil {
		return err
	}
	epoch := int64(1_700_000_000)
	o := build.Options{Out: args[0], Size: size, Force: true, Epoch: &epoch}
	if len(args) > 2 {
		o.From = []string{args[2]}
	}
	if filepath.Ext(args[0]) == ".disk" {
		o.Partition = build.PartitionGPT
	}
	_, err = build.Run(context.Background(), o)
	return err
}

// marks TRACE: the marks of a trace, a line each, and its number of writes.
func marks(args []string) error {
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	trace, err := device.ReadTrace(f)
	if err != nil {
		return err
	}
	writes := 0
	for _, e := range trace.Events {
		switch e.Kind {
		case device.EventMark:
			fmt.Println(e.Text)
		case device.EventWrite:
			writes++
		}
	}
	fmt.Println("writes:", writes > 0)
	return nil
}

// replay BASE TRACE OUT: OUT is the image BASE with all that TRACE holds.
func replay(args []string) error {
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	f, err := os.Open(args[1])
	if err != nil {
		return err
	}
	defer f.Close()
	trace, err := device.ReadTrace(f)
	if err != nil {
		return err
	}
	mem := device.NewMem(int64(len(data)))
	if _, err := mem.WriteAt(data, 0); err != nil {
		return err
	}
	if err := trace.Replay(mem, len(trace.Events)); err != nil {
		return err
	}
	if _, err := mem.ReadAt(data, 0); err != nil {
		return err
	}
	return os.WriteFile(args[2], data, 0o600)
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", RequireUniqueNames: true})
}
