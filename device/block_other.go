//go:build !linux

package device

import (
	"errors"
	"io/fs"
)

// openBlock says that block devices are for Linux only.
func openBlock(path string, _ Options) (*File, error) {
	return nil, pathError("open", path, unsupported(errors.New("block devices can be opened on Linux only")))
}

// checkLoops has nothing to look for: only Linux mounts image files this way.
func checkLoops(fs.FileInfo) error { return nil }
