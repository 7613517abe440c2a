package mkfs

import (
	"sort"

	"drydock/format"
)

// stream is the space that no group metadata takes, in ascending order.
// Position n is its n-th block. Positions at and past size lie behind the end
// of the file system; they are legal while a plan looks for its size.
type stream struct {
	starts []format.Block // first block of each run
	firsts []uint64       // position of that block
	size   uint64
	end    format.Block // block behind the last run
	hint   int          // run of the last lookup: positions mostly ascend
}

// add appends a run; it merges with the one before where they touch.
func (s *stream) add(start format.Block, n uint64) {
	if n == 0 {
		return
	}
	if len(s.starts) == 0 || start != s.end {
		s.starts = append(s.starts, start)
		s.firsts = append(s.firsts, s.size)
	}
	s.size += n
	s.end = start + format.Block(n)
}

// run returns the index of the run that holds pos.
func (s *stream) run(pos uint64) int {
	if h := s.hint; h < len(s.firsts) && s.firsts[h] <= pos && (h+1 == len(s.firsts) || pos < s.firsts[h+1]) {
		return h
	}
	s.hint = sort.Search(len(s.firsts), func(i int) bool { return s.firsts[i] > pos }) - 1
	return s.hint
}

// runAt returns the block at pos and how many blocks of its run follow, itself
// included. The run behind the end of the file system is endless.
func (s *stream) runAt(pos uint64) (format.Block, uint64) {
	if pos >= s.size {
		return s.end + format.Block(pos-s.size), ^uint64(0)
	}
	i := s.run(pos)
	next := s.size
	if i+1 < len(s.firsts) {
		next = s.firsts[i+1]
	}
	return s.starts[i] + format.Block(pos-s.firsts[i]), next - pos
}

// block returns the block at pos.
func (s *stream) block(pos uint64) format.Block {
	b, _ := s.runAt(pos)
	return b
}

// extents appends the extents of n blocks of a file from logical block lb on,
// which lie at pos.
func (s *stream) extents(buf []format.Extent, lb format.LBlock, pos, n uint64) []format.Extent {
	for n > 0 {
		start, left := s.runAt(pos)
		take := min(n, left, format.MaxExtentLen)
		buf = append(buf, format.Extent{LBlock: lb, Len: uint32(take), Start: start})
		lb += format.LBlock(take)
		pos += take
		n -= take
	}
	return buf
}

// pieces is the number of extents of n blocks at pos.
func (s *stream) pieces(pos, n uint64) int {
	count := 0
	for n > 0 {
		_, left := s.runAt(pos)
		run := min(n, left)
		count += int((run + format.MaxExtentLen - 1) / format.MaxExtentLen)
		pos += run
		n -= run
	}
	return count
}

// clone returns a stream over the same runs that another goroutine may use.
func (s *stream) clone() *stream {
	c := *s
	return &c
}
