package dir

import (
	"cmp"
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
	write(block, off, recLen, x)
	return nil
}

// write makes an entry of recLen bytes, with zeros up to the next multiple of four.
func write(block []byte, off, recLen int, x *entry) {
	clear(block[off : off+x.need()])
	format.PutDirent(block, off, recLen, x.ino, x.ft, x.name)
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

// item is an entry in use while its block is made anew.
type item struct {
	hash uint32
	size int // bytes it needs
	entry
}

// items lists the entries in use of a block from offset from on, whose names
// lie in the block.
func items(block []byte, from, end int) ([]item, error) {
	list := make([]item, 0, len(block)/24)
	err := format.WalkDirBlock(block, end, func(d format.Dirent) bool {
		if d.Ino != 0 && d.Off >= from {
			list = append(list, item{0, format.DirentLen(len(d.Name)), entry{d.Name, d.Ino, d.Type}})
		}
		return true
	})
	return list, err
}

// hashItems gives the items their hashes and sorts them by these.
func hashItems(list []item, version uint8, seed [16]byte) {
	for i := range list {
		list[i].hash, _ = format.DirHash(version, seed, list[i].name)
	}
	slices.SortStableFunc(list, func(a, b item) int { return cmp.Compare(a.hash, b.hash) })
}

func sizeOf(list []item) (total int) {
	for i := range list {
		total += list[i].size
	}
	return total
}

// fill makes a block of entries out of list, whose names must not lie in the
// block, and x if that is not nil. The last one reaches to the end of the room.
func (e *Editor) fill(block []byte, from int, list []item, x *entry) {
	clear(block[from:])
	room, off := e.room(), from
	for i := range list {
		recLen := list[i].size
		if x == nil && i == len(list)-1 {
			recLen = room - off
		}
		write(block, off, recLen, &list[i].entry)
		off += recLen
	}
	switch {
	case x != nil:
		write(block, off, room-off, x)
	case len(list) == 0:
		format.PutDirent(block, off, room-off, 0, format.FTUnknown, nil)
	}
	e.finishLeaf(block)
}
