package journal_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/oracle"
	"drydock/journal"
)

// fault is what is wrong with a transaction in the log.
type fault int

const (
	fine       fault = iota
	noCommit         // the commit block was never written
	otherTid         // the commit block has another number
	badTag           // a copy does not match its tag; of v1, its transaction
	badHead          // a descriptor or revoke block does not match its checksum
	badCommit        // the commit block does not match its checksum
	tornCommit       // only the first sector of the commit block is there
	lostHead         // the first block has no magic
	numberFaults
)

// randomTx is a transaction with what is wrong.
type randomTx struct {
	logTx
	fault fault
	bad   int // which copy, descriptor or revoke block
}

// randomLog is a log of transactions with successive numbers.
type randomLog struct {
	kind  logKind
	size  int // of blocks
	start uint32
	txs   []randomTx
}

// kinds of the random logs: the goldens' without the old superblock, which has
// no revoke blocks.
var randomKinds = append(revokingKinds, logKind{csum: 2, wide: true, async: true}, logKind{csum: 3, async: true}, logKind{async: true})

// newRandomLog draws a log.
func newRandomLog(r *rand.Rand, homes int) randomLog {
	l := randomLog{kind: randomKinds[r.IntN(len(randomKinds))], size: 1024, start: 1 + uint32(r.IntN(1023))}
	tid := []format.Tid{1, 1000, 1<<31 - 3, 1<<32 - 3, format.Tid(r.Uint32())}[r.IntN(5)]
	sec := r.Uint64() >> r.IntN(60)
	for range 1 + r.IntN(8) {
		x := randomTx{logTx: logTx{tid: tid, sec: sec}}
		for range r.IntN(1 << r.IntN(8)) {
			data := filled(l.size, byte(r.Uint32()))
			if r.IntN(4) == 0 {
				format.UnescapeJournalBlock(data)
			}
			x.blocks = append(x.blocks, logged{format.Block(r.IntN(homes)), data})
		}
		for range r.IntN(1 << r.IntN(6)) {
			x.revokes = append(x.revokes, format.Block(r.IntN(homes)))
		}
		if r.IntN(4) == 0 {
			x.fault, x.bad = fault(r.IntN(int(numberFaults))), r.IntN(1<<10)
		}
		l.txs = append(l.txs, x)
		tid++
		if sec += uint64(r.IntN(3)); r.IntN(6) == 0 {
			sec -= uint64(r.IntN(5))
		}
	}
	return l
}

// write writes the log into area.
func (l *randomLog) write(t testing.TB, area *journal.Area, home func(format.Block) format.Block, tags int) {
	m := newLogMaker(t, area, l.kind, l.start, l.txs[0].tid)
	m.tags = tags
	for _, x := range l.txs {
		moved := x.logTx
		moved.blocks = nil
		for _, b := range x.blocks {
			moved.blocks = append(moved.blocks, logged{home(b.home), b.data})
		}
		moved.revokes = nil
		for _, b := range x.revokes {
			moved.revokes = append(moved.revokes, home(b))
		}
		moved.noCommit = x.fault == noCommit
		p := m.tx(moved)
		l.spoil(m, x, p)
	}
}

// heads are the blocks of a transaction that have a checksum in their tail.
func (p placed) heads() []uint32 {
	return append(append([]uint32(nil), p.revokes...), p.descriptors...)
}

// spoil makes the fault of a transaction.
func (l *randomLog) spoil(m *logMaker, x randomTx, p placed) {
	switch x.fault {
	case otherTid:
		m.change(p.commit, func(b []byte) { format.PutJournalHeader(b, format.JournalHeader{Type: 2, Sequence: x.tid - 5}) })
	case badTag:
		if len(p.data) > 0 {
			m.flip(p.data[x.bad%len(p.data)], 9)
		}
	case badHead:
		if heads := p.heads(); len(heads) > 0 && m.f.Csum >= 2 {
			m.flip(heads[x.bad%len(heads)], m.f.BlockSize-1)
		}
	case badCommit:
		m.flip(p.commit, 0x12)
	case tornCommit:
		m.change(p.commit, func(b []byte) { copy(b[512:], filled(len(b)-512, 0xEE)) })
	case lostHead:
		first := append(p.heads(), p.commit)[0]
		m.change(first, func(b []byte) { b[0] = 0 })
	}
}

