package dir

import (
	"drydock/format"
)

// probe is one lookup in an htree: the way from the root to a leaf.
type probe struct {
	*View
	hash  uint32
	path  [format.MaxDxLevelsLarge + 1]step // root first
	depth int                               // steps of path in use
	buf   []byte                            // for leaves, if Blocks is not Shared
}

// step is a block of the index and the entry taken there.
type step struct {
	n     format.LBlock
	block []byte
	table format.DxEntries
	at    int
}

func (s *step) child() format.LBlock { return s.table.Block(s.at) }

// last is the step that leads to the leaf.
func (p *probe) last() *step { return &p.path[p.depth-1] }

func (v *View) lookupIndex(name []byte) (e Entry, found bool, err error) {
	p := probe{View: v}
	if err := p.root(name); err != nil {
		return Entry{}, false, err
	}
	for range v.Blocks.NumBlocks() {
		e, found, err := p.searchLeaf(name)
		if err != nil || found {
			return e, found, err
		}
		if more, err := p.next(); err != nil || !more {
			return Entry{}, false, err
		}
	}
	return Entry{}, false, v.damaged(0, "the index has more leaves of hash %#x than there are blocks", p.hash)
}

// root starts at the root and goes down to the first leaf that can hold name.
func (p *probe) root(name []byte) error {
	block, err := p.readChild(0, nil)
	if err != nil {
		return err
	}
	if err := format.CheckDxRoot(block, p.maxLevels(), p.Checksums.Meta); err != nil {
		return p.located(0, err)
	}
	r := format.DxRoot(block)
	if r.HashVersion() == format.HashSipHash {
		return p.located(0, &format.UnsupportedError{Detail: "hash of casefolded and encrypted directories"})
	}
	p.hash, _ = format.DirHash(p.hashVersion(r.HashVersion()), p.HashSeed, name)
	p.path[0] = step{0, block, r.Entries(), r.Entries().Find(p.hash)}
	p.depth = 1
	return p.descend(r.Levels(), true)
}

func (v *View) maxLevels() int { return maxLevels(v.LargeDir) }

func maxLevels(large bool) int {
	if large {
		return format.MaxDxLevelsLarge
	}
	return format.MaxDxLevels
}

// hashVersion gives the version that DirHash takes for one that an index stores.
func (v *View) hashVersion(stored uint8) uint8 {
	if v.HashUnsigned {
		return stored + format.HashUnsigned
	}
	return stored
}

// descend adds the nodes of the given number of levels to the path, taking in
// each the entry for the hash that is looked for, or the first one.
func (p *probe) descend(levels int, byHash bool) error {
	for range levels {
		n := p.last().child()
		block, err := p.readChild(n, nil)
		if err != nil {
			return err
		}
		if err := format.CheckDxNode(block, p.Checksums.Meta); err != nil {
			return p.located(n, err)
		}
		s := step{n: n, block: block, table: format.DxNode(block).Entries()}
		if byHash {
			s.at = s.table.Find(p.hash)
		}
		p.path[p.depth] = s
		p.depth++
	}
	return nil
}

// readChild reads a block that the index names.
func (p *probe) readChild(n format.LBlock, buf []byte) ([]byte, error) {
	if n >= p.Blocks.NumBlocks() {
		return nil, p.damaged(n, "named by the index, but the directory has %d blocks", p.Blocks.NumBlocks())
	}
	return p.read(n, buf)
}

func (p *probe) searchLeaf(name []byte) (e Entry, found bool, err error) {
	n := p.last().child()
	block, err := p.readChild(n, p.buf)
	if err != nil {
		return Entry{}, false, err
	}
	p.buf = block
	return p.search(n, block, name)
}

// next goes to the next leaf if that goes on with names of the same hash.
func (p *probe) next() (more bool, err error) {
	depth := p.depth
	row := depth - 1
	for row >= 0 && p.path[row].at+1 >= p.path[row].table.Count() {
		row--
	}
	if row < 0 {
		return false, nil
	}
	p.depth = row + 1
	s := p.last()
	s.at++
	if s.table.Hash(s.at)&^1 != p.hash {
		return false, nil
	}
	return true, p.descend(depth-1-row, false)
}
