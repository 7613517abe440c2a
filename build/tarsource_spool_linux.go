package build

import (
	"os"

	"golang.org/x/sys/unix"
)

// openUnnamed opens a new file in dir that never had a name, so that nothing
// can leave it behind. File systems that cannot do that get a name for a moment.
func openUnnamed(dir string) (f *os.File, name string, err error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return openTemp(dir)
	}
	return os.NewFile(uintptr(fd), dir+"/(spool)"), "", nil
}
