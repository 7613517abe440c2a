package alloc

import (
	"fmt"

	"drydock/format"
	"drydock/journal"
)

// Claim marks blocks as used that are named by somebody else, such as a
// fast-commit record: those that are used already stay so, those freed in a
// transaction that is not durable are taken back. It is for a time when nothing
// is picked or reserved. Errors are those of Free, and of groups that are bad.
func (a *Allocator) Claim(tx *journal.Tx, start format.Block, n uint32) error {
	r := Run{start, n}
	if err := a.checkRange(r); err != nil {
		return err
	}
	if err := a.checkGood(r); err != nil {
		return err
	}
	var fresh []Run
	err := a.editRuns(tx, []Run{r}, func(e *blockEdit, from, n int) error {
		for at := from; at < from+n; {
			first, k := e.bitmap.NextFree(at, from+n)
			if k > 0 {
				e.bitmap.SetRange(first, k)
				e.free -= k
				fresh = append(fresh, Run{a.geo.GroupFirst(e.group) + format.Block(first), uint32(k)})
			}
			at = first + k + 1
		}
		return nil
	})
	if err != nil || len(fresh) == 0 {
		return err
	}
	return a.claim(tx, fresh)
}

// checkGood checks that a run lies in groups that can be trusted.
func (a *Allocator) checkGood(r Run) error {
	a.mu.Lock()
	defer a.unlock()
	return a.eachPiece(r, func(g format.Group, _, _ int) error {
		if _, err := a.blockMapOf(g); err != nil {
			return fmt.Errorf("group %d: %w", g, err)
		}
		return nil
	})
}

// claim makes blocks busy that a Tx has marked.
func (a *Allocator) claim(tx *journal.Tx, runs []Run) error {
	var picked []Run
	tx.OnMerge(func() { a.eachMap(picked, func(m *blockMap, _, n int) { a.pin(m, -n) }) })
	tx.OnAbort(func() {
		a.eachMap(picked, func(m *blockMap, from, n int) {
			a.release(m, from, n)
			a.space.lose(-n)
		})
	})
	a.mu.Lock()
	defer a.unlock()
	for _, r := range runs {
		g, at := a.place(r.Start)
		m, err := a.blockMapOf(g)
		if err != nil {
			return err
		}
		for end := at + int(r.N); at < end; {
			from, n := m.busy.NextFree(at, end)
			a.claimAgain(tx, m, at, from)
			if n > 0 {
				a.take(m, from, n)
				a.space.lose(n)
				picked = append(picked, Run{a.blockAt(m, from), uint32(n)})
			}
			at = from + n
		}
	}
	return nil
}

// claimAgain takes back blocks of m that are freed, but not durably.
func (a *Allocator) claimAgain(tx *journal.Tx, m *blockMap, from, end int) {
	for i := from; i < end; i++ {
		b := a.blockAt(m, i)
		a.claimed[b]++
		tx.OnAbort(func() { a.unclaim(b) })
	}
}

// unclaim undoes the claim of a block that was freed before.
func (a *Allocator) unclaim(b format.Block) {
	a.mu.Lock()
	defer a.unlock()
	a.forgetClaim(b)
}

func (a *Allocator) forgetClaim(b format.Block) {
	if a.claimed[b]--; a.claimed[b] <= 0 {
		delete(a.claimed, b)
	}
}

// reuseUnclaimed makes freed blocks of m free, but for those that were claimed
// since; it returns how many these are.
func (a *Allocator) reuseUnclaimed(m *blockMap, from, n int) (kept int) {
	for i := from; i < from+n; i++ {
		b := a.blockAt(m, i)
		if a.claimed[b] == 0 {
			a.release(m, i, 1)
			continue
		}
		a.forgetClaim(b)
		a.pin(m, -1)
		kept++
	}
	return kept
}
