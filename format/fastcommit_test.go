package format

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// fcBlock is a block of 1 KiB with one record of each kind.
func fcBlock(t testing.TB) []byte {
	b := slices.Concat(
		unhex(t, "0900 0800 00000000 04030201"),         // HEAD
		unhex(t, "0600 8400 14131211"), fieldBytes(128), // INODE
		unhex(t, "0100 1000 24232221 34333231 0280 0605 0a090807"), // ADD_RANGE
		unhex(t, "0200 0c00 44434241 54535251 64636261"),           // DEL_RANGE
		unhex(t, "0300 0b00 74737271 84838281"), []byte("abc"),     // CREAT
		unhex(t, "0400 0900 74737271 84838281"), []byte("d"), // LINK
		unhex(t, "0500 0900 74737271 84838281"), []byte("e"), // UNLINK
		unhex(t, "0800 0800 04030201 94939291"), // TAIL
		unhex(t, "0700 0000"))                   // PAD
	return b
}

func walkFC(b []byte, inodeSize int) (list []FCRecord, err error) {
	err = WalkFastCommit(b, inodeSize, func(r FCRecord) bool {
		list = append(list, r)
		return true
	})
	return list, err
}

func TestFastCommitRecords(t *testing.T) {
	b := fcBlock(t)
	list, err := walkFC(b, 256)
	require.NoError(t, err)
	var names []string
	for _, r := range list {
		names = append(names, r.Name())
	}
	require.Equal(t, []string{"HEAD", "INODE", "ADD_RANGE", "DEL_RANGE", "CREAT", "LINK", "UNLINK", "TAIL", "PAD"}, names)
	features, tid := list[0].Head()
	require.Equal(t, Tid(0x01020304), tid)
	require.Zero(t, features)
	ino, inode := list[1].Inode()
	require.Equal(t, Ino(0x11121314), ino)
	require.Equal(t, Inode(fieldBytes(128)), inode)
	require.Equal(t, FCRange{Ino: 0x21222324, Extent: Extent{LBlock: 0x31323334, Len: 2, Start: 0x0506_0708090a, Unwritten: true}}, list[2].AddRange())
	require.Equal(t, FCHole{Ino: 0x41424344, LBlock: 0x51525354, Len: 0x61626364}, list[3].DelRange())
	require.Equal(t, FCDentry{Parent: 0x71727374, Ino: 0x81828384, Name: []byte("abc")}, list[4].Dentry())
	require.Equal(t, []byte("d"), list[5].Dentry().Name)
	require.Equal(t, []byte("e"), list[6].Dentry().Name)
	tid, crc := list[7].Tail()
	require.Equal(t, Tid(0x01020304), tid)
	require.Equal(t, uint32(0x91929394), crc)
	require.Equal(t, "TAG_99", FCRecord{Tag: 99}.Name())
}

// The CRC covers all bytes up to itself.
func TestFastCommitSum(t *testing.T) {
	b := fcBlock(t)
	list, err := walkFC(b, 256)
	require.NoError(t, err)
	crc := uint32(0)
	for _, r := range list[:8] {
		crc = r.Sum(crc)
	}
	require.Equal(t, Crc32c(0, b[:list[7].Offset+8]), crc)
}

func TestFastCommitDamage(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"unknown", "0a00 0000", "fast commit at 0x0: unknown tag 10"},
		{"zero", "0000 0000", "fast commit at 0x0: unknown tag 0"},
		{"long", "0700 0100", "fast commit at 0x0: PAD of 1 bytes, want at most 0"},
		{"head", "0900 0900 000000000000000000", "fast commit at 0x0: HEAD of 9 bytes, want 8 to 8"},
		{"no name", "0300 0800 0000000000000000", "fast commit at 0x0: CREAT of 8 bytes, want 9 to 263"},
		{"inode", "0600 0400 00000000", "fast commit at 0x0: INODE of 4 bytes, want 132 to 260"},
		{"second", "0700 0000 0b00 0000", "fast commit at 0x4: unknown tag 11"},
	} {
		_, err := walkFC(unhex(t, c.raw), 256)
		require.EqualError(t, err, c.want, c.name)
		require.ErrorIs(t, err, ErrDamaged)
	}
	list, err := walkFC(unhex(t, "0700 0000 aabbcc"), 256)
	require.NoError(t, err)
	require.Len(t, list, 1, "less than a header is left")
}

func FuzzFastCommit(f *testing.F) {
	f.Add(fcBlock(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, _ := walkFC(b, 256)
		at := 0
		for _, r := range list {
			require.Equal(t, at, r.Offset)
			at += len(r.Raw)
			r.Sum(0)
			switch r.Tag {
			case FCAddRange:
				r.AddRange()
			case FCDelRange:
				r.DelRange()
			case FCCreat, FCLink, FCUnlink:
				require.NotEmpty(t, r.Dentry().Name)
			case FCInode:
				_, n := r.Inode()
				_ = n.Mode()
			case FCTail:
				r.Tail()
			case FCHead:
				r.Head()
			}
		}
	})
}
