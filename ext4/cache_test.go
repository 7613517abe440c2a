package ext4

import (
	"encoding/binary"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
)

// TestCache reads blocks through the cache: the right bytes, those used last
// kept, and never more than the limit.
func TestCache(t *testing.T) {
	const size, count = 1024, 10_000
	dev := device.NewMem(size*count + 100)
	for i := range count {
		b := make([]byte, 4)
		binary.LittleEndian.PutUint32(b, uint32(i))
		_, err := dev.WriteAt(b, int64(i)*size)
		require.NoError(t, err)
	}
	c := newBlocks(dev, format.Geometry{BlockSize: size, BlocksCount: count})
	require.Equal(t, cacheBytes/size, c.limit)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			p := make([]byte, size)
			for i := range count {
				n := format.Block((i*7 + w*13) % count)
				if err := c.ReadBlock(n, p); err != nil || binary.LittleEndian.Uint32(p) != uint32(n) {
					t.Errorf("block %d: %v, %v", n, p[:4], err)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, c.limit, c.used.Len())
	require.Len(t, c.kept, c.limit)

	first, err := c.get(1)
	require.NoError(t, err)
	again, err := c.get(1)
	require.NoError(t, err)
	require.Same(t, &first[0], &again[0])

	_, err = c.get(count)
	require.ErrorIs(t, err, format.ErrDamaged)
	require.Error(t, c.ReadBlock(1, make([]byte, size+1)))
	c.count++
	_, err = c.get(count) // the device ends within
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
