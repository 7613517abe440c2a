package dir

import "drydock/format"

// full says that a table has no room for another entry.
func (s *step) full() bool { return s.table.Count() >= s.table.Limit() }

// fullRows is how many tables above the leaf are full, up to the first one that is not.
func (p *probe) fullRows() int {
	n := 0
	for n < p.depth && p.path[p.depth-1-n].full() {
		n++
	}
	return n
}

// canGrow tells whether the index takes another leaf: every full table costs a
// block, and if all are full the root needs another level below it.
func (e *Editor) canGrow(p *probe) bool {
	full := p.fullRows()
	if full == p.depth && p.depth > p.maxLevels() {
		return false
	}
	return e.Space.NumBlocks()+format.LBlock(full) < e.maxBlocks()
}

// makeRoom makes the table above the leaf have room for another entry. canGrow
// has said that this is possible.
func (e *Editor) makeRoom(p *probe) error {
	full := p.fullRows()
	if full == p.depth {
		if err := e.growRoot(p); err != nil {
			return err
		}
		full-- // what was the root's table has room in a node
	}
	for row := p.depth - full; row < p.depth; row++ {
		if err := e.splitNode(p, row); err != nil {
			return err
		}
	}
	return nil
}

// growRoot moves the root's table into a new node, the only one below the root.
func (e *Editor) growRoot(p *probe) error {
	n, block, err := e.Space.Append()
	if err != nil {
		return err
	}
	if err := e.edit(p, 0); err != nil {
		return err
	}
	root, node := &p.path[0], format.PutDxNode(block, e.Checksums.Meta)
	root.table.MoveTo(node.Entries(), 0)
	root.table.Set(0, 0, n)
	format.DxRoot(root.block).SetLevels(p.depth)
	e.sealIndex(block)
	e.sealIndex(root.block)

	copy(p.path[2:], p.path[1:p.depth])
	p.path[1] = step{n, block, node.Entries(), root.at}
	root.at = 0
	p.depth++
	return nil
}

// splitNode moves the upper half of a full node into a new one. The way to the
// leaf goes on in the half that leads there.
func (e *Editor) splitNode(p *probe, row int) error {
	n, block, err := e.Space.Append()
	if err != nil {
		return err
	}
	if err := e.edit(p, row); err != nil {
		return err
	}
	s, upper := &p.path[row], format.PutDxNode(block, e.Checksums.Meta).Entries()
	half := s.table.Count() / 2
	hash := s.table.MoveTo(upper, half)
	e.sealIndex(block)
	e.sealIndex(s.block)
	if err := e.addChild(p, row-1, hash, n); err != nil {
		return err
	}
	if s.at >= half {
		p.path[row] = step{n, block, upper, s.at - half}
		p.path[row-1].at++
	}
	return nil
}

// addChild puts a block behind the one that p goes through below the table in row.
func (e *Editor) addChild(p *probe, row int, hash uint32, n format.LBlock) error {
	if err := e.edit(p, row); err != nil {
		return err
	}
	s := &p.path[row]
	s.table.Insert(s.at+1, hash, n)
	e.sealIndex(s.block)
	return nil
}

// edit makes the block of a step one that can be changed.
func (e *Editor) edit(p *probe, row int) error {
	s := &p.path[row]
	block, err := e.Space.Change(s.n)
	if err != nil {
		return err
	}
	off := len(s.block) - len(s.table)
	s.block, s.table = block, format.DxEntries(block[off:])
	return nil
}
