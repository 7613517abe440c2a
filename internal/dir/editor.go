package dir

import (
	"fmt"
	"syscall"

	"drydock/format"
)

// Space is a directory's blocks as an Editor changes them, within one
// transaction. It may be a Marker besides.
type Space interface {
	// NumBlocks is the length of the directory.
	NumBlocks() format.LBlock
	// Get returns block l, which is not written to, and whether its checksum has
	// been verified already.
	Get(l format.LBlock) (block []byte, verified bool, err error)
	// Change returns a copy of block l to change, the same one every time. From
	// then on Get returns it too.
	Change(l format.LBlock) ([]byte, error)
	// Append adds a block of zeros to the end of the directory, to be changed
	// like one of Change; the inode's size grows by it.
	Append() (format.LBlock, []byte, error)
}

// Editor changes one directory. Its methods keep every checksum right. What
// they find damaged (an error that matches format.ErrDamaged) they find before
// they change anything; after any other error than those named below the
// transaction has to be undone. It is for one goroutine.
type Editor struct {
	Space        Space
	BlockSize    int // bytes
	Ino          format.Ino
	Generation   uint32           // of the inode, part of the checksums
	Indexed      bool             // the inode has the flag format.InodeIndex; Insert may set or clear it, and the inode has to follow
	DirIndex     bool             // the file system has dir_index: a directory that grows beyond a block gets an index
	LargeDir     bool             // the file system has large_dir
	Filetype     bool             // the file system has filetype
	HashVersion  uint8            // of a new index: the superblock's s_def_hash_version
	HashUnsigned bool             // the superblock has format.FlagUnsignedHash
	HashSeed     [16]byte         // the superblock's s_hash_seed
	Checksums    format.Checksums // of the file system
	Hint         *Hint            // of this directory, kept from one Editor to the next; may be nil

	reader View   // what view returns, here so that it costs no memory
	old    []byte // for items
	list   []item // for items
}

// entry is a name to be put into a directory.
type entry struct {
	name []byte
	ino  format.Ino
	ft   format.FileType
}

func (x *entry) need() int { return format.DirentLen(len(x.name)) }

// Init writes "." and ".." to a directory without blocks.
func (e *Editor) Init(parent format.Ino) error {
	n, block, err := e.Space.Append()
	if err != nil {
		return err
	}
	if n != 0 {
		return e.damaged(n, "is not the first block of a new directory")
	}
	format.PutDirent(block, 0, format.DirentLen(1), e.Ino, e.fileType(format.FTDir), []byte("."))
	off := format.DirentLen(1)
	format.PutDirent(block, off, e.room()-off, parent, e.fileType(format.FTDir), []byte(".."))
	e.finishLeaf(block)
	return nil
}

// Insert adds a name of 1 to format.MaxNameLen bytes, which the caller knows not
// to exist; where it is met nevertheless the error is syscall.EEXIST. It is
// syscall.ENOSPC when the index is full, or the directory as long as it may be.
// Nothing has changed after either.
func (e *Editor) Insert(name []byte, ino format.Ino, ft format.FileType) error {
	if err := checkName(name); err != nil {
		return err
	}
	x := entry{name, ino, e.fileType(ft)}
	if e.Indexed && e.DirIndex {
		return e.insertIndexed(&x)
	}
	return e.insertLinear(&x)
}

func checkName(name []byte) error {
	switch {
	case len(name) == 0:
		return syscall.ENOENT
	case len(name) > format.MaxNameLen:
		return syscall.ENAMETOOLONG
	case isDots(name):
		return syscall.EEXIST
	default:
		return nil
	}
}

// Remove takes a name out; syscall.ENOENT if there is none. An index stays as
// it is, and a leaf may become empty.
func (e *Editor) Remove(name []byte) error {
	at, err := e.find(name)
	if err != nil {
		return err
	}
	block, err := e.Space.Change(at.Block)
	if err != nil {
		return err
	}
	if err := cut(block, at.Off, at.before); err != nil {
		return e.located(at.Block, err)
	}
	e.sealLeaf(block)
	e.Hint.freed(at.Block)
	return nil
}

