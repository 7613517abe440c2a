package dir

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// list is Entries from slices.
type list struct {
	names [][]byte
	inos  []format.Ino
	types []format.FileType
}

func (l *list) Len() int          { return len(l.names) }
func (l *list) Name(i int) []byte { return l.names[i] }
func (l *list) Target(i int) (format.Ino, format.FileType) {
	return l.inos[i], l.types[i]
}

func (l *list) add(name []byte, ino format.Ino, ft format.FileType) {
	l.names = append(l.names, name)
	l.inos = append(l.inos, ino)
	l.types = append(l.types, ft)
}

// randomList is n entries with distinct names of minLen to maxLen bytes, and random inodes and types.
func randomList(rng *rand.Rand, n, minLen, maxLen int) *list {
	l := &list{}
	seen := make(map[string]bool)
	for len(l.names) < n {
		name := randomName(rng, minLen+rng.IntN(maxLen-minLen+1))
		if !seen[string(name)] && !isDots(name) {
			seen[string(name)] = true
			l.add(name, format.Ino(rng.Uint32()|1), format.FileType(1+rng.IntN(7)))
		}
	}
	return l
}

// oneInode makes every entry lead to the same inode.
func (l *list) oneInode(ino format.Ino, ft format.FileType) *list {
	for i := range l.names {
		l.inos[i], l.types[i] = ino, ft
	}
	return l
}

func randomName(rng *rand.Rand, n int) []byte {
	name := make([]byte, n)
	for i := range name {
		for name[i] == 0 || name[i] == '/' {
			name[i] = byte(rng.Uint32())
		}
	}
	return name
}

// plainName is name number i, in ASCII, padded to n bytes.
func plainName(i, n int) []byte {
	name := fmt.Appendf(nil, "%x.", i)
	return append(name, bytes.Repeat([]byte{'n'}, max(0, n-len(name)))...)
}

func plainList(n, nameLen int) *list {
	l := &list{}
	for i := range n {
		l.add(plainName(i, nameLen), format.Ino(100+i), format.FTRegular)
	}
	return l
}

// memory is Blocks in memory.
type memory struct {
	blockSize int
	data      []byte
	reads     int
}

func (m *memory) NumBlocks() format.LBlock { return format.LBlock(len(m.data) / m.blockSize) }

func (m *memory) block(n format.LBlock) []byte {
	return m.data[int(n)*m.blockSize : (int(n)+1)*m.blockSize]
}

func (m *memory) ReadLBlock(n format.LBlock, p []byte) error {
	if n >= m.NumBlocks() {
		return fmt.Errorf("block %d of %d", n, m.NumBlocks())
	}
	m.reads++
	copy(p, m.block(n))
	return nil
}

