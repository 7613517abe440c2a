package format

import "fmt"

// XattrEntry is one entry as found on a disk: the attribute, and what only a
// check needs.
type XattrEntry struct {
	Xattr
	Offset      int    // of the entry in the bytes given
	ValueOffset int    // of the value in the bytes given; 0 if it has none there
	Hash        uint32 // e_hash as stored
}

// HashOK reports whether the stored hash is one that a kernel wrote: over
// unsigned or signed name bytes, or 0 in an inode. A value in an inode of its
// own is not judged.
func (e XattrEntry) HashOK(inInode bool) bool {
	if e.ValueInum != 0 || inInode && e.Hash == 0 {
		return true
	}
	return e.Hash == XattrEntryHash(e.Name, e.Value) || e.Hash == XattrEntryHashSigned(e.Name, e.Value)
}

// DecodeInodeXattrs returns the attributes in b, the bytes of an inode from
// 128+i_extra_isize to its end; none if the magic is missing. Values are part
// of b. With an error it returns what lies before the damage.
func DecodeInodeXattrs(b []byte) ([]Xattr, error) {
	return collectXattrs(func(fn func(XattrEntry) bool) error { return WalkInodeXattrs(b, fn) })
}

// DecodeXattrBlock returns the attributes in a block. Values are part of it.
// With an error it returns what lies before the damage.
func DecodeXattrBlock(block []byte) ([]Xattr, error) {
	return collectXattrs(func(fn func(XattrEntry) bool) error { return WalkXattrBlock(block, fn) })
}

func collectXattrs(walk func(func(XattrEntry) bool) error) (attrs []Xattr, err error) {
	err = walk(func(e XattrEntry) bool {
		attrs = append(attrs, e.Xattr)
		return true
	})
	return attrs, err
}

// WalkInodeXattrs calls fn for each entry in b, the bytes of an inode from
// 128+i_extra_isize to its end, until fn returns false or an entry is damaged.
// It checks that names and values lie inside b; the order is free.
func WalkInodeXattrs(b []byte, fn func(XattrEntry) bool) error {
	if len(b) < xattrInodeHeader || xhMagic.get(b) != XattrMagic {
		return nil
	}
	return xattrInodeArea(b).walk(fn)
}

// WalkXattrBlock checks the header of a block and calls fn for each entry
// until fn returns false or an entry is damaged. It checks that names and
// values lie inside the block; order, hashes and checksum are for the caller.
func WalkXattrBlock(block []byte, fn func(XattrEntry) bool) error {
	if err := checkXattrHeader(block); err != nil {
		return err
	}
	return xattrBlockArea(block).walk(fn)
}

func checkXattrHeader(b []byte) error {
	a := xattrBlockArea(b)
	if len(b) < XattrHeaderSize+xattrEndLen {
		return a.damage(0, "%d bytes, want at least %d", len(b), XattrHeaderSize+xattrEndLen)
	}
	if m := xhMagic.get(b); m != XattrMagic {
		return a.damage(int(xhMagic), "magic %#x, want %#x", m, uint32(XattrMagic))
	}
	if n := xhBlocks.get(b); n != 1 {
		return a.damage(int(xhBlocks), "h_blocks %d, want 1", n)
	}
	return nil
}

// walk is bounded by the bytes of the area: each entry takes at least 16.
func (a xattrArea) walk(fn func(XattrEntry) bool) error {
	ends, err := a.entriesEnd()
	if err != nil {
		return err
	}
	for off := a.first; off < ends; {
		e, err := a.entry(off, ends)
		if err != nil {
			return err
		}
		if !fn(e) {
			return nil
		}
		off += xattrEntrySize(len(e.Name))
	}
	return nil
}

// entriesEnd returns the offset of the four zero bytes after the last entry.
func (a xattrArea) entriesEnd() (int, error) {
	off := a.first
	for {
		if off+xattrEndLen > len(a.b) {
			return 0, a.damage(off, "entries without an end")
		}
		if le32(0).get(a.b[off:]) == 0 {
			return off, nil
		}
		if off+xattrEntryLen > len(a.b) {
			return 0, a.damage(off, "entry beyond the end")
		}
		off += xattrEntrySize(int(xeNameLen.get(a.b[off:])))
	}
}

// entry returns the entry at off; entries end at ends, inside the area.
func (a xattrArea) entry(off, ends int) (XattrEntry, error) {
	e := a.b[off:ends]
	n := int(xeNameLen.get(e))
	x := XattrEntry{Offset: off, Hash: xeHash.get(e)}
	x.Index = xeNameIndex.get(e)
	x.Name = string(e[xattrEntryLen : xattrEntryLen+n])
	size := xeValueSize.get(e)
	if ino := xeValueInum.get(e); ino != 0 {
		x.ValueInum, x.ValueSize = Ino(ino), size
		return x, nil
	}
	if size == 0 {
		return x, nil
	}
	start := a.base + int(xeValueOffs.get(e))
	if start < ends+xattrEndLen || start > len(a.b) || uint64(size) > uint64(len(a.b)-start) {
		return x, a.damage(off+int(xeValueOffs), "%s: value of %d bytes at %#x, want inside %#x to %#x",
			x.FullName(), size, start, ends+xattrEndLen, len(a.b))
	}
	x.ValueOffset = start
	x.Value = a.b[start : start+int(size) : start+int(size)]
	return x, nil
}

func (a xattrArea) damage(off int, detail string, args ...any) error {
	return &DamagedError{Structure: a.name, Offset: off, Detail: fmt.Sprintf(detail, args...)}
}
