package format

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const descPlaces64 = `
	BlockBitmap 0:4 20:4
	InodeBitmap 4:4 24:4
	InodeTable 8:4 28:4
	FreeBlocksCount c:2 2c:2
	FreeInodesCount e:2 2e:2
	UsedDirsCount 10:2 30:2
	Flags 12:2
	ExcludeBitmap 14:4 34:4
	BlockBitmapCsum 18:2 38:2
	InodeBitmapCsum 1a:2 3a:2
	ItableUnused 1c:2 32:2
	Checksum 1e:2
`

const descPlaces32 = `
	BlockBitmap 0:4
	InodeBitmap 4:4
	InodeTable 8:4
	FreeBlocksCount c:2
	FreeInodesCount e:2
	UsedDirsCount 10:2
	Flags 12:2
	ExcludeBitmap 14:4
	BlockBitmapCsum 18:2
	InodeBitmapCsum 1a:2
	ItableUnused 1c:2
	Checksum 1e:2
`

func TestGroupDescFields(t *testing.T) {
	none := func(GroupDesc) {}
	checkFields(t, 32, none, descPlaces32)
	checkFields(t, 64, none, descPlaces64)
	checkFields(t, 128, none, descPlaces64)
}

// A descriptor of 32 bytes may be cut out of a longer block: what is after it
// stays as it is.
func TestGroupDescShortDropsHighHalves(t *testing.T) {
	block := make([]byte, 64)
	d := GroupDesc(block[:32])
	d.SetBlockBitmap(0x1_2345_6789)
	d.SetItableUnused(0x12345)
	require.Equal(t, Block(0x2345_6789), d.BlockBitmap())
	require.Equal(t, uint32(0x2345), d.ItableUnused())
	require.Equal(t, make([]byte, 32), block[32:])
}
