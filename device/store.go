package device

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"sync"
)

// Sizes of the memory store, in bytes. A page is the unit of allocation, a
// stripe what one lock is held for.
const (
	pageSize   = 4096
	stripeSize = 64 << 10
	numShards  = 16
)

// page is 4 KiB of content. A shared page belongs to several stores, or is
// zeroPage, and is copied before it changes.
type page struct {
	data   *[pageSize]byte
	shared bool
}

// zeroPage covers what lies below it.
var zeroPage = page{new([pageSize]byte), true}

// store keeps pages by their number. What has no page has the content of base;
// without a base it is zeros. The caller checks ranges.
type store struct {
	base   io.ReaderAt // nil: zeros
	shards [numShards]shard
}

// shard is one part of the pages, with its lock. Neighbouring stripes are in
// different shards.
type shard struct {
	mu    sync.RWMutex
	pages map[int64]page
}

func (s *store) init(base io.ReaderAt) {
	s.base = base
	for i := range s.shards {
		s.shards[i].pages = make(map[int64]page)
	}
}

func (s *store) shardOf(off int64) *shard {
	return &s.shards[off/stripeSize%numShards]
}

// split calls fn for each part of n bytes at off that lies in one unit. from is
// the part's distance from off.
func split(off, n, unit int64, fn func(off, from, n int64) error) error {
	for from := int64(0); from < n; {
		part := min(n-from, unit-(off+from)%unit)
		if err := fn(off+from, from, part); err != nil {
			return err
		}
		from += part
	}
	return nil
}

// read fills p from off.
func (s *store) read(p []byte, off int64) error {
	return split(off, int64(len(p)), stripeSize, func(at, from, n int64) error {
		sh := s.shardOf(at)
		sh.mu.RLock()
		defer sh.mu.RUnlock()
		return s.readStripe(sh, p[from:from+n], at)
	})
}

// readStripe fills p from pages, and what lies between them from below. The
// caller holds sh.mu.
func (s *store) readStripe(sh *shard, p []byte, off int64) error {
	below := 0 // start in p of the bytes that no page has covered yet
	flush := func(end int) error {
		return s.readBase(p[below:end], off+int64(below))
	}
	err := split(off, int64(len(p)), pageSize, func(at, from, n int64) error {
		pg, ok := sh.pages[at/pageSize]
		if !ok {
			return nil
		}
		if err := flush(int(from)); err != nil {
			return err
		}
		copy(p[from:from+n], pg.data[at%pageSize:])
		below = int(from + n)
		return nil
	})
	if err != nil {
		return err
	}
	return flush(len(p))
}

// readBase fills p with what lies below the pages.
func (s *store) readBase(p []byte, off int64) error {
	if s.base == nil {
		clear(p)
		return nil
	}
	if n, err := s.base.ReadAt(p, off); n < len(p) {
		return early(err)
	}
	return nil
}

// write puts p at off. size is the end of the device, up to which there is
// something below.
func (s *store) write(p []byte, off, size int64) error {
	return s.change(off, int64(len(p)), func(sh *shard, at, from, n int64) error {
		pg, err := s.ownPage(sh, at, n == pageSize, size)
		if err != nil {
			return err
		}
		copy(pg[at%pageSize:], p[from:from+n])
		return nil
	})
}

// zero makes n bytes at off read as zeros and drops the pages that are all zero.
func (s *store) zero(off, n, size int64) error {
	return s.change(off, n, func(sh *shard, at, _, n int64) error {
		switch _, ok := sh.pages[at/pageSize]; {
		case !ok && s.base == nil:
			return nil
		case n == pageSize && s.base == nil:
			delete(sh.pages, at/pageSize)
			return nil
		case n == pageSize:
			sh.pages[at/pageSize] = zeroPage
			return nil
		}
		pg, err := s.ownPage(sh, at, false, size)
		if err != nil {
			return err
		}
		clear(pg[at%pageSize : at%pageSize+n])
		return nil
	})
}

// change calls fn for each part of a range that lies in one page, with the
// page's shard locked.
func (s *store) change(off, n int64, fn func(sh *shard, at, from, n int64) error) error {
	return split(off, n, stripeSize, func(at, from, n int64) error {
		sh := s.shardOf(at)
		sh.mu.Lock()
		defer sh.mu.Unlock()
		return split(at, n, pageSize, func(at, inner, n int64) error {
			return fn(sh, at, from+inner, n)
		})
	})
}

// ownPage returns the page with the byte at off, to be changed by the caller, who
// holds sh.mu. With whole its present content does not matter.
func (s *store) ownPage(sh *shard, off int64, whole bool, size int64) (*[pageSize]byte, error) {
	index := off / pageSize
	pg, ok := sh.pages[index]
	if ok && !pg.shared {
		return pg.data, nil
	}
	own := new([pageSize]byte)
	if ok && !whole {
		*own = *pg.data
	} else if !whole {
		start := index * pageSize
		if err := s.readBase(own[:min(pageSize, size-start)], start); err != nil {
			return nil, err
		}
	}
	sh.pages[index] = page{data: own}
	return own, nil
}

// cut drops what lies at size and above.
func (s *store) cut(size int64) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		maps.DeleteFunc(sh.pages, func(index int64, _ page) bool { return index*pageSize >= size })
		sh.mu.Unlock()
	}
	if tail := size % pageSize; tail != 0 {
		s.zero(size, pageSize-tail, size)
	}
}

// cloneTo makes dst, which is new, an equal of s. From then on the two share
// pages until one of them changes. All of s is seen at one moment.
func (s *store) cloneTo(dst *store) {
	for i := range s.shards {
		s.shards[i].mu.Lock()
		defer s.shards[i].mu.Unlock()
	}
	dst.base = s.base
	for i := range s.shards {
		for index, pg := range s.shards[i].pages {
			s.shards[i].pages[index] = page{pg.data, true}
		}
		dst.shards[i].pages = maps.Clone(s.shards[i].pages)
	}
}

// pageAt is a page's number and whether it is zeroPage.
type pageAt struct {
	index int64
	zero  bool
}

// list returns the pages that touch n bytes at off, in ascending order.
func (s *store) list(off, n int64) []pageAt {
	var all []pageAt
	first, last := off/pageSize, (off+n-1)/pageSize
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.RLock()
		for index, pg := range sh.pages {
			if index >= first && index <= last {
				all = append(all, pageAt{index, pg.data == zeroPage.data})
			}
		}
		sh.mu.RUnlock()
	}
	slices.SortFunc(all, func(a, b pageAt) int { return cmp.Compare(a.index, b.index) })
	return all
}

// count is the number of pages that take memory.
func (s *store) count() (n int64) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.RLock()
		for _, pg := range sh.pages {
			if pg.data != zeroPage.data {
				n++
			}
		}
		sh.mu.RUnlock()
	}
	return n
}
