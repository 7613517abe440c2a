package format

import "encoding/binary"

// DirSearch is what SearchDirBlock finds; offsets are in bytes, -1 for none.
type DirSearch struct {
	At     int // the entry in use that has the name; the search ends there
	Before int // the entry in front of At
	Gap    int // the first entry with enough free space: unused, or behind its name
	Used   int // bytes that the entries in use need, those seen
}

// SearchDirBlock looks in block, whose entries end at end (as in WalkDirBlock),
// for a name and for an entry with need bytes of free space. The error is a
// *DamagedError.
func SearchDirBlock(block []byte, end int, name []byte, need int) (DirSearch, error) {
	s := DirSearch{At: -1, Before: -1, Gap: -1}
	packed := len(block) > maxPlainRecLen
	end = min(end, len(block))
	ending := newNameEnding(name)
	for off := 0; off < end; {
		if off > end-minDirentLen {
			return s, direntDamage(block, off, end)
		}
		e := block[off:end]
		head := binary.LittleEndian.Uint64(e) // all of an entry but its name
		recLen, nameLen := int(head>>32&0xFFFF), int(head>>48&0xFF)
		if packed {
			recLen = unpackRecLen(uint16(recLen), len(block))
		}
		used := DirentLen(nameLen)
		if recLen < max(used, minDirentLen) || recLen%direntAlign != 0 || recLen > len(e) {
			return s, direntDamage(block, off, end)
		}
		if uint32(head) == 0 {
			used = 0
		} else if nameLen == len(name) && ending.matches(e, nameLen) && string(e[direntName:direntName+nameLen]) == string(name) {
			s.At = off
			return s, nil
		}
		if s.Gap < 0 && recLen-used >= need {
			s.Gap = off
		}
		s.Used += used
		s.Before = off
		off += recLen
	}
	s.Before = -1
	return s, nil
}

// nameEnding is the last four bytes of a name, or all of a shorter one. Names
// of one directory differ there more often than at their start, and comparing
// four bytes costs no call.
type nameEnding struct {
	bytes uint32
	shift int // bits in front of a short name
}

func newNameEnding(name []byte) (n nameEnding) {
	for i := range 4 {
		if at := len(name) - 4 + i; at >= 0 {
			n.bytes |= uint32(name[at]) << (8 * i)
		} else {
			n.shift += 8
		}
	}
	n.bytes >>= n.shift
	return n
}

// matches compares the end of a name in an entry; the head of the entry lies in
// front of a short name.
func (n nameEnding) matches(e []byte, nameLen int) bool {
	return binary.LittleEndian.Uint32(e[nameLen+direntName-4:])>>n.shift == n.bytes
}

// direntDamage says what is wrong with the entry at off.
func direntDamage(block []byte, off, end int) error {
	d, err := ReadDirent(block, off)
	if err != nil {
		return err
	}
	return badOverEnd(d, end)
}

func badOverEnd(d Dirent, end int) error {
	return badDirent(d.Off, "length %d reaches over the end of entries at %d", d.RecLen, end)
}
