package dir

import (
	"syscall"

	"drydock/format"
)

// insertIndexed puts x into the leaf of its hash, which is split if it is full.
func (e *Editor) insertIndexed(x *entry) error {
	p := probe{View: e.view()}
	if err := p.root(x.name); err != nil {
		return err
	}
	n, block, err := e.leafBelow(&p)
	if err != nil {
		return err
	}
	s, err := format.SearchDirBlock(block, e.room(), x.name, x.need())
	switch {
	case err != nil:
		return e.located(n, err)
	case s.At >= 0:
		return syscall.EEXIST
	case s.Gap >= 0:
		return e.put(n, s.Gap, x)
	case s.Used+x.need() <= e.room():
		return e.pack(n, block, x)
	default:
		return e.splitLeaf(&p, n, block, x)
	}
}

// leafBelow reads the leaf that p leads to. Without checksums an unused leaf
// and a node can look the same; p's own blocks at least must not be taken for leaves.
func (e *Editor) leafBelow(p *probe) (n format.LBlock, block []byte, err error) {
	n = p.last().child()
	for i := range p.depth {
		if p.path[i].n == n {
			return 0, nil, e.damaged(n, "is a leaf and a part of the index")
		}
	}
	if n >= e.Space.NumBlocks() {
		return 0, nil, e.damaged(n, "named by the index, but the directory has %d blocks", e.Space.NumBlocks())
	}
	block, err = e.readLeaf(p.View, n)
	return n, block, err
}

// pack closes up the gaps of a leaf, which makes room for x.
func (e *Editor) pack(n format.LBlock, block []byte, x *entry) error {
	list, err := e.items(block, 0)
	if err != nil {
		return e.located(n, err)
	}
	if block, err = e.Space.Change(n); err != nil {
		return err
	}
	e.fill(block, 0, list, x)
	return nil
}

// splitLeaf moves the upper half of a full leaf into a new one and adds x.
func (e *Editor) splitLeaf(p *probe, n format.LBlock, block []byte, x *entry) error {
	list, err := e.items(block, 0)
	if err != nil {
		return e.located(n, err)
	}
	list.byHash(p.hashVersion(format.DxRoot(p.path[0].block).HashVersion()), e.HashSeed)
	h := halve(list)
	if !h.fits(x, p.hash, e.room()) || !e.canGrow(p) {
		return syscall.ENOSPC
	}
	if err := e.makeRoom(p); err != nil {
		return err
	}
	lower, err := e.Space.Change(n)
	if err != nil {
		return err
	}
	upperN, upper, err := e.Space.Append()
	if err != nil {
		return err
	}
	e.fillHalves(lower, upper, h, x, p.hash)
	return e.addChild(p, p.depth-1, h.mark(), upperN)
}

// halves is a full leaf's entries in the order of their hashes, and where to
// cut them in two.
type halves struct {
	leafItems
	at int // the first of the upper half
}

// halve moves entries to the upper half, the highest first, as long as the most
// of each lies in the upper half of the bytes. Names of the highest hash stay
// together, for the reason that splitsEnd gives.
func halve(l leafItems) halves {
	h := halves{l, len(l.list)}
	half, size := l.size()/2, 0
	for h.at > 0 && size+l.list[h.at-1].size()/2 <= half {
		h.at--
		size += l.list[h.at].size()
	}
	for h.continued() && h.list[h.at].hash() == format.MaxDirHash {
		h.at--
	}
	return h
}

func (h *halves) lower() leafItems { return h.part(0, h.at) }
func (h *halves) upper() leafItems { return h.part(h.at, len(h.list)) }

// continued says that the halves share a hash.
func (h *halves) continued() bool {
	return h.at > 0 && h.at < len(h.list) && h.list[h.at].hash() == h.list[h.at-1].hash()
}

// mark is the hash of the upper half for the index.
func (h *halves) mark() uint32 {
	if h.continued() {
		return h.list[h.at].hash() | 1
	}
	return h.list[h.at].hash()
}

// inUpper says that a name of this hash belongs into the upper half.
func (h *halves) inUpper(hash uint32) bool { return hash >= h.list[h.at].hash() }

// fits tells whether both halves have entries and the one that x belongs to
// has room for it. Only names of the highest hash can fill more than a half.
func (h *halves) fits(x *entry, hash uint32, room int) bool {
	if h.at <= 0 || h.at >= len(h.list) {
		return false
	}
	half := h.lower()
	if h.inUpper(hash) {
		half = h.upper()
	}
	return half.size()+x.need() <= room
}

// fillHalves makes the two leaves, with x in the one that its hash belongs to.
func (e *Editor) fillHalves(lower, upper []byte, h halves, x *entry, hash uint32) {
	if h.inUpper(hash) {
		e.fill(lower, 0, h.lower(), nil)
		e.fill(upper, 0, h.upper(), x)
		return
	}
	e.fill(lower, 0, h.lower(), x)
	e.fill(upper, 0, h.upper(), nil)
}

// makeIndex turns a directory of one block, full with list, into an indexed one
// of a root and two leaves, and adds x.
func (e *Editor) makeIndex(parent format.Ino, list leafItems, x *entry) error {
	stored := e.HashVersion
	if stored > format.HashTea {
		stored = format.HashHalfMD4
	}
	version := e.view().hashVersion(stored)
	list.byHash(version, e.HashSeed)
	hash, _ := format.DirHash(version, e.HashSeed, x.name)
	h := halve(list)
	if !h.fits(x, hash, e.room()) {
		return e.appendLinear(x)
	}
	lowerN, lower, err := e.Space.Append()
	if err != nil {
		return err
	}
	upperN, upper, err := e.Space.Append()
	if err != nil {
		return err
	}
	e.fillHalves(lower, upper, h, x, hash)
	block, err := e.Space.Change(0)
	if err != nil {
		return err
	}
	root := format.PutDxRoot(block, e.Ino, parent, e.fileType(format.FTDir), stored, 0, e.Checksums.Meta)
	root.Entries().Set(0, 0, lowerN)
	root.Entries().Set(1, h.mark(), upperN)
	root.Entries().SetCount(2)
	e.sealIndex(block)
	e.Indexed = true
	return nil
}
