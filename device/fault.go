package device

import (
	"errors"
	"iter"
	"os"
	"slices"
	"sync"
)

// OpKind is a set of kinds of operation.
type OpKind uint

// Kinds of operation. A vectored write counts as a write; cloning and copying
// from a host file are OpCopy, a write with FUA is OpFUA.
const (
	OpRead OpKind = 1 << iota
	OpWrite
	OpFUA
	OpFlush
	OpPunch
	OpDiscard
	OpCopy
	OpSegments

	// OpChange is all that changes what is, or will be, on the device.
	OpChange = OpWrite | OpFUA | OpFlush | OpPunch | OpDiscard | OpCopy
)

// Op is an operation that a Fault is about to do.
type Op struct {
	Kind OpKind
	Off  int64 // bytes; 0 for OpFlush
	Len  int64 // bytes; 0 for OpFlush
}

// Rule decides about an operation: nil lets it be done, an error makes it fail
// without having been done, and a *ShortError after part of it. Rules are asked
// one operation at a time, and may keep state.
type Rule func(Op) error

// ShortError lets the first Done bytes of a write be done, then fails it with Err.
// For other operations it is Err.
type ShortError struct {
	Done int64
	Err  error
}

func (e *ShortError) Error() string { return e.Err.Error() }

func (e *ShortError) Unwrap() error { return e.Err }

// Fault is a device that fails as a rule says, and else does what the lower
// device does.
type Fault struct {
	dev Device

	mu     sync.Mutex
	rule   Rule
	counts map[OpKind]int
}

// NewFault lays a fault injector over dev. A nil rule never fails.
func NewFault(dev Device, rule Rule) *Fault {
	return &Fault{dev: dev, rule: rule, counts: make(map[OpKind]int)}
}

// SetRule changes the rule for the operations to come.
func (f *Fault) SetRule(rule Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rule = rule
}

// Count is the number of operations of the given kinds so far, failed ones too.
func (f *Fault) Count(kinds OpKind) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for kind, count := range f.counts {
		if kind&kinds != 0 {
			n += count
		}
	}
	return n
}

// FailNth fails the n-th operation of the given kinds, counted from 1.
func FailNth(kinds OpKind, n int, err error) Rule {
	return counted(kinds, err, func(seen int) bool { return seen == n })
}

// FailFrom fails the n-th operation of the given kinds, counted from 1, and all
// later ones, as a device does that is gone.
func FailFrom(kinds OpKind, n int, err error) Rule {
	return counted(kinds, err, func(seen int) bool { return seen >= n })
}

// counted fails an operation of the given kinds if fails says so of its number,
// counted from 1.
func counted(kinds OpKind, err error, fails func(seen int) bool) Rule {
	seen := 0
	return func(op Op) error {
		if op.Kind&kinds == 0 {
			return nil
		}
		if seen++; fails(seen) {
			return err
		}
		return nil
	}
}

// FailRange fails the operations of the given kinds that touch the n bytes at off,
// as a bad spot of a disk.
func FailRange(kinds OpKind, off, n int64, err error) Rule {
	return func(op Op) error {
		if op.Kind&kinds != 0 && op.Off < off+n && off < op.Off+op.Len {
			return err
		}
		return nil
	}
}

// FailAfterBytes lets n bytes be written, then fails all writes, the first of them
// in its middle, as a host file system that is full. Cloning and copying are
// errors.ErrUnsupported, so that all data come as writes.
func FailAfterBytes(n int64, err error) Rule {
	return func(op Op) error {
		switch {
		case op.Kind == OpCopy:
			return errors.ErrUnsupported
		case op.Kind&(OpWrite|OpFUA) == 0:
			return nil
		}
		left := n
		if n -= min(n, op.Len); left >= op.Len {
			return nil
		}
		return &ShortError{left, err}
	}
}

// Any asks every rule, and fails with the first error.
func Any(rules ...Rule) Rule {
	return func(op Op) (err error) {
		for _, r := range rules {
			if e := r(op); err == nil {
				err = e
			}
		}
		return err
	}
}

