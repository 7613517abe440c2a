package journal

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"drydock/format"
)

// planner is the passes REVOKE and REPLAY, but for the writing. It keeps
// positions, not blocks, and of revoked blocks only those that are in the log.
type planner struct {
	r      *Recovery
	log    *logReader // for the blocks of jbd2
	data   *logReader // for those that follow a descriptor
	homes  map[format.Block]fate
	blocks uint64          // of the file system
	inLog  []format.Extent // blocks that are the log itself, ascending by Start
}

// fate is what becomes of a home block.
type fate struct {
	revoked bool
	revoker format.Tid // the last transaction that revokes it

	found  bool // it has a copy, namely
	copied logCopy
}

// plan finds for each home block the copy that a replay leaves there. It sets
// Damage if nothing is to be replayed.
func (r *Recovery) plan(log *logReader, o ScanOptions) error {
	p := &planner{r: r, log: log, data: newLogReader(r.area), homes: map[format.Block]fate{}, blocks: o.Blocks}
	if !o.External {
		p.inLog = slices.Clone(r.area.Extents)
		slices.SortFunc(p.inLog, func(x, y format.Extent) int { return cmp.Compare(x.Start, y.Start) })
	}
	err := p.passes()
	if errors.Is(err, format.ErrDamaged) { // nothing is replayed
		r.Damage, r.End, r.HasFailed, r.Failed, r.Skipped = err, r.First, false, 0, nil
		return nil
	}
	if err != nil {
		return err
	}
	r.Transactions = int(uint32(r.End - r.First))
	r.copies = p.copies()
	return nil
}

// passes goes three times over the log: which blocks are in it, which of them
// are revoked, and which copies count then.
func (p *planner) passes() error {
	nothing := func(*cursor, []byte) error { return nil }
	if err := p.pass(p.collect, nothing); err != nil {
		return err
	}
	if err := p.pass(nothing, p.revoke); err != nil {
		return err
	}
	return p.pass(p.choose, nothing)
}

func (p *planner) pass(descriptor, revoke visitor) error {
	c := newCursor(p.log, p.r.Super)
	return c.transactions(p.r.End, p.r.f, descriptor, revoke)
}

// collect notes which blocks are in the log.
func (p *planner) collect(_ *cursor, descriptor []byte) error {
	for tag := range p.r.f.Tags(descriptor) {
		p.homes[tag.Block] = fate{}
	}
	return nil
}

// revoke notes the blocks that a revoke block names.
func (p *planner) revoke(c *cursor, block []byte) error {
	for home, err := range p.r.f.Revokes(block) {
		if err != nil {
			return logDamage(p.r.area, c.prior(), "%v", err)
		}
		f, ok := p.homes[home]
		if ok && (!f.revoked || f.revoker.Before(c.tid)) {
			p.homes[home] = fate{revoked: true, revoker: c.tid}
		}
	}
	return nil
}

// choose looks at the copies that follow a descriptor. A later one takes the
// place of an earlier one.
func (p *planner) choose(c *cursor, descriptor []byte) error {
	at := *c
	for tag := range p.r.f.Tags(descriptor) {
		n := at.at
		at.skip(1)
		f := p.homes[tag.Block]
		if f.revoked && !f.revoker.Before(c.tid) { // by this transaction or a later one
			continue
		}
		reason, err := p.check(tag, n, c.tid)
		switch {
		case err != nil:
			return err
		case reason != "":
			p.r.Skipped = append(p.r.Skipped, Skipped{tag.Block, c.tid, n, reason})
			continue
		}
		f.found = true
		f.copied = logCopy{home: tag.Block, log: n, tid: c.tid, sum: tag.Checksum, escape: tag.Flags&format.JournalTagEscape != 0}
		p.homes[tag.Block] = f
	}
	return nil
}

// check returns why a copy must not be written home, "" if it may.
func (p *planner) check(tag format.JournalTag, n uint32, tid format.Tid) (reason string, err error) {
	switch {
	case p.blocks != 0 && uint64(tag.Block) >= p.blocks:
		return fmt.Sprintf("the file system ends at block %d", p.blocks), nil
	case p.hitsLog(tag.Block):
		return "that block is part of the journal", nil
	}
	b, err := p.data.block(n)
	if err == nil && !p.r.f.VerifyTag(tag, tid, b) {
		reason = "its checksum is wrong"
	}
	return reason, err
}

// hitsLog tells whether a block is part of the log: replaying it would overwrite
// what the rest of a replay, or a second one, needs.
func (p *planner) hitsLog(b format.Block) bool {
	i, found := slices.BinarySearchFunc(p.inLog, b, func(e format.Extent, b format.Block) int { return cmp.Compare(e.Start, b) })
	if found {
		return true
	}
	return i > 0 && b-p.inLog[i-1].Start < format.Block(p.inLog[i-1].Len)
}

// copies returns the copies that count, ascending by home.
func (p *planner) copies() []logCopy {
	var copies []logCopy
	for _, home := range slices.Sorted(maps.Keys(p.homes)) {
		if f := p.homes[home]; f.found {
			copies = append(copies, f.copied)
		}
	}
	return copies
}

// damage returns what Recovery.Damage says of a log that is replayed in part;
// badCommit is the log block of the commit of transaction Failed.
func (r *Recovery) damage(badCommit uint32) error {
	var d *format.DamagedError
	switch {
	case r.HasFailed:
		d = logDamage(r.area, badCommit, "commit block of transaction %d has a wrong checksum", r.Failed)
	case len(r.Skipped) > 0:
		s := r.Skipped[0]
		d = logDamage(r.area, s.Log, "copy of block %d in transaction %d: %s", s.Home, s.Tid, s.Reason)
	default:
		return nil
	}
	if n := len(r.Skipped); n > 1 {
		d.Detail += fmt.Sprintf(" (%d copies cannot be used)", n)
	}
	return d
}
