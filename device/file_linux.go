package device

import (
	"errors"
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxVector is the number of buffers that the kernel takes at once (IOV_MAX).
const maxVector = 1024

// control runs fn on the descriptor of an open file, again while a signal
// interrupts it.
func control(raw syscall.RawConn, fn func(fd int) error) error {
	var err error
	use := func(fd uintptr) {
		for err = fn(int(fd)); err == unix.EINTR; {
			err = fn(int(fd))
		}
	}
	if raw.Control(use) != nil {
		return os.ErrClosed // what it says has no name to compare with
	}
	return err
}

// sysWritev writes bufs from off on with pwritev2(2), each part durable when it
// is written if fua.
func sysWritev(raw syscall.RawConn, bufs [][]byte, off int64, fua bool) (done int, err error) {
	flags := 0
	if fua {
		flags = unix.RWF_DSYNC
	}
	for rest := nonempty(bufs); len(rest) > 0; {
		var n int
		err := control(raw, func(fd int) (err error) {
			n, err = unix.Pwritev2(fd, rest[:min(len(rest), maxVector)], off+int64(done), flags)
			return err
		})
		if err == nil && n == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return done, err
		}
		done += n
		rest = advance(rest, n)
	}
	return done, nil
}

// nonempty is a copy of the list of buffers without the empty ones.
func nonempty(bufs [][]byte) [][]byte {
	out := make([][]byte, 0, len(bufs))
	for _, b := range bufs {
		if len(b) > 0 {
			out = append(out, b)
		}
	}
	return out
}

// advance takes the first n bytes off a list of buffers, which it changes.
func advance(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if n > 0 {
		bufs[0] = bufs[0][n:]
	}
	return bufs
}

// sysDataSync makes content and size durable, with fdatasync(2).
func sysDataSync(_ *os.File, raw syscall.RawConn) error {
	return control(raw, unix.Fdatasync)
}

// sysPunch makes a hole. On a block device it falls back to the kernel's own way
// of zeroing.
func sysPunch(d *File, off, n int64) error {
	if !d.IsBlock() {
		return fallocateHole(d.raw, off, n)
	}
	start, end := inner(off, n, d.sector)
	if start >= end {
		return d.writeZeros(off, n)
	}
	err := fallocateHole(d.raw, start, end-start)
	if isUnsupported(err) {
		err = blockRange(d.raw, unix.BLKZEROOUT, start, end-start)
	}
	return errors.Join(err, d.writeZeros(off, start-off), d.writeZeros(end, off+n-end))
}

// sysDiscard tells the host that a range is not needed.
func sysDiscard(d *File, off, n int64) error {
	if !d.IsBlock() {
		return fallocateHole(d.raw, off, n)
	}
	start, end := inner(off, n, d.sector)
	if start >= end {
		return nil
	}
	return blockRange(d.raw, unix.BLKDISCARD, start, end-start)
}

// inner is the part of a range that consists of whole sectors.
func inner(off, n, sector int64) (start, end int64) {
	return (off + sector - 1) / sector * sector, (off + n) / sector * sector
}

func fallocateHole(raw syscall.RawConn, off, n int64) error {
	return control(raw, func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
}

// blockRange is an ioctl of block devices on n bytes at off.
func blockRange(raw syscall.RawConn, request uintptr, off, n int64) error {
	span := [2]uint64{uint64(off), uint64(n)}
	return control(raw, func(fd int) error {
		return ioctl(fd, request, unsafe.Pointer(&span))
	})
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// sysClone shares blocks, with FICLONERANGE. n must not be 0, which the kernel
// takes for "to the end".
func sysClone(raw syscall.RawConn, dstOff int64, src *os.File, srcOff, n int64) error {
	from, err := src.SyscallConn()
	if err != nil {
		return err
	}
	return control(raw, func(fd int) error {
		return control(from, func(srcFd int) error {
			return notHere(unix.IoctlFileCloneRange(fd, &unix.FileCloneRange{
				Src_fd: int64(srcFd), Src_offset: uint64(srcOff), Src_length: uint64(n), Dest_offset: uint64(dstOff),
			}))
		})
	})
}

// sysCopyRange copies with copy_file_range(2).
func sysCopyRange(raw syscall.RawConn, dstOff int64, src *os.File, srcOff, n int64) (done int64, err error) {
	from, err := src.SyscallConn()
	if err != nil {
		return 0, err
	}
	for done < n {
		step, err := copyOnce(raw, dstOff+done, from, srcOff+done, n-done)
		if err == nil && step == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return done, err
		}
		done += int64(step)
	}
	return done, nil
}

// maxCopy bounds one call, so that a signal is answered soon.
const maxCopy = 64 << 20

func copyOnce(raw syscall.RawConn, dstOff int64, from syscall.RawConn, srcOff, n int64) (step int, err error) {
	err = control(raw, func(fd int) error {
		return control(from, func(srcFd int) (err error) {
			in, out := srcOff, dstOff
			step, err = unix.CopyFileRange(srcFd, &in, fd, &out, int(min(n, maxCopy)), 0)
			return notHere(err)
		})
	})
	return step, err
}

// notHere marks what the kernel says of files and ranges that it cannot clone or
// copy, though they can be read and written, as errors.ErrUnsupported.
func notHere(err error) error {
	switch err {
	case unix.EXDEV, unix.EINVAL, unix.ENOTTY, unix.EPERM, unix.ETXTBSY, unix.EBADF:
		return unsupported(err)
	}
	return err // EOPNOTSUPP and ENOSYS are errors.ErrUnsupported as they are
}

// nextData is the first segment with data in [pos,end), empty if there is none.
func nextData(f *os.File, pos, end int64) (Segment, error) {
	start, err := f.Seek(pos, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return Segment{}, nil
	case errors.Is(err, unix.EINVAL), isUnsupported(err):
		return allData(f, pos, end)
	case err != nil:
		return Segment{}, err
	}
	hole, err := f.Seek(start, unix.SEEK_HOLE)
	switch {
	case errors.Is(err, unix.ENXIO): // made shorter meanwhile
		return Segment{}, nil
	case err != nil:
		return Segment{}, err
	}
	return Segment{start, min(hole, end) - start}, nil
}
