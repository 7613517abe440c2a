package journal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/journal"
)

// golden is a log with an outcome that was observed with e2fsck. Blocks are
// named by letters; each is filled with the low byte of the transaction that
// logged it.
type golden struct {
	id    string
	kinds []logKind
	start format.Tid
	build func(g *goldenLog)

	want    map[byte]byte // letter -> content that a replay leaves
	end     format.Tid    // first transaction not replayed
	next    format.Tid    // s_sequence after e2fsck
	later   format.Tid    // if not 0, s_sequence after ours: the log holds more than e2fsck minds
	damage  bool          // Linux refuses it
	failed  format.Tid    // and why: the commit of this one
	skipped int           // or so many copies
	exit    int           // of e2fsck -fy
}

// goldenLog writes the log of a golden.
type goldenLog struct {
	*logMaker
	home func(letter byte) format.Block
}

// tx writes a transaction that logs the blocks named in letters.
func (g *goldenLog) tx(tid format.Tid, sec uint64, letters string, revokes ...byte) placed {
	return g.logMaker.tx(g.spec(tid, sec, letters, revokes...))
}

func (g *goldenLog) spec(tid format.Tid, sec uint64, letters string, revokes ...byte) logTx {
	x := logTx{tid: tid, sec: sec}
	for i := range letters {
		x.blocks = append(x.blocks, logged{g.home(letters[i]), filled(g.f.BlockSize, byte(tid))})
	}
	for _, letter := range revokes {
		x.revokes = append(x.revokes, g.home(letter))
	}
	return x
}

var (
	allKinds = []logKind{
		{old: true}, {}, {wide: true}, {csum: 1}, {csum: 1, wide: true}, {csum: 2}, {csum: 2, wide: true},
		{csum: 3}, {csum: 3, wide: true}, {csum: 1, async: true},
	}
	// revokingKinds are those that may have revoke blocks.
	revokingKinds = allKinds[1:]
	sealedKinds   = []logKind{{csum: 2}, {csum: 2, wide: true}, {csum: 3}, {csum: 3, wide: true}}
)

