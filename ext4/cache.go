package ext4

import (
	"container/list"
	"fmt"
	"io"
	"sync"

	"drydock/format"
)

// cacheBytes bounds the memory of the metadata blocks that are kept.
const cacheBytes = 4 << 20

// blocks reads metadata by the block, and keeps the blocks used last. The
// bytes it hands out are shared: nobody changes them.
type blocks struct {
	dev   io.ReaderAt
	size  int          // bytes in a block
	count format.Block // blocks in the file system
	limit int          // blocks kept

	mu   sync.Mutex
	kept map[format.Block]*list.Element // of *keptBlock
	used *list.List                     // the block used last is in front
}

type keptBlock struct {
	n    format.Block
	data []byte
}

func newBlocks(dev io.ReaderAt, geo format.Geometry) *blocks {
	return &blocks{
		dev: dev, size: geo.BlockSize, count: geo.BlocksCount,
		limit: max(cacheBytes/geo.BlockSize, 16),
		kept:  map[format.Block]*list.Element{}, used: list.New(),
	}
}

// get returns block n, which must not be changed.
func (c *blocks) get(n format.Block) ([]byte, error) {
	if data := c.find(n); data != nil {
		return data, nil
	}
	data := make([]byte, c.size)
	if err := c.read(n, data); err != nil {
		return nil, err
	}
	c.keep(n, data)
	return data, nil
}

// ReadBlock copies block n to p; it is what the packages below ask for.
func (c *blocks) ReadBlock(n format.Block, p []byte) error {
	data, err := c.get(n)
	if err != nil {
		return err
	}
	if copy(p, data) < len(p) {
		return fmt.Errorf("read of %d bytes from a block of %d", len(p), c.size)
	}
	return nil
}

// read reads block n past the cache.
func (c *blocks) read(n format.Block, p []byte) error {
	if n >= c.count {
		return &format.DamagedError{Structure: "block number", Block: n, Detail: fmt.Sprintf("the file system has %d blocks", c.count)}
	}
	if err := readFull(c.dev, p, int64(n)*int64(c.size)); err != nil {
		return fmt.Errorf("read block %d: %w", n, err)
	}
	return nil
}

func (c *blocks) find(n format.Block) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.kept[n]
	if e == nil {
		return nil
	}
	c.used.MoveToFront(e)
	return e.Value.(*keptBlock).data
}

func (c *blocks) keep(n format.Block, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept[n] != nil {
		return // another reader was faster
	}
	c.kept[n] = c.used.PushFront(&keptBlock{n, data})
	if c.used.Len() > c.limit {
		last := c.used.Remove(c.used.Back()).(*keptBlock)
		delete(c.kept, last.n)
	}
}

// readFull fills p from off; a device that ends before is an error.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
