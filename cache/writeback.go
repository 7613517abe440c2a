package cache

import (
	"slices"
	"sort"

	"drydock/format"
)

// Writeback holds dirty runs on their way to the device.
type Writeback struct {
	Runs []Run // ascending, and not touching each other

	m      *Mapping
	pieces []piece      // ascending; each in one folio
	gone   []blockRange // discarded since Begin; the mapping's lock guards it
}

// piece is a run of blocks [lo, hi) in the memory of a folio as it was at Begin.
type piece struct {
	f      *folio
	lo, hi int
}

func (p piece) run() Run { return Run{p.f.first() + format.LBlock(p.lo), p.hi - p.lo} }

// blockRange is the blocks [from, to).
type blockRange struct{ from, to format.LBlock }

// Begin takes dirty runs of [from, to), of at most maxBytes together (but at least
// a block; 0: no limit): their blocks are no longer dirty but in writeback, until
// End. Blocks that another Writeback has taken are left out, although they may be
// dirty again: writing one block twice at a time leaves open which is the last.
// Without a block to take Runs is empty, and End need not be called.
func (m *Mapping) Begin(from, to format.LBlock, maxBytes int64) *Writeback {
	w := &Writeback{m: m}
	m.mu.Lock()
	left := int(min(max(maxBytes>>m.shift, 1), 1<<40))
	if maxBytes <= 0 {
		left = 1 << 40
	}
	m.eachDirty(from, to, func(f *folio, lo, hi int) bool {
		left -= w.take(f, lo, hi, left)
		return left > 0
	})
	if len(w.pieces) > 0 {
		m.inflight = append(m.inflight, w)
	}
	m.mu.Unlock()
	m.b.rearm()
	return w
}

// take takes up to left of the dirty blocks [lo, hi) of f and returns how many.
func (w *Writeback) take(f *folio, lo, hi, left int) int {
	taken, busy := 0, f.bits(inFlight)
	for lo = busy.nextClear(lo, hi); lo < hi && taken < left; {
		end := min(busy.next(lo, hi), lo+left-taken)
		w.takeRun(f, lo, end)
		taken += end - lo
		lo = busy.nextClear(end, hi)
	}
	return taken
}

func (w *Writeback) takeRun(f *folio, lo, hi int) {
	f.bits(inFlight).set(lo, hi)
	f.bits(frozen).set(lo, hi)
	f.io++
	w.m.clean(f, lo, hi)
	w.m.counts.DeviceBytes += uint64(hi-lo) << w.m.shift
	p := piece{f, lo, hi}
	w.pieces = append(w.pieces, p)
	w.Runs = join(w.Runs, p.run())
}

// Bytes returns the bytes of all runs.
func (w *Writeback) Bytes() int64 {
	n := 0
	for _, r := range w.Runs {
		n += r.N
	}
	return int64(n) << w.m.shift
}

// Bufs returns the content of a run, or of a part of one, in pieces of whole
// blocks, for a vectored write. It does not change until End, whatever is written
// to the mapping, and is the cache's memory: nobody may write to it.
func (w *Writeback) Bufs(r Run) [][]byte {
	var bufs [][]byte
	i := sort.Search(len(w.pieces), func(i int) bool { return w.pieces[i].run().end() > r.First })
	for ; i < len(w.pieces) && w.pieces[i].run().First < r.end(); i++ {
		f := w.pieces[i].f
		buf := f.block(max(w.pieces[i].lo, f.index(r.First)), min(w.pieces[i].hi, f.index(r.end())))
		bufs = append(bufs, buf)
	}
	return bufs
}

// End says that the blocks are on the device, and that the source's Fill gives what
// was written. With an error all of them become dirty again, else those of redirty,
// but for blocks that were discarded meanwhile; what was written again meanwhile is
// dirty anyway. Blocks that become dirty again are not reserved again. A second End
// does nothing.
func (w *Writeback) End(err error, redirty ...Run) {
	m := w.m
	m.mu.Lock()
	at := slices.Index(m.inflight, w)
	if at >= 0 {
		m.inflight = slices.Delete(m.inflight, at, at+1)
		if err != nil {
			redirty = w.Runs
		}
		for _, p := range w.pieces {
			w.finish(p, redirty)
		}
	}
	m.mu.Unlock()
	m.b.rearm()
	if err == nil {
		m.b.refill(w.Bytes())
	}
}

// finish ends the writeback of one piece.
func (w *Writeback) finish(p piece, redirty []Run) {
	r := blockRange{p.run().First, p.run().end()}
	for _, k := range w.kept(r) {
		w.settle(k, redirty)
	}
	p.f.io--
	p.f.bits(frozen).clear(p.lo, p.hi)
	if p.f.owned == 0 && p.f.io == 0 {
		w.m.b.release(p.f, false)
		return
	}
	w.m.rest(p.f)
}

// kept returns the parts of r that were not discarded since Begin.
func (w *Writeback) kept(r blockRange) []blockRange {
	kept := []blockRange{r}
	for _, g := range w.gone {
		var rest []blockRange
		for _, k := range kept {
			if g.to <= k.from || k.to <= g.from {
				rest = append(rest, k)
				continue
			}
			if k.from < g.from {
				rest = append(rest, blockRange{k.from, g.from})
			}
			if g.to < k.to {
				rest = append(rest, blockRange{g.to, k.to})
			}
		}
		kept = rest
	}
	return kept
}

// settle ends the writeback of blocks in the folios where they are now.
func (w *Writeback) settle(r blockRange, redirty []Run) {
	m := w.m
	for l := r.from; l < r.to; {
		f := m.tree.get(m.unitOf(l))
		after := min(uint64(r.to), m.span(f, m.unitOf(l))<<m.unitBits)
		lo, hi := f.index(l), int(after-uint64(f.first()))
		f.bits(inFlight).clear(lo, hi)
		for _, d := range redirty {
			from, to := max(lo, f.index(d.First)), min(hi, f.index(d.end()))
			if from < to {
				m.soil(f, from, to)
			}
		}
		m.rest(f)
		l = format.LBlock(after)
	}
}
