package journal_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/journal"
)

// fastMaker writes fast commits, block by block, by the rules of Linux: a commit
// begins in a new block, TAIL and PAD reach to the end of theirs.
type fastMaker struct {
	m     *logMaker
	block uint32 // next
	end   uint32
	buf   []byte // what the present block holds
	crc   uint32
}

// newFastMaker begins at the start of the area for fast commits.
func newFastMaker(m *logMaker) *fastMaker {
	first, end := m.s.FastCommitArea()
	return &fastMaker{m: m, block: first, end: end}
}

// record returns a record.
func record(tag uint16, value []byte) []byte {
	b := binary.LittleEndian.AppendUint16(nil, tag)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(value)))
	return append(b, value...)
}

// le32s returns the bytes of little-endian words.
func le32s(words ...uint32) (b []byte) {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// put writes the block that is full.
func (f *fastMaker) put() {
	require.Len(f.m.t, f.buf, f.m.f.BlockSize)
	require.Less(f.m.t, f.block, f.end, "the area is full")
	require.NoError(f.m.t, f.m.area.WriteBlocks(f.block, [][]byte{f.buf}))
	f.block++
	f.buf = nil
}

// pad fills the rest of the block.
func (f *fastMaker) pad() {
	b := record(format.FCPad, make([]byte, f.m.f.BlockSize-len(f.buf)-4))
	f.crc = format.Crc32c(f.crc, b)
	f.buf = append(f.buf, b...)
	f.put()
}

// add appends a record; it pads the block first if that has no room for the
// record and a PAD behind it.
func (f *fastMaker) add(b []byte) {
	if len(f.buf)+len(b)+4 > f.m.f.BlockSize {
		f.pad()
	}
	f.crc = format.Crc32c(f.crc, b)
	f.buf = append(f.buf, b...)
}

// head adds a HEAD.
func (f *fastMaker) head(tid format.Tid, features uint32) {
	f.add(record(format.FCHead, le32s(features, uint32(tid))))
}

// unlink adds an UNLINK of inode n, whose name has the given length.
func (f *fastMaker) unlink(n uint32, length int) {
	f.add(record(format.FCUnlink, append(le32s(2, n), filled(length, 'n')...)))
}

// tail completes the fast commit.
func (f *fastMaker) tail(tid format.Tid) {
	if len(f.buf)+12 > f.m.f.BlockSize {
		f.pad()
	}
	room := f.m.f.BlockSize - len(f.buf)
	b := binary.LittleEndian.AppendUint16(nil, format.FCTail)
	b = binary.LittleEndian.AppendUint16(b, uint16(room-4))
	b = append(b, le32s(uint32(tid))...)
	b = append(b, le32s(format.Crc32c(f.crc, b))...)
	f.buf = append(append(f.buf, b...), make([]byte, room-12)...)
	f.crc = 0
	f.put()
}

// unlinked returns the inodes of the UNLINKs that FastCommits yields.
func unlinked(t testing.TB, r *journal.Recovery) (inodes []uint32) {
	for rec, err := range r.FastCommits() {
		require.NoError(t, err)
		require.Equal(t, "UNLINK", rec.Name())
		inodes = append(inodes, uint32(rec.Dentry().Ino))
	}
	require.Len(t, inodes, r.FastRecords)
	return inodes
}

// fastLog is a log with one transaction, 10, and an area for fast commits.
func fastLog(t testing.TB) (*journal.Area, *fastMaker) {
	area, m := logOf(t, logKind{csum: 3, fast: 30}, 1024, 1100, 1)
	m.tx(oneBlock(m, 10, 1))
	return area, newFastMaker(m)
}

// Fast commits of the transaction after the last one, up to the first that is
// not complete: its blocks are missing, are not what they were, or are left from
// a transaction before.
func TestFastCommits(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000 / slowdown) {
		r := rand.New(rand.NewPCG(seed, 9))
		area, f := fastLog(t)
		if r.IntN(2) == 0 { // what an older transaction left
			f.head(10, 0)
			for f.block < f.end-1 {
				f.unlink(99, 1+r.IntN(255))
				if r.IntN(10) == 0 {
					f.tail(10)
				}
			}
			f = newFastMaker(f.m)
		}
		var want []uint32
		broken := r.IntN(6) // the fast commit that is not complete
		next := uint32(100)
		for i := range 1 + r.IntN(6) {
			first := f.block
			if i == 0 {
				f.head(11, 0)
			}
			for range 1 + r.IntN(12) {
				f.unlink(next, 1+r.IntN(255))
				if i < broken {
					want = append(want, next)
				}
				next++
			}
			tid := format.Tid(11)
			if i == broken && r.IntN(3) == 0 {
				tid += []format.Tid{1, 1<<32 - 1, 1 << 31}[r.IntN(3)]
				f.tail(tid)
				continue
			}
			f.tail(tid)
			if i == broken {
				at := []int{0, 1, 2, 3, 8, 9, 10, 11}[r.IntN(8)] // a header; a tid or an inode
				f.m.flip(first+uint32(r.IntN(int(f.block-first))), at)
			}
		}
		got := scan(t, area)
		require.NoError(t, got.Damage, "seed %d", seed)
		require.Equal(t, want, unlinked(t, got), "seed %d, fast commit %d of %d", seed, broken, next)
	}
}

