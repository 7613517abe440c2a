package dir

import (
	"slices"

	"drydock/format"
)

// room is how many bytes of a block entries can take.
func (e *Editor) room() int {
	if e.Checksums.Meta {
		return e.BlockSize - format.DirTailSize
	}
	return e.BlockSize
}

// readLeaf returns a block that holds entries.
func (e *Editor) readLeaf(v *View, n format.LBlock) ([]byte, error) {
	block, err := v.read(n, nil)
	if err == nil && v.end(block) != e.room() {
		err = e.damaged(n, "has no room for a checksum")
	}
	return block, err
}

// checkLeaf checks that block n can be sealed as one of entries.
func (e *Editor) checkLeaf(n format.LBlock) error {
	_, err := e.readLeaf(e.view(), n)
	return err
}

// finishLeaf gives a new block of entries its tail.
func (e *Editor) finishLeaf(block []byte) {
	if e.Checksums.Meta {
		format.PutDirTail(block)
	}
	e.sealLeaf(block)
}

func (e *Editor) sealLeaf(block []byte)  { e.Checksums.SealDirBlock(e.Ino, e.Generation, block) }
func (e *Editor) sealIndex(block []byte) { e.Checksums.SealDxBlock(e.Ino, e.Generation, block) }

// put writes x into the free space of the entry at gap in block n.
func (e *Editor) put(n format.LBlock, gap int, x *entry) error {
	block, err := e.Space.Change(n)
	if err != nil {
		return err
	}
	if err := place(block, gap, x); err != nil {
		return e.located(n, err)
	}
	e.sealLeaf(block)
	return nil
}

// place writes x into the free space of the entry at off: behind its name, or
// in its place if it is unused.
func place(block []byte, off int, x *entry) error {
	d, err := format.ReadDirent(block, off)
	if err != nil {
		return err
	}
	recLen := d.RecLen
	if d.Ino != 0 {
		used := format.DirentLen(len(d.Name))
		format.PutDirent(block, off, used, d.Ino, d.Type, d.Name)
		off, recLen = off+used, recLen-used
	}
	clear(block[off : off+x.need()]) // behind the name there are zeros
	format.PutDirent(block, off, recLen, x.ino, x.ft, x.name)
	return nil
}

// cut takes out the entry at off. Its space goes to the entry before it in the
// block, at offset before; the first entry becomes an unused one.
func cut(block []byte, off, before int) error {
	d, err := format.ReadDirent(block, off)
	if err != nil {
		return err
	}
	clear(d.Name)
	if before < 0 {
		format.PutDirent(block, off, d.RecLen, 0, format.FTUnknown, nil)
		return nil
	}
	b, err := format.ReadDirent(block, before)
	if err != nil {
		return err
	}
	clear(block[off : off+format.DirentLen(0)])
	format.PutDirent(block, before, b.RecLen+d.RecLen, b.Ino, b.Type, b.Name)
	return nil
}

// retarget makes the entry at off lead to another inode.
func retarget(block []byte, off int, ino format.Ino, ft format.FileType) error {
	d, err := format.ReadDirent(block, off)
	if err != nil {
		return err
	}
	format.PutDirent(block, off, d.RecLen, ino, ft, d.Name)
	return nil
}

// item is an entry in use while its block is made anew: its hash, its offset in
// the old block and its size, so that items sort by their hash and then by their
// place. Offsets and sizes are multiples of four.
type item uint64

const (
	itemHashShift = 32
	itemOffShift  = 8 // 24 bits of offset / 4
	itemUnit      = 4
)

func newItem(d format.Dirent) item {
	return item(d.Off/itemUnit)<<itemOffShift | item(format.DirentLen(len(d.Name))/itemUnit)
}

func (i item) hash() uint32 { return uint32(i >> itemHashShift) }
func (i item) off() int     { return int(uint32(i)>>itemOffShift) * itemUnit }
func (i item) size() int    { return int(uint8(i)) * itemUnit }

// leafItems are the entries in use of a block that is made anew.
type leafItems struct {
	old  []byte // what the block was
	list []item
}

// items lists the entries in use of a block from offset from on. The result
// lasts until the next call.
func (e *Editor) items(block []byte, from int) (leafItems, error) {
	e.old, e.list = append(e.old[:0], block...), e.list[:0]
	err := format.WalkDirBlock(e.old, e.room(), func(d format.Dirent) bool {
		if d.Ino != 0 && d.Off >= from {
			e.list = append(e.list, newItem(d))
		}
		return true
	})
	return leafItems{e.old, e.list}, err
}

// byHash gives the items their hashes and sorts them by these.
func (l *leafItems) byHash(version uint8, seed [16]byte) {
	for i, it := range l.list {
		hash, _ := format.DirHash(version, seed, l.dirent(it).Name)
		l.list[i] = it | item(hash)<<itemHashShift
	}
	slices.Sort(l.list)
}

func (l *leafItems) dirent(it item) format.Dirent {
	d, err := format.ReadDirent(l.old, it.off())
	if err != nil {
		panic("dir: " + err.Error()) // items has read it
	}
	return d
}

// part is the items from from to to-1.
func (l *leafItems) part(from, to int) leafItems { return leafItems{l.old, l.list[from:to]} }

// size is how many bytes the items need.
func (l leafItems) size() (total int) {
	for _, it := range l.list {
		total += it.size()
	}
	return total
}

// fill makes a block of entries out of l from offset from on, and x if that is
// not nil. The last one reaches to the end of the room.
func (e *Editor) fill(block []byte, from int, l leafItems, x *entry) {
	clear(block[from:])
	room, off := e.room(), from
	for i, it := range l.list {
		recLen := it.size()
		if x == nil && i == len(l.list)-1 {
			recLen = room - off
		}
		d := l.dirent(it)
		format.PutDirent(block, off, recLen, d.Ino, d.Type, d.Name)
		off += recLen
	}
	switch {
	case x != nil:
		format.PutDirent(block, off, room-off, x.ino, x.ft, x.name)
	case len(l.list) == 0:
		format.PutDirent(block, off, room-off, 0, format.FTUnknown, nil)
	}
	e.finishLeaf(block)
}
