package dir

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"drydock/format"
)

var testHead = Head{Self: 0x1234567, Parent: 0x89ABCDE, Generation: 0x5A5A1234}

// checkDir reads a built directory in three ways: by its bytes, by Walk, by Lookup.
func checkDir(t testing.TB, o Options, h Head, l *list, m *memory, indexed bool) {
	t.Helper()
	want := wantEntries(o, h, l)
	r := &raw{t: t, o: o, m: m}
	if indexed {
		r.index()
	} else {
		r.linear()
	}
	require.Equal(t, want, sortedEntries(r.list))
	v := view(o, h, m, indexed)
	require.Equal(t, want, sortedEntries(walked(t, v)))
	checkLookups(t, v, l)
}

func wantEntries(o Options, h Head, l *list) []rawEntry {
	want := []rawEntry{{uint32(h.Self), 2, "."}, {uint32(h.Parent), 2, ".."}}
	for i, name := range l.names {
		want = append(want, rawEntry{uint32(l.inos[i]), byte(l.types[i]), string(name)})
	}
	if !o.Filetype {
		for i := range want {
			want[i].ft = 0
		}
	}
	return sortedEntries(want)
}

func sortedEntries(list []rawEntry) []rawEntry {
	slices.SortFunc(list, func(a, b rawEntry) int { return strings.Compare(a.name, b.name) })
	return list
}

func walked(t testing.TB, v *View) (list []rawEntry) {
	require.NoError(t, v.Walk(func(_ format.LBlock, d format.Dirent) bool {
		list = append(list, rawEntry{uint32(d.Ino), byte(d.Type), string(d.Name)})
		return true
	}))
	return list
}

// checkLookups looks up at most 500 of the names, and as many that are not there.
func checkLookups(t testing.TB, v *View, l *list) {
	for i := 0; i < len(l.names); i += 1 + len(l.names)/500 {
		e, found, err := v.Lookup(l.names[i])
		require.NoError(t, err)
		require.True(t, found, "%q", l.names[i])
		require.Equal(t, l.inos[i], e.Ino)
		block := v.Blocks.(*memory).block(e.Block)
		d, err := format.ReadDirent(block, e.Off)
		require.NoError(t, err)
		require.Equal(t, l.names[i], d.Name)

		_, found, err = v.Lookup(append([]byte("/"), l.names[i]...))
		require.NoError(t, err)
		require.False(t, found)
	}
	for _, dots := range []string{".", ".."} {
		e, found, err := v.Lookup([]byte(dots))
		require.NoError(t, err)
		require.True(t, found)
		require.EqualValues(t, 0, e.Block)
	}
}

func TestEmptyDirectory(t *testing.T) {
	for _, blockSize := range []int{1024, 4096, 65536} {
		o := testOptions(blockSize)
		m, indexed := build(t, o, testHead, &list{})
		require.False(t, indexed)
		require.EqualValues(t, 1, m.NumBlocks())
		checkDir(t, o, testHead, &list{}, m, indexed)
	}
}

// One name more than the block holds makes an index: a root and two leaves.
func TestFirstIndex(t *testing.T) {
	o := testOptions(1024)
	fits := (1024 - 12 - 24) / 16 // names of 8 bytes
	for n, blocks := range map[int]int{fits: 1, fits + 1: 2} {
		l := plainList(n, 8)
		for _, index := range []bool{false, true} {
			o.Index = index
			m, indexed := build(t, o, testHead, l)
			require.Equal(t, index && blocks > 1, indexed)
			want := blocks
			if indexed {
				want = 2 // the root, and the leaf has room where the root has "." and ".."
			}
			require.EqualValues(t, want, m.NumBlocks(), "%d names, index %v", n, index)
			checkDir(t, o, testHead, l, m, indexed)
		}
	}
}

