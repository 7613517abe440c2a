package dir

import (
	"drydock/format"
)

// probe is one lookup in an htree: the way from the root to a leaf.
type probe struct {
	*View
	hash uint32
	path []step // root first
	leaf []byte
}

// step is a block of the index and the entry taken there.
type step struct {
	table format.DxEntries
	at    int
}

func (s step) child() format.LBlock { return s.table.Block(s.at) }

func (v *View) lookupIndex(name []byte) (e Entry, found bool, err error) {
	p := &probe{View: v, leaf: make([]byte, v.BlockSize)}
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
	block, err := p.indexBlock(0)
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
	p.hash, _ = format.DirHash(p.hashVersion(r), p.HashSeed, name)
	p.path = append(p.path, step{r.Entries(), r.Entries().Find(p.hash)})
	return p.descend(r.Levels(), func(e format.DxEntries) int { return e.Find(p.hash) })
}

func (p *probe) maxLevels() int {
	if p.LargeDir {
		return format.MaxDxLevelsLarge
	}
	return format.MaxDxLevels
}

func (p *probe) hashVersion(r format.DxRoot) uint8 {
	if p.HashUnsigned {
		return r.HashVersion() + format.HashUnsigned
	}
	return r.HashVersion()
}

// descend adds the nodes of the given number of levels to the path, taking the
// entry that choose returns in each.
func (p *probe) descend(levels int, choose func(format.DxEntries) int) error {
	for range levels {
		n := p.path[len(p.path)-1].child()
		block, err := p.indexBlock(n)
		if err != nil {
			return err
		}
		if err := format.CheckDxNode(block, p.Checksums.Meta); err != nil {
			return p.located(n, err)
		}
		table := format.DxNode(block).Entries()
		p.path = append(p.path, step{table, choose(table)})
	}
	return nil
}

func (p *probe) indexBlock(n format.LBlock) ([]byte, error) {
	block := make([]byte, p.BlockSize)
	return block, p.readChild(n, block)
}

// readChild reads a block that the index names.
func (p *probe) readChild(n format.LBlock, block []byte) error {
	if n >= p.Blocks.NumBlocks() {
		return p.damaged(n, "named by the index, but the directory has %d blocks", p.Blocks.NumBlocks())
	}
	return p.read(n, block)
}

func (p *probe) searchLeaf(name []byte) (e Entry, found bool, err error) {
	n := p.path[len(p.path)-1].child()
	if err := p.readChild(n, p.leaf); err != nil {
		return Entry{}, false, err
	}
	return p.search(n, p.leaf, name)
}

// next goes to the next leaf if that goes on with names of the same hash.
func (p *probe) next() (more bool, err error) {
	depth := len(p.path)
	row := depth - 1
	for row >= 0 && p.path[row].at+1 >= p.path[row].table.Count() {
		row--
	}
	if row < 0 {
		return false, nil
	}
	p.path = p.path[:row+1]
	s := &p.path[row]
	s.at++
	if s.table.Hash(s.at)&^1 != p.hash {
		return false, nil
	}
	return true, p.descend(depth-1-row, func(format.DxEntries) int { return 0 })
}
