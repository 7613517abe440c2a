package build

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"drydock/internal/mkfs"
)

const (
	ringSlots    = jobPieces     // fixed files: as many files as a job can have
	ringRequests = 3 * ringSlots // open, read and close for each
	nameRoom     = maxName + 1   // a name and a NUL

	ringPatience = int(10 * time.Second / ringTick)
)

// ringReader is a smallReader for host directories that reads all files of a
// job with one system call. On a virtual machine, where a system call costs as
// much as reading a small file, this takes less than half the time of openReader.
// On a cold disk all files of a job are read at the same time.
//
// Whatever does not go as planned is done again by openReader, whose errors are
// exact.
type ringReader struct {
	openReader
	src   *DirSource
	ring  *ring
	dir   uint32                      // number of the last of dirs
	dirs  []*dirRef                   // in use
	names *[jobPieces * nameRoom]byte // the kernel reads them until the requests are started
	again []int                       // pieces that the ring did not read

	ctx      context.Context
	useless  int // jobs in a row for which the ring was of no use
	patience int // how often in a row the ring may say that nothing has happened
}

// newRingReader fails where io_uring is not to be had.
func newRingReader(ctx context.Context, src *DirSource, c *mkfs.Content) (*ringReader, error) {
	ring, err := newRing(ringRequests, ringSlots)
	if err != nil {
		return nil, err
	}
	runtime.LockOSThread() // requests under way belong to the thread that started them
	return &ringReader{
		openReader: openReader{src, c}, src: src, ring: ring, ctx: ctx, patience: ringPatience,
		names: new([jobPieces * nameRoom]byte), again: make([]int, 0, jobPieces),
	}, nil
}

func (r *ringReader) close() {
	r.closeDirs(0)
	if r.ring != nil {
		r.ring.close()
		r.ring = nil
		runtime.UnlockOSThread()
	}
}

func (r *ringReader) read(j *job, todo []int) (failed int, err error) {
	if r.ring == nil {
		return r.openReader.read(j, todo)
	}
	r.again = r.again[:0]
	n := 0
	for _, i := range todo {
		if r.request(j, i) {
			n++
		} else {
			r.again = append(r.again, i)
		}
	}
	if err := r.wait(j, n); err != nil {
		r.abandon(j)
		if r.ctx.Err() != nil && len(todo) > 0 {
			return todo[0], r.ctx.Err()
		}
		return r.openReader.read(j, todo)
	}
	r.closeDirs(1)
	r.judge(n)
	slices.Sort(r.again)
	return r.openReader.read(j, r.again)
}

// judge gives the ring up if it has failed for all of n files, several times in
// a row: the file system may have no way to read without blocking.
func (r *ringReader) judge(n int) {
	if n == 0 || len(r.again) < n {
		r.useless = 0
		return
	}
	if r.useless++; r.useless == 4 {
		r.close()
	}
}

// request adds the requests that read piece i. It is false if that cannot be
// done.
func (r *ringReader) request(j *job, i int) bool {
	p := &j.pieces[i]
	dir, name, ok := r.src.findFile(r.content.Nodes[p.node].Source)
	if !ok || len(name) >= nameRoom {
		return false
	}
	fd, ok := r.openDir(dir)
	if !ok {
		return false
	}
	path := r.names[i*nameRoom : (i+1)*nameRoom]
	path[copy(path, name)] = 0
	user := uint64(i)
	r.ring.add(ringRequest{
		op: ringOpOpenat, flags: ringHardLink | ringSkipSuccess, fd: int32(fd), addr: addressOf(&path[0]),
		how: r.flags(), slot: uint32(i) + 1, user: user | ringIsOpen,
	})
	r.ring.add(ringRequest{
		op: ringOpRead, flags: ringHardLink | ringFixedFile, fd: int32(i), addr: addressOf(&j.buf[p.at]),
		len: uint32(p.n + 1), user: user,
	})
	r.ring.add(ringRequest{op: ringOpClose, slot: uint32(i) + 1, user: user | ringIsClose})
	return true
}

// flags returns how files are opened. With O_NONBLOCK a file that has become a
// pipe does not wait for someone to write to it.
func (r *ringReader) flags() uint32 {
	if r.src.noAtime.Load() {
		return unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOATIME
	}
	return unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
}

// What a request does, in user beside the number of the piece. A read is 0.
const (
	ringIsOpen  = 1 << 32
	ringIsClose = 1 << 33
)

// wait starts all requests and waits until n files are read and closed. Those
// that were not read as planned are added to again. An open that failed makes
// the read fail, since no file is in the slot.
func (r *ringReader) wait(j *job, n int) error {
	idle := 0
	for left := 2 * n; left > 0; {
		err := r.ring.enter(left)
		if idle++; err == unix.ETIME && idle < r.patience {
			err = r.ctx.Err()
		}
		if err != nil && err != unix.EINTR {
			return err
		}
		for q, ok := r.ring.take(); ok; q, ok = r.ring.take() {
			idle = 0
			if q.user&ringIsOpen != 0 {
				continue
			}
			left--
			if i := int(q.user); q.user&ringIsClose == 0 && int(q.res) != j.pieces[i].n {
				r.again = append(r.again, i)
			}
		}
	}
	return nil
}

// abandoned keeps memory that the kernel may still write to.
var abandoned struct {
	sync.Mutex
	what []any
}

// abandon gives the ring up, with what requests under way refer to.
func (r *ringReader) abandon(j *job) {
	abandoned.Lock()
	defer abandoned.Unlock()
	abandoned.what = append(abandoned.what, r.ring, r.names, j.buf)
	r.ring, r.dirs = nil, nil
	buf := allocPages(len(j.buf))
	copy(buf, j.buf)
	j.buf = buf
	runtime.UnlockOSThread()
}

// openDir returns the descriptor of a directory, open until closeDirs.
func (r *ringReader) openDir(dir uint32) (fd int, ok bool) {
	if n := len(r.dirs); n > 0 && r.dir == dir {
		return r.dirs[n-1].fd, true
	}
	ref, err := r.src.cache.acquire(dir)
	if err != nil {
		return -1, false
	}
	r.dir, r.dirs = dir, append(r.dirs, ref)
	return ref.fd, true
}

// closeDirs ends the use of all directories but the keep last ones.
func (r *ringReader) closeDirs(keep int) {
	n := max(0, len(r.dirs)-keep)
	for _, ref := range r.dirs[:n] {
		r.src.cache.release(ref)
	}
	r.dirs = append(r.dirs[:0], r.dirs[n:]...)
}

// findFile returns the number of a file's directory and the name there.
func (s *DirSource) findFile(handle uint64) (dir uint32, name []byte, ok bool) {
	index, _ := splitHandle(handle)
	s.tree.mu.Lock()
	defer s.tree.mu.Unlock()
	if index >= s.files.n {
		return 0, nil, false
	}
	rec := s.files.at(index)
	return rec.dir, s.tree.names.get(rec.name), true
}

// addressOf returns where v is, for the kernel. What v points to must be kept
// alive by other means and must not lie on a stack.
func addressOf(v *byte) uint64 { return uint64(uintptr(unsafe.Pointer(v))) }
