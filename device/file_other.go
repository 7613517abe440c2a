//go:build !linux

package device

import (
	"errors"
	"os"
	"syscall"
)

// What only Linux offers, or is only used there.

func sysWritev(syscall.RawConn, [][]byte, int64, bool) (int, error) {
	return 0, errors.ErrUnsupported
}

func sysDataSync(f *os.File, _ syscall.RawConn) error { return f.Sync() }

func sysPunch(*File, int64, int64) error { return errors.ErrUnsupported }

func sysDiscard(*File, int64, int64) error { return errors.ErrUnsupported }

func sysClone(syscall.RawConn, int64, *os.File, int64, int64) error {
	return errors.ErrUnsupported
}

func sysCopyRange(syscall.RawConn, int64, *os.File, int64, int64) (int64, error) {
	return 0, errors.ErrUnsupported
}

func nextData(f *os.File, pos, end int64) (Segment, error) { return allData(f, pos, end) }
