package dir

import (
	"errors"

	"drydock/format"
)

// Space is a directory's blocks as an Editor changes them, within one
// transaction.
type Space interface {
	// NumBlocks is the length of the directory.
	NumBlocks() format.LBlock
	// Get returns block l, which is not changed as long as it is used, and
	// whether its checksum has been verified already.
	Get(l format.LBlock) (block []byte, verified bool, err error)
	// Change returns a copy of block l to change, the same one every time. From
	// then on Get returns it too.
	Change(l format.LBlock) ([]byte, error)
	// Append adds a block of zeros to the end of the directory, to be changed
	// like one of Change; the inode's size grows by it.
	Append() (format.LBlock, []byte, error)
}

// Editor changes one directory. Its methods keep every checksum right. They
// return an error that matches format.ErrDamaged before anything is changed;
// after an error of Space the transaction has to be undone.
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
}

// Hint remembers where a linear directory has no room, so that filling it does
// not search it again and again. The zero value knows nothing. Its content may be
// out of date in any way without harm.
type Hint struct {
}

var errStub = errors.New("dir: no editor")

// Init writes "." and ".." to a directory without blocks.
func (e *Editor) Init(parent format.Ino) error { return errStub }

// Insert adds a name of 1 to format.MaxNameLen bytes, which the caller knows not
// to exist; where it is met nevertheless the error is syscall.EEXIST. It is
// syscall.ENOSPC when the index is full, or the directory as long as it may be.
func (e *Editor) Insert(name []byte, ino format.Ino, ft format.FileType) error { return errStub }

// Remove takes a name out; syscall.ENOENT if there is none.
func (e *Editor) Remove(name []byte) error { return errStub }

// Replace makes an existing name lead to another inode; syscall.ENOENT if there is none.
func (e *Editor) Replace(name []byte, ino format.Ino, ft format.FileType) error { return errStub }

// SetParent makes ".." lead to ino.
func (e *Editor) SetParent(ino format.Ino) error { return errStub }

// Empty reports whether the directory holds nothing but "." and "..".
func (e *Editor) Empty() (bool, error) { return false, errStub }
