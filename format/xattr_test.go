package format

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSplitXattrName(t *testing.T) {
	for _, c := range []struct {
		full  string
		index uint8
		name  string
	}{
		{"user.a", XattrUser, "a"},
		{"user..", XattrUser, "."},
		{"user.user.x", XattrUser, "user.x"},
		{"system.posix_acl_access", XattrACLAccess, ""},
		{"system.posix_acl_default", XattrACLDefault, ""},
		{"system.posix_acl_accessory", XattrSystem, "posix_acl_accessory"},
		{"system.richacl", XattrRichACL, ""},
		{"system.data", XattrSystem, "data"},
		{"trusted.overlay.opaque", XattrTrusted, "overlay.opaque"},
		{"security.capability", XattrSecurity, "capability"},
		{"gnu.translator", XattrHurd, "translator"},
		{"user." + strings.Repeat("n", 255), XattrUser, strings.Repeat("n", 255)},
	} {
		index, name, ok := SplitXattrName(c.full)
		require.True(t, ok, c.full)
		require.Equal(t, c.index, index, c.full)
		require.Equal(t, c.name, name, c.full)
		require.Equal(t, c.full, Xattr{Index: index, Name: name}.FullName())
	}
	for _, bad := range []string{"", "user", "user.", "trusted.", "system.", "USER.a", "com.apple.quarantine", "encryption.c", "lustre.lov", "user.a\x00b", "user." + strings.Repeat("n", 256)} {
		_, _, ok := SplitXattrName(bad)
		require.False(t, ok, bad)
	}
	require.Equal(t, "encryption.c", Xattr{Index: XattrEncryption, Name: "c"}.FullName())
	require.Equal(t, "index0.x", Xattr{Name: "x"}.FullName())
	require.Equal(t, "index77.x", Xattr{Index: 77, Name: "x"}.FullName())
}

func TestXattrSize(t *testing.T) {
	require.Equal(t, 16, XattrSize(Xattr{}))
	require.Equal(t, 20, XattrSize(Xattr{Name: "a"}))
	require.Equal(t, 20+4, XattrSize(Xattr{Name: "abcd", Value: []byte("x")}))
	require.Equal(t, 24+8, XattrSize(Xattr{Name: "abcde", Value: []byte("12345")}))
	require.Equal(t, 88, InodeXattrSpace(256, 32))
	require.Equal(t, 344, InodeXattrSpace(512, 32))
	require.Equal(t, 0, InodeXattrSpace(128, 0))
	require.Equal(t, 0, InodeXattrSpace(256, 124))
	require.Equal(t, 4060, BlockXattrSpace(4096))
}

// The signed hash takes bytes above 127 as negative.
func TestXattrHashSign(t *testing.T) {
	require.Equal(t, uint32(0xE9), XattrEntryHash("\xe9", nil))
	require.Equal(t, uint32(0xFFFFFFE9), XattrEntryHashSigned("\xe9", nil))
	require.Equal(t, XattrEntryHash("plain", []byte("v")), XattrEntryHashSigned("plain", []byte("v")))
	require.Equal(t, XattrEntryHash("a", []byte("v\x00\x00\x00")), XattrEntryHash("a", []byte("v")))
	require.Zero(t, XattrEntryHash("", nil))
}

func TestXattrBlockFields(t *testing.T) {
	b := XattrBlock(unhex(t, "000002ea 04030201 01000000 14131211 18171615"))
	require.Equal(t, uint32(0x01020304), b.Refcount())
	require.Equal(t, uint32(0x11121314), b.Hash())
	require.Equal(t, uint32(0x15161718), b.Checksum())
	b.SetRefcount(0x21222324)
	b.SetChecksum(0x25262728)
	require.Equal(t, unhex(t, "000002ea 24232221 01000000 14131211 28272625"), []byte(b))
}