// An area that is full to its last block holds nothing else, and nothing is read
// beyond it. (Linux and e2fsck take that for an error.)
func TestFastCommitAreaFull(t *testing.T) {
	t.Parallel()
	for complete := range 2 {
		area, f := fastLog(t)
		f.head(11, 0)
		f.unlink(1, 5)
		f.tail(11)
		for f.block < f.end-1 {
			f.unlink(2, 200)
		}
		want := []uint32{1}
		if complete == 1 {
			for range 4 {
				f.unlink(2, 100)
			}
			f.tail(11)
			require.Equal(t, f.end, f.block)
			want = nil
			for range unlinked(t, scan(t, area))[1:] {
				want = append(want, 2)
			}
			want = append([]uint32{1}, want...)
			require.Greater(t, len(want), 100)
		}
		require.Equal(t, want, unlinked(t, scan(t, area)))
	}
}

// The first record of all must be a HEAD of the right transaction; features that
// it asks for are refused, but only if it is that.
func TestFastCommitHead(t *testing.T) {
	t.Parallel()
	area, f := fastLog(t)
	f.unlink(1, 5)
	f.tail(11)
	require.Empty(t, unlinked(t, scan(t, area)))

	for _, tid := range []format.Tid{10, 12, 11 + 1<<31} {
		area, f = fastLog(t)
		f.head(tid, 1)
		f.unlink(1, 5)
		f.tail(11)
		require.Empty(t, unlinked(t, scan(t, area)))
	}
	area, f = fastLog(t)
	f.head(11, 0x10)
	f.tail(11)
	_, err := journal.Scan(area, journal.ScanOptions{})
	require.ErrorIs(t, err, format.ErrUnsupported)
	require.ErrorContains(t, err, "features 0x10")

	area, f = fastLog(t) // a tail first
	f.tail(11)
	f.unlink(1, 5)
	f.tail(11)
	require.Empty(t, unlinked(t, scan(t, area)))
}

// Fast commits belong to the transaction that was not completed, whatever ended
// the log; where nothing is replayed they do not count.
func TestFastCommitsAfterDamage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spoil func(m *logMaker, p placed)
		want  []uint32
	}{
		{func(m *logMaker, p placed) { m.flip(p.commit, 0x11) }, []uint32{7}},
		{func(m *logMaker, p placed) { m.flip(p.commit, 0) }, []uint32{7}},
		{func(m *logMaker, p placed) { m.flip(p.descriptors[0], 700) }, nil},
		{func(*logMaker, placed) {}, nil},
	} {
		area, f := fastLog(t)
		p := f.m.tx(oneBlock(f.m, 11, 2))
		f.head(11, 0)
		f.unlink(7, 3)
		f.tail(11)
		c.spoil(f.m, p)
		require.Equal(t, c.want, unlinked(t, scan(t, area)))
	}
}

// The log does not go on with a number that a fast commit has: it would belong
// to the new transaction.
func TestFastCommitsNeverComeBack(t *testing.T) {
	t.Parallel()
	area, f := fastLog(t)
	f.head(11, 0)
	f.unlink(1, 5)
	f.tail(11)
	require.Equal(t, format.Tid(12), scan(t, area).NextTid())
	f.head(13, 0)
	f.unlink(1, 5)
	f.tail(14)
	r := scan(t, area)
	require.Equal(t, []uint32{1}, unlinked(t, r))
	require.Equal(t, format.Tid(15), r.NextTid())
	require.NoError(t, r.Replay(device.NewMem(homeBlocks*1024)))
	require.NoError(t, r.Finish())
	require.False(t, scan(t, area).Dirty)
}

// What follows a TAIL in its block belongs to the next fast commit.
func TestFastCommitShortTail(t *testing.T) {
	t.Parallel()
	for complete := range 2 {
		area, f := fastLog(t)
		f.head(11, 0)
		f.unlink(1, 5)
		tail := append(binary.LittleEndian.AppendUint16(nil, format.FCTail), 8, 0)
		tail = append(tail, le32s(11)...)
		f.buf = append(append(f.buf, tail...), le32s(format.Crc32c(f.crc, tail))...)
		f.crc = 0
		f.unlink(2, 5)
		if complete == 0 {
			f.pad()
		} else {
			f.tail(11)
		}
		require.Equal(t, []uint32{1, 2}[:1+complete], unlinked(t, scan(t, area)))
	}
}

// An inode in a fast commit has no more bytes than one of the file system.
func TestFastCommitInodeSize(t *testing.T) {
	t.Parallel()
	for _, size := range []int{128, 256} {
		area, f := fastLog(t)
		f.head(11, 0)
		f.add(record(format.FCInode, append(le32s(12), make([]byte, 160)...)))
		f.tail(11)
		r, err := journal.Scan(area, journal.ScanOptions{InodeSize: size})
		require.NoError(t, err)
		require.Equal(t, size >= 160, r.FastRecords == 1)
	}
}
