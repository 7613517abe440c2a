package format

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInlineData(t *testing.T) {
	iblock := sequence(60, 1)
	value := sequence(40, 101)
	all := append(bytes.Clone(iblock), value...)
	for _, size := range []int{0, 1, 59, 60, 61, 99, 100} {
		data, err := InlineData(iblock, value, uint64(size))
		require.NoError(t, err)
		require.Equal(t, all[:size], data)
	}
	data, err := InlineData(iblock, nil, 60)
	require.NoError(t, err)
	require.Equal(t, iblock, data)
	data[0] ^= 1
	require.EqualValues(t, 1, iblock[0], "the content is a copy")

	_, err = InlineData(iblock, value, 101)
	require.EqualError(t, err, "inline data: size 101, but 100 bytes in the inode")
	_, err = InlineData(iblock, nil, 1<<63)
	require.ErrorIs(t, err, ErrDamaged)
	_, err = InlineData(iblock[:59], nil, 1)
	require.ErrorIs(t, err, ErrDamaged)
}

// sequence is n bytes, each one more than the one before.
func sequence(n, first int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(first + i)
	}
	return b
}

func inlineDir() (iblock, value []byte) {
	iblock = make([]byte, 60)
	inlineParent.put(iblock, 0x04030201)
	PutDirent(iblock[4:], 0, 16, 12, FTRegular, []byte("first"))
	PutDirent(iblock[4:], 16, 40, 13, FTDir, []byte("second"))
	value = make([]byte, 44)
	PutDirent(value, 0, 16, 0, FTUnknown, nil)
	PutDirent(value, 16, 28, 14, FTSymlink, []byte("third"))
	return iblock, value
}

func TestWalkInlineDir(t *testing.T) {
	iblock, value := inlineDir()
	require.EqualValues(t, 0x04030201, InlineDirParent(iblock))
	var seen []Dirent
	collect := func(d Dirent) bool {
		seen = append(seen, d)
		return true
	}
	require.NoError(t, WalkInlineDir(iblock, value, collect))
	require.Equal(t, []Dirent{
		{Off: 4, RecLen: 16, Ino: 12, Type: FTRegular, Name: []byte("first")},
		{Off: 20, RecLen: 40, Ino: 13, Type: FTDir, Name: []byte("second")},
		{Off: 60, RecLen: 16, Name: []byte{}},
		{Off: 76, RecLen: 28, Ino: 14, Type: FTSymlink, Name: []byte("third")},
	}, seen)

	seen = nil
	require.NoError(t, WalkInlineDir(iblock, nil, collect))
	require.Len(t, seen, 2)

	for stop := 1; stop <= 3; stop++ {
		n := 0
		require.NoError(t, WalkInlineDir(iblock, value, func(Dirent) bool {
			n++
			return n < stop
		}))
		require.Equal(t, stop, n)
	}
}

func TestWalkInlineDirDamaged(t *testing.T) {
	all := func(Dirent) bool { return true }
	iblock, value := inlineDir()
	value[16+4] = 32
	require.EqualError(t, WalkInlineDir(iblock, value, all),
		"inline data at 0x3c: directory entry at 0x10: length 32, want at most 28 up to the block's end")
	require.ErrorIs(t, WalkInlineDir(iblock, value[:8], all), ErrDamaged)
	iblock[4+4] = 0
	require.ErrorIs(t, WalkInlineDir(iblock, nil, all), ErrDamaged)
	require.ErrorIs(t, WalkInlineDir(iblock[:8], nil, all), ErrDamaged)
}

func FuzzInlineDir(f *testing.F) {
	iblock, value := inlineDir()
	f.Add(iblock, value)
	f.Add(iblock, []byte{})
	f.Add(make([]byte, 60), make([]byte, 12))
	f.Fuzz(func(t *testing.T, iblock, value []byte) {
		next := inlineEntries
		err := WalkInlineDir(iblock, value, func(d Dirent) bool {
			require.Equal(t, next, d.Off)
			next += d.RecLen
			return true
		})
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
		} else {
			require.Equal(t, inlineRest+len(value), next)
		}
		if data, err := InlineData(iblock, value, uint64(len(value))); err == nil {
			require.Len(t, data, len(value))
		}
	})
}
