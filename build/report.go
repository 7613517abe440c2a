package build

import (
	"sync"
	"time"
)

// reporter passes progress on, a few times a second at most.
type reporter struct {
	mu   sync.Mutex
	fn   func(Progress)
	now  Progress
	last time.Time
}

const reportEvery = 100 * time.Millisecond

func newReporter(fn func(Progress)) *reporter { return &reporter{fn: fn} }

// phase begins a phase of so much work; 0 is unknown.
func (r *reporter) phase(name string, bytes, files int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = Progress{Phase: name, TotalBytes: bytes, TotalFiles: files}
	r.tell()
}

// add counts work that was done.
func (r *reporter) add(bytes, files int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Bytes += bytes
	r.now.Files += files
	if time.Since(r.last) >= reportEvery {
		r.tell()
	}
}

// tell calls fn. The caller holds mu.
func (r *reporter) tell() {
	r.last = time.Now()
	if r.fn != nil {
		r.fn(r.now)
	}
}
