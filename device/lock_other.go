//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd && !windows

package device

import "os"

// lockFile does nothing: this system has no lock that fits.
func lockFile(*os.File, bool) error { return nil }

// unlockFile does nothing.
func unlockFile(*os.File) {}
