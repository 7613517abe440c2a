package journal

import (
	"reflect"
	"sync"
	"sync/atomic"

	"drydock/device"
)

// flusher flushes the home device for all who ask at the same time at once.
type flusher struct {
	dev  device.Device
	off  bool // NoFlush
	mu   sync.Mutex
	cond *sync.Cond

	started, done uint64 // numbers of the last flush that was started, and that succeeded
	busy          bool
	err           error // once a flush has failed nothing is sure any more

	count atomic.Uint64 // of all flushes of the journal
}

func (f *flusher) init(o Options) {
	f.dev, f.off = o.Device, o.NoFlush
	f.cond = sync.NewCond(&f.mu)
}

// ticket is the number of the first flush that covers all that was written
// before the call.
func (f *flusher) ticket() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.started + 1
}

// now flushes all that was written before the call.
func (f *flusher) now() error { return f.reach(f.ticket()) }

// reach returns when flush n, or a later one, has succeeded.
func (f *flusher) reach(n uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.off && f.done < n {
		switch {
		case f.err != nil:
			return f.err
		case f.busy:
			f.cond.Wait()
		default:
			f.once()
		}
	}
	return nil
}

// once does the next flush. The caller holds mu, which is free meanwhile.
func (f *flusher) once() {
	f.busy = true
	f.started++
	n := f.started
	f.mu.Unlock()
	err := f.dev.Flush()
	f.count.Add(1)
	f.mu.Lock()
	f.busy = false
	if err != nil {
		f.err = err
	} else {
		f.done = n
	}
	f.cond.Broadcast()
}

// sameDevice reports whether two devices are one.
func sameDevice(a, b device.Device) bool {
	return reflect.TypeOf(a).Comparable() && a == b
}
