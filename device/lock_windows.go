package device

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockOffsetHigh places the locked byte far behind any content: a lock of
// Windows keeps others from reading what it covers.
const lockOffsetHigh = 0x7fffffff

// lockFile takes a lock of an open file without waiting. It belongs to f and goes
// when f is closed.
func lockFile(f *os.File, exclusive bool) error {
	var flags uint32 = windows.LOCKFILE_FAIL_IMMEDIATELY
	if exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	closed := raw.Control(func(fd uintptr) {
		err = windows.LockFileEx(windows.Handle(fd), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: lockOffsetHigh})
	})
	switch {
	case closed != nil:
		return closed
	case err == windows.ERROR_LOCK_VIOLATION, err == windows.ERROR_IO_PENDING:
		return ErrInUse
	}
	return err
}

// unlockFile does nothing: closing gives the lock up.
func unlockFile(*os.File) {}
