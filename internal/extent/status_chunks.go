package extent

import (
	"slices"
	"sort"

	"drydock/format"
)

// pos is the place of a range: chunk and index in it.
type pos struct{ c, i int }

func (s *Status) at(p pos) StatusExtent { return s.chunks[p.c].list[p.i] }

// find returns the place of the range that holds l, or, with false, of the
// first one after it. The place after the last one is the chunk after the last.
func (s *Status) find(l format.LBlock) (pos, bool) {
	c := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].first > l }) - 1
	if c < 0 {
		return pos{}, false
	}
	list := s.chunks[c].list
	i := sort.Search(len(list), func(i int) bool { return list[i].LBlock > l }) - 1
	if uint64(l) < list[i].End() {
		return pos{c, i}, true
	}
	return s.valid(pos{c, i + 1}), false
}

// valid moves a place behind the end of a chunk to the next chunk.
func (s *Status) valid(p pos) pos {
	if p.c < len(s.chunks) && p.i >= len(s.chunks[p.c].list) {
		return pos{p.c + 1, 0}
	}
	return p
}

// before returns the place before p; false if p is the first.
func (s *Status) before(p pos) (pos, bool) {
	if p.i > 0 {
		return pos{p.c, p.i - 1}, true
	}
	if p.c == 0 {
		return p, false
	}
	return pos{p.c - 1, len(s.chunks[p.c-1].list) - 1}, true
}

// cut makes a range that l lies inside of two ranges.
func (s *Status) cut(l uint64) {
	if l >= format.MaxLBlock {
		return
	}
	p, ok := s.find(format.LBlock(l))
	if !ok || uint64(s.at(p).LBlock) == l {
		return
	}
	x := s.at(p)
	s.splice(p, 1, x.to(l), x.from(format.LBlock(l)))
}

// insert adds x where nothing is, as one with its neighbours where it can be.
func (s *Status) insert(x StatusExtent) {
	p, _ := s.find(x.LBlock)
	n := 0
	if p.c < len(s.chunks) {
		if next := s.at(p); x.joins(next) {
			x.Len += next.Len
			n = 1
		}
	}
	if q, ok := s.before(p); ok && s.at(q).joins(x) {
		x.LBlock, x.Start, x.Len = s.at(q).LBlock, s.at(q).Start, x.Len+s.at(q).Len
		if n == 1 && q.c != p.c {
			s.splice(p, 1)
			n = 0
		}
		p, n = q, n+1
	}
	s.splice(p, n, x)
}

// splice replaces the n ranges at p, of one chunk, by list and returns the
// place after them. Chunks that become too large are split, empty ones go.
func (s *Status) splice(p pos, n int, list ...StatusExtent) pos {
	if p.c == len(s.chunks) {
		if len(list) == 0 {
			return p
		}
		p = s.appendPlace()
	}
	c := &s.chunks[p.c]
	s.count(c, c.list[p.i:p.i+n], -1)
	s.count(c, list, +1)
	c.list = slices.Replace(c.list, p.i, p.i+n, list...)
	if len(c.list) == 0 {
		s.chunks = slices.Delete(s.chunks, p.c, p.c+1)
		return pos{p.c, 0}
	}
	c.first = c.list[0].LBlock
	p.i += len(list)
	if len(c.list) > chunkMax {
		return s.split(p)
	}
	return s.valid(p)
}

// count keeps the counters while list is added to a chunk (sign +1) or taken
// away (-1).
func (s *Status) count(c *chunk, list []StatusExtent, sign int) {
	s.n += sign * len(list)
	for _, x := range list {
		if x.Kind.pinned() {
			c.pinned += sign
			s.pinned += sign
		}
	}
}

// appendPlace returns the place after the last range, in a chunk that is there.
func (s *Status) appendPlace() pos {
	if len(s.chunks) == 0 {
		s.chunks = append(s.chunks, chunk{})
	}
	last := len(s.chunks) - 1
	return pos{last, len(s.chunks[last].list)}
}

// split makes two chunks of one; p is a place in it. The last chunk stays
// nearly full, so that a file that grows at its end leaves full chunks behind.
func (s *Status) split(p pos) pos {
	c := s.chunks[p.c]
	at := len(c.list) / 2
	if p.c == len(s.chunks)-1 && p.i == len(c.list) {
		at = len(c.list) - 2
	}
	right := chunk{first: c.list[at].LBlock, list: append(make([]StatusExtent, 0, chunkMax+2), c.list[at:]...)}
	for _, x := range right.list {
		if x.Kind.pinned() {
			right.pinned++
		}
	}
	s.chunks[p.c].pinned -= right.pinned
	s.chunks[p.c].list = c.list[:at]
	s.chunks = slices.Insert(s.chunks, p.c+1, right)
	if p.i >= at {
		p = pos{p.c + 1, p.i - at}
	}
	return s.valid(p)
}

// Shrink forgets ranges that the tree knows too until about max are left, and
// returns how many it forgot. It goes round the file, so that repeated calls
// treat all parts alike.
func (s *Status) Shrink(max int) (forgotten int) {
	before := s.n
	for passes := 0; s.n > max && s.n > s.pinned && passes < 2; passes++ {
		p, _ := s.find(s.hand)
		for p.c < len(s.chunks) && s.n > max {
			p = s.shrinkChunk(p.c)
		}
		s.hand = 0
		if p.c < len(s.chunks) {
			s.hand = s.chunks[p.c].first
		}
	}
	return before - s.n
}

// shrinkChunk forgets what it can of chunk c and returns the place after it.
func (s *Status) shrinkChunk(c int) pos {
	ch := &s.chunks[c]
	s.n -= len(ch.list) - ch.pinned
	if ch.pinned == 0 {
		s.chunks = slices.Delete(s.chunks, c, c+1)
		return pos{c, 0}
	}
	ch.list = slices.DeleteFunc(ch.list, func(x StatusExtent) bool { return !x.Kind.pinned() })
	ch.first = ch.list[0].LBlock
	return pos{c + 1, 0}
}
