package dir

import (
	"fmt"

	"drydock/format"
)

// Blocks gives access to a directory's blocks.
type Blocks interface {
	NumBlocks() format.LBlock
	ReadLBlock(n format.LBlock, p []byte) error // fills p, which is one block long
}

// Shared is what Blocks may be besides: blocks that lie in memory, which a View
// then reads there. They must not change as long as a method of View runs.
type Shared interface {
	// Get returns block n and whether its checksum has been verified before.
	Get(n format.LBlock) (block []byte, verified bool, err error)
}

// Marker is what Shared may be besides: it is told of a block that its checksum
// has just been verified.
type Marker interface {
	SetVerified(n format.LBlock)
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

	before int // offset of the entry in front of it, or -1
}

// Walk calls fn for every entry in use, "." and ".." too, in the order of the
// blocks, until fn returns false. An index is not followed. Names may hold
// any bytes, and lie in memory that the next block may overwrite. The error is
// one of Blocks or matches format.ErrDamaged; fn has seen the entries before it.
func (v *View) Walk(fn func(n format.LBlock, d format.Dirent) bool) error {
	var buf []byte
	for n := range v.Blocks.NumBlocks() {
		block, err := v.read(n, buf)
		if err != nil {
			return err
		}
		buf = block
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
	var buf []byte
	for n := range v.Blocks.NumBlocks() {
		block, err := v.read(n, buf)
		if err != nil {
			return Entry{}, false, err
		}
		buf = block
		if e, found, err = v.search(n, block, name); err != nil || found {
			return e, found, err
		}
	}
	return Entry{}, false, nil
}

func (v *View) search(n format.LBlock, block, name []byte) (e Entry, found bool, err error) {
	s, err := format.SearchDirBlock(block, v.end(block), name, len(block))
	if err != nil || s.At < 0 {
		return Entry{}, false, v.located(n, err)
	}
	d, err := format.ReadDirent(block, s.At)
	return Entry{Ino: d.Ino, Type: d.Type, Block: n, Off: s.At, before: s.Before}, err == nil, v.located(n, err)
}

// read returns block n, verified. It may use buf, unless that is nil, which
// must be the result of an earlier call: with Shared blocks it is not written to.
func (v *View) read(n format.LBlock, buf []byte) ([]byte, error) {
	block, verified, err := v.fetch(n, buf)
	if err != nil {
		return nil, v.located(n, err)
	}
	if verified || v.SkipChecksums {
		return block, nil
	}
	if !v.verify(n, block) {
		return nil, v.damaged(n, "checksum does not match")
	}
	if m, ok := v.Blocks.(Marker); ok {
		m.SetVerified(n)
	}
	return block, nil
}

func (v *View) fetch(n format.LBlock, buf []byte) (block []byte, verified bool, err error) {
	if s, ok := v.Blocks.(Shared); ok {
		return s.Get(n)
	}
	if buf == nil {
		buf = make([]byte, v.BlockSize)
	}
	return buf, false, v.Blocks.ReadLBlock(n, buf)
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
