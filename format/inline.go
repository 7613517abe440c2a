package format

import "fmt"

// With inline_data a small file has no blocks: its content begins in the 60
// bytes of i_block and goes on in the value of the extended attribute
// system.data. A directory has the inode number of ".." in the first 4 bytes
// instead of the entries "." and ".."; its further entries fill the rest of
// i_block and, as a second table, the attribute's value.
//
// Source: kernel doc ext4/inlinedata.
const (
	inlineEntries = 0x4 // directories: where entries begin
	inlineRest    = 60  // bytes of i_block
)

const inlineParent le32 = 0x0 // directories: inode number of ".."

// InlineData returns the content of an inline file or symlink. iblock is the
// inode's i_block, value that of system.data (nil if there is none), size the
// inode's size in bytes. A size over what there is gives a *DamagedError.
func InlineData(iblock, value []byte, size uint64) ([]byte, error) {
	if err := checkInlineBlock(iblock); err != nil {
		return nil, err
	}
	room := uint64(inlineRest + len(value))
	if size > room {
		return nil, badInline(-1, "size %d, but %d bytes in the inode", size, room)
	}
	data := make([]byte, 0, room)
	data = append(append(data, iblock[:inlineRest]...), value...)
	return data[:size:size], nil
}

// InlineDirParent returns the inode number of ".." of an inline directory.
func InlineDirParent(iblock []byte) Ino { return Ino(inlineParent.get(iblock)) }

// WalkInlineDir calls fn for every entry of an inline directory, unused ones
// too, until fn returns false; "." and ".." are not among them. Dirent.Off is
// the offset in i_block, and from 60 on in value. The error is a *DamagedError.
func WalkInlineDir(iblock, value []byte, fn func(Dirent) bool) error {
	if err := checkInlineBlock(iblock); err != nil {
		return err
	}
	more, err := walkInlinePart(iblock[inlineEntries:inlineRest], inlineEntries, fn)
	if err == nil && more {
		_, err = walkInlinePart(value, inlineRest, fn)
	}
	return err
}

// walkInlinePart walks one of the tables, which lies at byte start of the whole.
func walkInlinePart(table []byte, start int, fn func(Dirent) bool) (more bool, err error) {
	more = true
	err = WalkDirBlock(table, len(table), func(d Dirent) bool {
		d.Off += start
		more = fn(d)
		return more
	})
	if err != nil {
		return false, badInline(start, "%v", err)
	}
	return more, nil
}

func checkInlineBlock(iblock []byte) error {
	if len(iblock) < inlineRest {
		return badInline(-1, "%d bytes of i_block, want %d", len(iblock), inlineRest)
	}
	return nil
}

func badInline(off int, format string, args ...any) error {
	return &DamagedError{Structure: "inline data", Offset: off, Detail: fmt.Sprintf(format, args...)}
}