// outcome is what a recovery does.
type outcome struct {
	end     format.Tid
	blocks  map[format.Block]byte // the last byte of each
	damage  bool
	failed  bool
	skipped int
}

// model says what a recovery of l must do. It knows the transactions, not the
// bytes.
func (l *randomLog) model() outcome {
	end, fatal, failed := l.modelEnd()
	o := outcome{end: l.txs[0].tid + format.Tid(end), blocks: map[format.Block]byte{}, damage: fatal || failed, failed: failed}
	if fatal {
		o.end = l.txs[0].tid
		return o
	}
	for i, x := range l.txs[:end] {
		for k, b := range x.blocks {
			switch {
			case l.revokedFrom(b.home, i, end):
			case l.kind.csum >= 2 && x.fault == badTag && k == x.bad%len(x.blocks):
				o.skipped++
				o.damage = true
			default:
				o.blocks[b.home] = b.data[len(b.data)-1]
			}
		}
	}
	return o
}

// revokedFrom tells whether transaction i, or one up to end, revokes a block.
func (l *randomLog) revokedFrom(home format.Block, i, end int) bool {
	for _, x := range l.txs[i:end] {
		for _, b := range x.revokes {
			if b == home {
				return true
			}
		}
	}
	return false
}

// modelEnd returns the number of transactions that are replayed.
func (l *randomLog) modelEnd() (end int, fatal, failed bool) {
	last, cut := uint64(0), -1
	for i, x := range l.txs {
		heads := len(x.revokes) + len(x.blocks)
		if x.fault == lostHead || x.fault == noCommit || x.fault == otherTid {
			return l.ended(i, cut, false)
		}
		if x.fault == badHead && heads > 0 && l.kind.csum >= 2 {
			if x.sec >= last {
				return 0, true, false
			}
			return l.ended(i, cut, false)
		}
		if cut >= 0 {
			return l.ended(i, cut, true)
		}
		if l.commitIsBad(x) {
			if x.sec < last {
				return i, false, false
			}
			if !l.kind.async {
				return i, false, true
			}
			cut = i
		}
		last = x.sec
	}
	return l.ended(len(l.txs), cut, false)
}

// ended is where a log ends of which transaction cut, if any, has been damaged.
func (l *randomLog) ended(i, cut int, failed bool) (int, bool, bool) {
	if cut >= 0 {
		return cut, false, failed
	}
	return i, false, false
}

// commitIsBad tells whether the commit block of x, or what it sums up, does not
// match.
func (l *randomLog) commitIsBad(x randomTx) bool {
	switch l.kind.csum {
	case 0:
		return false
	case 1:
		return x.fault == badCommit || x.fault == badTag && len(x.blocks) > 0
	}
	return x.fault == badCommit
}

// scatteredLog is memLog with the log's blocks in pieces all over the device.
func scatteredLog(t testing.TB, r *rand.Rand, blocks uint32) *journal.Area {
	var extents []format.Extent
	for at := uint32(0); at < blocks; {
		n := min(blocks-at, 1+uint32(r.IntN(300)))
		extents = append(extents, format.Extent{LBlock: format.LBlock(at), Len: n})
		at += n
	}
	next := format.Block(homeBlocks)
	for _, i := range r.Perm(len(extents)) {
		extents[i].Start = next
		next += format.Block(extents[i].Len) + format.Block(r.IntN(3))
	}
	a, err := journal.NewArea(device.NewMem(int64(next)*1024), 1024, extents)
	require.NoError(t, err)
	return a
}