// build makes a directory and checks that Blocks foresees its length.
func build(t testing.TB, o Options, h Head, l *list) (m *memory, indexed bool) {
	t.Helper()
	b := NewBuilder(o)
	n, err := b.Blocks(&list{names: l.names}, h.MinBlocks)
	require.NoError(t, err)
	m = &memory{blockSize: o.BlockSize, data: make([]byte, 0, n*o.BlockSize)}
	indexed, err = b.Build(h, l, func(lb format.LBlock, block []byte) error {
		if lb != m.NumBlocks() || len(block) != o.BlockSize {
			return fmt.Errorf("block %d of %d bytes after %d blocks", lb, len(block), m.NumBlocks())
		}
		m.data = append(m.data, block...)
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, n, m.NumBlocks())
	return m, indexed
}

// view reads what build made.
func view(o Options, h Head, m *memory, indexed bool) *View {
	return &View{
		Blocks: m, BlockSize: o.BlockSize, Ino: h.Self, Generation: h.Generation, Indexed: indexed, LargeDir: o.LargeDir,
		HashUnsigned: o.HashVersion >= format.HashUnsigned, HashSeed: o.HashSeed, Checksums: o.Checksums,
	}
}

// testOptions has index, checksums and all that is not a number.
func testOptions(blockSize int) Options {
	return Options{
		BlockSize: blockSize, Csum: true, Filetype: true, Index: true, HashVersion: format.HashHalfMD4,
		HashSeed: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, Checksums: format.Checksums{Meta: true, Seed: 0xC0FFEE},
	}
}

func newRand(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("random seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// raw reads directories by the numbers of the format's description, not by
// package format, so that an error there does not hide itself.
type raw struct {
	t    testing.TB
	o    Options
	m    *memory
	list []rawEntry // in the order of the blocks
}

type rawEntry struct {
	ino  uint32
	ft   byte
	name string
}

func (r *raw) recLen(b []byte, off int) int {
	v := int(binary.LittleEndian.Uint16(b[off+4:]))
	if r.o.BlockSize == 65536 && v == 65535 {
		return 65536
	}
	return v
}

// leaf collects the entries of a block, which have to fill it without a gap.
func (r *raw) leaf(n uint32) {
	b := r.m.block(format.LBlock(n))
	end := len(b)
	if r.o.Csum {
		end -= 12
		require.Equal(r.t, []byte{0, 0, 0, 0, 12, 0, 0, 0xDE}, b[end:end+8], "tail of block %d", n)
	}
	for off := 0; off < end; off += r.recLen(b, off) {
		nameLen, recLen := int(b[off+6]), r.recLen(b, off)
		if off%4 != 0 || off+recLen > end || recLen < 8+nameLen {
			require.Failf(r.t, "bad length", "%d at %d of block %d", recLen, off, n)
		}
		ino := binary.LittleEndian.Uint32(b[off:])
		if ino == 0 {
			require.Equal(r.t, end, recLen, "only an empty block has a free entry")
			continue
		}
		if nameLen == 0 {
			require.Failf(r.t, "no name", "at %d of block %d", off, n)
		}
		r.list = append(r.list, rawEntry{ino, b[off+7], string(b[off+8 : off+8+nameLen])})
	}
}

// linear reads all blocks as leaves.
func (r *raw) linear() {
	for n := range r.m.NumBlocks() {
		r.leaf(uint32(n))
	}
}

// index follows the index, and checks that every hash lies in its range, that
// runs of a hash are marked, that each block is used once and how tables are filled.
func (r *raw) index() {
	b := r.m.block(0)
	r.dot(b, 0, 12, ".")
	r.dot(b, 12, r.o.BlockSize-12, "..")
	require.Zero(r.t, binary.LittleEndian.Uint32(b[24:]))
	require.Equal(r.t, r.o.HashVersion%3, b[28])
	require.EqualValues(r.t, 8, b[29])
	require.Zero(r.t, b[31])
	used := map[uint32]bool{0: true}
	r.table(b, 32, int(b[30]), 0, 1<<32, used)
	require.Len(r.t, used, int(r.m.NumBlocks()))
}

func (r *raw) dot(b []byte, off, recLen int, name string) {
	require.Equal(r.t, recLen, r.recLen(b, off))
	ft := byte(2)
	if !r.o.Filetype {
		ft = 0
	}
	r.list = append(r.list, rawEntry{binary.LittleEndian.Uint32(b[off:]), ft, string(b[off+8 : off+8+int(b[off+6])])})
	require.Equal(r.t, name, r.list[len(r.list)-1].name)
}

// table checks an index table for the hashes from low to below high.
func (r *raw) table(b []byte, off, levels int, low, high uint64, used map[uint32]bool) {
	limit, count := int(binary.LittleEndian.Uint16(b[off:])), int(binary.LittleEndian.Uint16(b[off+2:]))
	room := len(b) - off
	if r.o.Csum {
		room -= 8
	}
	require.Equal(r.t, room/8, limit)
	require.Positive(r.t, count)
	require.LessOrEqual(r.t, count, limit)
	for i := range count {
		from, to := low, high
		if i > 0 {
			from = uint64(binary.LittleEndian.Uint32(b[off+8*i:]))
		}
		if i+1 < count {
			to = uint64(binary.LittleEndian.Uint32(b[off+8*i+8:]))
		}
		require.LessOrEqual(r.t, from, to)
		child := binary.LittleEndian.Uint32(b[off+8*i+4:])
		require.False(r.t, used[child], "block %d is used twice", child)
		used[child] = true
		r.child(child, levels, from, to, used)
	}
}

func (r *raw) child(n uint32, levels int, low, high uint64, used map[uint32]bool) {
	if levels > 0 {
		b := r.m.block(format.LBlock(n))
		require.Zero(r.t, binary.LittleEndian.Uint32(b))
		require.Equal(r.t, r.o.BlockSize, r.recLen(b, 0))
		require.Zero(r.t, b[6])
		r.table(b, 8, levels-1, low, high, used)
		return
	}
	first := len(r.list)
	r.leaf(n)
	require.Greater(r.t, len(r.list), first, "leaf %d is empty", n)
	for i, e := range r.list[first:] {
		hash, _ := format.DirHash(r.o.HashVersion, r.o.HashSeed, []byte(e.name))
		if uint64(hash) < low&^1 || uint64(hash) > high {
			require.Failf(r.t, "bad hash", "%#x in block %d, which has %#x to %#x", hash, n, low, high)
		}
		if i == 0 && first > 2 {
			before, _ := format.DirHash(r.o.HashVersion, r.o.HashSeed, []byte(r.list[first-1].name))
			require.Equal(r.t, before == hash, low&1 == 1, "block %d: mark of a run of hash %#x", n, hash)
			require.EqualValues(r.t, hash, low&^1, "block %d begins at its lowest hash", n)
		}
	}
}
