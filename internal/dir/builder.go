package dir

import (
	"fmt"
	"slices"

	"drydock/format"
)

// Options is what all directories of a file system have in common.
type Options struct {
	BlockSize   int              // bytes
	Csum        bool             // metadata_csum: blocks end in a checksum
	Filetype    bool             // entries hold the file's type
	Index       bool             // dir_index: more than one block of entries is indexed
	LargeDir    bool             // large_dir: three levels of index, more than 2 GiB
	HashVersion uint8            // for indexes, as format.DirHash takes it
	HashSeed    [16]byte         // the superblock's s_hash_seed
	Checksums   format.Checksums // seals what Build makes; only counting needs none
}

// Head is what one directory has besides its entries.
type Head struct {
	Self, Parent format.Ino
	Generation   uint32 // of Self, part of the checksums
	MinBlocks    int    // a linear directory is made this long with empty blocks
}

// Entries is the content of one directory without "." and "..": distinct
// names of 1 to format.MaxNameLen bytes. Only the choice of bytes in names of
// equal hash and the order within a linear directory depend on the entries'
// order.
type Entries interface {
	Len() int
	Name(i int) []byte // not changed or kept, and asked for more than once
	Target(i int) (format.Ino, format.FileType)
}

// Builder makes directories, one at a time. It keeps its memory for the next
// one: 16 bytes for every entry of the largest indexed directory.
type Builder struct {
	opts   Options
	keys   []key    // entries in order of their hash
	leaves []uint32 // the first key in each leaf
	block  []byte
}

// key is the place of an entry in the order of hashes.
type key struct {
	order   uint64 // hash, minor hash
	index   uint32 // in Entries
	nameLen uint8
}

func (k key) hash() uint32 { return uint32(k.order >> 32) }

// The first block of a linear directory begins with "." and "..".
const dotsLen = 24

// Without large_dir a directory's size has to stay below what a signed 32-bit number holds.
const maxSize = 1 << 31

// NewBuilder returns a Builder. It panics if o.BlockSize is none that ext4 has
// or o.HashVersion is none that format.DirHash can compute.
func NewBuilder(o Options) *Builder {
	if o.BlockSize < 1<<10 || o.BlockSize > 1<<16 || o.BlockSize&(o.BlockSize-1) != 0 {
		panic(fmt.Sprintf("dir: block size %d", o.BlockSize))
	}
	if !format.ValidHashVersion(o.HashVersion) {
		panic(fmt.Sprintf("dir: hash version %d", o.HashVersion))
	}
	return &Builder{opts: o, block: make([]byte, o.BlockSize)}
}

// Blocks returns how many blocks Build makes of entries, which have to have
// their names only, with Head.MinBlocks = minBlocks. The error says that a name
// has an impossible length or that there are more entries than a directory holds.
func (b *Builder) Blocks(entries Entries, minBlocks int) (int, error) {
	s, err := b.plan(entries, minBlocks)
	return s.blocks, err
}

// maxBlocks is the most blocks of a directory without large_dir.
func (b *Builder) maxBlocks() int { return int(maxSize / int64(b.opts.BlockSize)) }

// shape is how many blocks of which kind a directory has.
type shape struct {
	blocks  int
	indexed bool
	levels  int    // of nodes between root and leaves
	rows    [3]int // blocks in each row of the index: leaves, nodes above them, nodes above those
}

// first returns the logical block where a row begins: the highest row follows
// the root, the leaves come last.
func (s shape) first(row int) int {
	n := 1
	for r := s.levels; r > row; r-- {
		n += s.rows[r]
	}
	return n
}

