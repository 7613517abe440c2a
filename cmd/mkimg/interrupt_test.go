//go:build unix

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock/internal/oracle"
)

// start starts mkimg as a process of its own.
func start(t *testing.T, stdin io.Reader, args ...string) (command *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	command, stderr = exec.Command("mkimg", args...), new(bytes.Buffer)
	command.Stdin, command.Stderr = stdin, stderr
	require.NoError(t, command.Start())
	return command, stderr
}

// exitCode waits for the process's end.
func exitCode(t *testing.T, command *exec.Cmd) int {
	t.Helper()
	var exit *exec.ExitError
	if err := command.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode()
}

// entries returns the names in a folder, hidden ones too.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := []string{}
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	return names
}

// TestInterruptWhileReading stops mkimg when it has half a tar.
func TestInterruptWhileReading(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		dir := t.TempDir()
		reader, writer, err := os.Pipe()
		require.NoError(t, err)
		command, stderr := start(t, reader, filepath.Join(dir, "a.img"), "--from", "-")
		reader.Close()
		archive := tar.NewWriter(writer)
		require.NoError(t, archive.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: 8 << 20}))
		_, err = archive.Write(make([]byte, 4<<20)) // more than a pipe holds: mkimg reads
		require.NoError(t, err)
		require.NoError(t, command.Process.Signal(signal))
		require.Equal(t, 1, exitCode(t, command), stderr)
		require.Equal(t, "mkimg: interrupted\n", stderr.String())
		require.Empty(t, entries(t, dir), "%v leaves something behind", signal)
		writer.Close()
	}
}

// manyFiles makes a tree that takes some time to copy.
func manyFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for i := range 2000 {
		if i%100 == 0 {
			require.NoError(t, os.Mkdir(fmt.Sprintf("%s/%d", dir, i/100), 0o755))
		}
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/%d/%d", dir, i/100, i), bytes.Repeat([]byte{byte(i)}, 100+7*i), 0o644))
	}
	return dir
}

// TestStopAtAnyMoment stops mkimg at random moments, also in a way that it
// cannot handle: what is at OUT then, if anything, is a complete image.
func TestStopAtAnyMoment(t *testing.T) {
	tree := manyFiles(t)
	begin := time.Now()
	command, stderr := start(t, nil, filepath.Join(t.TempDir(), "whole.img"), "--from", tree)
	require.Zero(t, exitCode(t, command), stderr)
	whole := time.Since(begin)
	seed := uint64(begin.UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	done := 0
	for i := range 12 {
		signal := []os.Signal{os.Interrupt, os.Kill}[i%2]
		dir := t.TempDir()
		command, _ := start(t, nil, filepath.Join(dir, "a.img"), "--from", tree, "--reproducible")
		time.Sleep(time.Duration(random.Int64N(int64(whole))))
		command.Process.Signal(signal) // it may have ended already
		exitCode(t, command)
		switch names := entries(t, dir); {
		case len(names) == 0:
		case len(names) == 1 && names[0] == "a.img":
			done++
			output, err := exec.Command("lsimage", filepath.Join(dir, "a.img")).CombinedOutput()
			require.NoError(t, err, "seed %d: %s", seed, output)
			require.Equal(t, 2000+20+2, bytes.Count(output, []byte("\n")), "seed %d", seed)
		default:
			require.Equal(t, os.Kill, signal, "seed %d: %v is left behind", seed, names)
			require.NotContains(t, names, "a.img", "seed %d", seed)
		}
	}
	t.Logf("seed %d: %d of 12 were done before they were stopped", seed, done)
}

// TestFullDisk makes an image on a disk that has no room for it.
func TestFullDisk(t *testing.T) {
	oracle.Root(t)
	tree, dir := manyFiles(t), t.TempDir()
	oracle.Run(t, "mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", dir)
	t.Cleanup(func() { oracle.Run(t, "umount", dir) })
	command, stderr := start(t, nil, filepath.Join(dir, "a.img"), "--from", tree)
	require.Equal(t, 1, exitCode(t, command))
	require.Contains(t, stderr.String(), "no space left on device")
	require.Empty(t, entries(t, dir))
}

// TestWriteError is a disk that refuses to hold a file as large as the image.
func TestWriteError(t *testing.T) {
	dir := t.TempDir()
	command := exec.Command("sh", "-c", `ulimit -f 100; exec mkimg "$1" --size 64M`, "sh", filepath.Join(dir, "a.img"))
	output, err := command.CombinedOutput()
	require.Error(t, err, string(output))
	require.Contains(t, string(output), "file too large")
	require.Empty(t, entries(t, dir))
}
