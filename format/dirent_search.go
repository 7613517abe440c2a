package format

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
	for off := 0; off < end; {
		if off > len(block)-minDirentLen {
			return s, direntDamage(block, off, end)
		}
		e := block[off:]
		recLen, nameLen := int(direntRecLen.get(e)), int(direntNameLen.get(e))
		if packed {
			recLen = unpackRecLen(uint16(recLen), len(block))
		}
		used := DirentLen(nameLen)
		if recLen < max(used, minDirentLen) || recLen%direntAlign != 0 || recLen > end-off {
			return s, direntDamage(block, off, end)
		}
		if direntIno.get(e) == 0 {
			used = 0
		} else if nameLen == len(name) && string(e[direntName:direntName+nameLen]) == string(name) {
			s.At = off
			return s, nil
		}
		if recLen-used >= need && s.Gap < 0 {
			s.Gap = off
		}
		s.Used += used
		s.Before = off
		off += recLen
	}
	s.Before = -1
	return s, nil
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
