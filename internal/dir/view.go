package dir

import (
	"bytes"
	"fmt"

	"drydock/format"
)

// Blocks gives access to a directory's blocks.
type Blocks interface {
	NumBlocks() format.LBlock
	ReadLBlock(n format.LBlock, p []byte) error // fills p, which is one block long
}

// View reads one directory. It keeps no state, so that one View serves many
// goroutines if its Blocks do.
type View struct {
	Blocks        Blocks
	BlockSize     int // bytes
	Ino           format.Ino
	Generation    uint32           // of the inode, part of the checksums
	Indexed       bool             // the inode has the flag format.InodeIndex
	LargeDir      bool             // the file system has large_dir
	HashUnsigned  bool             // the superblock has format.FlagUnsignedHash
	HashSeed      [16]byte         // the superblock's s_hash_seed
	Checksums     format.Checksums // of the file system
	SkipChecksums bool             // read also what does not match its checksum
}

// Entry is a name that Lookup found.
type Entry struct {
	Ino   format.Ino
	Type  format.FileType // FTUnknown without the filetype feature
	Block format.LBlock   // the block that holds it
	Off   int             // its offset there in bytes
}

// Walk calls fn for every entry in use, "." and ".." too, in the order of the
// blocks, until fn returns false. An index is not followed. Names may hold
// any bytes, and lie in memory that the next block overwrites. The error is one
// of Blocks or matches format.ErrDamaged; fn has seen the entries before it.
func (v *View) Walk(fn func(n format.LBlock, d format.Dirent) bool) error {
	block := make([]byte, v.BlockSize)
	for n := range v.Blocks.NumBlocks() {
		if err := v.read(n, block); err != nil {
			return err
		}
		more, err := v.walkBlock(n, block, fn)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func (v *View) walkBlock(n format.LBlock, block []byte, fn func(format.LBlock, format.Dirent) bool) (more bool, err error) {
	more = true
	err = format.WalkDirBlock(block, v.end(block), func(d format.Dirent) bool {
		if d.Ino != 0 {
			more = fn(n, d)
		}
		return more
	})
	return more, v.located(n, err)
}

// end is where the entries of a block end: at its checksum, if the file system
// has any.
func (v *View) end(block []byte) int {
	if v.Checksums.Meta {
		return format.DirBlockEnd(block)
	}
	return len(block)
}

// Lookup finds name, by the index if there is one. If that is damaged the
// error matches format.ErrDamaged, and if its hash cannot be computed
// format.ErrUnsupported; LookupLinear still finds what the blocks hold then.
func (v *View) Lookup(name []byte) (e Entry, found bool, err error) {
	if !v.Indexed || isDots(name) {
		return v.LookupLinear(name)
	}
	return v.lookupIndex(name)
}

func isDots(name []byte) bool { return string(name) == "." || string(name) == ".." }

// LookupLinear finds name by reading block after block.
func (v *View) LookupLinear(name []byte) (e Entry, found bool, err error) {
	block := make([]byte, v.BlockSize)
	for n := range v.Blocks.NumBlocks() {
		if err := v.read(n, block); err != nil {
			return Entry{}, false, err
		}
		if e, found, err = v.search(n, block, name); err != nil || found {
			return e, found, err
		}
	}
	return Entry{}, false, nil
}

func (v *View) search(n format.LBlock, block, name []byte) (e Entry, found bool, err error) {
	_, err = v.walkBlock(n, block, func(n format.LBlock, d format.Dirent) bool {
		if found = bytes.Equal(d.Name, name); found {
			e = Entry{Ino: d.Ino, Type: d.Type, Block: n, Off: d.Off}
		}
		return !found
	})
	return e, found, err
}

// read fills block and verifies it.
func (v *View) read(n format.LBlock, block []byte) error {
	if err := v.Blocks.ReadLBlock(n, block); err != nil {
		return v.located(n, err)
	}
	if !v.SkipChecksums && !v.verify(n, block) {
		return v.damaged(n, "checksum does not match")
	}
	return nil
}

func (v *View) verify(n format.LBlock, block []byte) bool {
	if v.Indexed && isIndex(n, block) {
		return v.Checksums.VerifyDxBlock(v.Ino, v.Generation, block)
	}
	return v.Checksums.VerifyDirBlock(v.Ino, v.Generation, block)
}

// isIndex reports whether a block of an indexed directory is part of the index.
func isIndex(n format.LBlock, block []byte) bool {
	off, ok := format.DxTableOffset(block)
	isRoot := off == format.DxRootTable
	return ok && isRoot == (n == 0)
}

func (v *View) damaged(n format.LBlock, detail string, args ...any) error {
	return v.located(n, &format.DamagedError{Structure: "directory block", Offset: -1, Detail: fmt.Sprintf(detail, args...)})
}

// located says where err was met.
func (v *View) located(n format.LBlock, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("directory inode %d, logical block %d: %w", v.Ino, n, err)
}
