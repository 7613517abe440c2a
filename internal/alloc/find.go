package alloc

import (
	"drydock/format"
)

// A search looks at so many groups at most before it takes less than what was
// asked for.
const maxScans = 32

// found is a run of blocks that are not busy. It names the group and not the map:
// that may have to make room while the search goes on.
type found struct {
	group   format.Group
	from, n int
	began   int // the bit where the search in the group began
}

// Find picks up to want neighbouring blocks that are free, at or after goal if
// it can: in the goal's group, else in the groups that follow. It picks fewer
// where no group looked at has so many together, and never looks at more than
// a few dozen groups for that. The blocks are busy, in memory only, until Mark
// puts them on the disk or Release gives them up.
//
// With reserved the blocks come out of what Reserve promised; without, out of
// what nobody was promised. The error is a *SpaceError.
func (a *Allocator) Find(goal format.Block, want uint32, reserved bool) (start format.Block, n uint32, err error) {
	a.mu.Lock()
	defer a.unlock()
	limit, err := a.space.limit(want, reserved)
	if err != nil {
		return 0, 0, err
	}
	return a.settle(a.pick(goal, limit), limit, reserved)
}

// settle takes what was found, at most limit blocks of it, and accounts for it.
func (a *Allocator) settle(f found, limit int, reserved bool) (format.Block, uint32, error) {
	if f.n == 0 {
		return 0, 0, a.space.noSpace(limit)
	}
	m, err := a.blockMapOf(f.group)
	if err != nil {
		return 0, 0, a.space.noSpace(limit)
	}
	n, err := a.space.take(min(f.n, limit), reserved)
	if err != nil {
		return 0, 0, err
	}
	a.take(m, f.from, n)
	if f.began == m.rotor {
		m.rotor = (f.from + n) % m.blocks
	}
	return a.blockAt(m, f.from), uint32(n), nil
}

// blockAt is the block of bit i of a map.
func (a *Allocator) blockAt(m *blockMap, i int) format.Block {
	return a.geo.GroupFirst(m.group) + format.Block(i)
}

// Release gives up blocks that were picked and never marked; toReserved
// promises them to the caller again.
func (a *Allocator) Release(start format.Block, n uint32, toReserved bool) {
	a.eachMap([]Run{{start, n}}, func(m *blockMap, from, n int) { a.release(m, from, n) })
	a.space.give(int(n), toReserved)
}

// place is the group of a goal and the bit there; goals outside the file system
// mean its start.
func (a *Allocator) place(goal format.Block) (format.Group, int) {
	if !a.geo.ValidBlock(goal) {
		return 0, 0
	}
	g := a.geo.GroupOf(goal)
	return g, int(goal - a.geo.GroupFirst(g))
}

// pick searches for a run; where space is short, windows are given up for it.
func (a *Allocator) pick(goal format.Block, want int) found {
	f := a.search(goal, want)
	if f.n < want && a.windows.hinder(f.n, a.space.now()) {
		a.dropWindows()
		f = a.search(goal, want)
	}
	return f
}

// search finds a run of want blocks: at or after the goal in its group, in all
// of that group, in the groups behind it, in those before it. Where there is
// none, it finds a long one.
func (a *Allocator) search(goal format.Block, want int) found {
	g, at := a.place(goal)
	want = min(want, int(a.geo.BlocksPerGroup))
	if f := a.searchGroup(g, at, want); f.n >= want {
		return f
	}
	for range maxScans {
		next := a.longest.next(int(g)+1, len(a.groups), uint32(want))
		if next < 0 {
			next = a.longest.next(0, int(g), uint32(want))
		}
		if next < 0 {
			break
		}
		if f := a.searchGroup(format.Group(next), -1, want); f.n >= want {
			return f
		}
	}
	return a.searchLongest(want)
}

// searchGroup finds the first run of want blocks at or after bit at, or else
// anywhere in the group. With at below 0 it begins where the last such search
// in the group ended.
func (a *Allocator) searchGroup(g format.Group, at, want int) found {
	if a.longest.get(int(g)) < uint32(want) {
		return found{}
	}
	m, err := a.blockMapOf(g)
	if err != nil {
		return found{}
	}
	if at < 0 {
		at = m.rotor
	}
	from := m.busy.FindClearRun(at, m.blocks, want)
	if from >= 0 {
		return found{g, from, want, at}
	}
	f := a.scan(m, want)
	f.began = at
	return f
}

// scan goes through a whole group for the first run of want blocks, or the
// longest if there is none; then the group's longest run is known exactly.
func (a *Allocator) scan(m *blockMap, want int) found {
	best := found{group: m.group}
	for at := 0; at < m.blocks; {
		from, n := m.busy.NextFree(at, m.blocks)
		if n >= want {
			return found{group: m.group, from: from, n: want}
		}
		if n > best.n {
			best.from, best.n = from, n
		}
		at = from + n + 1
	}
	a.longest.set(int(m.group), uint32(best.n))
	return best
}

// searchLongest finds the longest run, shorter than want, in a bounded number of
// groups; more are looked at only while nothing is found at all.
func (a *Allocator) searchLongest(want int) (best found) {
	for tries := 0; tries < maxScans || best.n == 0; tries++ {
		top := min(a.longest.max(), uint32(want))
		if int(top) <= best.n {
			break
		}
		g := format.Group(a.longest.next(0, len(a.groups), top))
		if f := a.searchGroup(g, -1, int(top)); f.n > best.n {
			best = f
		}
	}
	return best
}
