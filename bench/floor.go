package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// floorCommand is the first argument that makes this program the floor:
//
//	bench floor LIST OUT
//
// Two threads open, read and write every file of the list into OUT, each at the
// next multiple of 4 KiB, and close it: what it costs to move the data with one
// system call of each kind for each file. It prints the seconds that this took.
const floorCommand = "floor"

const (
	floorThreads = 2
	floorBuffer  = 1 << 20 // bytes that are read and written at a time
	floorBatch   = 64      // files that a thread takes at a time
)

// floorFile is a file and its place in the output.
type floorFile struct {
	path string
	size int64
	at   int64
}

func floor(_ context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("want: floor LIST OUT")
	}
	files, size, err := readFloorList(args[1])
	if err != nil {
		return err
	}
	start := time.Now()
	if err := copyFloor(files, args[2], size); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{"seconds": time.Since(start).Seconds()})
}

// copyFloor copies all files with all threads.
func copyFloor(files []floorFile, path string, size int64) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := out.Truncate(size); err != nil {
		return err
	}
	errs := make([]error, floorThreads)
	var next atomic.Int64
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			buf := make([]byte, floorBuffer)
			for errs[i] == nil {
				from := int(next.Add(floorBatch)) - floorBatch
				if from >= len(files) {
					return
				}
				errs[i] = floorBatchOf(files[from:min(from+floorBatch, len(files))], out, buf)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func floorBatchOf(files []floorFile, out *os.File, buf []byte) error {
	for _, f := range files {
		if err := floorCopy(f, out, buf); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return nil
}

// writeFloorList writes the list of a tree's files: a size and a path a line.
func writeFloorList(t *tree, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for _, file := range t.files {
		fmt.Fprintf(w, "%d %s\n", file.size, file.path)
	}
	return errors.Join(w.Flush(), f.Close())
}

// readFloorList reads the list and gives each file its place.
func readFloorList(path string) (files []floorFile, end int64, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	for line := range strings.Lines(string(b)) {
		number, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		size, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, 0, err
		}
		files = append(files, floorFile{name, size, end})
		end += (size + 4095) &^ 4095
	}
	return files, end, nil
}
