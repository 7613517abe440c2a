package format

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// The goldens of this file lie in an image that these commands made (e2fsprogs
// 1.47.0, Linux 6.18):
//
//	mke2fs -t ext4 -b 1024 -I 256 -O metadata_csum,^has_journal -U 00112233-4455-6677-8899-aabbccddeeff g.img 4M
//	mount -o loop g.img m
//	touch m/f m/g; fallocate -l 5K -o 3K m/g
//	for i in 0 1 2 3 4; do dd if=/dev/urandom of=m/g bs=1K count=1 seek=$((3+i*2)) conv=notrunc; done
//	touch m/h; setfattr -n user.k -v vvv... (101 bytes) m/h; setfattr -n user.$'\xe9' -v www... (90 bytes) m/h
//	umount m; dd if=g.img bs=1024 skip=BLOCK count=1 | xxd -p
var goldenSums = Checksums{Meta: true, Seed: Crc32c(allOnes, []byte("\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"))}

func TestExtentNodeGolden(t *testing.T) {
	list := []Extent{{3, 1, 51, false}, {4, 1, 52, true}, {5, 1, 53, false}, {6, 1, 54, true}, {7, 1, 55, false}, {9, 1, 3073, false}, {11, 1, 3074, false}}
	node := leafOf(1024, list...)
	goldenSums.SealExtentBlock(13, 2326228832, node)
	want := make([]byte, 1024)
	copy(want, unhex(t, `
		0af307005400000000000000
		030000000100000033000000
		040000000180000034000000
		050000000100000035000000
		060000000180000036000000
		070000000100000037000000
		0900000001000000010c0000
		0b00000001000000020c0000`))
	copy(want[1020:], unhex(t, "ab547473"))
	require.Equal(t, want, node)
	require.NoError(t, CheckExtentNode(want, ExtentBounds{Block: 49, Depth: 0, First: 3, End: MaxLBlock, Min: 2, Max: 4096}))
	for i, e := range list {
		require.Equal(t, e, GetExtent(want, i))
	}
}

func TestXattrBlockGolden(t *testing.T) {
	attrs := []Xattr{
		{Index: XattrUser, Name: "k", Value: bytes.Repeat([]byte("v"), 101)},
		{Index: XattrUser, Name: "\xe9", Value: bytes.Repeat([]byte("w"), 90)},
	}
	block := make([]byte, 1024)
	require.NoError(t, EncodeXattrBlock(block, attrs, 1))
	goldenSums.SealXattrBlock(56, block)
	want := make([]byte, 1024)
	copy(want, unhex(t, `
		000002ea 01000000 01000000 01018276 9deeb2ac 000000000000000000000000
		01019803 00000000 65000000 6b767676 6b000000
		01013c03 00000000 5a000000 7777e900 e9000000`))
	copy(want[0x33c:], attrs[1].Value)
	copy(want[0x398:], attrs[0].Value)
	require.Equal(t, want, block)
	got, err := DecodeXattrBlock(want)
	require.NoError(t, err)
	require.Equal(t, attrs, got)
}
