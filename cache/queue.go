package cache

import (
	"errors"
	"sync"
)

// ErrQueueFull is what Submit says while as many writes are on their way, or
// completed and not taken, as the queue has room for.
var ErrQueueFull = errors.New("the queue is full")

// Writer is what a Queue writes to: a *Mapping, or a file on top of one. TryWriteAt
// says ErrWouldWait where it can only go on by waiting; then a worker calls WriteAt
// for the rest.
type Writer interface {
	WriteAt(p []byte, off int64) (n int, err error)
	TryWriteAt(p []byte, off int64) (n int, err error)
}

// QueueOptions says how a Queue works; the zero value is right.
type QueueOptions struct {
	Workers int  // most goroutines at a time, for the writes that have to wait. 0: 4
	Depth   int  // most writes that are on their way or completed and not taken. 0: 128
	Punt    bool // every write is for the workers; to compare with in bench
}

// Completion tells how a write ended.
type Completion struct {
	Tag uint64 // as given to Submit
	N   int    // bytes taken
	Err error  // nil if that is all of them
}

// Queue makes writes without waiting for them:
//
//	Submit --TryWriteAt takes all--------------------> completions --> Poll, Wait
//	       --the rest--> jobs --> workers, WriteAt --/
//
// Completions come in the order in which the writes ended, of which each is
// reported once. Writes that overlap may take effect in any order, as long as none
// of them has completed.
//
// Memory: the data is borrowed. The caller does not change p from Submit until it
// has taken the completion. The queue itself holds Depth descriptors, not more.
//
// All methods may be called at the same time from many goroutines.
type Queue struct {
	w Writer
	o QueueOptions

	mu      sync.Mutex
	changed sync.Cond // a completion was added, or the last write on its way has ended
	jobs    ring[job]
	ended   ring[Completion]
	running int // writes with the workers or waiting for them
	workers int
	closed  bool
	stats   QueueStats
}

// QueueStats counts what became of the writes.
type QueueStats struct {
	Submitted uint64 // writes taken by Submit
	Punts     uint64 // those of them that went to a worker
}

// job is a write for the workers: what is left of it.
type job struct {
	p    []byte
	off  int64
	tag  uint64
	done int // bytes taken before
}

// NewQueue returns a queue of writes to w.
func NewQueue(w Writer, o QueueOptions) *Queue {
	if o.Workers <= 0 {
		o.Workers = 4
	}
	if o.Depth <= 0 {
		o.Depth = 128
	}
	q := &Queue{w: w, o: o, jobs: newRing[job](o.Depth), ended: newRing[Completion](o.Depth)}
	q.changed.L = &q.mu
	return q
}

// Submit writes p at off: at once as far as that needs no waiting, the rest by a
// worker. It does not wait itself, and says ErrQueueFull instead, having done
// nothing. Errors of the write are its completion's.
func (q *Queue) Submit(off int64, p []byte, tag uint64) error {
	if err := q.admit(); err != nil {
		return err
	}
	n, err := 0, ErrWouldWait
	if !q.o.Punt {
		n, err = q.w.TryWriteAt(p, off)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != ErrWouldWait && !errors.Is(err, ErrWouldWait) {
		q.complete(Completion{tag, n, err})
		return nil
	}
	q.stats.Punts++
	q.jobs.push(job{p[n:], off + int64(n), tag, n})
	if q.workers < q.o.Workers {
		q.workers++
		go q.work()
	}
	return nil
}

// admit counts a new write.
func (q *Queue) admit() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return ErrClosed
	case q.running+q.ended.n >= q.o.Depth:
		return ErrQueueFull
	}
	q.running++
	q.stats.Submitted++
	return nil
}

// complete reports the end of a write; the caller holds mu.
func (q *Queue) complete(c Completion) {
	q.running--
	q.ended.push(c)
	q.changed.Broadcast()
}

// work does jobs until there is none.
func (q *Queue) work() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.jobs.n > 0 {
		j := q.jobs.pop()
		q.mu.Unlock()
		n, err := q.w.WriteAt(j.p, j.off)
		q.mu.Lock()
		q.complete(Completion{j.tag, j.done + n, err})
	}
	q.workers--
}

// Poll returns the next completion; false if there is none yet.
func (q *Queue) Poll() (Completion, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended.n == 0 {
		return Completion{}, false
	}
	return q.ended.pop(), true
}

// Wait returns the next completion when there is one; false if no write is on its
// way.
func (q *Queue) Wait() (Completion, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.ended.n == 0 {
		if q.running == 0 {
			return Completion{}, false
		}
		q.changed.Wait()
	}
	return q.ended.pop(), true
}

// Close ends the taking of writes and waits until those on their way have ended.
// Their completions can be taken afterwards.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for q.running > 0 {
		q.changed.Wait()
	}
	return nil
}

// Stats returns the counters.
func (q *Queue) Stats() QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stats
}

// ring is a queue of bounded length.
type ring[T any] struct {
	items []T
	first int
	n     int
}

func newRing[T any](size int) ring[T] { return ring[T]{items: make([]T, size)} }

// push adds an item; there is room.
func (r *ring[T]) push(item T) {
	at := r.first + r.n
	if at >= len(r.items) {
		at -= len(r.items)
	}
	r.items[at] = item
	r.n++
}

// pop returns the oldest item, of which there is one, and forgets it.
func (r *ring[T]) pop() T {
	var zero T
	item := r.items[r.first]
	r.items[r.first] = zero
	if r.first++; r.first == len(r.items) {
		r.first = 0
	}
	r.n--
	return item
}