func TestManySizes(t *testing.T) {
	rng := newRand(t)
	for _, blockSize := range []int{1024, 2048, 4096, 8192, 16384, 32768, 65536} {
		for version := range format.HashTeaUnsigned + 1 {
			o := testOptions(blockSize)
			o.HashVersion = version
			o.Csum = rng.IntN(2) == 0
			o.Checksums.Meta = o.Csum
			o.Filetype = rng.IntN(4) != 0
			o.Index = rng.IntN(4) != 0
			l := randomList(rng, rng.IntN(1500), 2, 3+rng.IntN(253))
			m, indexed := build(t, o, testHead, l)
			checkDir(t, o, testHead, l, m, indexed)
		}
	}
}

// Deeper indexes: 1 KiB blocks hold three names of 255 bytes, so that two levels of
// nodes (large_dir) begin at 3*123*126 names.
func TestLevels(t *testing.T) {
	const perLeaf, root, node = 3, 123, 126
	for _, c := range []struct {
		n, levels, blocks int
		long              bool
	}{
		{n: perLeaf * root, levels: 0, blocks: 1 + root},
		{n: perLeaf*root + 1, levels: 1, blocks: 1 + 1 + root + 1},
		{n: perLeaf * node, levels: 1, blocks: 1 + 1 + node},
		{n: perLeaf*node + 1, levels: 1, blocks: 1 + 2 + node + 1},
		{n: perLeaf * root * node, levels: 1, blocks: 1 + root + root*node, long: true},
		{n: perLeaf*root*node + 1, levels: 2, blocks: 1 + 1 + root + 1 + root*node + 1},
		{n: perLeaf*node*node + 1, levels: 2, blocks: 1 + 2 + node + 1 + node*node + 1, long: true},
	} {
		if c.long && !thorough() {
			continue
		}
		o := testOptions(1024)
		o.LargeDir = true
		l := plainList(c.n, 255)
		m, indexed := build(t, o, testHead, l)
		require.True(t, indexed)
		require.EqualValues(t, c.blocks, m.NumBlocks())
		require.EqualValues(t, c.levels, m.data[30])
		checkDir(t, o, testHead, l, m, indexed)
	}
}

func TestTooLarge(t *testing.T) {
	const most = 3 * 123 * 126
	b := NewBuilder(testOptions(1024))
	_, err := b.Blocks(plainList(most, 255), 0)
	require.NoError(t, err)
	_, err = b.Blocks(plainList(most+1, 255), 0)
	require.EqualError(t, err, "a directory of 46495 entries takes 15499 blocks of 1024 bytes, more than its index holds (15498)")
	_, err = b.Build(testHead, plainList(most+1, 255), nil)
	require.Error(t, err)
}

// same is any number of entries of one name: enough for counting.
type same int

func (s same) Len() int                                 { return int(s) }
func (s same) Name(int) []byte                          { return longName }
func (s same) Target(int) (format.Ino, format.FileType) { return 1, format.FTRegular }

var longName = bytes.Repeat([]byte{'x'}, 255)

// Without large_dir the size of a directory is a signed 32-bit number, for
// e2fsck even where the index could hold more.
func TestSizeLimit(t *testing.T) {
	o := testOptions(65536)
	o.Index = false
	b := NewBuilder(o)
	perBlock := same((65536 - 12) / 264)
	n, err := b.Blocks(perBlock*32768-1, 0)
	require.NoError(t, err)
	require.Equal(t, 32768, n)
	_, err = b.Blocks(perBlock*32768+1, 0)
	require.ErrorContains(t, err, "the limit is 32768 blocks")
	o.LargeDir = true
	n, err = NewBuilder(o).Blocks(perBlock*32768+1, 0)
	require.NoError(t, err)
	require.Equal(t, 32769, n)
}

func TestMinBlocks(t *testing.T) {
	for _, csum := range []bool{false, true} {
		o := testOptions(4096)
		o.Csum, o.Checksums.Meta = csum, csum
		h := testHead
		h.MinBlocks = 4
		for _, n := range []int{0, 5} {
			l := plainList(n, 20)
			m, indexed := build(t, o, h, l)
			require.False(t, indexed)
			require.EqualValues(t, 4, m.NumBlocks())
			checkDir(t, o, h, l, m, indexed)
		}
		l := plainList(1000, 20)
		m, indexed := build(t, o, h, l)
		require.True(t, indexed, "an index has no empty leaves")
		checkDir(t, o, h, l, m, indexed)
		o.Index = false
		m, indexed = build(t, o, h, l)
		require.False(t, indexed)
		checkDir(t, o, h, l, m, indexed)
	}
}

