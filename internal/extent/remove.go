package extent

import (
	"errors"

	"drydock/format"
)

// ErrPause is what the callback of Remove returns to end it after the run that
// it was called for, which counts as freed.
var ErrPause = errors.New("pause")

// Remove unmaps [from, to), from its end backwards, and calls freed for each
// run of blocks that is not in use any more. It stops after about budget nodes
// have changed, if budget is over 0, or when freed returns ErrPause; then done
// is false and [from, next) is still to be done, in this or another
// transaction. When all is done the tree around the range is settled, see Settle.
// Removing a part from the middle of an extent can take a node.
func (e *Editor) Remove(from, to format.LBlock, budget int, freed func(start format.Block, n uint32) error) (next format.LBlock, done bool, err error) {
	if err := e.checkRange(uint64(from), uint64(to)); err != nil {
		return to, false, err
	}
	r := remover{Editor: e, from: from, to: to, freed: freed}
	for start := e.touched; r.to > r.from; {
		if err := r.step(); err != nil {
			return r.to, false, err
		}
		if r.paused || budget > 0 && e.touched-start >= budget && r.to > r.from {
			return r.to, r.to <= r.from, nil
		}
	}
	return from, true, e.Settle(from, to)
}

// remover is one Remove: [from, to) is still to be done.
type remover struct {
	*Editor
	from, to format.LBlock
	freed    func(start format.Block, n uint32) error
	paused   bool
}

// step does the last leaf of the range.
func (r *remover) step() error {
	p, err := r.descend(r.to - 1)
	if err != nil {
		return err
	}
	leaf := &p[len(p)-1]
	end := placeOf(leaf, r.to-1)
	i := end
	var keep []format.Extent
	for i > 0 && !r.paused && format.GetExtent(leaf.b, i-1).End() > uint64(r.from) {
		i--
		kept, err := r.extent(format.GetExtent(leaf.b, i))
		if err != nil {
			return err
		}
		keep = append(kept, keep...)
	}
	if !r.paused {
		r.to = r.before(p, i)
	}
	if i == end && (leaf.count() > 0 || len(p) == 1) {
		return nil
	}
	return r.replace(p, i, end-i, keep)
}

// before returns where the range ends that is still to be done when the leaf at
// the end of p is done, down to its entry i.
func (r *remover) before(p []level, i int) format.LBlock {
	if i > 0 || leftmost(p[:len(p)-1]) {
		return r.from
	}
	return max(r.from, p[len(p)-1].bd.First)
}

// extent frees the part of x that is in the range and returns the rest.
func (r *remover) extent(x format.Extent) (keep []format.Extent, err error) {
	first, end := max(x.LBlock, r.from), min(x.End(), uint64(r.to))
	if first > x.LBlock {
		keep = append(keep, part(x, uint64(x.LBlock), uint64(first)))
	}
	if end < x.End() {
		keep = append(keep, part(x, end, x.End()))
	}
	gone := part(x, uint64(first), end)
	err = r.freed(gone.Start, gone.Len)
	r.paused = errors.Is(err, ErrPause)
	if err != nil && !r.paused {
		return nil, r.file.wrap(err)
	}
	r.to = first
	return keep, nil
}
