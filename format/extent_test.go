package format

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// unhex decodes hexadecimal digits; blanks are for the eye.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	require.NoError(t, err)
	return b
}

func TestExtentFields(t *testing.T) {
	node := unhex(t, `0af3 0201 0403 0605 0a090807
		14131211 1615 1817 1c1b1a19
		24232221 2625 2827 2c2b2a29`)
	h, err := ReadExtentHeader(node)
	require.NoError(t, err)
	require.Equal(t, ExtentHeader{Entries: 0x0102, Max: 0x0304, Depth: 0x0506, Generation: 0x0708090a}, h)
	require.Equal(t, Extent{LBlock: 0x11121314, Len: 0x1516, Start: 0x1718_191a1b1c}, GetExtent(node, 0))
	require.Equal(t, Extent{LBlock: 0x21222324, Len: 0x2526, Start: 0x2728_292a2b2c}, GetExtent(node, 1))
	require.Equal(t, ExtentIndex{LBlock: 0x11121314, Child: 0x1b1c_17181516}, GetExtentIndex(node, 0))

	again := make([]byte, len(node))
	PutExtentHeader(again, h)
	PutExtent(again, 0, GetExtent(node, 0))
	PutExtent(again, 1, GetExtent(node, 1))
	require.Equal(t, node, again)
	PutExtentIndex(again, 0, GetExtentIndex(node, 0))
	require.Equal(t, unhex(t, "14131211 16151817 1c1b 0000"), again[12:24])
}

func TestUnwrittenLength(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want Extent
	}{
		{"0080", Extent{Len: 32768}},
		{"0180", Extent{Len: 1, Unwritten: true}},
		{"1080", Extent{Len: 16, Unwritten: true}},
		{"ffff", Extent{Len: 32767, Unwritten: true}},
		{"ff7f", Extent{Len: 32767}},
	} {
		node := unhex(t, strings.Repeat("00", 12)+"00000000"+c.raw+"000000000000")
		require.Equal(t, c.want, GetExtent(node, 0), c.raw)
		again := make([]byte, len(node))
		PutExtent(again, 0, c.want)
		require.Equal(t, node, again, c.raw)
	}
}

// The room in a node and the place of the checksum, from the kernel's macros.
func TestExtentRoom(t *testing.T) {
	for _, c := range []struct{ size, max, tail int }{
		{1024, 84, 1020}, {2048, 169, 2040}, {4096, 340, 4092}, {8192, 681, 8184}, {65536, 5460, 65532},
	} {
		require.Equal(t, c.max, ExtentBlockMax(c.size))
		require.Equal(t, c.tail, ExtentTailOffset(c.max))
		require.LessOrEqual(t, c.tail+extentTailLen, c.size)
	}
	require.Equal(t, ExtentRootMax, ExtentBlockMax(60))
}

// leafOf returns a root or node of size bytes that holds the extents.
func leafOf(size int, list ...Extent) []byte {
	b := make([]byte, size)
	PutExtentHeader(b, ExtentHeader{Entries: uint16(len(list)), Max: uint16(ExtentBlockMax(size))})
	for i, e := range list {
		PutExtent(b, i, e)
	}
	return b
}

// indexOf returns a root or node of size bytes that holds the indexes.
func indexOf(size int, depth uint16, list ...ExtentIndex) []byte {
	b := make([]byte, size)
	PutExtentHeader(b, ExtentHeader{Entries: uint16(len(list)), Max: uint16(ExtentBlockMax(size)), Depth: depth})
	for i, e := range list {
		PutExtentIndex(b, i, e)
	}
	return b
}

