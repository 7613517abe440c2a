package cache

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"drydock/format"
)

// disk is a Source for tests: a file's blocks in a map, and the space there is for
// more.
type disk struct {
	size int           // of a block
	slow time.Duration // of a read or write of the device

	mu       sync.Mutex
	blocks   map[format.LBlock][]byte // mapped
	reserved map[format.LBlock]bool   // has space, but nothing written
	free     int                      // blocks of space left
	failFill func(l format.LBlock, n int) error
	asked    []Run // of Reserve that had something to do
	fills    []Run
	probes   int // calls of Mapped
}

func newDisk(size int) *disk {
	return &disk{size: size, blocks: map[format.LBlock][]byte{}, reserved: map[format.LBlock]bool{}, free: math.MaxInt32}
}

func (d *disk) Fill(l format.LBlock, p []byte) error {
	d.pause()
	n := len(p) / d.size
	if d.failFill != nil {
		if err := d.failFill(l, n); err != nil {
			clear(p) // whatever a failed read leaves there is not to be believed
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fills = append(d.fills, Run{l, n})
	for i := range n {
		b := p[i*d.size : (i+1)*d.size]
		clear(b)
		copy(b, d.blocks[l+format.LBlock(i)])
	}
	return nil
}

func (d *disk) pause() {
	if d.slow > 0 {
		time.Sleep(d.slow)
	}
}

func (d *disk) Mapped(l format.LBlock) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.probes++
	return d.blocks[l] != nil, nil
}

func (d *disk) Reserve(l format.LBlock, n int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var fresh []format.LBlock
	for b := l; b < l+format.LBlock(n); b++ {
		if d.blocks[b] == nil && !d.reserved[b] {
			fresh = append(fresh, b)
		}
	}
	if len(fresh) > d.free {
		return syscall.ENOSPC
	}
	d.free -= len(fresh)
	for _, b := range fresh {
		d.reserved[b] = true
	}
	d.asked = append(d.asked, Run{l, n})
	return nil
}

// release gives up the space of the blocks [from, to), as truncating does.
func (d *disk) release(from, to format.LBlock) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for b := from; b < to; b++ {
		if d.blocks[b] != nil || d.reserved[b] {
			d.free++
		}
		delete(d.blocks, b)
		delete(d.reserved, b)
	}
}

// store writes a run, all but the blocks that skip names. It fails if a block has
// no space.
func (d *disk) store(r Run, bufs [][]byte, skip func(format.LBlock) bool) error {
	d.pause()
	d.mu.Lock()
	defer d.mu.Unlock()
	data := slices.Concat(bufs...)
	if len(data) != r.N*d.size {
		return fmt.Errorf("%d bytes for %d blocks", len(data), r.N)
	}
	for i := range r.N {
		l := r.First + format.LBlock(i)
		if skip != nil && skip(l) {
			continue
		}
		if d.blocks[l] == nil && !d.reserved[l] {
			return fmt.Errorf("block %d has no space", l)
		}
		delete(d.reserved, l)
		d.blocks[l] = bytes.Clone(data[i*d.size : (i+1)*d.size])
	}
	return nil
}

// flush writes all that is dirty back.
func (d *disk) flush(m *Mapping) error {
	for {
		w := m.Begin(0, math.MaxUint32, 0)
		if len(w.Runs) == 0 {
			return nil
		}
		if err := d.writeOut(w); err != nil {
			return err
		}
	}
}

// writeOut writes w's runs and ends it.
func (d *disk) writeOut(w *Writeback) error {
	for _, r := range w.Runs {
		if err := d.store(r, w.Bufs(r), nil); err != nil {
			return err
		}
	}
	w.End(nil)
	return nil
}

// content returns the first n bytes of the file as the device has them.
func (d *disk) content(n int) []byte {
	p := make([]byte, n)
	for l, b := range d.blocks {
		if at := int(l) * d.size; at < n {
			copy(p[at:], b)
		}
	}
	return p
}

// mappedBlocks returns the blocks that are mapped, ascending.
func (d *disk) mappedBlocks() []format.LBlock { return slices.Sorted(maps.Keys(d.blocks)) }

// quickDisk is a disk that answers in memory too, when it likes.
type quickDisk struct {
	*disk
	known func() bool
}

func (q quickDisk) TryMapped(l format.LBlock) (mapped, known bool) {
	if !q.known() {
		return false, false
	}
	mapped, _ = q.Mapped(l)
	return mapped, true
}

func (q quickDisk) TryReserve(l format.LBlock, n int) (bool, error) {
	if !q.known() {
		return false, nil
	}
	err := q.Reserve(l, n)
	return err == nil, err
}

// heapInUse returns the bytes of live objects on the heap.
func heapInUse() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