// Replace makes an existing name lead to another inode; syscall.ENOENT if there
// is none.
func (e *Editor) Replace(name []byte, ino format.Ino, ft format.FileType) error {
	at, err := e.find(name)
	if err != nil {
		return err
	}
	block, err := e.Space.Change(at.Block)
	if err != nil {
		return err
	}
	if err := retarget(block, at.Off, ino, e.fileType(ft)); err != nil {
		return e.located(at.Block, err)
	}
	e.sealLeaf(block)
	return nil
}

// find looks up a name other than "." and "..".
func (e *Editor) find(name []byte) (Entry, error) {
	if isDots(name) {
		return Entry{}, syscall.EINVAL
	}
	at, found, err := e.view().Lookup(name)
	if err == nil && !found {
		err = syscall.ENOENT
	}
	if err == nil {
		err = e.checkLeaf(at.Block)
	}
	return at, err
}

// SetParent makes ".." lead to ino.
func (e *Editor) SetParent(ino format.Ino) error {
	if e.Space.NumBlocks() == 0 {
		return e.damaged(0, "is missing")
	}
	block, err := e.view().read(0, nil)
	if err != nil {
		return err
	}
	dotdot, err := e.dotdot(block)
	if err != nil {
		return err
	}
	isRoot := e.Indexed && isIndex(0, block)
	if block, err = e.Space.Change(0); err != nil {
		return err
	}
	if err := retarget(block, dotdot.Off, ino, dotdot.Type); err != nil {
		return e.located(0, err)
	}
	if isRoot {
		e.sealIndex(block)
	} else {
		e.sealLeaf(block)
	}
	return nil
}

// dotdot returns the second entry of block 0, which has to begin with "." and "..".
func (e *Editor) dotdot(block []byte) (format.Dirent, error) {
	dot, err := format.ReadDirent(block, 0)
	if err != nil {
		return format.Dirent{}, e.located(0, err)
	}
	dotdot, err := format.ReadDirent(block, dot.RecLen)
	if err != nil {
		return format.Dirent{}, e.located(0, err)
	}
	if string(dot.Name) != "." || string(dotdot.Name) != ".." || dot.Ino == 0 || dotdot.Ino == 0 {
		return format.Dirent{}, e.damaged(0, `does not begin with "." and ".."`)
	}
	return dotdot, nil
}

// Empty reports whether the directory holds nothing but "." and "..".
func (e *Editor) Empty() (bool, error) {
	empty := true
	err := e.view().Walk(func(n format.LBlock, d format.Dirent) bool {
		empty = n == 0 && isDots(d.Name)
		return empty
	})
	return empty && err == nil, err
}

// view reads the directory as it is now.
func (e *Editor) view() *View {
	e.reader = View{
		Blocks: (*editorBlocks)(e), BlockSize: e.BlockSize, Ino: e.Ino, Generation: e.Generation, Indexed: e.Indexed,
		LargeDir: e.LargeDir, HashUnsigned: e.HashUnsigned, HashSeed: e.HashSeed, Checksums: e.Checksums,
	}
	return &e.reader
}

// editorBlocks is an Editor's Space as a View needs it: Shared Blocks and a Marker.
type editorBlocks Editor

func (b *editorBlocks) NumBlocks() format.LBlock { return b.Space.NumBlocks() }

func (b *editorBlocks) Get(n format.LBlock) ([]byte, bool, error) { return b.Space.Get(n) }

func (b *editorBlocks) ReadLBlock(n format.LBlock, p []byte) error {
	block, _, err := b.Space.Get(n)
	copy(p, block)
	return err
}

func (b *editorBlocks) SetVerified(n format.LBlock) {
	if m, ok := b.Space.(Marker); ok {
		m.SetVerified(n)
	}
}

// maxBlocks is how long the directory may become.
func (e *Editor) maxBlocks() format.LBlock {
	if e.LargeDir {
		return format.DxBlockMask + 1
	}
	return format.LBlock(maxSize / int64(e.BlockSize))
}

func (e *Editor) fileType(ft format.FileType) format.FileType {
	if e.Filetype {
		return ft
	}
	return format.FTUnknown
}

func (e *Editor) damaged(n format.LBlock, detail string, args ...any) error {
	return e.view().damaged(n, detail, args...)
}

func (e *Editor) located(n format.LBlock, err error) error { return e.view().located(n, err) }

// unsupported is the error for a directory that cannot be changed.
func (e *Editor) unsupported(detail string) error {
	return fmt.Errorf("directory inode %d: %w", e.Ino, &format.UnsupportedError{Detail: detail})
}