// goldens are the cases E1 to E12, in the words of their source, and some more.
var goldens = []golden{
	{
		id: "E1 bad tag checksum in the first transaction", kinds: sealedKinds,
		build: func(g *goldenLog) {
			p := g.tx(10, 100, "A")
			g.tx(11, 101, "B")
			g.flip(p.data[0], 40)
		},
		want: map[byte]byte{'B': 11}, end: 12, next: 10, later: 13, damage: true, skipped: 1, exit: 1,
	},
	{
		id: "E1b bad tag checksum, an older copy is good", kinds: sealedKinds,
		build: func(g *goldenLog) {
			g.tx(10, 100, "AB")
			p := g.tx(11, 101, "CAB")
			g.flip(p.data[1], 40)
		},
		want: map[byte]byte{'A': 10, 'B': 11, 'C': 11}, end: 12, next: 10, later: 13, damage: true, skipped: 1, exit: 1,
	},
	{
		id: "E2 bad descriptor, newer time", kinds: sealedKinds,
		build: func(g *goldenLog) {
			g.tx(10, 100, "A")
			p := g.tx(11, 100, "B")
			g.flip(p.descriptors[0], 700)
		},
		want: map[byte]byte{}, end: 10, next: 10, later: 12, damage: true, exit: 1,
	},
	{
		id: "E3 bad descriptor, older time", kinds: sealedKinds,
		build: func(g *goldenLog) {
			g.tx(10, 100, "A")
			p := g.tx(11, 99, "B")
			g.flip(p.descriptors[0], 700)
		},
		want: map[byte]byte{'A': 10}, end: 11, next: 12,
	},
	{
		id: "E4 bad CRC in the middle", kinds: []logKind{{csum: 1}, {csum: 1, wide: true}},
		build: func(g *goldenLog) {
			g.tx(10, 100, "A")
			p := g.tx(11, 101, "B")
			g.tx(12, 102, "C")
			g.flip(p.data[0], 40)
		},
		want: map[byte]byte{'A': 10}, end: 11, next: 12, later: 13, damage: true, failed: 11,
	},
	{
		id: "E4 bad commit block in the middle", kinds: sealedKinds,
		build: func(g *goldenLog) {
			g.tx(10, 100, "A")
			p := g.tx(11, 101, "B")
			g.tx(12, 102, "C")
			g.flip(p.commit, 0x11)
		},
		want: map[byte]byte{'A': 10}, end: 11, next: 12, later: 13, damage: true, failed: 11,
	},
	{
		id: "E4 bad commit block, older time", kinds: sealedKinds,
		build: func(g *goldenLog) {
			g.tx(10, 100, "A")
			p := g.tx(11, 99, "B")
			g.flip(p.commit, 0x11)
		},
		want: map[byte]byte{'A': 10}, end: 11, next: 12,
	},
	{
		id: "E5 async, bad CRC in the last transaction", kinds: []logKind{{csum: 1, async: true}, {csum: 1, wide: true, async: true}},
		build: func(g *goldenLog) {
			g.tx(10, 100, "A")
			p := g.tx(11, 101, "B")
			g.flip(p.data[0], 40)
		},
		want: map[byte]byte{'A': 10}, end: 11, next: 12,
	},
	{
		id: "E5b async, bad CRC in the middle", kinds: []logKind{{csum: 1, async: true}, {csum: 1, wide: true, async: true}},
		build: func(g *goldenLog) {
			g.tx(10, 100, "A")
			p := g.tx(11, 101, "B")
			g.tx(12, 102, "C")
			g.flip(p.data[0], 40)
		},
		want: map[byte]byte{'A': 10}, end: 11, next: 12, later: 13, damage: true, failed: 11,
	},
	{
		id: "E6 revoked later", kinds: revokingKinds,
		build: func(g *goldenLog) {
			g.tx(10, 100, "AB")
			g.tx(11, 101, "C", 'A')
		},
		want: map[byte]byte{'B': 10, 'C': 11}, end: 12, next: 13,
	},
	{
		id: "E7 revoked, journaled again", kinds: revokingKinds,
		build: func(g *goldenLog) {
			g.tx(10, 100, "A")
			g.tx(11, 101, "B", 'A')
			g.tx(12, 102, "A")
		},
		want: map[byte]byte{'A': 12, 'B': 11}, end: 13, next: 14,
	},
	{
		id: "E8 journaled and revoked in one transaction", kinds: revokingKinds,
		build: func(g *goldenLog) { g.tx(10, 100, "A", 'A') },
		want:  map[byte]byte{}, end: 11, next: 12,
	},
	{
		id: "E9 block begins with the magic", kinds: allKinds,
		build: func(g *goldenLog) {
			x := g.spec(10, 100, "AB")
			format.UnescapeJournalBlock(x.blocks[0].data)
			g.logMaker.tx(x)
		},
		want: map[byte]byte{'A': 10, 'B': 10}, end: 11, next: 12,
	},
	{
		id: "E10 revoked by what was not committed", kinds: revokingKinds,
		build: func(g *goldenLog) {
			g.tx(10, 100, "A")
			x := g.spec(11, 101, "B", 'A')
			x.noCommit = true
			g.logMaker.tx(x)
		},
		want: map[byte]byte{'A': 10}, end: 11, next: 12,
	},
	{
		id: "E11 numbers wrap", kinds: revokingKinds, start: 0xffffffff,
		build: func(g *goldenLog) {
			g.tx(0xffffffff, 100, "AB")
			g.tx(0, 101, "C", 'B')
		},
		want: map[byte]byte{'A': 0xff, 'C': 0}, end: 1, next: 2,
	},
	{
		id: "E11 the last number is the last", kinds: allKinds, start: 0xffffffff,
		build: func(g *goldenLog) { g.tx(0xffffffff, 100, "A") },
		want:  map[byte]byte{'A': 0xff}, end: 0, next: 1,
	},
	{
		id: "E11 newer across half of the numbers", kinds: revokingKinds, start: 0x7fffffff,
		build: func(g *goldenLog) {
			g.tx(0x7fffffff, 100, "AB")
			g.tx(0x80000000, 101, "B", 'A', 'B')
			g.tx(0x80000001, 102, "B")
		},
		want: map[byte]byte{'B': 1}, end: 0x80000002, next: 0x80000003,
	},
	{
		id: "E12 an old transaction with the next number", kinds: allKinds,
		build: func(g *goldenLog) {
			g.tx(10, 100, "A")
			g.tx(11, 101, "B")
			g.tx(12, 50, "C")
		},
		want: map[byte]byte{'A': 10, 'B': 11, 'C': 12}, end: 13, next: 14,
	},
	{
		id: "E29 no commit block", kinds: allKinds,
		build: func(g *goldenLog) {
			g.tx(10, 100, "A")
			x := g.spec(11, 101, "BC")
			x.noCommit = true
			g.logMaker.tx(x)
		},
		want: map[byte]byte{'A': 10}, end: 11, next: 12,
	},
	{
		id: "block of no known type", kinds: allKinds,
		build: func(g *goldenLog) {
			g.tx(10, 100, "A")
			b := g.block()
			format.PutJournalHeader(b, format.JournalHeader{Type: 6, Sequence: 11})
			g.put(b)
			g.tx(11, 101, "B")
		},
		want: map[byte]byte{'A': 10}, end: 11, next: 12,
	},
	{
		id: "last copy in one transaction counts", kinds: allKinds,
		build: func(g *goldenLog) {
			x := g.spec(10, 100, "AA")
			x.blocks[0].data = filled(g.f.BlockSize, 1)
			g.logMaker.tx(x)
		},
		want: map[byte]byte{'A': 10}, end: 11, next: 12,
	},
	{
		id: "commit times use all 64 bits", kinds: sealedKinds,
		build: func(g *goldenLog) {
			g.tx(10, 1<<63-1, "A")
			p := g.tx(11, 1<<63, "B")
			g.flip(p.descriptors[0], 700)
		},
		want: map[byte]byte{}, end: 10, next: 10, later: 12, damage: true, exit: 1,
	},
}

