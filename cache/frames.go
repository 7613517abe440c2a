package cache

import "math/bits"

// Memory comes from the runtime in chunks and is kept: handing out memory that was
// used before costs no zeroing and no page fault. A chunk is divided by halving
// into frames of 4 KiB (order 0) to 1 MiB (order 8), each aligned to its own size,
// and a frame given back joins its other half if that is free.
//
//	order 8  |                               1 MiB                               |
//	order 7  |             512 KiB             |  split:                         |
//	order 6  |                                 |  256 KiB free |  256 KiB in use |
const (
	pageShift = 12 // the smallest frame, 4 KiB
	maxOrder  = 8  // the largest is a chunk, 1 MiB
	chunkSize = 1 << (pageShift + maxOrder)
)

// frame is memory of 4096<<order bytes; a chunk has one descriptor for every 4 KiB,
// of which the first of a frame stands for it.
type frame struct {
	next, prev *frame // in the list of free frames of the order
	chunk      *chunk
	page       int16 // position in the chunk, in 4 KiB
	order      int8
	free       bool
}

type chunk struct {
	mem    []byte
	frames [1 << maxOrder]frame
}

// newChunk returns a chunk that is one frame, with memory that is there, not only
// promised: each page is touched.
func newChunk() *chunk {
	c := &chunk{mem: make([]byte, chunkSize)}
	for i := range c.frames {
		c.mem[i<<pageShift] = 0
		c.frames[i] = frame{chunk: c, page: int16(i)}
	}
	c.frames[0].order = maxOrder
	return c
}

// bytes returns the frame's memory.
func (f *frame) bytes() []byte {
	at := int(f.page) << pageShift
	return f.chunk.mem[at : at+f.size()]
}

func (f *frame) size() int { return 1 << (pageShift + f.order) }

// buddy returns the other half of the frame of the next order.
func (f *frame) buddy() *frame { return &f.chunk.frames[int(f.page)^1<<f.order] }

// orderOf returns the order of a frame of n bytes, n a power of two from 4096 on.
func orderOf(n int) int { return bits.TrailingZeros(uint(n)) - pageShift }

// frames is the free memory, a list an order. What was in use until now is handed
// out first, since it is in the processor's caches still; what was evicted, in the
// order in which it was.
type frames struct {
	lists [maxOrder + 1]struct{ first, last *frame }
}

// has tells whether take(order) would find a frame.
func (s *frames) has(order int) bool {
	for ; order <= maxOrder; order++ {
		if s.lists[order].first != nil {
			return true
		}
	}
	return false
}

// take returns a frame of the order, or nil. Splitting keeps the lower half, so
// that one after the other lie in ascending memory, which the processor prefetches.
func (s *frames) take(order int) *frame {
	from := order
	for from <= maxOrder && s.lists[from].first == nil {
		from++
	}
	if from > maxOrder {
		return nil
	}
	f := s.lists[from].first
	s.remove(f)
	for from > order {
		from--
		f.order = int8(from)
		upper := f.buddy()
		upper.order = int8(from)
		s.push(upper, false)
	}
	return f
}

// give takes a frame back and joins it with what is free beside it. A cold one was
// not used for long.
func (s *frames) give(f *frame, cold bool) {
	for int(f.order) < maxOrder {
		b := f.buddy()
		if !b.free || b.order != f.order {
			break
		}
		s.remove(b)
		if b.page < f.page {
			f = b
		}
		f.order++
	}
	s.push(f, cold)
}

func (s *frames) push(f *frame, cold bool) {
	l := &s.lists[f.order]
	f.free = true
	if cold {
		f.prev, f.next = l.last, nil
	} else {
		f.prev, f.next = nil, l.first
	}
	if f.prev != nil {
		f.prev.next = f
	} else {
		l.first = f
	}
	if f.next != nil {
		f.next.prev = f
	} else {
		l.last = f
	}
}

func (s *frames) remove(f *frame) {
	l := &s.lists[f.order]
	if f.prev != nil {
		f.prev.next = f.next
	} else {
		l.first = f.next
	}
	if f.next != nil {
		f.next.prev = f.prev
	} else {
		l.last = f.prev
	}
	f.free, f.next, f.prev = false, nil, nil
}
