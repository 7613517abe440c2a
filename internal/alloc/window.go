package alloc

import (
	"container/list"

	"drydock/format"
)

// Window is room kept for one file behind the blocks picked last, so that a
// file written piece by piece stays in one place while others are written too.
// It lives in memory only. Its blocks are nobody's: they count as free, and
// where space gets short all windows are given up. The zero value is an empty
// window; the Allocator's lock guards it.
type Window struct {
	m       *blockMap
	from, n int           // bits of m
	size    int           // blocks asked for last
	place   *list.Element // in windowList
}

// Limits of a window.
const (
	maxWindowBlocks = 8192
	maxWindowBytes  = 16 << 20
	windowGrowth    = 8 // a first window is so many times what is written
	windowShare     = 8 // windows are kept while this many times as much is free
)

// windowList is all windows that hold blocks.
type windowList struct {
	list   list.List // of *Window; the one used last at the back
	most   int
	blocks int64
}

func (l *windowList) init(most int) { l.most = most }

// hinder reports whether windows are to be given up for a search that found n
// blocks, fewer than it wanted.
func (l *windowList) hinder(n int, free int64) bool {
	return l.blocks > 0 && (n == 0 || l.blocks*windowShare >= free)
}

// FindIn is Find for one of several writes to a file. It picks from the file's
// window if that has blocks; else it looks for room for want blocks and more
// of them, and keeps what is more in the window. expect says how many blocks
// the file will need in all, from now on, as far as known; 0: the window
// grows with each use, up to 16 MiB. A window ends with Drop.
func (a *Allocator) FindIn(w *Window, goal format.Block, want, expect uint32, reserved bool) (start format.Block, n uint32, err error) {
	a.mu.Lock()
	defer a.unlock()
	limit, err := a.space.limit(want, reserved)
	if err != nil {
		return 0, 0, err
	}
	if w.n > 0 {
		if f := a.freeAt(goal, limit, limit); f.n > 0 {
			return a.settle(f, limit, reserved)
		}
		return a.fromWindow(w, goal, limit, reserved)
	}
	f := a.room(w, goal, limit, int(expect))
	start, n, err = a.settle(f, limit, reserved)
	if rest := f.n - int(n); err == nil && rest > 0 {
		a.keep(w, a.maps[f.group], f.from+int(n), rest) // which is in memory: blocks of it were just picked
	}
	return start, n, err
}

// room finds limit blocks and more for a window. A file that goes on stays
// where it is if it can.
func (a *Allocator) room(w *Window, goal format.Block, limit, expect int) found {
	goes := w.size > 0
	most := limit + a.windowSize(w, limit, expect)
	if goes {
		if f := a.freeAt(goal, limit, most); f.n > 0 {
			return f
		}
	}
	if f := a.search(goal, most); f.n >= limit {
		return f
	}
	return a.pick(goal, limit)
}

// freeAt finds least to most blocks exactly at the goal. Those of a window are
// busy.
func (a *Allocator) freeAt(goal format.Block, least, most int) found {
	g, at := a.place(goal)
	m, err := a.blockMapOf(g)
	if err != nil || at+least > m.blocks {
		return found{}
	}
	n := m.busy.FindSet(at, min(at+most, m.blocks)) - at
	if n < least {
		return found{}
	}
	return found{g, at, n, at}
}

// fromWindow picks blocks out of a window that has some: from the goal on, if
// it lies in there.
func (a *Allocator) fromWindow(w *Window, goal format.Block, limit int, reserved bool) (format.Block, uint32, error) {
	if g, at := a.place(goal); g == w.m.group && at > w.from && at < w.from+w.n {
		skip := at - w.from
		a.release(w.m, w.from, skip)
		a.shrink(w, skip)
	}
	n, err := a.space.take(min(w.n, limit), reserved)
	if err != nil {
		return 0, 0, err
	}
	start := a.blockAt(w.m, w.from)
	a.shrink(w, n)
	return start, uint32(n), nil
}

// shrink takes n blocks off the front of a window.
func (a *Allocator) shrink(w *Window, n int) {
	w.from += n
	w.n -= n
	a.windows.blocks -= int64(n)
	if w.n == 0 {
		a.windows.list.Remove(w.place)
		w.m, w.place = nil, nil
		return
	}
	a.windows.list.MoveToBack(w.place)
}

// windowSize is how many blocks a new window is to have, beyond the limit that
// are picked at once.
func (a *Allocator) windowSize(w *Window, limit, expect int) int {
	most := min(maxWindowBlocks, maxWindowBytes/a.geo.BlockSize)
	if expect > 0 {
		w.size = expect
	} else {
		w.size = max(2*w.size, windowGrowth*limit)
	}
	w.size = min(w.size, most)
	free := a.space.now() - a.windows.blocks
	return int(max(0, min(int64(w.size-limit), free/windowShare)))
}

// keep makes n blocks that are not busy a file's window.
func (a *Allocator) keep(w *Window, m *blockMap, from, n int) {
	a.take(m, from, n)
	w.m, w.from, w.n = m, from, n
	w.place = a.windows.list.PushBack(w)
	a.windows.blocks += int64(n)
	if m.rotor == from {
		m.rotor = (from + n) % m.blocks
	}
	if a.windows.list.Len() > a.windows.most {
		a.dropWindow(a.windows.list.Front().Value.(*Window))
	}
}

// Drop gives up a file's window: the file is closed, truncated or removed.
func (a *Allocator) Drop(w *Window) {
	a.mu.Lock()
	defer a.unlock()
	a.dropWindow(w)
	w.size = 0
}

func (a *Allocator) dropWindow(w *Window) {
	if w.n > 0 {
		a.release(w.m, w.from, w.n)
		a.shrink(w, w.n)
	}
}

// dropWindows gives up all windows.
func (a *Allocator) dropWindows() {
	for a.windows.list.Len() > 0 {
		a.dropWindow(a.windows.list.Front().Value.(*Window))
	}
}
