package alloc

import (
	"fmt"
	"slices"

	"drydock/format"
	"drydock/journal"
)

// blockEdit is a change of one group's block bitmap and descriptor in a Tx.
type blockEdit struct {
	a      *Allocator
	group  format.Group
	desc   format.GroupDesc
	bitmap Bitmap
	free   int // how many blocks the descriptor counts more, or fewer
}

// editBlocks begins a change. A group whose bitmap was never written gets one.
func (a *Allocator) editBlocks(tx *journal.Tx, g format.Group) (*blockEdit, error) {
	d, err := a.changeDesc(tx, g)
	if err != nil {
		return nil, err
	}
	e := &blockEdit{a: a, group: g, desc: d}
	if a.blockUninit(d) {
		if e.bitmap, err = tx.New(d.BlockBitmap()); err == nil {
			a.initBlockMap(g, e.bitmap)
			d.SetFlags(d.Flags() &^ format.BgBlockUninit)
		}
		return e, err
	}
	if _, err = a.blockBitmap(tx, g, d); err == nil {
		e.bitmap, err = tx.Change(d.BlockBitmap())
	}
	return e, err
}

// seal ends a change: counts and checksums. Bits behind the group are set, as
// they are to be.
func (e *blockEdit) seal() {
	n := int(e.a.geo.GroupBlocks(e.group))
	e.bitmap.SetRange(n, 8*len(e.bitmap)-n)
	e.desc.SetFreeBlocksCount(uint32(int(e.desc.FreeBlocksCount()) + e.free))
	e.a.sums.SealBlockBitmap(e.desc, e.bitmap[:e.a.geo.BlockBitmapBytes()])
	e.a.sums.SealGroupDesc(e.group, e.desc)
	e.a.space.count(int64(e.free), 0, 0)
}

// editRuns begins and ends the changes that runs need, one after the other,
// and calls fn for the part of a run in a group. Neighbouring runs in one group
// make one change.
func (a *Allocator) editRuns(tx *journal.Tx, runs []Run, fn func(e *blockEdit, from, n int) error) error {
	var e *blockEdit
	seal := func() {
		if e != nil {
			e.seal()
			free := int64(e.free)
			tx.OnAbort(func() { a.space.count(-free, 0, 0) })
		}
	}
	for _, r := range runs {
		err := a.eachPiece(r, func(g format.Group, from, n int) (err error) {
			if e == nil || e.group != g {
				seal()
				if e, err = a.editBlocks(tx, g); err != nil {
					e = nil
					return err
				}
			}
			return fn(e, from, n)
		})
		if err != nil {
			return err
		}
	}
	seal()
	return nil
}

// Mark puts blocks that Find picked on the disk as used: bits, counts and
// checksums, in every group that they lie in. When the Tx is aborted they are
// picked again, no more. After an error the Tx, or the Try around, must be
// given up.
func (a *Allocator) Mark(tx *journal.Tx, start format.Block, n uint32) error {
	return a.MarkMany(tx, []Run{{start, n}})
}

// MarkMany is Mark for many runs, and cheaper: in ascending order, each group is
// sealed once. It keeps no hold of the slice.
func (a *Allocator) MarkMany(tx *journal.Tx, runs []Run) error {
	if err := a.checkPicked(runs); err != nil {
		return err
	}
	err := a.editRuns(tx, runs, func(e *blockEdit, from, n int) error {
		if i := e.bitmap.FindSet(from, from+n); i < from+n {
			return a.blockBitmapError(e.group, e.desc, "block %d is in use already", a.geo.GroupFirst(e.group)+format.Block(i))
		}
		e.bitmap.SetRange(from, n)
		e.free -= n
		return nil
	})
	if err != nil {
		return err
	}
	runs = slices.Clone(runs)
	tx.OnMerge(func() { a.eachMap(runs, func(m *blockMap, _, n int) { a.pin(m, -n) }) })
	return nil
}