// ask counts an operation and asks the rule about it.
func (f *Fault) ask(kind OpKind, off, n int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[kind]++
	if f.rule == nil {
		return nil
	}
	return f.rule(Op{kind, off, n})
}

// write does a write, or the part of it that the rule allows.
func (f *Fault) write(kind OpKind, bufs [][]byte, off int64, do func() (int, error)) (done int, err error) {
	total := totalLen(bufs)
	if err = f.ask(kind, off, total); err == nil {
		return do()
	}
	if short, ok := err.(*ShortError); ok && short.Done > 0 {
		part := slices.Concat(bufs...)[:min(short.Done, total)]
		var lower error
		if done, lower = f.dev.WriteAt(part, off); lower != nil {
			return done, lower
		}
	}
	return done, opError("write", f.Path(), off, total, err)
}

// Path is the lower device's.
func (f *Fault) Path() string { return Name(f.dev) }

// ReadOnly reports whether the lower device refuses writes.
func (f *Fault) ReadOnly() bool { return ReadOnly(f.dev) }

// Size is the length in bytes.
func (f *Fault) Size() int64 { return f.dev.Size() }

// ReadAt implements io.ReaderAt.
func (f *Fault) ReadAt(p []byte, off int64) (int, error) {
	if err := f.ask(OpRead, off, int64(len(p))); err != nil {
		return 0, opError("read", f.Path(), off, int64(len(p)), err)
	}
	return f.dev.ReadAt(p, off)
}

// WriteAt implements io.WriterAt.
func (f *Fault) WriteAt(p []byte, off int64) (int, error) {
	return f.write(OpWrite, [][]byte{p}, off, func() (int, error) { return f.dev.WriteAt(p, off) })
}

// WritevAt implements VectorWriter.
func (f *Fault) WritevAt(bufs [][]byte, off int64) (int, error) {
	return f.write(OpWrite, bufs, off, func() (int, error) { return Writev(f.dev, bufs, off) })
}

// WriteFUA implements FUAWriter.
func (f *Fault) WriteFUA(p []byte, off int64) (int, error) {
	return f.write(OpFUA, [][]byte{p}, off, func() (int, error) { return WriteFUA(f.dev, p, off) })
}

// Flush implements Device.
func (f *Fault) Flush() error {
	if err := f.ask(OpFlush, 0, 0); err != nil {
		return pathError("flush", f.Path(), err)
	}
	return f.dev.Flush()
}

// PunchHole implements Puncher.
func (f *Fault) PunchHole(off, n int64) error {
	if err := f.ask(OpPunch, off, n); err != nil {
		return opError("punch", f.Path(), off, n, err)
	}
	return punch(f.dev, off, n)
}

// Discard implements Discarder.
func (f *Fault) Discard(off, n int64) error {
	if err := f.ask(OpDiscard, off, n); err != nil {
		return opError("discard", f.Path(), off, n, err)
	}
	return discard(f.dev, off, n)
}

// CloneRange implements RangeCloner.
func (f *Fault) CloneRange(dstOff int64, src *os.File, srcOff, n int64) error {
	if err := f.ask(OpCopy, dstOff, n); err != nil {
		return opError("clone", f.Path(), dstOff, n, err)
	}
	return cloneRange(f.dev, dstOff, src, srcOff, n)
}

// CopyRange implements RangeCopier.
func (f *Fault) CopyRange(dstOff int64, src *os.File, srcOff, n int64) (int64, error) {
	if err := f.ask(OpCopy, dstOff, n); err != nil {
		return 0, opError("copy", f.Path(), dstOff, n, err)
	}
	return copyRange(f.dev, dstOff, src, srcOff, n)
}

// Segments implements Segmenter.
func (f *Fault) Segments(off, n int64) iter.Seq2[Segment, error] {
	if err := f.ask(OpSegments, off, n); err != nil {
		return failed(opError("seek", f.Path(), off, n, err))
	}
	return Segments(f.dev, off, n)
}
