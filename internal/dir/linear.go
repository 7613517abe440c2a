package dir

import (
	"syscall"

	"drydock/format"
)

// Hint remembers where a linear directory has no room, so that filling it does
// not search it again and again. The zero value knows nothing. A wrong hint
// costs space or time, nothing else. It is not safe for concurrent use.
type Hint struct {
	full [hintClasses]format.LBlock // for every length of entries: blocks in front of this one have no room
}

// Entries are multiples of four bytes long, as DirentLen has it for 1 to
// format.MaxNameLen bytes.
const (
	hintStep    = 4
	hintClasses = (8+format.MaxNameLen)/hintStep - 1
)

func hintClass(need int) int { return need/hintStep - 3 }

// start is the first block worth a look for need bytes.
func (h *Hint) start(need int) format.LBlock { return h.full[hintClass(need)] }

// noRoom takes down that the blocks in front of n have no room for need bytes.
func (h *Hint) noRoom(need int, n format.LBlock) {
	for c := hintClass(need); c < hintClasses && h.full[c] < n; c++ {
		h.full[c] = n
	}
}

// freed takes down that block n may have room again. There may be no hint.
func (h *Hint) freed(n format.LBlock) {
	if h == nil {
		return
	}
	for c := range h.full {
		h.full[c] = min(h.full[c], n)
	}
}

func (e *Editor) hint() *Hint {
	if e.Hint == nil {
		e.Hint = &Hint{}
	}
	return e.Hint
}

// insertLinear puts x into the first block with room, or else into a new one,
// or makes an index.
func (e *Editor) insertLinear(x *entry) error {
	if e.Indexed && e.Checksums.Meta {
		return e.unsupported("an index without the feature dir_index")
	}
	v, need, blocks := e.view(), x.need(), e.Space.NumBlocks()
	for n := min(e.hint().start(need), blocks); n < blocks; n++ {
		gap, err := e.searchLinear(v, n, x)
		if err != nil {
			return err
		}
		if gap >= 0 {
			e.hint().noRoom(need, n)
			e.Indexed = false // of an index without the feature, x may be where the root was
			return e.put(n, gap, x)
		}
	}
	e.hint().noRoom(need, blocks)
	if blocks == 1 {
		return e.growFirst(x)
	}
	return e.appendLinear(x)
}

// searchLinear returns where block n has room for x, or -1.
func (e *Editor) searchLinear(v *View, n format.LBlock, x *entry) (gap int, err error) {
	block, err := e.readLeaf(v, n)
	if err != nil {
		return -1, err
	}
	s, err := format.SearchDirBlock(block, e.room(), x.name, x.need())
	if err != nil {
		return -1, e.located(n, err)
	}
	if s.At >= 0 {
		return -1, syscall.EEXIST
	}
	return s.Gap, nil
}

// growFirst makes room for x in a directory of one block: by closing up the
// gaps, or by making an index, or by a second block.
func (e *Editor) growFirst(x *entry) error {
	block, err := e.view().read(0, nil)
	if err != nil {
		return err
	}
	dotdot, err := e.dotdot(block)
	if err != nil {
		return err
	}
	list, err := e.items(block, dotdot.Off+1)
	if err != nil {
		return e.located(0, err)
	}
	first := dotdot.Off + format.DirentLen(len(dotdot.Name))
	if first+list.size()+x.need() <= e.room() {
		return e.packFirst(dotdot, first, list, x)
	}
	if e.DirIndex {
		return e.makeIndex(dotdot.Ino, list, x)
	}
	return e.appendLinear(x)
}

// packFirst closes up the gaps in block 0.
func (e *Editor) packFirst(dotdot format.Dirent, first int, list leafItems, x *entry) error {
	block, err := e.Space.Change(0)
	if err != nil {
		return err
	}
	format.PutDirent(block, dotdot.Off, first-dotdot.Off, dotdot.Ino, dotdot.Type, dotdot.Name)
	e.fill(block, first, list, x)
	return nil
}

// appendLinear puts x into a new block.
func (e *Editor) appendLinear(x *entry) error {
	if e.Space.NumBlocks() == 0 {
		return e.damaged(0, "is missing")
	}
	if e.Space.NumBlocks() >= e.maxBlocks() {
		return syscall.ENOSPC
	}
	_, block, err := e.Space.Append()
	if err != nil {
		return err
	}
	e.fill(block, 0, leafItems{}, x)
	return nil
}
