//go:build !unix

package main

import (
	"io/fs"
	"os"
)

// peakRSS is not known here.
func peakRSS(*os.ProcessState) int64 { return 0 }

// diskBytes is the size of a file: the space that it takes is not known here.
func diskBytes(info fs.FileInfo) int64 { return info.Size() }
