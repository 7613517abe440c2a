package format

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOrphanBlock(t *testing.T) {
	raw := make([]byte, 1024)
	for i := range raw {
		raw[i] = 0xEE
	}
	PutOrphanBlock(raw)
	b := OrphanBlock(raw)
	require.Equal(t, 254, b.Slots())
	b.SetSlot(0, 0x01020304)
	b.SetSlot(253, 0x11121314)
	want := make([]byte, 1024)
	copy(want, unhex(t, "04030201"))
	copy(want[1012:], unhex(t, "14131211 04ca100b 00000000"))
	require.Equal(t, want, raw)
	require.Equal(t, map[int]Ino{0: 0x01020304, 253: 0x11121314}, maps.Collect(b.Orphans()))
	for slot := range b.Orphans() {
		require.Zero(t, slot)
		break
	}
	copy(raw[1020:], unhex(t, "24232221"))
	require.Equal(t, uint32(0x21222324), b.Checksum())
	require.NoError(t, CheckOrphanBlock(raw, 7))
	raw[1016]++
	require.EqualError(t, CheckOrphanBlock(raw, 7), "orphan file block in block 7 at 0x3f8: magic 0xb10ca05, want 0xb10ca04")
	require.EqualError(t, CheckOrphanBlock(raw[:7], 7), "orphan file block in block 7 at 0x0: 7 bytes, want more than 8")
}

func FuzzOrphanBlock(f *testing.F) {
	b := make([]byte, 64)
	PutOrphanBlock(b)
	OrphanBlock(b).SetSlot(3, 12)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if CheckOrphanBlock(b, 1) != nil {
			return
		}
		for slot, ino := range OrphanBlock(b).Orphans() {
			require.Equal(t, OrphanBlock(b).Slot(slot), ino)
		}
	})
}