func TestEncodeXattrBlock(t *testing.T) {
	block := slices.Repeat([]byte{0xEE}, 128)
	attrs := []Xattr{
		{Index: XattrSecurity, Name: "z", Value: nil},
		{Index: XattrUser, Name: "bb", Value: []byte("12345")},
		{Index: XattrUser, Name: "c", Value: []byte{0xAA}},
	}
	given := slices.Clone(attrs)
	require.NoError(t, EncodeXattrBlock(block, attrs, 3))
	require.Equal(t, given, attrs, "the caller's order stays")
	hc, hbb, hz := XattrEntryHash("c", []byte{0xAA}), XattrEntryHash("bb", []byte("12345")), XattrEntryHash("z", nil)
	fold := func(h, e uint32) uint32 { return h<<16 ^ h>>16 ^ e }
	want := make([]byte, 128)
	copy(want, unhex(t, "000002ea 03000000 01000000"))
	xhHash.put(want, fold(fold(fold(0, hc), hbb), hz))
	copy(want[0x20:], unhex(t, "01 01 7c00 00000000 01000000 00000000 63000000")) // value at 0x7c
	copy(want[0x34:], unhex(t, "02 01 7400 00000000 05000000 00000000 62620000")) // value at 0x74
	copy(want[0x48:], unhex(t, "01 06 0000 00000000 00000000 00000000 7a000000"))
	xeHash.put(want[0x20:], hc)
	xeHash.put(want[0x34:], hbb)
	xeHash.put(want[0x48:], hz)
	copy(want[0x7c:], unhex(t, "aa000000"))
	copy(want[0x74:], "12345\x00\x00\x00")
	require.Equal(t, want, block)

	got, err := DecodeXattrBlock(block)
	require.NoError(t, err)
	require.Equal(t, []Xattr{attrs[2], attrs[1], attrs[0]}, got)
}

func TestEncodeInodeXattrs(t *testing.T) {
	area := slices.Repeat([]byte{0xEE}, 56)
	require.NoError(t, EncodeInodeXattrs(area, []Xattr{{Index: XattrUser, Name: "abc", Value: []byte("xyz")}}))
	// The value lies at 0x34 of the area, which is 0x30 from the first entry.
	want := make([]byte, 56)
	copy(want, unhex(t, "000002ea 03 01 3000 00000000 03000000 00000000 61626300"))
	copy(want[52:], "xyz\x00")
	require.Equal(t, want, area)
	require.NoError(t, EncodeInodeXattrs(area, nil))
	require.Equal(t, make([]byte, 56), area)
	got, err := DecodeInodeXattrs(area)
	require.NoError(t, err)
	require.Empty(t, got)
}

// What fills an area to the last byte fits, one byte more does not.
func TestXattrRoom(t *testing.T) {
	full := Xattr{Index: XattrUser, Name: "n", Value: make([]byte, InodeXattrSpace(256, 32)-20)}
	area := make([]byte, 256-128-32)
	require.NoError(t, EncodeInodeXattrs(area, []Xattr{full}))
	full.Value = append(full.Value, 1)
	require.ErrorContains(t, EncodeInodeXattrs(area, []Xattr{full}), "inode xattrs: no room for extended attribute user.n (69 bytes): 92 bytes of 88 needed")
	require.ErrorContains(t, EncodeInodeXattrs(area[:7], []Xattr{full}), "7 bytes at the end of the inode")

	block := make([]byte, 1024)
	full.Value = make([]byte, BlockXattrSpace(1024)-20)
	require.NoError(t, EncodeXattrBlock(block, []Xattr{full}, 1))
	got, err := DecodeXattrBlock(block)
	require.NoError(t, err)
	require.Equal(t, []Xattr{full}, got)
	full.Value = append(full.Value, 1)
	require.ErrorContains(t, EncodeXattrBlock(block, []Xattr{full}, 1), "user.n")
	require.ErrorContains(t, EncodeXattrBlock(block, []Xattr{{Index: 1, Name: strings.Repeat("x", 256)}}, 1), "name of 256 bytes")
}

