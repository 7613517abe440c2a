package xattr

import (
	"sync"

	"drydock/format"
)

// hints says which blocks may hold attributes with a certain hash, so that
// inodes can share them. It is bounded and forgets. A hint is good to look at a
// block, not to believe it; but it must be about a block that some inode uses:
// the content of a free block may look just as well. So who frees a block
// forgets it at once.
type hints struct {
	mu   sync.Mutex
	sets [hintSets]hintSet
}

const (
	hintSets = 512
	hintWays = 4
)

type hintSet struct {
	next int // the way that is replaced next
	ways [hintWays]hint
}

type hint struct {
	hash uint32 // not 0, which means not to be shared
	b    format.Block
}

func (h *hints) set(hash uint32) *hintSet { return &h.sets[(hash^hash>>16)%hintSets] }

// add notes that b holds attributes with this hash.
func (h *hints) add(hash uint32, b format.Block) {
	if hash == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.set(hash)
	for _, x := range s.ways {
		if x == (hint{hash, b}) {
			return
		}
	}
	s.ways[s.next] = hint{hash, b}
	s.next = (s.next + 1) % hintWays
}

// find returns the blocks that may hold attributes with this hash.
func (h *hints) find(hash uint32) (list []format.Block) {
	if hash == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.set(hash).ways {
		if x.hash == hash {
			list = append(list, x.b)
		}
	}
	return list
}

// forget takes away all that is noted about b.
func (h *hints) forget(b format.Block) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.sets {
		for k, x := range h.sets[i].ways {
			if x.b == b {
				h.sets[i].ways[k] = hint{}
			}
		}
	}
}
