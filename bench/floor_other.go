//go:build !unix

package main

import (
	"io"
	"os"
)

// floorCopy copies a file.
func floorCopy(f floorFile, out *os.File, buf []byte) error {
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.CopyBuffer(io.NewOffsetWriter(out, f.at), struct{ io.Reader }{in}, buf)
	return err
}
