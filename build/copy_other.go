//go:build !linux

package build

import (
	"context"
	"os"

	"drydock/internal/mkfs"
)

// newSmallReader returns the fastest reader for a source.
func newSmallReader(_ context.Context, src Source, c *mkfs.Content) smallReader {
	return dataReader{src, c}
}

// fileSystemOf tells the file systems of the host apart, where that matters.
func fileSystemOf(*os.File) uint64 { return 0 }
