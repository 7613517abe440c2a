package build

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is a minimal io_uring: requests are put into a queue that the kernel
// shares and are started all at once, by one system call. It is used by one
// goroutine. See io_uring(7).
type ring struct {
	fd      int
	queues  []byte // shared with the kernel
	sqBytes []byte // shared with the kernel: the memory of requests

	requests       []ringRequest // indexed by position & sqMask
	sqTail         *uint32
	sqMask         uint32
	tail           uint32 // position of the next request
	started        uint32 // position of the next request to start
	results        []ringResult
	cqHead, cqTail *uint32
	cqMask         uint32

	patience ringWait
	timeout  unix.Timespec // that patience refers to
}

// ringRequest is struct io_uring_sqe.
type ringRequest struct {
	op     uint8
	flags  uint8
	ioprio uint16
	fd     int32
	off    uint64
	addr   uint64
	len    uint32
	how    uint32 // flags of the operation
	user   uint64 // handed back in the result
	buf    uint16
	person uint16
	slot   uint32 // a fixed file plus 1
	_      [2]uint64
}

// ringResult is struct io_uring_cqe.
type ringResult struct {
	user  uint64
	res   int32 // what the system call would return, an error negated
	flags uint32
}

// ringParams is struct io_uring_params, with the offsets of the fields of the
// queues in their memory.
type ringParams struct {
	sqEntries, cqEntries, flags, threadCPU, threadIdle, features, workers uint32

	_  [3]uint32
	sq struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, results, flags, _ uint32
		_                                                      uint64
	}
}

// ringFiles is struct io_uring_rsrc_register.
type ringFiles struct {
	n, flags uint32
	_        uint64
	data     uint64
	tags     uint64
}

// ringTick is how long enter waits.
const ringTick = 200 * time.Millisecond

// ringWait is struct io_uring_getevents_arg.
type ringWait struct {
	signals     uint64
	signalBytes uint32
	_           uint32
	timeout     uint64
}

// Values of <linux/io_uring.h>.
const (
	ringOpOpenat = 18
	ringOpClose  = 19
	ringOpRead   = 22

	ringFixedFile   = 1 << 0 // fd is the number of a fixed file
	ringHardLink    = 1 << 3 // the next request starts when this one ends, whatever came of it
	ringSkipSuccess = 1 << 6 // no result unless it fails

	ringOffRequests    = 0x10000000 // of the requests' memory, for mmap
	ringFeatSingleMmap = 1 << 0     // both queues are in one mapping
	ringGetEvents      = 1 << 0     // io_uring_enter waits for results
	ringExtArg         = 1 << 3     // io_uring_enter has a ringWait
	ringRegisterFiles2 = 13
	ringFilesSparse    = 1 << 0 // the files are put in later
)

// newRing returns a ring with room for so many requests (rounded up to a power
// of two) and fixed files. It fails with errors.ErrUnsupported where the kernel
// is older than 5.19, which has all that is used here, and with another error
// where use of io_uring is not allowed.
func newRing(requests uint32, files int) (*ring, error) {
	var p ringParams
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(requests), uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, fmt.Errorf("io_uring_setup: %w", errno)
	}
	r := &ring{fd: int(fd), timeout: unix.NsecToTimespec(int64(ringTick))}
	r.patience.timeout = uint64(uintptr(unsafe.Pointer(&r.timeout)))
	if p.features&ringFeatSingleMmap == 0 {
		r.close()
		return nil, errors.ErrUnsupported
	}
	if err := errors.Join(r.register(files), r.mmap(&p)); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// register makes room for fixed files.
func (r *ring) register(files int) error {
	f := ringFiles{n: uint32(files), flags: ringFilesSparse}
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), ringRegisterFiles2,
		uintptr(unsafe.Pointer(&f)), unsafe.Sizeof(f), 0, 0)
	if errno != 0 {
		return fmt.Errorf("io_uring_register: %w", errno)
	}
	return nil
}

// mmap maps the queues.
func (r *ring) mmap(p *ringParams) (err error) {
	const access, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	size := max(p.sq.array+p.sqEntries*4, p.cq.results+p.cqEntries*uint32(unsafe.Sizeof(ringResult{})))
	if r.queues, err = unix.Mmap(r.fd, 0, int(size), access, flags); err != nil {
		return fmt.Errorf("io_uring: mmap: %w", err)
	}
	size = p.sqEntries * uint32(unsafe.Sizeof(ringRequest{}))
	if r.sqBytes, err = unix.Mmap(r.fd, ringOffRequests, int(size), access, flags); err != nil {
		return fmt.Errorf("io_uring: mmap: %w", err)
	}
	at := func(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.queues[off])) }
	r.requests = unsafe.Slice((*ringRequest)(unsafe.Pointer(&r.sqBytes[0])), p.sqEntries)
	r.results = unsafe.Slice((*ringResult)(unsafe.Pointer(&r.queues[p.cq.results])), p.cqEntries)
	r.sqTail, r.sqMask = at(p.sq.tail), *at(p.sq.mask)
	r.cqHead, r.cqTail, r.cqMask = at(p.cq.head), at(p.cq.tail), *at(p.cq.mask)
	order := unsafe.Slice(at(p.sq.array), p.sqEntries)
	for i := range order {
		order[i] = uint32(i)
	}
	return nil
}

// add adds a request. There must be room for it: as many requests as newRing
// was asked for can be added before they are started.
func (r *ring) add(q ringRequest) {
	r.requests[r.tail&r.sqMask] = q
	r.tail++
}

// enter starts what was added and waits for so many results, at most for
// ringTick: then it fails with ETIME.
func (r *ring) enter(wait int) error {
	atomic.StoreUint32(r.sqTail, r.tail)
	n, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(r.tail-r.started),
		uintptr(wait), ringGetEvents|ringExtArg, uintptr(unsafe.Pointer(&r.patience)), unsafe.Sizeof(r.patience))
	if errno != 0 {
		return errno
	}
	r.started += uint32(n)
	return nil
}

// take returns the next result, if there is one.
func (r *ring) take() (q ringResult, ok bool) {
	head := *r.cqHead
	if head == atomic.LoadUint32(r.cqTail) {
		return q, false
	}
	q = r.results[head&r.cqMask]
	atomic.StoreUint32(r.cqHead, head+1)
	return q, true
}

// close ends the use of the ring. No request may be under way.
func (r *ring) close() {
	if r.queues != nil {
		_ = unix.Munmap(r.queues)
	}
	if r.sqBytes != nil {
		_ = unix.Munmap(r.sqBytes)
	}
	_ = unix.Close(r.fd)
}
