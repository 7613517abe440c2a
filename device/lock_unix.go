//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package device

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes the flock of an open file without waiting. It belongs to f and
// goes when f is closed.
func lockFile(f *os.File, exclusive bool) error {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	closed := raw.Control(func(fd uintptr) {
		for err = unix.EINTR; err == unix.EINTR; {
			err = unix.Flock(int(fd), how|unix.LOCK_NB)
		}
	})
	switch {
	case closed != nil:
		return closed
	case err == unix.EWOULDBLOCK:
		return ErrInUse
	case err == unix.ENOLCK, errors.Is(err, errors.ErrUnsupported):
		return nil // a file system without locks
	}
	return err
}

// unlockFile gives the lock up. Closing alone does so only once no other process
// has the file: one that was forked a moment ago still has, until it becomes
// another program.
func unlockFile(f *os.File) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Flock(int(fd), unix.LOCK_UN) }) // closing is next
	}
}
