package ext4

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/oracle"
)

// kernel is a system that Linux has mounted. A thread of its own has the mount
// as its root, so that symbolic links and dot-dot lead nowhere else.
type kernel struct {
	t     testing.TB
	dir   string
	calls chan func()
}

// mountKernel mounts an image; access times are left alone, since ours are.
func mountKernel(t testing.TB, path string, opts []string) *kernel {
	dir := oracle.Mount(t, path, append([]string{"noatime", "nodev"}, opts...)...)
	k := &kernel{t: t, dir: dir, calls: make(chan func())}
	ready := make(chan error)
	go k.serve(ready)
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	return k
}

var modelStart = time.Now().Add(-2 * time.Second)

// isNow says that a time is one that a clock had during the test: that of the
// kernel, or the one of our side and of mke2fs, which stands still.
func isNow(t time.Time) bool {
	return t.After(modelStart) && t.Before(time.Now().Add(time.Second)) || t.Unix() == modelClock.Unix()
}

// serve runs the calls in a thread that ends with it. That must not be the
// first one of the process, which never ends and would keep the mount busy.
func (k *kernel) serve(ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		started := make(chan error)
		go k.serve(started)
		ready <- <-started
		runtime.UnlockOSThread()
		return
	}
	err := unix.Unshare(unix.CLONE_FS)
	if err == nil {
		err = unix.Chroot(k.dir)
	}
	if err == nil {
		err = unix.Chdir("/")
	}
	unix.Umask(0)
	ready <- err
	for call := range k.calls {
		call()
	}
}

// end unmounts the image.
func (k *kernel) end() {
	close(k.calls)
	oracle.Unmount(k.t, k.dir)
}

func (k *kernel) run(call func() error) error {
	done := make(chan error)
	k.calls <- func() { done <- call() }
	return <-done
}

func (k *kernel) open(name string, flag int, mode uint32) (h handle, err error) {
	err = k.run(func() error {
		fd, err := unix.Open(name, flag|unix.O_CLOEXEC, mode)
		if err == nil {
			h = &kernelHandle{k, fd}
		}
		return err
	})
	return h, err
}

func (k *kernel) mkdir(name string, mode uint32) error {
	return k.run(func() error { return unix.Mkdir(name, mode) })
}

func (k *kernel) mkdirAll(name string, mode uint32) error {
	return k.run(func() error { return os.MkdirAll(name, os.FileMode(mode)) })
}

func (k *kernel) writeFile(name string, data []byte, mode uint32) error {
	return k.run(func() error { return os.WriteFile(name, data, os.FileMode(mode)) })
}

func (k *kernel) mknod(name string, mode, major, minor uint32) error {
	return k.run(func() error { return unix.Mknod(name, mode, int(unix.Mkdev(major, minor))) })
}

func (k *kernel) remove(name string) error { return k.run(func() error { return os.Remove(name) }) }

func (k *kernel) removeAll(name string) error {
	return k.run(func() error { return os.RemoveAll(name) })
}

func (k *kernel) rename(from, to string) error {
	return k.run(func() error { return unix.Rename(from, to) })
}

func (k *kernel) link(from, to string) error {
	return k.run(func() error { return unix.Link(from, to) })
}

func (k *kernel) symlink(target, name string) error {
	return k.run(func() error { return unix.Symlink(target, name) })
}

func (k *kernel) readlink(name string) (target string, err error) {
	err = k.run(func() error { target, err = os.Readlink(name); return err })
	return target, err
}

func (k *kernel) chmod(name string, mode uint32) error {
	return k.run(func() error { return unix.Chmod(name, mode) })
}

func (k *kernel) chown(name string, uid, gid int, follow bool) error {
	return k.run(func() error { return unix.Fchownat(unix.AT_FDCWD, name, uid, gid, noFollow(follow)) })
}

func noFollow(follow bool) int {
	if follow {
		return 0
	}
	return unix.AT_SYMLINK_NOFOLLOW
}

func (k *kernel) chtimes(name string, atime, mtime time.Time, follow bool) error {
	times := []unix.Timespec{timespec(atime), timespec(mtime)}
	return k.run(func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, name, times, noFollow(follow)) })
}

func timespec(t time.Time) unix.Timespec {
	return unix.Timespec{Sec: t.Unix(), Nsec: int64(t.Nanosecond())}
}

func (k *kernel) truncate(name string, size int64) error {
	return k.run(func() error { return unix.Truncate(name, size) })
}

func (k *kernel) setXattr(name, attr string, value []byte, flags int, follow bool) error {
	set := unix.Lsetxattr
	if follow {
		set = unix.Setxattr
	}
	return k.run(func() error { return set(name, attr, value, flags) })
}