// write writes the log of c into area.
func (c *golden) write(t testing.TB, area *journal.Area, k logKind, home func(byte) format.Block) *logMaker {
	start := c.start
	if start == 0 {
		start = 10
	}
	m := newLogMaker(t, area, k, area.Super+1, start)
	c.build(&goldenLog{m, home})
	return m
}

// check looks at what Scan says of the log of c.
func (c *golden) check(t testing.TB, r *journal.Recovery) {
	require.True(t, r.Dirty)
	require.Equal(t, c.end, r.End)
	require.Equal(t, int(c.end-r.First), r.Transactions)
	require.Equal(t, c.damage, r.Damage != nil, "%v", r.Damage)
	if c.damage {
		require.ErrorIs(t, r.Damage, format.ErrDamaged)
	}
	require.Equal(t, c.failed, r.Failed)
	require.Equal(t, c.failed != 0, r.HasFailed)
	require.Len(t, r.Skipped, c.skipped)
	want := c.next
	if c.later != 0 {
		want = c.later
	}
	require.Equal(t, want, r.NextTid())
}

// The cases of the reference, in every layout of the log that can have them.
func TestGolden(t *testing.T) {
	t.Parallel()
	home := func(letter byte) format.Block { return format.Block(letter - 'A' + 5) }
	for _, c := range goldens {
		for _, k := range c.kinds {
			sizes := []int{1024, 4096}
			if k == (logKind{csum: 3}) {
				sizes = append(sizes, 65536)
			}
			for _, size := range sizes {
				area := memLog(t, size, 1024)
				c.write(t, area, k, home)
				func() {
					defer func() {
						if t.Failed() {
							t.Logf("%s: %+v, blocks of %d bytes", c.id, k, size)
						}
					}()
					c.check(t, scan(t, area))
					want := map[format.Block]byte{}
					for letter, v := range c.want {
						want[home(letter)] = v
					}
					require.Equal(t, want, replayed(t, area))
				}()
			}
		}
	}
}
