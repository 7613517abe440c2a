package build

import (
	"sync"

	"drydock/format"
	"drydock/internal/mkfs"
)

const (
	// jobBytes is the most data, with padding, that a job has: enough to make a
	// write cheap, and little enough to stay in the CPU's cache from the read
	// to the write. A multiple of every block size.
	jobBytes = 512 << 10

	// jobPieces is the most pieces that a job has.
	jobPieces = 256

	// pageBytes is the unit of the host's page cache. Padding up to it costs
	// nothing, since the host has to clear it otherwise.
	pageBytes = 4096
)

// piece is a run of a file's data that is a run on the device too.
type piece struct {
	node   uint32
	off    int64 // in the file
	n      int   // bytes
	at     int   // place in the job's buffer
	dev    int64 // place on the device
	size   int64 // of the file
	first  bool  // begins the file's data
	shared int   // bytes from its start that are on the device already
}

// whole reports whether the piece is all of its file.
func (p *piece) whole() bool { return int64(p.n) == p.size }

// ends reports whether the piece reaches the end of its file.
func (p *piece) ends() bool { return p.off+int64(p.n) == p.size }

// job is work that one worker does at a time: some pieces, in the order of the
// layout, and a buffer that has room for all of them.
type job struct {
	seq    uint64
	pieces []piece
	used   int    // bytes of buf
	buf    []byte // jobBytes, and a byte to see that the last file has grown
}

func newJob() job {
	return job{pieces: make([]piece, 0, jobPieces), buf: allocPages(jobBytes + 1)}
}

// free gives the buffer back.
func (j *job) free() {
	freePages(j.buf)
	j.buf = nil
}

// data returns the place of a piece's data in the buffer.
func (j *job) data(p *piece) []byte { return j.buf[p.at : p.at+p.n] }

// cutter cuts the files of a layout into jobs. How they are cut depends on
// the layout alone.
type cutter struct {
	layout  layout
	content *mkfs.Content
	block   int64
	pad     int // data is padded to a multiple of it

	mu      sync.Mutex      // guards what follows
	files   []uint32        // not begun yet
	node    uint32          // the file begun last
	first   bool            // nothing of node is cut yet
	extents []format.Extent // of node, not cut yet
	buf     []format.Extent // what extents is a part of
	seq     uint64
	stopped bool
}

func newCutter(l layout, c *mkfs.Content) cutter {
	bs := l.BlockSize()
	return cutter{layout: l, content: c, block: int64(bs), pad: min(bs, pageBytes), files: l.Files()}
}

// next makes j the next job. It is false when there is none.
func (c *cutter) next(j *job) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	j.pieces, j.used = j.pieces[:0], 0
	for !c.stopped && len(j.pieces) < jobPieces && c.begin() && c.cut(j) {
	}
	j.seq = c.seq
	c.seq++
	return len(j.pieces) > 0
}

// stop lets next find no more jobs.
func (c *cutter) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
}

// begin makes sure that there is an extent to cut. It is false at the end.
func (c *cutter) begin() bool {
	for len(c.extents) == 0 {
		if len(c.files) == 0 {
			return false
		}
		c.node, c.files, c.first = c.files[0], c.files[1:], true
		c.buf = c.layout.Extents(c.node, c.buf[:0])
		c.extents = c.buf
	}
	return true
}

// cut moves as much of the first extent into j as there is room for. It is
// false when j is full. An extent is cut only at the end of a job that has
// nothing else, so that a file that fits lies in one job.
func (c *cutter) cut(j *job) bool {
	e := &c.extents[0]
	p := piece{node: c.node, off: int64(e.LBlock) * c.block, dev: int64(e.Start) * c.block, at: j.used, first: c.first}
	p.size = int64(c.content.Nodes[c.node].Size)
	left := min(int64(e.Len)*c.block, p.size-p.off)
	if left > int64(jobBytes-j.used) {
		if j.used > 0 {
			return false
		}
		left = jobBytes
	}
	p.n = int(left)
	c.advance(e, left)
	if left > 0 {
		j.pieces = append(j.pieces, p)
		j.used += padded(p.n, c.pad)
		c.first = false
	}
	return true
}

// advance takes n bytes off the front of the first extent.
func (c *cutter) advance(e *format.Extent, n int64) {
	blocks := (n + c.block - 1) / c.block
	if n <= 0 || blocks >= int64(e.Len) || int64(e.LBlock)*c.block+n >= int64(c.content.Nodes[c.node].Size) {
		c.extents = c.extents[1:]
		return
	}
	e.LBlock += format.LBlock(blocks)
	e.Start += format.Block(blocks)
	e.Len -= uint32(blocks)
}

// padded rounds n up to a multiple of unit, a power of two.
func padded(n, unit int) int { return (n + unit - 1) &^ (unit - 1) }
