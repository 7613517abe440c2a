package alloc

import (
	"container/list"
	"errors"
	"fmt"

	"drydock/format"
	"drydock/journal"
)

// blockMap is which blocks of a group are busy: used on the disk, picked, kept
// in a window, or freed by a transaction that is not durable.
type blockMap struct {
	group  format.Group
	busy   Bitmap
	blocks int           // of the group
	pins   int           // bits that are busy though not used on the disk, or soon not any more
	rotor  int           // where the search for a new file's first block starts
	idle   *list.Element // in Allocator.idle while pins is 0
}

// errBadGroup says that a group is bad, which Warn has been told.
var errBadGroup = errors.New("group is bad")

// blockMapOf returns the map of a group, read in if need be; errBadGroup if it
// cannot be trusted. The caller holds mu.
func (a *Allocator) blockMapOf(g format.Group) (*blockMap, error) {
	if m := a.maps[g]; m != nil {
		if m.idle != nil {
			a.idle.MoveToFront(m.idle)
		}
		return m, nil
	}
	if a.groups[g].badBlock {
		return nil, errBadGroup
	}
	m := &blockMap{group: g, busy: a.mapBuffer(), blocks: int(a.geo.GroupBlocks(g))}
	if err := a.journal.View(func() error { return a.readBlockMap(a.journal, g, m.busy) }); err != nil {
		a.badBlocks(g, err)
		return nil, errBadGroup
	}
	a.maps[g] = m
	m.idle = a.idle.PushFront(m)
	return m, nil
}

// mapBuffer returns room for a map: that of the map used least recently, when
// there are as many as memory allows.
func (a *Allocator) mapBuffer() Bitmap {
	if m := a.evict(a.maxMaps - 1); m != nil {
		return m.busy
	}
	return make(Bitmap, a.geo.BlockSize)
}

// evict forgets maps with nothing under way, those used least recently first,
// until there are no more than most; it returns the last one.
func (a *Allocator) evict(most int) (m *blockMap) {
	for len(a.maps) > most && a.idle.Len() > 0 {
		m = a.idle.Remove(a.idle.Back()).(*blockMap)
		delete(a.maps, m.group)
	}
	return m
}

// readBlockMap reads the block bitmap of a group and checks it: its checksum,
// that all metadata is used, and that it agrees with the descriptor's count.
func (a *Allocator) readBlockMap(src source, g format.Group, m Bitmap) error {
	d, err := a.desc(src, g)
	if err != nil {
		return err
	}
	if a.blockUninit(d) {
		a.initBlockMap(g, m)
	} else {
		v, err := a.blockBitmap(src, g, d)
		if err != nil {
			return err
		}
		copy(m, v.Bytes())
	}
	first, n := a.geo.GroupFirst(g), int(a.geo.GroupBlocks(g))
	if !a.zone.marked(m, first, first+format.Block(n)) {
		return a.blockBitmapError(g, d, "blocks of metadata are not in use")
	}
	if free := uint32(m.CountClear(0, n)); free != d.FreeBlocksCount() {
		return a.blockBitmapError(g, d, "%d free blocks, but the descriptor counts %d", free, d.FreeBlocksCount())
	}
	m.SetRange(n, 8*len(m)-n)
	return nil
}

// blockBitmap returns the block bitmap of a group that has one, with its
// checksum verified.
func (a *Allocator) blockBitmap(src source, g format.Group, d format.GroupDesc) (*journal.Version, error) {
	v, err := src.Get(d.BlockBitmap())
	if err != nil || v.Checked() {
		return v, err
	}
	if !a.sums.VerifyBlockBitmap(d, v.Bytes()[:a.geo.BlockBitmapBytes()]) {
		return nil, a.blockBitmapError(g, d, "wrong checksum")
	}
	v.SetChecked()
	return v, nil
}

func (a *Allocator) blockBitmapError(g format.Group, d format.GroupDesc, detail string, args ...any) error {
	return &format.DamagedError{
		Structure: fmt.Sprintf("block bitmap of group %d", g), Block: d.BlockBitmap(), Offset: -1,
		Detail: fmt.Sprintf(detail, args...),
	}
}

// blockUninit reports whether the block bitmap of a group was never written.
func (a *Allocator) blockUninit(d format.GroupDesc) bool {
	return a.lazy && d.Flags()&format.BgBlockUninit != 0
}

// initBlockMap makes the bitmap that a group has which holds nothing but
// metadata: its own, and with flex_bg that of its neighbours.
func (a *Allocator) initBlockMap(g format.Group, m Bitmap) {
	clear(m)
	first, n := a.geo.GroupFirst(g), int(a.geo.GroupBlocks(g))
	a.zone.mark(m, first, first+format.Block(n))
	m.SetRange(n, 8*len(m)-n)
}

// badBlocks takes a group out of use for blocks, and has Warn told why. No map
// of the group is in memory.
func (a *Allocator) badBlocks(g format.Group, why error) {
	s := &a.groups[g]
	a.space.lose(int(s.free))
	s.badBlock, s.free = true, 0
	a.longest.set(int(g), 0)
	a.warnings = append(a.warnings, why)
}

// pin notes that n more bits of m, or with n below 0 fewer, differ from the
// disk; while there are any, the map stays in memory.
func (a *Allocator) pin(m *blockMap, n int) {
	m.pins += n
	switch {
	case m.pins > 0 && m.idle != nil:
		a.idle.Remove(m.idle)
		m.idle = nil
	case m.pins == 0 && m.idle == nil:
		m.idle = a.idle.PushFront(m)
		a.evict(a.maxMaps)
	}
}

// take makes n free blocks of m busy.
func (a *Allocator) take(m *blockMap, from, n int) {
	m.busy.SetRange(from, n)
	s := &a.groups[m.group]
	if s.free -= uint32(n); s.free < a.longest.get(int(m.group)) {
		a.longest.set(int(m.group), s.free)
	}
	a.pin(m, n)
}

// release makes n busy blocks of m free.
func (a *Allocator) release(m *blockMap, from, n int) {
	m.busy.ClearRange(from, n)
	m.rotor = min(m.rotor, from)
	a.groups[m.group].free += uint32(n)
	first, end := m.busy.LastSet(from)+1, m.busy.FindSet(from+n, m.blocks)
	if run := uint32(end - first); run > a.longest.get(int(m.group)) {
		a.longest.set(int(m.group), run)
	}
	a.pin(m, -n)
}

// eachPiece calls fn for the part of a run in each group. The run lies inside
// the file system.
func (a *Allocator) eachPiece(r Run, fn func(g format.Group, from, n int) error) error {
	for r.N > 0 {
		g := a.geo.GroupOf(r.Start)
		from := uint32(r.Start - a.geo.GroupFirst(g))
		n := min(r.N, a.geo.GroupBlocks(g)-from)
		if err := fn(g, int(from), int(n)); err != nil {
			return err
		}
		r.Start += format.Block(n)
		r.N -= n
	}
	return nil
}

// eachMap calls fn for the part of each run in each group, under mu, with the
// group's map, which is in memory since the blocks are under way.
func (a *Allocator) eachMap(runs []Run, fn func(m *blockMap, from, n int)) {
	a.mu.Lock()
	defer a.unlock()
	for _, r := range runs {
		_ = a.eachPiece(r, func(g format.Group, from, n int) error {
			if m := a.maps[g]; m != nil {
				fn(m, from, n)
			}
			return nil
		})
	}
}
