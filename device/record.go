package device

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
)

// EventKind is what an Event is about.
type EventKind uint8

// Kinds of event.
const (
	EventWrite   EventKind = iota // Data at Off, durable at once with FUA
	EventFlush                    // Flush
	EventZero                     // Len bytes at Off read as zeros
	EventDiscard                  // Len bytes at Off have no particular content
	EventMark                     // Text, put there by Mark
)

// Event is one thing that happened to a device. Submit and Complete are places in
// one order common to all events: a Flush makes a write durable if the write's
// Complete is below the flush's Submit.
type Event struct {
	Kind     EventKind
	FUA      bool
	Failed   bool   // it returned an error; of a write, any part may have been done
	Off, Len int64  // bytes
	Data     []byte // EventWrite: what was written, Len bytes
	Text     string // EventMark
	Submit   int
	Complete int // 0: was still running when the trace was taken
}

// Trace is what happened to a device, in the order of submission.
type Trace struct {
	Size   int64 // of the device, in bytes
	Events []Event
}

// Recorder records all changes of another device, which it passes on: in
// memory, with a copy of all data written, or in a trace file. It offers no
// cloning or copying from host files: those come as writes.
type Recorder struct {
	dev  Device
	file *traceWriter // nil: in memory

	mu     sync.Mutex
	clock  int // the last place in the common order
	events []Event
}

// NewRecorder lays a recorder over dev that keeps its events for Trace.
func NewRecorder(dev Device) *Recorder { return &Recorder{dev: dev} }

// NewRecorderTo lays a recorder over dev that writes its events to w as a trace
// file, which ReadTrace reads. CloseTrace ends it. Trace has no events then.
func NewRecorderTo(dev Device, w io.Writer) *Recorder {
	return &Recorder{dev: dev, file: newTraceWriter(w, dev.Size())}
}

// CloseTrace hands the rest of the trace to the writer of NewRecorderTo, which
// stays open. The error is the first that writing the trace met; what happened
// to the device after it is not in the trace.
func (r *Recorder) CloseTrace() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	return r.file.flush()
}

// Mark puts a text between what was recorded and what will be.
func (r *Recorder) Mark(text string) {
	r.record(Event{Kind: EventMark, Text: text}, func() error { return nil })
}

// Trace returns what was recorded so far. The data of its events must not be
// changed.
func (r *Recorder) Trace() Trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Trace{r.dev.Size(), slices.Clone(r.events)}
}

// Replay does the first n events of a trace to dst, in the order of submission,
// including those that failed. A discarded range reads as zeros.
func (t Trace) Replay(dst Device, n int) error {
	for i, e := range t.Events[:n] {
		if err := e.apply(dst); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	return nil
}

// apply does to dst what the event was.
func (e Event) apply(dst Device) error {
	switch e.Kind {
	case EventWrite:
		_, err := dst.WriteAt(e.Data, e.Off)
		return err
	case EventZero, EventDiscard:
		return Zero(dst, e.Off, e.Len)
	case EventFlush:
		return dst.Flush()
	}
	return nil
}

// record notes an event, does it and notes its end.
func (r *Recorder) record(e Event, do func() error) error {
	submit, index := r.begin(e)
	err := do()
	r.end(submit, index, err != nil)
	return err
}

func (r *Recorder) begin(e Event) (submit, index int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	e.Submit = r.clock
	if r.file != nil {
		r.file.begin(e)
		return e.Submit, 0
	}
	r.events = append(r.events, e)
	return e.Submit, len(r.events) - 1
}

func (r *Recorder) end(submit, index int, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	if r.file != nil {
		r.file.end(submit, r.clock, failed)
		return
	}
	r.events[index].Complete = r.clock
	r.events[index].Failed = failed
}

// Path is the lower device's.
func (r *Recorder) Path() string { return Name(r.dev) }

// ReadOnly reports whether the lower device refuses writes.
func (r *Recorder) ReadOnly() bool { return ReadOnly(r.dev) }

// Size is the length in bytes.
func (r *Recorder) Size() int64 { return r.dev.Size() }

// ReadAt implements io.ReaderAt.
func (r *Recorder) ReadAt(p []byte, off int64) (int, error) { return r.dev.ReadAt(p, off) }

// WriteAt implements io.WriterAt.
func (r *Recorder) WriteAt(p []byte, off int64) (n int, err error) {
	return r.write([][]byte{p}, off, false, func() (int, error) { return r.dev.WriteAt(p, off) })
}

// WritevAt implements VectorWriter; the buffers are one write.
func (r *Recorder) WritevAt(bufs [][]byte, off int64) (n int, err error) {
	return r.write(bufs, off, false, func() (int, error) { return Writev(r.dev, bufs, off) })
}

// WriteFUA implements FUAWriter.
func (r *Recorder) WriteFUA(p []byte, off int64) (n int, err error) {
	return r.write([][]byte{p}, off, true, func() (int, error) { return WriteFUA(r.dev, p, off) })
}

// write records a write. One outside the device does nothing and is no event.
func (r *Recorder) write(bufs [][]byte, off int64, fua bool, do func() (int, error)) (n int, err error) {
	total := totalLen(bufs)
	if err := checkRange("write", r.Path(), off, total, r.Size()); err != nil {
		return 0, err
	}
	e := Event{Kind: EventWrite, FUA: fua, Off: off, Len: total, Data: slices.Concat(bufs...)}
	err = r.record(e, func() (err error) {
		n, err = do()
		return err
	})
	return n, err
}

// Flush implements Device.
func (r *Recorder) Flush() error {
	return r.record(Event{Kind: EventFlush}, r.dev.Flush)
}

// PunchHole implements Puncher. Where the lower device cannot, zeros are written,
// so that the trace tells what was meant.
func (r *Recorder) PunchHole(off, n int64) error {
	if err := checkRange("punch", r.Path(), off, n, r.Size()); err != nil {
		return err
	}
	return r.record(Event{Kind: EventZero, Off: off, Len: n}, func() error { return Zero(r.dev, off, n) })
}

// Discard implements Discarder.
func (r *Recorder) Discard(off, n int64) error {
	if err := checkRange("discard", r.Path(), off, n, r.Size()); err != nil {
		return err
	}
	return r.record(Event{Kind: EventDiscard, Off: off, Len: n}, func() error { return Discard(r.dev, off, n) })
}

// Segments implements Segmenter.
func (r *Recorder) Segments(off, n int64) iter.Seq2[Segment, error] {
	return Segments(r.dev, off, n)
}