// Bytes of the last 64 KiB of a value's offset are all in use.
func TestXattrLargestBlock(t *testing.T) {
	block := make([]byte, 65536)
	attrs := []Xattr{{Index: 1, Name: "a", Value: []byte("tail")}, {Index: 1, Name: "b", Value: make([]byte, 60000)}}
	require.NoError(t, EncodeXattrBlock(block, attrs, 1))
	got, err := DecodeXattrBlock(block)
	require.NoError(t, err)
	require.Equal(t, attrs, got)
}

func TestDecodeXattrDamage(t *testing.T) {
	good := make([]byte, 256)
	require.NoError(t, EncodeXattrBlock(good, []Xattr{{Index: 1, Name: "a", Value: []byte("vvvv")}}, 1))
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		want   string
	}{
		{"short", func(b []byte) []byte { return b[:35] }, "xattr block at 0x0: 35 bytes, want at least 36"},
		{"magic", func(b []byte) []byte { b[0] = 1; return b }, "xattr block at 0x0: magic 0xea020001, want 0xea020000"},
		{"blocks", func(b []byte) []byte { b[8] = 2; return b }, "xattr block at 0x8: h_blocks 2, want 1"},
		{"no end", func(b []byte) []byte { return slices.Concat(b[:0x20], slices.Repeat([]byte{1}, 30)) }, "xattr block at 0x34: entry beyond the end"},
		{"end cut off", func(b []byte) []byte { return b[:0x36] }, "xattr block at 0x34: entries without an end"},
		{"value before", func(b []byte) []byte { xeValueOffs.put(b[0x20:], 0x34); return b }, "xattr block at 0x22: user.a: value of 4 bytes at 0x34, want inside 0x38 to 0x100"},
		{"value behind", func(b []byte) []byte { xeValueOffs.put(b[0x20:], 0xFD); return b }, "xattr block at 0x22: user.a: value of 4 bytes at 0xfd, want inside 0x38 to 0x100"},
		{"value far", func(b []byte) []byte { xeValueOffs.put(b[0x20:], 0xFFFF); return b }, "xattr block at 0x22: user.a: value of 4 bytes at 0xffff, want inside 0x38 to 0x100"},
		{"value long", func(b []byte) []byte { xeValueSize.put(b[0x20:], 0xFFFFFFFF); return b }, "xattr block at 0x22: user.a: value of 4294967295 bytes at 0xfc, want inside 0x38 to 0x100"},
	} {
		_, err := DecodeXattrBlock(c.change(slices.Clone(good)))
		require.EqualError(t, err, c.want, c.name)
		require.ErrorIs(t, err, ErrDamaged)
	}
}

func TestDecodeValueInode(t *testing.T) {
	b := make([]byte, 256)
	require.NoError(t, EncodeXattrBlock(b, []Xattr{{Index: 1, Name: "a"}}, 1))
	xeValueInum.put(b[0x20:], 13)
	xeValueSize.put(b[0x20:], 100000)
	got, err := DecodeXattrBlock(b)
	require.NoError(t, err)
	require.Equal(t, []Xattr{{Index: 1, Name: "a", ValueInum: 13, ValueSize: 100000}}, got)
}

func TestWalkXattrsStops(t *testing.T) {
	b := make([]byte, 256)
	require.NoError(t, EncodeXattrBlock(b, []Xattr{{Index: 1, Name: "a"}, {Index: 1, Name: "b"}}, 1))
	n := 0
	require.NoError(t, WalkXattrBlock(b, func(e XattrEntry) bool {
		n++
		require.True(t, e.HashOK(false))
		e.Hash ^= 1
		require.False(t, e.HashOK(false))
		return false
	}))
	require.Equal(t, 1, n)
}

