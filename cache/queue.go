package cache

// Writer is what a Queue writes to; a *Mapping, or a file on top of one.
type Writer interface {
	WriteAt(p []byte, off int64) (n int, err error)
	TryWriteAt(p []byte, off int64) (n int, err error)
}

// QueueOptions says how a Queue works; the zero value is right.
type QueueOptions struct {
	Workers int   // goroutines for the writes that have to wait. 0: 4
	Depth   int   // completions not taken yet, and writes not completed, together. 0: 128
	Bytes   int64 // most memory for the data of writes on their way. 0: 16 MiB
}

// Completion tells how a write ended.
type Completion struct {
	Tag uint64 // as given to Submit
	N   int    // bytes taken
	Err error  // nil if N is all of it
}

// Queue makes writes that do not wait.
type Queue struct{}

// NewQueue returns a queue of writes to w.
func NewQueue(w Writer, o QueueOptions) *Queue { return &Queue{} }

// Submit writes p at off, at once if that needs no waiting, else later by a worker.
func (q *Queue) Submit(off int64, p []byte, tag uint64) error { return errStub }

// Poll returns the next completion, if there is one already.
func (q *Queue) Poll() (Completion, bool) { return Completion{}, false }

// Wait returns the next completion; false when there is none and none is to come.
func (q *Queue) Wait() (Completion, bool) { return Completion{}, false }

// Close waits until all writes have ended; their completions can be taken afterwards.
func (q *Queue) Close() error { return nil }
