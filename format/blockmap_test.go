package format

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestBlockPointer(t *testing.T) {
	b := unhex(t, "04030201 08070605 0c0b0a09")
	require.Equal(t, Block(0x05060708), BlockPointer(b, 1))
	PutBlockPointer(b, 1, 0x15161718)
	require.Equal(t, unhex(t, "04030201 18171615 0c0b0a09"), b)
}

// With 1 KiB blocks the twelve direct blocks are followed by 256, 65,536 and
// 16,777,216 blocks.
func TestBlockPathOf(t *testing.T) {
	const direct, single, double = 12, 12 + 256, 12 + 256 + 65536
	for _, c := range []struct {
		l    LBlock
		want BlockPath
	}{
		{0, BlockPath{0, [4]int{0}}},
		{11, BlockPath{0, [4]int{11}}},
		{direct, BlockPath{1, [4]int{12, 0}}},
		{single - 1, BlockPath{1, [4]int{12, 255}}},
		{single, BlockPath{2, [4]int{13, 0, 0}}},
		{single + 256, BlockPath{2, [4]int{13, 1, 0}}},
		{double - 1, BlockPath{2, [4]int{13, 255, 255}}},
		{double, BlockPath{3, [4]int{14, 0, 0, 0}}},
		{double + 65536 + 2*256 + 3, BlockPath{3, [4]int{14, 1, 2, 3}}},
		{double + 1<<24 - 1, BlockPath{3, [4]int{14, 255, 255, 255}}},
	} {
		got, ok := BlockPathOf(c.l, 1024)
		require.True(t, ok)
		require.Equal(t, c.want, got, c.l)
	}
	_, ok := BlockPathOf(double+1<<24, 1024)
	require.False(t, ok)
	require.EqualValues(t, double+1<<24, BlockMapEnd(1024))
	require.EqualValues(t, 1<<32-1, BlockMapEnd(65536))
}

// The path, summed up again, is the file block.
func TestBlockPathSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := 1024 << rapid.IntRange(0, 6).Draw(t, "size")
		l := LBlock(rapid.Uint32().Draw(t, "l"))
		p, ok := BlockPathOf(l, size)
		if !ok {
			if uint64(l) < BlockMapEnd(size) {
				t.Fatalf("no path to %d", l)
			}
			return
		}
		sum := uint64(0)
		for slot := range p.Index[0] {
			sum += BlockMapSpan(BlockMapLevelsOf(slot), size)
		}
		for i := 1; i <= p.Levels; i++ {
			if p.Index[i] < 0 || p.Index[i] >= BlockPointers(size) {
				t.Fatalf("index %d at level %d", p.Index[i], i)
			}
			sum += uint64(p.Index[i]) * BlockMapSpan(p.Levels-i, size)
		}
		if sum != uint64(l) {
			t.Fatalf("path %v to %d, want %d", p, sum, l)
		}
	})
}
