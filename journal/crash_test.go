package journal

import (
	"io"
	"math/rand/v2"
	"slices"
	"sync"

	"drydock/device"
)

// crashDisk is what a crash has left: sectors that were written, zeros
// elsewhere. What is written to it afterwards is kept apart until reset.
type crashDisk struct {
	size       int64
	mu         sync.Mutex
	base, over map[int64][]byte // by number of the sector
}

func newCrashDisk(size int64) *crashDisk {
	return &crashDisk{size: size, base: map[int64][]byte{}, over: map[int64][]byte{}}
}

func (d *crashDisk) Size() int64  { return d.size }
func (d *crashDisk) Flush() error { return nil }
func (d *crashDisk) reset()       { clear(d.over) }

func (d *crashDisk) ReadAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if off+int64(len(p)) > d.size {
		return 0, io.EOF
	}
	for n := 0; n < len(p); {
		at := off + int64(n)
		skip := int(at % device.SectorSize)
		part := p[n:min(len(p), n+device.SectorSize-skip)]
		sector, ok := d.over[at/device.SectorSize]
		if !ok {
			sector, ok = d.base[at/device.SectorSize]
		}
		if ok {
			copy(part, sector[skip:])
		} else {
			clear(part)
		}
		n += len(part)
	}
	return len(p), nil
}

func (d *crashDisk) WriteAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := 0; n < len(p); n += device.SectorSize {
		d.over[(off+int64(n))/device.SectorSize] = slices.Clone(p[n : n+device.SectorSize])
	}
	return len(p), nil
}

// fold makes what was written part of the base.
func (d *crashDisk) fold() {
	for k, v := range d.over {
		d.base[k] = v
	}
	clear(d.over)
}

// clone returns a disk with the same content.
func (d *crashDisk) clone() *crashDisk {
	c := newCrashDisk(d.size)
	for _, m := range []map[int64][]byte{d.base, d.over} {
		for k, v := range m {
			c.base[k] = v
		}
	}
	return c
}

// volatile is a write that a crash may undo, until it is durable.
type volatile struct {
	e       *device.Event
	durable bool
}

// crashWalk goes through a trace, moment by moment, and makes the states that a
// crash can leave at each.
type crashWalk struct {
	disk    *crashDisk
	r       *rand.Rand
	pending []volatile // in the order of submission; those before them are in disk.base
	marks   []string   // that have passed

	// other, if not 0, is where a second device begins, which has flushes of its own.
	other int64
}

// flushOfOther is the mark of a flush of the second device.
const flushOfOther = "flush"

// moment is the start or the end of an event.
type moment struct {
	at    int
	e     *device.Event
	start bool
}

func moments(t device.Trace) []moment {
	var all []moment
	for i := range t.Events {
		e := &t.Events[i]
		all = append(all, moment{e.Submit, e, true})
		if e.Complete != 0 {
			all = append(all, moment{e.Complete, e, false})
		}
	}
	slices.SortFunc(all, func(a, b moment) int { return a.at - b.at })
	return all
}

// Choices of what has survived: nothing that is volatile, all, and, from the
// third on, random ones among writes (odd) or sectors (even).
const (
	nothing = iota
	everything
	atRandom
)

// walk calls judge with the states of the disk that a moment adds to those that
// were possible before it, and stops at the first error.
func (w *crashWalk) walk(t device.Trace, random int, judge func(*crashDisk) error) error {
	for _, m := range moments(t) {
		for _, choice := range w.step(m, random) {
			w.choose(choice)
			if err := judge(w.disk); err != nil {
				return err
			}
			w.disk.reset()
		}
	}
	return nil
}

// step passes a moment and returns the choices that give states which are new, or
// of which more is promised than before.
func (w *crashWalk) step(m moment, random int) []int {
	switch {
	case m.e.Kind == device.EventMark && m.e.Text == flushOfOther:
		if m.start {
			w.harden(func(e *device.Event) bool { return covers(m.e, e) && e.Off >= w.other })
			return w.choices(nothing, random)
		}
	case m.e.Kind == device.EventMark:
		if m.start {
			w.marks = append(w.marks, m.e.Text)
			return []int{nothing}
		}
	case m.e.Kind == device.EventWrite && m.start:
		w.pending = append(w.pending, volatile{e: m.e})
		return w.choices(everything, random)
	case m.start || m.e.Failed:
	case m.e.Kind == device.EventFlush:
		w.harden(func(e *device.Event) bool { return covers(m.e, e) && (w.other == 0 || e.Off < w.other) })
		return w.choices(nothing, random)
	case m.e.FUA:
		w.harden(func(e *device.Event) bool { return e == m.e })
		return w.choices(nothing, random)
	}
	return nil
}

// covers reports whether flush makes the write e durable.
func covers(flush, e *device.Event) bool {
	return e.Complete != 0 && e.Complete < flush.Submit && !e.Failed
}

// choices are one, and random ones where there is something to choose.
func (w *crashWalk) choices(first, random int) []int {
	all := []int{first}
	for i := 0; i < random && len(w.pending) > 0; i++ {
		all = append(all, atRandom+i)
	}
	return all
}

// harden makes writes durable. The leading ones go to the base of the disk; a
// later one has to wait there for the fate of those before it.
func (w *crashWalk) harden(is func(*device.Event) bool) {
	for i := range w.pending {
		w.pending[i].durable = w.pending[i].durable || is(w.pending[i].e)
	}
	for len(w.pending) > 0 && w.pending[0].durable {
		w.disk.WriteAt(w.pending[0].e.Data, w.pending[0].e.Off)
		w.pending = w.pending[1:]
	}
	w.disk.fold()
}

// choose puts one of the possible states over the base.
func (w *crashWalk) choose(choice int) {
	tear := choice%2 == 0
	for _, p := range w.pending {
		switch {
		case p.durable || choice == everything:
			w.disk.WriteAt(p.e.Data, p.e.Off)
		case choice == nothing:
		case tear:
			for n := 0; n < len(p.e.Data); n += device.SectorSize {
				if w.r.IntN(2) == 0 {
					w.disk.WriteAt(p.e.Data[n:n+device.SectorSize], p.e.Off+int64(n))
				}
			}
		case w.r.IntN(3) > 0:
			w.disk.WriteAt(p.e.Data, p.e.Off)
		}
	}
}
