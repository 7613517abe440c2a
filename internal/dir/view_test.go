package dir

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// deepDir is a directory with a level of nodes, in blocks of 1 KiB.
func deepDir(t testing.TB, csum bool) (v *View, m *memory, l *list) {
	o := testOptions(1024)
	o.Csum, o.Checksums.Meta = csum, csum
	l = plainList(500, 255)
	m, indexed := build(t, o, testHead, l)
	require.True(t, indexed)
	return view(o, testHead, m, indexed), m, l
}

// The directory in testdata/kernel.dir: its root still has the rest of a
// leaf's checksum entry, its leaves hold more than one piece of free space.
func TestKernelDirectory(t *testing.T) {
	data, err := os.ReadFile("testdata/kernel.dir")
	require.NoError(t, err)
	fs := [16]byte{0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE, 1, 2, 3, 4, 5, 6, 7, 8}
	v := &View{
		Blocks: &memory{blockSize: 1024, data: data}, BlockSize: 1024, Ino: 12, Generation: 2138965718, Indexed: true,
		HashSeed:  [16]byte{0x01, 0x92, 0xA3, 0x74, 0xB5, 0x56, 0xC7, 0x38, 0xD9, 0x1A, 0xEB, 0xFC, 0x0D, 0xEE, 0x2F, 0x80},
		Checksums: format.Checksums{Meta: true, Seed: format.Crc32c(^uint32(0), fs[:])},
	}
	want := []rawEntry{{12, 2, "."}, {2, 2, ".."}}
	for i := 100; i <= 220; i++ {
		name := fmt.Sprintf("name-of-a-file-%d", i)
		want = append(want, rawEntry{13, 1, name})
		e, found, err := v.Lookup([]byte(name))
		require.NoError(t, err)
		require.True(t, found)
		require.EqualValues(t, 13, e.Ino)
		require.Equal(t, format.FTRegular, e.Type)
	}
	require.Equal(t, sortedEntries(want), sortedEntries(walked(t, v)))
}

func walkAll(v *View) error {
	return v.Walk(func(format.LBlock, format.Dirent) bool { return true })
}

func TestWalkStops(t *testing.T) {
	v, m, _ := deepDir(t, true)
	for stop := 1; stop < 8; stop++ {
		seen := 0
		m.reads = 0
		require.NoError(t, v.Walk(func(format.LBlock, format.Dirent) bool {
			seen++
			return seen < stop
		}))
		require.Equal(t, stop, seen)
		require.Less(t, m.reads, 8)
	}
}

// Any changed byte is found by the checksum of its block: a leaf's covers all
// but the tail, that of an index block only the entries in use.
func TestChecksums(t *testing.T) {
	v, m, _ := deepDir(t, true)
	require.NoError(t, walkAll(v))
	for n := range m.NumBlocks() {
		for _, at := range []int{0, 33, 40, 1023} {
			m.block(n)[at] ^= 0x10
			err := walkAll(v)
			require.ErrorIs(t, err, format.ErrDamaged)
			require.ErrorContains(t, err, "directory inode 19088743, logical block")
			m.block(n)[at] ^= 0x10
		}
		m.block(n)[1023] ^= 1
		err := walkAll(v)
		require.ErrorContains(t, err, "checksum does not match")
		v.SkipChecksums = true
		require.NoError(t, walkAll(v))
		v.SkipChecksums = false
		m.block(n)[1023] ^= 1
	}
	v.Generation++
	require.ErrorContains(t, walkAll(v), "checksum does not match")
	v.Generation--
	v.Ino++
	require.ErrorContains(t, walkAll(v), "checksum does not match")
}

// An inode that has lost its index flag: the blocks of the index have no
// checksum of entries.
func TestIndexFlagLost(t *testing.T) {
	v, _, l := deepDir(t, true)
	v.Indexed = false
	require.ErrorIs(t, walkAll(v), format.ErrDamaged)
	v.SkipChecksums = true
	require.NoError(t, walkAll(v))
	_, found, err := v.Lookup(l.names[0])
	require.NoError(t, err)
	require.True(t, found)
}

type failing struct {
	*memory
	at  format.LBlock
	err error
}

func (f failing) ReadLBlock(n format.LBlock, p []byte) error {
	if n == f.at {
		return f.err
	}
	return f.memory.ReadLBlock(n, p)
}

func TestReadErrors(t *testing.T) {
	v, m, l := deepDir(t, true)
	broken := errors.New("broken")
	for n := range m.NumBlocks() {
		v.Blocks = failing{m, n, broken}
		err := walkAll(v)
		require.ErrorIs(t, err, broken)
		require.NotErrorIs(t, err, format.ErrDamaged)
	}
	v.Blocks = failing{m, 0, broken}
	_, _, err := v.Lookup(l.names[0])
	require.ErrorIs(t, err, broken)
}