// drawXattrs draws a set without doubles.
func drawXattrs(t *rapid.T) []Xattr {
	list := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Xattr {
		return Xattr{
			Index: uint8(rapid.IntRange(1, 10).Draw(t, "index")),
			Name:  rapid.StringN(0, 12, 40).Draw(t, "name"),
			Value: rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "value"),
		}
	}), 1, 12, func(x Xattr) string { return string(x.Index) + x.Name }).Draw(t, "attrs")
	for i := range list {
		if len(list[i].Value) == 0 {
			list[i].Value = nil
		}
	}
	return list
}

func TestXattrRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		attrs := drawXattrs(t)
		sorted := slices.SortedFunc(slices.Values(attrs), CompareXattrs)
		need := 0
		for _, x := range attrs {
			need += XattrSize(x)
		}
		block := make([]byte, 4096)
		require.NoError(t, EncodeXattrBlock(block, attrs, 1))
		got, err := DecodeXattrBlock(block)
		require.NoError(t, err)
		require.Equal(t, sorted, got)

		area := make([]byte, need+8) // exactly enough
		require.NoError(t, EncodeInodeXattrs(area, attrs))
		got, err = DecodeInodeXattrs(area)
		require.NoError(t, err)
		require.Equal(t, sorted, got)
		require.Error(t, EncodeInodeXattrs(area[:need+4], attrs))
	})
}

func FuzzXattrBlock(f *testing.F) {
	b := make([]byte, 256)
	require.NoError(f, EncodeXattrBlock(b, []Xattr{{Index: 1, Name: "a", Value: []byte("vvvv")}, {Index: 6, Name: "selinux", Value: []byte("12345")}}, 1))
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = WalkXattrBlock(b, func(e XattrEntry) bool { _ = e.HashOK(false); return true })
		attrs, err := DecodeXattrBlock(b)
		if len(b) < XattrHeaderSize+xattrEndLen {
			require.Error(t, err)
			return
		}
		checkDecodedXattrs(t, attrs, err, len(b), encodeOneRef, DecodeXattrBlock)
	})
}

// encodeOneRef is EncodeXattrBlock with one reference.
func encodeOneRef(b []byte, attrs []Xattr) error { return EncodeXattrBlock(b, attrs, 1) }

func FuzzInodeXattrs(f *testing.F) {
	b := make([]byte, 96)
	require.NoError(f, EncodeInodeXattrs(b, []Xattr{{Index: 1, Name: "a", Value: []byte("vvvv")}, {Index: 2, Value: []byte("12345")}}))
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		attrs, err := DecodeInodeXattrs(b)
		checkDecodedXattrs(t, attrs, err, len(b), EncodeInodeXattrs, DecodeInodeXattrs)
	})
}

// checkDecodedXattrs encodes what was decoded, if it fits, and decodes it again.
func checkDecodedXattrs(t *testing.T, attrs []Xattr, err error, size int, encode func([]byte, []Xattr) error, decode func([]byte) ([]Xattr, error)) {
	if err != nil {
		require.ErrorIs(t, err, ErrDamaged)
	}
	attrs = slices.DeleteFunc(attrs, func(x Xattr) bool { return x.ValueInum != 0 || x.Index == 0 })
	again := make([]byte, size)
	if encode(again, attrs) != nil {
		return // values may overlap in b, so that they take more room apart
	}
	got, err := decode(again)
	require.NoError(t, err)
	require.ElementsMatch(t, attrs, got)
}

func BenchmarkEncodeXattrBlock(b *testing.B) {
	block := make([]byte, 4096)
	rng := rand.New(rand.NewPCG(1, 2))
	attrs := []Xattr{{Index: 1, Name: "a", Value: randomBytes(rng, 900)}, {Index: 6, Name: "capability", Value: randomBytes(rng, 20)}}
	b.ReportAllocs()
	for b.Loop() {
		if err := EncodeXattrBlock(block, attrs, 1); err != nil {
			b.Fatal(err)
		}
	}
}