// A recovery does what the model says, for logs of all kinds and with all kinds
// of damage. Reports that this covers: B118 (csum v3, 64bit, a journal in
// pieces, several transactions, revokes, an incomplete end), K13, K14, K31, E05,
// E07.
func TestRandomLogs(t *testing.T) {
	t.Parallel()
	seeds := uint64(2000 / slowdown)
	if oracle.IsLong() {
		seeds = 50000
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		area := scatteredLog(t, r, 1024)
		l := newRandomLog(r, homeBlocks)
		l.write(t, area, func(b format.Block) format.Block { return b }, r.IntN(20))
		want := l.model()
		got := scan(t, area)
		what := fmt.Sprintf("seed %d: %+v, %v", seed, l.kind, got.Damage)
		require.Equal(t, want.end, got.End, what)
		require.Equal(t, want.damage, got.Damage != nil, what)
		require.Equal(t, want.failed, got.HasFailed, what)
		require.Len(t, got.Skipped, want.skipped, what)
		require.Equal(t, want.blocks, replayed(t, area), what)
		requireFresh(t, area, got.NextTid(), what)
	}
}

// requireFresh makes sure that no block in a log can continue one that begins
// with transaction next.
func requireFresh(t testing.TB, a *journal.Area, next format.Tid, what string) {
	p := make([]byte, a.BlockSize)
	for n := a.Super + 1; n < a.Blocks(); n++ {
		require.NoError(t, a.ReadBlock(n, p))
		if h, ok := format.ReadJournalHeader(p); ok && uint32(h.Sequence-next) < a.Blocks() {
			t.Fatalf("%s: the log goes on with %d, but holds %d", what, next, h.Sequence)
		}
	}
}

// withoutZero takes damage of the commit of transaction 0 out of the log: Linux and
// e2fsck note the number of the first transaction that is not replayed, with 0 for
// none, and go on as if nothing were wrong. Here a flag says whether there is one.
func (l *randomLog) withoutZero() {
	for i, x := range l.txs {
		if x.tid == 0 && (x.fault == badCommit || x.fault == badTag) {
			l.txs[i].fault = fine
		}
	}
}

// e2fsck does the same, where it is known not to be different: it knows nothing
// of torn commit blocks, and is silent about damage in the middle of a log of v2
// or v3 with ASYNC_COMMIT.
func TestRandomLogsAreE2fsck(t *testing.T) {
	t.Parallel()
	base := mkImage(t, "8M", "-b", "1024", "-J", "size=1")
	seeds := uint64(40)
	if oracle.IsLong() {
		seeds = 2500
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { compareWithE2fsck(t, base, seed) })
	}
}

// compareWithE2fsck lets e2fsck and us recover the random log of a seed.
func compareWithE2fsck(t *testing.T, base string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	l := newRandomLog(r, homeBlocks)
	l.kind.async = l.kind.async && l.kind.csum < 2
	l.withoutZero()
	for i, x := range l.txs {
		if x.fault == tornCommit {
			l.txs[i].fault = fine
		}
	}
	theirs := copyFile(t, base)
	openImage(t, theirs, func(dev *device.File) {
		l.write(t, imageArea(t, dev), func(b format.Block) format.Block { return spareBlocks + b }, r.IntN(20))
		setRecover(t, dev, true)
	})
	ours := copyFile(t, theirs)
	exit, out := program(t, "e2fsck", "-y", "-E", "journal_only", theirs)
	require.Less(t, exit, 8, out)
	got := recoverImage(t, ours)
	what := fmt.Sprintf("%+v, %v; e2fsck says %s", l.kind, got.Damage, out)
	x, y := loadImage(t, theirs), loadImage(t, ours)
	require.Equal(t, spares(t, x), spares(t, y), what)
	s, err := imageArea(t, x).ReadSuperblock()
	require.NoError(t, err)
	if got.Damage == nil {
		require.Equal(t, got.End+1, s.Sequence(), what)
		require.False(t, got.NextTid().Before(s.Sequence()), what)
	}
}

// spares returns the last bytes of the spare blocks of an image.
func spares(t testing.TB, dev device.Device) map[format.Block]byte {
	m := map[format.Block]byte{}
	p := make([]byte, 1024)
	for b := range format.Block(homeBlocks) {
		_, err := dev.ReadAt(p, int64(spareBlocks+b)*1024)
		require.NoError(t, err)
		m[b] = p[1023]
	}
	maps.DeleteFunc(m, func(_ format.Block, v byte) bool { return v == 0 })
	return m
}