// An index that leads astray: an error, and LookupLinear still finds the name.
func TestLookupDamaged(t *testing.T) {
	name := plainName(7, 255)
	for want, damage := range map[string]func(m *memory){
		"hash version 5":                    func(m *memory) { m.data[0x1C] = 5 },
		"2 levels, want at most 1":          func(m *memory) { m.data[0x1E] = 2 },
		"count 0":                           func(m *memory) { m.data[0x22] = 0 },
		"named by the index, but":           func(m *memory) { rootBlocks(m, 0x0FFFFFFF) },
		"htree node at 0x0: does not begin": func(m *memory) { rootBlocks(m, 7) },
		"htree node at 0x8: limit 9":        func(m *memory) { m.block(1)[8], m.block(2)[8] = 9, 9 },
	} {
		v, m, _ := deepDir(t, false)
		damage(m)
		_, _, err := v.Lookup(name)
		require.ErrorIs(t, err, format.ErrDamaged, want)
		require.ErrorContains(t, err, want)
		_, found, err := v.LookupLinear(name)
		require.NoError(t, err)
		require.True(t, found)
	}
}

// rootBlocks makes all entries of the root lead to block n.
func rootBlocks(m *memory, n uint32) {
	for i := range int(m.data[0x22]) {
		binary.LittleEndian.PutUint32(m.data[0x24+8*i:], n)
	}
}

func TestLookupSipHash(t *testing.T) {
	v, m, l := deepDir(t, false)
	m.data[0x1C] = format.HashSipHash
	_, _, err := v.Lookup(l.names[3])
	require.ErrorIs(t, err, format.ErrUnsupported)
	_, found, err := v.LookupLinear(l.names[3])
	require.NoError(t, err)
	require.True(t, found)
}

// An index of nothing but runs of the hash that is looked for, all in one leaf:
// reading ends after as many leaves as there are blocks.
func TestLookupCycle(t *testing.T) {
	o := testOptions(1024)
	m := &memory{blockSize: 1024, data: make([]byte, 4*1024)}
	name := []byte("the name")
	hash, _ := format.DirHash(o.HashVersion, o.HashSeed, name)
	fillTable := func(e format.DxEntries, child format.LBlock) {
		for i := range e.Limit() {
			e.Set(i, hash|1, child)
		}
		e.SetCount(e.Limit())
	}
	fillTable(format.PutDxRoot(m.block(0), 12, 2, format.FTDir, o.HashVersion, 2, false).Entries(), 1)
	fillTable(format.PutDxNode(m.block(1), false).Entries(), 2)
	fillTable(format.PutDxNode(m.block(2), false).Entries(), 3)
	format.PutDirent(m.block(3), 0, 1024, 0, format.FTUnknown, nil)
	v := view(o, testHead, m, true)
	v.LargeDir, v.Checksums.Meta = true, false

	_, _, err := v.Lookup(name)
	require.ErrorIs(t, err, format.ErrDamaged)
	require.ErrorContains(t, err, "the index has more leaves of hash")
	require.LessOrEqual(t, m.reads, 3*4)

	format.DxNode(m.block(2)).Entries().Set(0, 0, 2) // a node that is its own leaf
	_, found, err := v.Lookup([]byte("x"))
	require.NoError(t, err)
	require.False(t, found)
}

func FuzzView(f *testing.F) {
	for _, csum := range []bool{false, true} {
		_, m, l := deepDir(f, csum)
		f.Add(m.data[:8*1024], l.names[0], csum, true)
	}
	o := testOptions(1024)
	m, _ := build(f, o, testHead, plainList(60, 20))
	f.Add(m.data, plainName(3, 20), true, true)
	f.Add(make([]byte, 1024), []byte("x"), false, false)
	f.Fuzz(func(t *testing.T, data []byte, name []byte, csum, indexed bool) {
		m := &memory{blockSize: 1024, data: bytes.Clone(data[:min(len(data), 64*1024)&^1023])}
		o := testOptions(1024)
		o.Checksums.Meta, o.LargeDir = csum, true
		v := view(o, testHead, m, indexed)
		v.SkipChecksums = true
		known := func(err error) {
			if err != nil && !errors.Is(err, format.ErrDamaged) && !errors.Is(err, format.ErrUnsupported) {
				t.Fatal(err)
			}
			require.LessOrEqual(t, m.reads, 3*int(m.NumBlocks())+3)
			m.reads = 0
		}
		known(walkAll(v))
		e, found, err := v.Lookup(name)
		known(err)
		if found {
			d, err := format.ReadDirent(m.block(e.Block), e.Off)
			require.NoError(t, err)
			require.Equal(t, string(name), string(d.Name))
		}
		_, _, err = v.LookupLinear(name)
		known(err)
	})
}

func BenchmarkLookup(b *testing.B) {
	o := testOptions(4096)
	l := plainList(20000, 16)
	m, indexed := build(b, o, testHead, l)
	v := view(o, testHead, m, indexed)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		v.Lookup(l.names[i%len(l.names)])
	}
}