func TestBuildErrors(t *testing.T) {
	b := NewBuilder(testOptions(1024))
	for _, name := range []string{"", strings.Repeat("n", 256)} {
		l := plainList(3, 8)
		l.names[1] = []byte(name)
		_, err := b.Blocks(l, 0)
		require.ErrorContains(t, err, fmt.Sprintf("has %d bytes, want 1 to 255", len(name)))
	}
	for _, n := range []int{3, 300} {
		l := plainList(n, 8)
		l.inos[n-1] = 0
		_, err := b.Build(testHead, l, func(format.LBlock, []byte) error { return nil })
		require.ErrorContains(t, err, "of directory 19088743 has no inode")
	}
	for fail := range 20 {
		for _, index := range []bool{false, true} {
			o := testOptions(1024)
			o.Index = index
			stop := errors.New("stop")
			calls := 0
			_, err := NewBuilder(o).Build(testHead, plainList(1500, 8), func(format.LBlock, []byte) error {
				if calls++; calls > fail {
					return stop
				}
				return nil
			})
			require.ErrorIs(t, err, stop)
			require.Equal(t, fail+1, calls)
		}
	}
	require.Panics(t, func() { NewBuilder(Options{BlockSize: 3000}) })
	require.Panics(t, func() { NewBuilder(Options{BlockSize: 4096, HashVersion: format.HashSipHash}) })
}

// The bytes of a directory depend on its entries only: not on what the Builder
// made before, nor on the order of entries when there is an index.
func TestBuildDeterministic(t *testing.T) {
	rng := newRand(t)
	o := testOptions(1024)
	l := randomList(rng, 2000, 3, 40)
	first, _ := build(t, o, testHead, l)

	b := NewBuilder(o)
	_, err := b.Blocks(randomList(rng, 5000, 3, 40), 0)
	require.NoError(t, err)
	shuffled := &list{}
	for _, i := range rng.Perm(len(l.names)) {
		shuffled.add(l.names[i], l.inos[i], l.types[i])
	}
	var again []byte
	_, err = b.Build(testHead, shuffled, func(_ format.LBlock, block []byte) error {
		again = append(again, block...)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, first.data, again)
}

// Blocks and Build agree for whatever options and names.
func TestBlocksIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := testOptions(1024 << rapid.IntRange(0, 6).Draw(t, "log"))
		o.Csum = rapid.Bool().Draw(t, "csum")
		o.Checksums.Meta = o.Csum
		o.Index = rapid.Bool().Draw(t, "index")
		o.LargeDir = rapid.Bool().Draw(t, "largeDir")
		o.HashVersion = rapid.Uint8Range(0, format.HashTeaUnsigned).Draw(t, "version")
		h := Head{Self: 12, Parent: 2, MinBlocks: rapid.IntRange(0, 5).Draw(t, "minBlocks")}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		l := randomList(rng, rapid.IntRange(0, 600).Draw(t, "n"), 2, 255)
		b := NewBuilder(o)
		n, err := b.Blocks(&list{names: l.names}, h.MinBlocks)
		require.NoError(t, err)
		emitted := 0
		_, err = b.Build(h, l, func(lb format.LBlock, _ []byte) error {
			if int(lb) != emitted {
				return fmt.Errorf("block %d after %d", lb, emitted)
			}
			emitted++
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, n, emitted)
	})
}

func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{20, 20_000, 300_000} {
		l := plainList(n, 16)
		builder := NewBuilder(testOptions(4096))
		b.Run(fmt.Sprintf("blocks/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := builder.Blocks(l, 0)
				require.NoError(b, err)
			}
		})
		b.Run(fmt.Sprintf("build/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := builder.Build(testHead, l, func(format.LBlock, []byte) error { return nil })
				require.NoError(b, err)
			}
		})
	}
}
