//go:build unix

package main

import (
	"io"
	"os"
	"syscall"
)

// floorCopy copies a file with as few system calls as there can be: os.File
// would make more.
func floorCopy(f floorFile, out *os.File, buf []byte) error {
	fd, err := syscall.Open(f.path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	for done := int64(0); done < f.size; {
		n, err := syscall.Read(fd, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n <= 0 {
			return io.ErrUnexpectedEOF
		}
		if _, err := out.WriteAt(buf[:n], f.at+done); err != nil {
			return err
		}
		done += int64(n)
	}
	return nil
}