func (k *kernel) removeXattr(name, attr string, follow bool) error {
	remove := unix.Lremovexattr
	if follow {
		remove = unix.Removexattr
	}
	return k.run(func() error { return remove(name, attr) })
}

func (k *kernel) xattrs(name string, follow bool) (attrs map[string][]byte, err error) {
	list, get := unix.Llistxattr, unix.Lgetxattr
	if follow {
		list, get = unix.Listxattr, unix.Getxattr
	}
	err = k.run(func() error {
		names, value := make([]byte, 1<<16), make([]byte, 1<<16)
		n, err := list(name, names)
		if err != nil {
			return err
		}
		attrs = map[string][]byte{}
		for attr := range bytes.SplitSeq(names[:n], []byte{0}) {
			if len(attr) == 0 {
				continue
			}
			n, err := get(name, string(attr), value)
			if err != nil {
				return err
			}
			attrs[string(attr)] = bytes.Clone(value[:n])
		}
		return nil
	})
	return attrs, err
}

func (k *kernel) readDir(name string) (lines []string, err error) {
	err = k.run(func() error {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		list, err := f.ReadDir(-1)
		for _, d := range list {
			lines = append(lines, fmt.Sprintf("%v %s", d.Type(), d.Name()))
		}
		return err
	})
	slices.Sort(lines)
	return lines, err
}

func (k *kernel) stat(name string, follow bool) (a attributes, err error) {
	var st unix.Stat_t
	err = k.run(func() error { return unix.Fstatat(unix.AT_FDCWD, name, &st, noFollow(follow)) })
	return kernelAttributes(&st), err
}

func kernelAttributes(st *unix.Stat_t) attributes {
	a := attributes{mode: st.Mode, nlink: uint32(st.Nlink), uid: st.Uid, gid: st.Gid, size: st.Size, ino: st.Ino,
		atime: timeName(time.Unix(st.Atim.Unix())), mtime: timeName(time.Unix(st.Mtim.Unix()))}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		a.size = 0
	case unix.S_IFCHR, unix.S_IFBLK:
		a.rdev = fmt.Sprintf("device %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
	return a
}

func timeName(t time.Time) string {
	if isNow(t) {
		return "now"
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// sync writes all out, so that the image file holds what the system does.
func (k *kernel) sync() error {
	h, err := k.open("/", os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer h.close()
	return unix.Syncfs(h.(*kernelHandle).fd)
}

type kernelHandle struct {
	k  *kernel
	fd int
}

func (h *kernelHandle) readAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		m, err := unix.Pread(h.fd, p[n:], off+int64(n))
		if err != nil {
			return n, err
		}
		if m == 0 {
			return n, io.EOF
		}
		n += m
	}
	return n, nil
}

func (h *kernelHandle) writeAt(p []byte, off int64) (int, error) {
	n, err := unix.Pwrite(h.fd, p, off)
	return max(n, 0), err
}

func (h *kernelHandle) write(p []byte) (int, error) {
	n, err := unix.Write(h.fd, p)
	return max(n, 0), err
}

func (h *kernelHandle) truncate(size int64) error { return unix.Ftruncate(h.fd, size) }
func (h *kernelHandle) chmod(mode uint32) error   { return unix.Fchmod(h.fd, mode) }
func (h *kernelHandle) close() error              { return unix.Close(h.fd) }

// sync is no fsync: there is nothing to test in the kernel's.
func (h *kernelHandle) sync() error { return nil }

func (h *kernelHandle) allocate(off, n int64, keepSize bool) error {
	return unix.Fallocate(h.fd, keepFlag(keepSize), off, n)
}

func (h *kernelHandle) punch(off, n int64) error {
	return unix.Fallocate(h.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
}

func (h *kernelHandle) zero(off, n int64, keepSize bool) error {
	return unix.Fallocate(h.fd, unix.FALLOC_FL_ZERO_RANGE|keepFlag(keepSize), off, n)
}

func keepFlag(keepSize bool) uint32 {
	if keepSize {
		return unix.FALLOC_FL_KEEP_SIZE
	}
	return 0
}

func (h *kernelHandle) stat() (attributes, error) {
	var st unix.Stat_t
	err := unix.Fstat(h.fd, &st)
	return kernelAttributes(&st), err
}

// kernelImage is an image that takes part through Linux instead of this package.
type kernelImage struct {
	*kernel
	t    testing.TB
	file string
	opts []string
}

func (k *kernelImage) path() string { return k.file }

func (k *kernelImage) close() error {
	if k.kernel != nil {
		k.kernel.end()
		k.kernel = nil
	}
	return nil
}

func (k *kernelImage) reopen() error {
	k.kernel = mountKernel(k.t, k.file, k.opts)
	return nil
}