// checkPicked makes sure that the caller's blocks are busy.
func (a *Allocator) checkPicked(runs []Run) error {
	a.mu.Lock()
	defer a.unlock()
	for _, r := range runs {
		if err := a.checkRange(r); err != nil {
			return err
		}
		err := a.eachPiece(r, func(g format.Group, from, n int) error {
			if m := a.maps[g]; m == nil || !m.busy.AllSet(from, n) {
				return fmt.Errorf("blocks %d to %d were not picked", r.Start, r.Start+format.Block(r.N)-1)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkRange checks that a run lies inside the file system.
func (a *Allocator) checkRange(r Run) error {
	if r.N == 0 || !a.geo.ValidBlock(r.Start) || a.geo.BlocksCount-r.Start < format.Block(r.N) {
		return &format.DamagedError{Structure: "block map", Offset: -1, Detail: fmt.Sprintf(
			"%d blocks from %d on, want blocks %d to %d", r.N, r.Start, a.geo.FirstDataBlock, a.geo.BlocksCount-1)}
	}
	return nil
}

// AllocBlock picks and marks one block near goal, for metadata. When the Tx is
// aborted it is free again. It takes no block that was promised by Reserve.
func (a *Allocator) AllocBlock(tx *journal.Tx, goal format.Block) (format.Block, error) {
	return a.allocBlock(tx, goal, false)
}

// AllocReserved is AllocBlock with a block that Reserve promised; when the Tx
// is aborted, the promise holds again.
func (a *Allocator) AllocReserved(tx *journal.Tx, goal format.Block) (format.Block, error) {
	return a.allocBlock(tx, goal, true)
}

func (a *Allocator) allocBlock(tx *journal.Tx, goal format.Block, reserved bool) (format.Block, error) {
	b, _, err := a.Find(goal, 1, reserved)
	if err != nil {
		return 0, err
	}
	tx.OnAbort(func() { a.Release(b, 1, reserved) })
	return b, a.Mark(tx, b, 1)
}

// Free takes n blocks from start on off the disk: bits, counts and checksums,
// in every group that they lie in. They can be picked again when the
// transaction is durable. A *format.DamagedError, after which the Tx or the
// Try around must be given up: they lie outside the file system, hold metadata
// of fixed place, or are free already. In groups that are bad they just stay
// in use, as fsck will sort them out.
func (a *Allocator) Free(tx *journal.Tx, start format.Block, n uint32) error {
	r := Run{start, n}
	if err := a.checkRange(r); err != nil {
		return err
	}
	if a.zone.touches(start, start+format.Block(n)) {
		return &format.DamagedError{Structure: "block map", Offset: -1, Detail: fmt.Sprintf(
			"blocks %d to %d hold metadata of the file system", start, start+format.Block(n)-1)}
	}
	pieces := a.pinFreed(tx, r)
	err := a.editRuns(tx, pieces, func(e *blockEdit, from, n int) error {
		if i := e.bitmap.FindClear(from, from+n); i < from+n {
			return a.blockBitmapError(e.group, e.desc, "block %d is free already", a.geo.GroupFirst(e.group)+format.Block(i))
		}
		e.bitmap.ClearRange(from, n)
		e.free += n
		return nil
	})
	if err != nil {
		return err
	}
	tx.OnDurable(func() { a.reuse(pieces) })
	return nil
}

// pinFreed keeps the blocks of a run busy, and returns those that are in good
// groups, a run a group.
func (a *Allocator) pinFreed(tx *journal.Tx, r Run) (pieces []Run) {
	a.mu.Lock()
	defer a.unlock()
	total := int64(0)
	_ = a.eachPiece(r, func(g format.Group, from, n int) error {
		if m, err := a.blockMapOf(g); err == nil {
			a.pin(m, n)
			pieces = append(pieces, Run{a.blockAt(m, from), uint32(n)})
			total += int64(n)
		}
		return nil
	})
	a.space.freed(total, false)
	tx.OnAbort(func() {
		a.space.freed(-total, false)
		a.eachMap(pieces, func(m *blockMap, _, n int) { a.pin(m, -n) })
	})
	return pieces
}

// reuse lets freed blocks be picked again: the transaction that freed them is
// durable. Those that Claim has put back stay in use.
func (a *Allocator) reuse(runs []Run) {
	kept := 0
	a.eachMap(runs, func(m *blockMap, from, n int) {
		if len(a.claimed) > 0 {
			kept += a.reuseUnclaimed(m, from, n)
			return
		}
		a.release(m, from, n)
	})
	for _, r := range runs {
		a.space.freed(-int64(r.N), true)
	}
	a.space.lose(kept)
}
