package cache

import (
	"bytes"

	"drydock/format"
)

// zeros is what is written for zeros, as often as needed.
var zeros [maxBlockSize]byte

// Zero makes the n bytes at off zeros. Blocks that are neither in memory nor mapped
// read as zeros as it is, and stay as they are, without space. It waits as WriteAt
// does.
func (m *Mapping) Zero(off, n int64) error {
	_, err := m.zero(off, n, always)
	return err
}

// ZeroWithin is Zero for callers that hold a lock which writeback needs: instead of
// waiting for memory it returns ErrNoRoom, and how many bytes are done.
func (m *Mapping) ZeroWithin(off, n int64) (done int64, err error) { return m.zero(off, n, butRoom) }

func (m *Mapping) zero(off, n int64, wait patience) (int64, error) {
	if err := m.check(n, off); err != nil {
		return 0, err
	}
	for at := off; at < off+n; {
		next := min(off+n, (at>>m.shift+1)<<m.shift)
		took, err := m.zeroIn(at, next, wait)
		if err != nil {
			return at + int64(took) - off, err
		}
		at = next
	}
	return n, nil
}

// zeroIn makes the bytes [from, to), in one block, zeros.
func (m *Mapping) zeroIn(from, to int64, wait patience) (int, error) {
	if data, err := m.hasData(from, to); err != nil || !data {
		return 0, err
	}
	return m.write(zeros[:to-from], from, wait)
}

// hasData tells whether the bytes [from, to), in one block, may be something else
// than zeros.
func (m *Mapping) hasData(from, to int64) (bool, error) {
	l := format.LBlock(from >> m.shift)
	if data, known := m.dataInMemory(l, from, to); known {
		return data, nil
	}
	return m.src.Mapped(l)
}

// dataInMemory is hasData for a block that is in memory; known is false if it is
// not.
func (m *Mapping) dataInMemory(l format.LBlock, from, to int64) (data, known bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	f := m.tree.get(m.unitOf(l))
	if f == nil || !f.bits(uptodate).get(f.index(l)) {
		return false, false
	}
	return !isZero(f.buf[from-f.start() : to-f.start()]), true
}

// isZero tells whether all bytes of p are 0; p is at most a block.
func isZero(p []byte) bool { return bytes.Equal(p, zeros[:len(p)]) }