func TestCheckExtentNode(t *testing.T) {
	root := RootBounds(1, 1000)
	child := ExtentBounds{Block: 77, Depth: 0, First: 10, End: 50, Min: 1, Max: 1000}
	interior := child
	interior.Depth = 2
	tooMany := leafOf(60, Extent{Len: 1, Start: 9})
	ehEntries.put(tooMany, 5)
	noRoom := leafOf(60)
	ehMax.put(noRoom, 0)
	moreRoom := leafOf(60)
	ehMax.put(moreRoom, 5)
	for _, c := range []struct {
		name string
		node []byte
		bd   ExtentBounds
		want string
	}{
		{"empty root", leafOf(60), root, ""},
		{"short", make([]byte, 11), root, "extent root at 0x0: 11 bytes, want at least 12"},
		{"magic", make([]byte, 60), root, "extent root at 0x0: magic 0x0, want 0xf30a"},
		{"depth", indexOf(60, 7), root, "extent root at 0x6: depth 7, want at most 5"},
		{"depth of a child", indexOf(60, 1, ExtentIndex{10, 5}), child, "extent node in block 77 at 0x6: depth 1, want 0"},
		{"too many", tooMany, root, "extent root at 0x2: 5 entries, room for 4"},
		{"no room", noRoom, root, "extent root at 0x4: room for 0 entries, want 1 to 4"},
		{"more room", moreRoom, root, "extent root at 0x4: room for 5 entries, want 1 to 4"},
		{"empty index", indexOf(60, 1), root, "extent root at 0x2: no entries at depth 1"},
		{"good leaf", leafOf(60, Extent{10, 40, 960, false}), child, ""},
		{"first", leafOf(60, Extent{11, 1, 5, false}), child, "extent node in block 77 at 0xc: first file block 11, its index says 10"},
		{"beyond parent", leafOf(60, Extent{10, 41, 5, false}), child, "extent node in block 77 at 0x10: file blocks 10 to 50, want below 50"},
		{"length", leafOf(60, Extent{10, 0, 5, false}), child, "extent node in block 77 at 0x10: length 0"},
		{"block 0", leafOf(60, Extent{10, 1, 0, false}), child, "extent node in block 77 at 0x12: blocks 0+1, want 1 to 999"},
		{"end of disk", leafOf(60, Extent{10, 2, 999, false}), child, "extent node in block 77 at 0x12: blocks 999+2, want 1 to 999"},
		{"overlap", leafOf(60, Extent{0, 5, 5, false}, Extent{4, 1, 50, false}), root, "extent root at 0x18: file block 4, want at least 5"},
		{"unwritten overlap", leafOf(60, Extent{0, 5, 5, true}, Extent{4, 1, 50, false}), root, "extent root at 0x18: file block 4, want at least 5"},
		{"last block", leafOf(60, Extent{0xFFFFFFFD, 2, 5, false}), root, ""},
		{"wrap", leafOf(60, Extent{0xFFFFFFFE, 2, 5, false}), root, "extent root at 0x10: file blocks 4294967294 to 4294967295, want below 4294967295"},
		{"good index", indexOf(60, 2, ExtentIndex{10, 5}, ExtentIndex{11, 5}), interior, ""},
		{"index first", indexOf(60, 2, ExtentIndex{9, 5}), interior, "extent node in block 77 at 0xc: first file block 9, its index says 10"},
		{"index twice", indexOf(60, 2, ExtentIndex{10, 5}, ExtentIndex{10, 6}), interior, "extent node in block 77 at 0x18: file block 10, want at least 11"},
		{"index end", indexOf(60, 2, ExtentIndex{10, 5}, ExtentIndex{50, 6}), interior, "extent node in block 77 at 0x18: file block 50, want below 50"},
		{"child", indexOf(60, 2, ExtentIndex{10, 1000}), interior, "extent node in block 77 at 0x10: child 1000, want 1 to 999"},
	} {
		err := CheckExtentNode(c.node, c.bd)
		if c.want == "" {
			require.NoError(t, err, c.name)
			continue
		}
		require.EqualError(t, err, c.want, c.name)
		require.ErrorIs(t, err, ErrDamaged, c.name)
	}
}

func TestChildBounds(t *testing.T) {
	node := indexOf(60, 3, ExtentIndex{10, 5}, ExtentIndex{20, 6})
	h, err := ReadExtentHeader(node)
	require.NoError(t, err)
	bd := ExtentBounds{Block: 4, Depth: 3, First: 10, End: 90, Min: 1, Max: 100}
	require.Equal(t, ExtentBounds{Block: 5, Depth: 2, First: 10, End: 20, Min: 1, Max: 100}, bd.Child(node, h, 0))
	require.Equal(t, ExtentBounds{Block: 6, Depth: 2, First: 20, End: 90, Min: 1, Max: 100}, bd.Child(node, h, 1))
}

func TestExtentRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Extent{
			LBlock:    LBlock(rapid.Uint32().Draw(t, "lblock")),
			Start:     Block(rapid.Uint64Range(0, 1<<48-1).Draw(t, "start")),
			Unwritten: rapid.Bool().Draw(t, "unwritten"),
		}
		e.Len = uint32(rapid.IntRange(1, MaxUnwrittenLen).Draw(t, "len"))
		b := make([]byte, 60)
		PutExtent(b, 3, e)
		if got := GetExtent(b, 3); got != e {
			t.Fatalf("%+v became %+v", e, got)
		}
		x := ExtentIndex{LBlock: e.LBlock, Child: e.Start}
		PutExtentIndex(b, 2, x)
		if got := GetExtentIndex(b, 2); got != x {
			t.Fatalf("%+v became %+v", x, got)
		}
	})
}

func FuzzExtentNode(f *testing.F) {
	f.Add(leafOf(60, Extent{0, 5, 5, true}, Extent{7, 1, 50, false}), uint32(0))
	f.Add(indexOf(1024, 2, ExtentIndex{10, 5}, ExtentIndex{11, 5}), uint32(10))
	f.Fuzz(func(t *testing.T, b []byte, first uint32) {
		for _, bd := range []ExtentBounds{RootBounds(1, 1<<20), {Block: 9, Depth: -1, First: LBlock(first), End: MaxLBlock, Min: 1, Max: 1 << 20}} {
			if CheckExtentNode(b, bd) != nil {
				continue
			}
			h, err := ReadExtentHeader(b)
			require.NoError(t, err)
			again := append([]byte(nil), b...)
			PutExtentHeader(again, h)
			for i := range int(h.Entries) {
				if h.Depth == 0 {
					PutExtent(again, i, GetExtent(b, i))
				} else {
					below := bd.Child(b, h, i)
					require.Less(t, below.Depth, int(h.Depth))
					require.Less(t, uint64(below.First), below.End)
				}
			}
			require.Equal(t, b, again)
		}
	})
}