// plan decides what the directory will look like. For an indexed one it leaves
// the order of the entries in b.keys and the leaves in b.leaves.
func (b *Builder) plan(entries Entries, minBlocks int) (shape, error) {
	blocks, err := b.countLinear(entries)
	if err != nil {
		return shape{}, err
	}
	s := shape{blocks: max(blocks, minBlocks)}
	if b.opts.Index && blocks > 1 {
		b.fillKeys(entries)
		sortKeys(b.keys)
		b.pack()
		if !b.splitsEnd() {
			s, err = b.shapeIndex(len(b.leaves))
		}
	}
	if err == nil && !b.opts.LargeDir && s.blocks > b.maxBlocks() {
		err = fmt.Errorf("a directory of %d entries takes %d blocks of %d bytes, the limit is %d blocks",
			entries.Len(), s.blocks, b.opts.BlockSize, b.maxBlocks())
	}
	if err != nil {
		return shape{}, err
	}
	return s, nil
}

// room is how many bytes of a block entries can take.
func (b *Builder) room() int {
	if b.opts.Csum {
		return b.opts.BlockSize - format.DirTailSize
	}
	return b.opts.BlockSize
}

// countLinear checks the names and counts the blocks of a linear directory.
func (b *Builder) countLinear(entries Entries) (int, error) {
	room, used, blocks := b.room(), dotsLen, 1
	for i := range entries.Len() {
		name := entries.Name(i)
		if len(name) < 1 || len(name) > format.MaxNameLen {
			return 0, fmt.Errorf("name %q has %d bytes, want 1 to %d", name, len(name), format.MaxNameLen)
		}
		need := format.DirentLen(len(name))
		if used+need > room {
			used = 0
			blocks++
		}
		used += need
	}
	return blocks, nil
}

func (b *Builder) fillKeys(entries Entries) {
	b.keys = slices.Grow(b.keys[:0], entries.Len())
	for i := range entries.Len() {
		name := entries.Name(i)
		hash, minor := format.DirHash(b.opts.HashVersion, b.opts.HashSeed, name)
		b.keys = append(b.keys, key{uint64(hash)<<32 | uint64(minor), uint32(i), uint8(len(name))})
	}
}

// pack fills b.leaves: every leaf takes the next entries until it is full.
func (b *Builder) pack() {
	b.leaves = b.leaves[:0]
	room, used := b.room(), b.room()
	for i, k := range b.keys {
		need := format.DirentLen(int(k.nameLen))
		if used+need > room {
			used = 0
			b.leaves = append(b.leaves, uint32(i))
		}
		used += need
	}
}

// splitsEnd reports whether names of the highest hash fill more than a leaf.
// Some of them may have got that hash from the step that keeps names off the
// end of the directory. The kernel takes that step and e2fsck does not, so there
// is no index that both accept, and the directory has to stay linear.
func (b *Builder) splitsEnd() bool {
	return b.leafHash(len(b.leaves)-1) == format.MaxDirHash|1
}

// leafHash is the lowest hash in a leaf, with bit 0 set if the leaf before
// ends with the same hash.
func (b *Builder) leafHash(leaf int) uint32 {
	first := b.leaves[leaf]
	hash := b.keys[first].hash()
	if first > 0 && b.keys[first-1].hash() == hash {
		hash |= 1
	}
	return hash
}

// shapeIndex puts as few levels of nodes as possible above the leaves.
func (b *Builder) shapeIndex(leaves int) (shape, error) {
	root := format.DxRootLimit(b.opts.BlockSize, b.opts.Csum)
	node := format.DxNodeLimit(b.opts.BlockSize, b.opts.Csum)
	s := shape{indexed: true, blocks: 1 + leaves, rows: [3]int{leaves}}
	for s.rows[s.levels] > root {
		if s.levels == b.maxLevels() {
			return shape{}, fmt.Errorf("a directory of %d entries takes %d blocks of %d bytes, more than its index holds (%d)",
				len(b.keys), leaves, b.opts.BlockSize, b.maxLeaves(root, node))
		}
		above := (s.rows[s.levels] + node - 1) / node
		s.levels++
		s.rows[s.levels] = above
		s.blocks += above
	}
	return s, nil
}

func (b *Builder) maxLevels() int {
	if b.opts.LargeDir {
		return format.MaxDxLevelsLarge
	}
	return format.MaxDxLevels
}

func (b *Builder) maxLeaves(root, node int) int {
	for range b.maxLevels() {
		root *= node
	}
	return root
}
