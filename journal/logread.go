package journal

import (
	"fmt"

	"drydock/format"
)

// logWindow is how many bytes of the log are read at a time.
const logWindow = 64 << 10

// logReader reads blocks of an area, mostly in ascending order.
type logReader struct {
	a     *Area
	buf   []byte // a whole number of blocks
	first uint32 // log block at the start of buf
	n     uint32 // blocks in buf that are valid
}

func newLogReader(a *Area) *logReader {
	return &logReader{a: a, buf: make([]byte, max(logWindow, a.BlockSize))}
}

// block returns log block n, which the area has; it is valid until the next call.
func (l *logReader) block(n uint32) ([]byte, error) {
	if n-l.first >= l.n {
		if err := l.fill(n); err != nil {
			return nil, err
		}
	}
	off := int(n-l.first) * l.a.BlockSize
	return l.buf[off : off+l.a.BlockSize], nil
}

// fill reads block n and, where that succeeds, some that follow it. A block that
// cannot be read fails only those who ask for it.
func (l *logReader) fill(n uint32) error {
	l.n = 0
	if err := l.a.check(n, 1); err != nil {
		return err
	}
	at, run := l.a.run(n)
	l.first = n
	want := min(run, uint32(len(l.buf)/l.a.BlockSize))
	if readFull(l.a.Device, l.buf[:int(want)*l.a.BlockSize], l.a.offset(at)) == nil {
		l.n = want
		return nil
	}
	err := readFull(l.a.Device, l.buf[:l.a.BlockSize], l.a.offset(at))
	if err == nil {
		l.n = 1
	}
	return err
}

// cursor goes along the log, block by block, once around at most: a log is no
// longer than its area, whatever its blocks say.
type cursor struct {
	log        *logReader
	first, end uint32 // the log goes from first to end-1, then on at first
	at         uint32 // next block
	left       uint32 // blocks of the round that are left
	tid        format.Tid
}

func newCursor(log *logReader, s format.JournalSuperblock) cursor {
	c := cursor{log: log, first: s.First(), end: s.LogEnd(), at: s.Start(), tid: s.Sequence()}
	c.left = c.end - c.first
	return c
}

// skip goes on by n blocks; it is false if the round ends before.
func (c *cursor) skip(n uint32) bool {
	if n > c.left {
		c.left = 0
		return false
	}
	c.left -= n
	if c.at += n; c.at >= c.end || c.at < n { // beyond the end, or beyond 2^32
		c.at -= c.end - c.first
	}
	return true
}

// next reads the next block and goes on by one. It is nil where the log ends:
// at a block that has no header, or that of another transaction.
func (c *cursor) next() ([]byte, error) {
	at := c.at
	if !c.skip(1) {
		return nil, nil
	}
	b, err := c.log.block(at)
	if err != nil {
		return nil, err
	}
	if h, ok := format.ReadJournalHeader(b); !ok || h.Sequence != c.tid {
		return nil, nil
	}
	return b, nil
}

// prior is the log block before the next one.
func (c *cursor) prior() uint32 {
	if c.at == c.first {
		return c.end - 1
	}
	return c.at - 1
}

// blockType returns the type of a block with a header.
func blockType(b []byte) uint32 {
	h, _ := format.ReadJournalHeader(b)
	return h.Type
}

// countTags returns how many blocks follow a descriptor.
func countTags(f format.JournalFormat, descriptor []byte) (n uint32) {
	for range f.Tags(descriptor) {
		n++
	}
	return n
}

// visitor is what a pass does with a descriptor or revoke block. For a
// descriptor the cursor is at the first block that follows it.
type visitor func(c *cursor, block []byte) error

// transactions goes over the transactions up to end, not included, whose extent
// pass SCAN has found.
func (c *cursor) transactions(end format.Tid, f format.JournalFormat, descriptor, revoke visitor) error {
	for c.tid != end {
		b, err := c.next()
		switch {
		case err != nil:
			return err
		case b == nil:
			return fmt.Errorf("journal: read again, the log ends in transaction %d, not before %d", c.tid, end)
		}
		switch blockType(b) {
		case format.JournalDescriptor:
			n := countTags(f, b)
			err = descriptor(c, b)
			c.skip(n)
		case format.JournalRevoke:
			err = revoke(c, b)
		case format.JournalCommit:
			c.tid++
		}
		if err != nil {
			return err
		}
	}
	return nil
}
