package alloc

import "drydock/format"

// Run is a run of free blocks.
type Run struct {
	Start format.Block
	Len   uint64
}

// End is the first block after the run.
func (r Run) End() format.Block { return r.Start + format.Block(r.Len) }

// Runs hands out free blocks in ascending order and never goes back, except
// where TakeWhole leaves a gap behind, which the following Takes fill. The
// zero value is empty.
type Runs struct {
	runs []Run // ascending, apart; runs[:first] are used up
	next int
	free uint64
}

// Add appends free blocks. They must lie behind all that were added before; a
// run that touches the last one becomes part of it.
func (r *Runs) Add(start format.Block, n uint64) {
	if n == 0 {
		return
	}
	r.free += n
	if k := len(r.runs); k > r.next && r.runs[k-1].End() == start {
		r.runs[k-1].Len += n
		return
	}
	r.runs = append(r.runs, Run{start, n})
}

// Free returns how many blocks are left.
func (r *Runs) Free() uint64 { return r.free }

// Peek returns the next run without taking it.
func (r *Runs) Peek() (Run, bool) {
	if r.next == len(r.runs) {
		return Run{}, false
	}
	return r.runs[r.next], true
}

// Take takes up to most blocks that lie together from the front; it is false
// if none are left or most is 0.
func (r *Runs) Take(most uint64) (Run, bool) {
	if r.next == len(r.runs) || most == 0 {
		return Run{}, false
	}
	return r.cut(r.next, most), true
}

// TakeWhole takes n blocks that lie together, from the first run that has
// them; false, and nothing taken, if there is none.
func (r *Runs) TakeWhole(n uint64) (Run, bool) {
	for i := r.next; i < len(r.runs) && n > 0; i++ {
		if r.runs[i].Len >= n {
			return r.cut(i, n), true
		}
	}
	return Run{}, false
}

// TakeAll takes n blocks from the front and calls emit for each run of them,
// in ascending order; false, and nothing taken, if there are less.
func (r *Runs) TakeAll(n uint64, emit func(Run)) bool {
	if n > r.free {
		return false
	}
	for n > 0 {
		x := r.cut(r.next, n)
		n -= x.Len
		emit(x)
	}
	return true
}

// cut takes up to most blocks from the front of run i.
func (r *Runs) cut(i int, most uint64) Run {
	x := &r.runs[i]
	got := Run{x.Start, min(most, x.Len)}
	x.Start += format.Block(got.Len)
	x.Len -= got.Len
	r.free -= got.Len
	r.drop(i)
	return got
}

// drop removes run i if it is used up.
func (r *Runs) drop(i int) {
	if r.runs[i].Len > 0 {
		return
	}
	if i > r.next {
		r.runs = append(r.runs[:i], r.runs[i+1:]...)
		return
	}
	r.next++
}
