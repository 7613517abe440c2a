package extent

import (
	"fmt"
	"iter"
	"sync/atomic"

	"drydock/format"
)

// Kind says what is known of a range of file blocks.
type Kind uint8

const (
	// Hole: nothing is there, and the tree says so.
	Hole Kind = iota + 1
	// Written: the tree maps the range and its blocks hold data.
	Written
	// Unwritten: the tree maps the range, it reads as zeros.
	Unwritten
	// Delayed: the cache holds data, space is reserved, no block is chosen.
	Delayed
	// InFlight: blocks are chosen and data is on its way there, but the tree
	// does not map the range.
	InFlight
)

func (k Kind) String() string {
	names := [...]string{"unknown", "hole", "written", "unwritten", "delayed", "in flight"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// HasBlocks reports whether a range of kind k has blocks on the disk.
func (k Kind) HasBlocks() bool { return k == Written || k == Unwritten || k == InFlight }

// pinned reports whether a range of kind k exists nowhere but in the Status.
func (k Kind) pinned() bool { return k == Delayed || k == InFlight }

// StatusExtent is a range of file blocks of one kind.
type StatusExtent struct {
	LBlock format.LBlock
	Len    uint32 // blocks; ranges end at format.MaxLBlock at the latest
	Kind   Kind
	Start  format.Block // where the first block lies, if the kind has blocks; else 0
}

// End returns the first file block after the range.
func (s StatusExtent) End() uint64 { return uint64(s.LBlock) + uint64(s.Len) }

// from returns the part of s from file block l on.
func (s StatusExtent) from(l format.LBlock) StatusExtent {
	n := uint32(l - s.LBlock)
	s.LBlock, s.Len = l, s.Len-n
	if s.Kind.HasBlocks() {
		s.Start += format.Block(n)
	}
	return s
}

// to returns the part of s before file block end.
func (s StatusExtent) to(end uint64) StatusExtent {
	s.Len = uint32(end - uint64(s.LBlock))
	return s
}

// joins reports whether t is one range with s, right before it.
func (s StatusExtent) joins(t StatusExtent) bool {
	return s.End() == uint64(t.LBlock) && s.Kind == t.Kind &&
		(!s.Kind.HasBlocks() || s.Start+format.Block(s.Len) == t.Start)
}

// Status is what is known of one file's blocks, in memory: sorted ranges,
// apart, none of which could be one with its neighbour. What lies in no range
// is unknown: the tree has to be asked.
//
//	| written 0+16 -> 812 | hole 16+4 | (unknown) | delayed 32+8 | in flight 40+8 -> 900 |
//
// Ranges that are delayed or in flight exist nowhere else and stay until Set or
// Remove replaces them. The others repeat what the tree says, and Shrink may
// forget them.
//
// Lookup, Next and the counters may be called by several goroutines at once,
// but not together with a change. The zero value is ready.
type Status struct {
	chunks  []chunk
	n       int
	pinned  int
	delayed uint64
	last    atomic.Uint64 // position of the last hit: chunk<<32 | index
	hand    format.LBlock // where Shrink goes on
}

// chunk holds up to chunkMax ranges; it is never empty.
type chunk struct {
	first  format.LBlock // of the first range
	pinned int           // ranges that Shrink keeps
	list   []StatusExtent
}

const chunkMax = 128

// Len returns the number of ranges.
func (s *Status) Len() int { return s.n }

// Pinned returns the number of ranges that Shrink cannot forget.
func (s *Status) Pinned() int { return s.pinned }

// DelayedBlocks returns the number of blocks that are delayed.
func (s *Status) DelayedBlocks() uint64 { return s.delayed }

// Lookup returns the range that holds file block l; false if it is unknown.
func (s *Status) Lookup(l format.LBlock) (StatusExtent, bool) {
	last := s.last.Load()
	if c, i := int(last>>32), int(uint32(last)); c < len(s.chunks) && i < len(s.chunks[c].list) {
		if x := s.chunks[c].list[i]; l >= x.LBlock && uint64(l) < x.End() {
			return x, true
		}
	}
	p, ok := s.find(l)
	if !ok {
		return StatusExtent{}, false
	}
	s.last.Store(uint64(p.c)<<32 | uint64(p.i))
	return s.at(p), true
}

// Next returns the first range with file blocks from l on whose kind is one of
// kinds, or any without kinds; false if there is none. The range may begin
// before l.
func (s *Status) Next(l format.LBlock, kinds ...Kind) (StatusExtent, bool) {
	for x := range s.All(l) {
		if len(kinds) == 0 || oneOf(x.Kind, kinds) {
			return x, true
		}
	}
	return StatusExtent{}, false
}

func oneOf(k Kind, kinds []Kind) bool {
	for _, want := range kinds {
		if k == want {
			return true
		}
	}
	return false
}

// All yields the ranges with file blocks from l on, in order. The status must
// not change meanwhile.
func (s *Status) All(l format.LBlock) iter.Seq[StatusExtent] {
	return func(yield func(StatusExtent) bool) {
		p, _ := s.find(l)
		for ; p.c < len(s.chunks); p = (pos{p.c + 1, 0}) {
			for _, x := range s.chunks[p.c].list[p.i:] {
				if !yield(x) {
					return
				}
			}
		}
	}
}

// Set makes [from, from+n) a range of this kind, whatever was there; start is
// where it lies, if the kind has blocks. It returns by how many the delayed
// blocks grew, or, below 0, shrank: what the reservation of space follows.
func (s *Status) Set(from format.LBlock, n uint32, kind Kind, start format.Block) (delayed int64) {
	if !kind.HasBlocks() {
		start = 0
	}
	if n == 0 {
		return 0
	}
	x := StatusExtent{LBlock: from, Len: n, Kind: kind, Start: start}
	delayed = -int64(s.Remove(from, x.End()))
	if kind == Delayed {
		s.delayed += uint64(n)
		delayed += int64(n)
	}
	s.insert(x)
	return delayed
}

// Remove forgets all of [from, to), delayed ranges too, and returns how many
// delayed blocks these were.
func (s *Status) Remove(from format.LBlock, to uint64) (delayed uint64) {
	if uint64(from) >= to {
		return 0
	}
	s.cut(uint64(from))
	s.cut(to)
	p, _ := s.find(from)
	for p.c < len(s.chunks) {
		c := &s.chunks[p.c]
		j := p.i
		for ; j < len(c.list) && uint64(c.list[j].LBlock) < to; j++ {
			if c.list[j].Kind == Delayed {
				delayed += uint64(c.list[j].Len)
			}
		}
		done := j < len(c.list)
		p = s.splice(p, j-p.i)
		if done {
			break
		}
	}
	s.delayed -= delayed
	return delayed
}
