package format

import "fmt"

// FileType is the type of an inode as a directory entry holds it.
//
// Source: kernel doc ext4/directory, "Directory file types".
type FileType uint8

// The file types of directory entries.
const (
	FTUnknown  FileType = 0
	FTRegular  FileType = 1
	FTDir      FileType = 2
	FTChar     FileType = 3
	FTBlock    FileType = 4
	FTFifo     FileType = 5
	FTSocket   FileType = 6
	FTSymlink  FileType = 7
	FTChecksum FileType = 0xDE // no file: the checksum at the end of a directory block
)

// A directory entry, little-endian: 4 bytes inode, 2 bytes length of the
// entry, 1 byte length of the name, 1 byte type, name. An entry begins at a
// multiple of 4 and reaches to the next one; inode 0 marks free space. Without
// the filetype feature the type byte is the (always zero) high half of the
// name's length.
//
// Source: kernel doc ext4/directory, "Linear (Classic) Directories".
const (
	direntIno     le32 = 0x0
	direntRecLen  le16 = 0x4
	direntNameLen u8   = 0x6
	direntType    u8   = 0x7
	direntName         = 0x8

	direntAlign  = 4
	minDirentLen = 12 // bytes; room for a name of one byte

	// MaxNameLen is the length in bytes of the longest name in a directory.
	MaxNameLen = 255
)

// DirTailSize is the length in bytes of the checksum at the end of a directory
// block, in the form of an unused entry.
const DirTailSize = 12

// Block sizes above maxPlainRecLen store entry lengths in a packed form.
const (
	maxPlainRecLen = 1<<16 - 1
	recLenWhole    = 1<<16 - 1 // packed: the entry is the whole block
)

// Dirent is a decoded directory entry.
type Dirent struct {
	Off    int // in bytes, in its block
	RecLen int // in bytes, of the whole entry with the space behind its name
	Ino    Ino // 0: unused
	Type   FileType
	Name   []byte // lies in the block
}

// DirentLen returns the bytes that an entry needs for a name of nameLen bytes.
func DirentLen(nameLen int) int {
	return (direntName + nameLen + direntAlign - 1) &^ (direntAlign - 1)
}

// PutDirent writes an entry of recLen bytes at off. name is at most MaxNameLen
// long and DirentLen(len(name)) at most recLen; bytes behind the name stay as
// they are. len(block) is the block size, on which the form of recLen depends.
func PutDirent(block []byte, off, recLen int, ino Ino, ft FileType, name []byte) {
	e := block[off : off+recLen]
	direntIno.put(e, uint32(ino))
	direntRecLen.put(e, packRecLen(recLen, len(block)))
	direntNameLen.put(e, uint8(len(name)))
	direntType.put(e, uint8(ft))
	copy(e[direntName:], name)
}

// ReadDirent decodes the entry at off. len(block) is the block size. The entry
// is checked to be aligned, to lie in the block and to hold its name; whether
// the inode exists and the name is a proper one is for the caller to judge.
// The error is a *DamagedError.
func ReadDirent(block []byte, off int) (Dirent, error) {
	if off < 0 || off%direntAlign != 0 || off > len(block)-minDirentLen {
		return Dirent{}, badDirent(off, "no room for an entry in %d bytes", len(block))
	}
	e := block[off:]
	recLen := unpackRecLen(direntRecLen.get(e), len(block))
	nameLen := int(direntNameLen.get(e))
	switch {
	case recLen < minDirentLen || recLen%direntAlign != 0:
		return Dirent{}, badDirent(off, "length %d, want a multiple of %d from %d", recLen, direntAlign, minDirentLen)
	case recLen > len(e):
		return Dirent{}, badDirent(off, "length %d, want at most %d up to the block's end", recLen, len(e))
	case DirentLen(nameLen) > recLen:
		return Dirent{}, badDirent(off, "length %d is too small for a name of %d bytes", recLen, nameLen)
	}
	return Dirent{
		Off:    off,
		RecLen: recLen,
		Ino:    Ino(direntIno.get(e)),
		Type:   FileType(direntType.get(e)),
		Name:   e[direntName : direntName+nameLen : direntName+nameLen],
	}, nil
}

// WalkDirBlock calls fn for every entry of block from its start up to end,
// unused ones too, until fn returns false. end is where entries have to end:
// the block's end or its checksum's start (DirBlockEnd). The error is a
// *DamagedError; the entries in front of the damage have been seen then.
func WalkDirBlock(block []byte, end int, fn func(Dirent) bool) error {
	for off := 0; off < end; {
		d, err := ReadDirent(block, off)
		if err != nil {
			return err
		}
		if off += d.RecLen; off > end {
			return badOverEnd(d, end)
		}
		if !fn(d) {
			return nil
		}
	}
	return nil
}

// DirBlockEnd returns where the entries of a directory block end: at its
// checksum if it has one, else at its end. The block of an index has a checksum
// of another form behind what looks like an entry, and may keep the rest of
// an earlier one of this form in front of it.
func DirBlockEnd(block []byte) int {
	if HasDirTail(block) && !isDxNode(block) && !hasDxDots(block) {
		return len(block) - DirTailSize
	}
	return len(block)
}

// PutDirTail writes the checksum entry at the end of a directory block, with
// a checksum of zero.
func PutDirTail(block []byte) {
	tail := block[len(block)-DirTailSize:]
	clear(tail)
	direntRecLen.put(tail, DirTailSize)
	direntType.put(tail, uint8(FTChecksum))
}

// HasDirTail reports whether block ends in a checksum entry.
func HasDirTail(block []byte) bool {
	if len(block) < DirTailSize {
		return false
	}
	tail := block[len(block)-DirTailSize:]
	return direntIno.get(tail) == 0 && direntRecLen.get(tail) == DirTailSize &&
		direntNameLen.get(tail) == 0 && direntType.get(tail) == uint8(FTChecksum)
}

// packRecLen gives the stored form of an entry's length. With 64 KiB blocks
// the length of a whole block does not fit 16 bits; the two bits that
// alignment leaves unused are its high bits then.
func packRecLen(n, blockSize int) uint16 {
	switch {
	case blockSize <= maxPlainRecLen:
		return uint16(n)
	case n == blockSize:
		return recLenWhole
	default:
		return uint16(n | n>>16)
	}
}

func unpackRecLen(v uint16, blockSize int) int {
	switch {
	case blockSize <= maxPlainRecLen:
		return int(v)
	case v == recLenWhole || v == 0:
		return blockSize
	default:
		return int(v&^3) | int(v&3)<<16
	}
}

func badDirent(off int, format string, args ...any) error {
	return &DamagedError{Structure: "directory entry", Offset: off, Detail: fmt.Sprintf(format, args...)}
}
