package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Programs that look at a block device for a moment (udev, mount) are waited for
// this often and this long.
const (
	claimTries = 10
	claimPause = 30 * time.Millisecond
)

// openBlock opens a block device: with O_EXCL, which the kernel's own users
// (mounts, swap, device mapper) hold too, and with a lock, which those programs
// honour that only read.
func openBlock(path string, o Options) (*File, error) {
	f, err := openExclusive(path, o)
	if err != nil {
		return nil, pathError("open", path, err)
	}
	if !o.NoLock {
		err = patiently(func() error { return lockFile(f, !o.ReadOnly) })
	}
	size, sector, sizeErr := blockSize(f)
	if err := errors.Join(err, sizeErr); err != nil {
		f.Close()
		return nil, pathError("open", path, err)
	}
	d, err := newFile(f, path, size, o.ReadOnly)
	if err == nil {
		d.sector = sector
	}
	return d, err
}

// openExclusive opens a device that nothing else uses, for writing with O_EXCL.
// Readers do not exclude each other, so they give O_EXCL back at once.
func openExclusive(path string, o Options) (*os.File, error) {
	flag := os.O_RDWR
	if o.ReadOnly {
		flag = os.O_RDONLY
	}
	if o.NoLock {
		return os.OpenFile(path, flag, 0)
	}
	if err := checkBlock(path); err != nil {
		return nil, err
	}
	var f *os.File
	err := patiently(func() (err error) {
		f, err = os.OpenFile(path, flag|unix.O_EXCL, 0)
		return busy(err)
	})
	if err != nil || !o.ReadOnly {
		return f, err
	}
	defer f.Close()
	return os.OpenFile(path, flag, 0)
}

// patiently repeats fn while it fails with ErrInUse, for a moment.
func patiently(fn func() error) (err error) {
	for range claimTries {
		if err = fn(); !errors.Is(err, ErrInUse) {
			return err
		}
		time.Sleep(claimPause)
	}
	return err
}

// busy turns what O_EXCL fails with into ErrInUse.
func busy(err error) error {
	if errors.Is(err, unix.EBUSY) {
		return ErrInUse
	}
	return err
}

// checkBlock fails if the device at path, or one of its partitions, is mounted.
func checkBlock(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode().Type() != fs.ModeDevice {
		return ErrNotDevice
	}
	number := fmt.Sprintf("%d:%d", unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)))
	if point := mountPoint(blockNumbers("/sys/dev/block/" + number)); point != "" {
		return &MountedError{Point: point}
	}
	return nil
}

// blockSize is the size and the logical sector size of a block device, in bytes.
func blockSize(f *os.File) (size, sector int64, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var bytes uint64
	var logical int32
	err = control(raw, func(fd int) error {
		if err := ioctl(fd, unix.BLKGETSIZE64, unsafe.Pointer(&bytes)); err != nil {
			return err
		}
		return ioctl(fd, unix.BLKSSZGET, unsafe.Pointer(&logical))
	})
	return int64(bytes), max(int64(logical), SectorSize), err
}
