package journal_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/extent"
	"drydock/journal"
)

// logKind is a layout of the log, and what else its superblock says.
type logKind struct {
	csum  int // version of the checksums, 0 to 3
	wide  bool
	async bool
	fast  uint32 // blocks for fast commits; 0: no such feature
	old   bool   // superblock of type 3, without features
}

// logged is a block in the log, as it is to be at home.
type logged struct {
	home format.Block
	data []byte
}

// logTx is a transaction as it is written into a log: revoke blocks, then
// descriptors, then the commit block.
type logTx struct {
	tid      format.Tid
	sec      uint64
	blocks   []logged
	revokes  []format.Block
	noCommit bool
}

// placed says in which log blocks the parts of a transaction lie.
type placed struct {
	descriptors, data, revokes []uint32
	commit                     uint32
}

// logMaker writes logs. It is the writing half that the tests of recovery have
// of their own; package format says what bytes that takes.
type logMaker struct {
	t    testing.TB
	area *journal.Area
	s    format.JournalSuperblock
	f    format.JournalFormat
	at   uint32
	tags int // most tags in a descriptor; 0: as many as there is room for
}

var logUUID = [16]byte{0x10, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0x1f}

// newLogMaker makes the journal in area one of the given kind that starts at log
// block start with transaction tid.
func newLogMaker(t testing.TB, area *journal.Area, k logKind, start uint32, tid format.Tid) *logMaker {
	block := make([]byte, area.BlockSize)
	require.NoError(t, area.ReadBlock(area.Super, block))
	if _, ok := format.ReadJournalHeader(block); !ok {
		format.PutEmptyJournalSuperblock(block, area.BlockSize, area.Blocks(), logUUID)
		format.JournalSuperblock(block).SetFirst(area.Super + 1)
	}
	s := format.JournalSuperblock(block)
	k.apply(s)
	s.SetStart(start)
	s.SetSequence(tid)
	m := &logMaker{t: t, area: area, s: s, f: s.Format(), at: start}
	m.putSuper()
	return m
}

// apply sets the features of a kind.
func (k logKind) apply(s format.JournalSuperblock) {
	if k.old {
		format.PutJournalHeader(s, format.JournalHeader{Type: format.JournalSuperblockV1})
		return
	}
	incompat := format.JournalIncompatRevoke
	for f, on := range map[format.JournalIncompat]bool{
		format.JournalIncompat64Bit:       k.wide,
		format.JournalIncompatAsyncCommit: k.async,
		format.JournalIncompatCsumV2:      k.csum == 2,
		format.JournalIncompatCsumV3:      k.csum == 3,
		format.JournalIncompatFastCommit:  k.fast > 0,
	} {
		if on {
			incompat |= f
		}
	}
	s.SetFeatureIncompat(incompat)
	s.SetFeatureCompat(0)
	if k.csum == 1 {
		s.SetFeatureCompat(format.JournalCompatChecksum)
	}
	if k.csum >= 2 {
		s.SetChecksumType(format.JournalCrc32c)
	}
	s.SetNumFCBlocks(k.fast)
}

// putSuper writes the journal superblock.
func (m *logMaker) putSuper() { require.NoError(m.t, m.area.WriteSuperblock(m.s)) }

// put writes the next log block.
func (m *logMaker) put(block []byte) uint32 {
	n := m.at
	require.NoError(m.t, m.area.WriteBlocks(n, [][]byte{block}))
	if m.at++; m.at == m.s.LogEnd() {
		m.at = m.s.First()
	}
	return n
}

// block returns an empty block.
func (m *logMaker) block() []byte { return make([]byte, m.f.BlockSize) }

// tx writes a transaction.
func (m *logMaker) tx(x logTx) (p placed) {
	for rest := x.revokes; len(rest) > 0; {
		b := m.block()
		rest = rest[m.f.PutRevokes(b, x.tid, rest):]
		p.revokes = append(p.revokes, m.put(b))
	}
	crc := uint32(0xffffffff)
	for rest := x.blocks; len(rest) > 0; {
		rest, crc = m.descriptor(x.tid, rest, crc, &p)
	}
	if !x.noCommit {
		b := m.block()
		m.f.PutCommit(b, x.tid, x.sec, 7, crc)
		p.commit = m.put(b)
	}
	return p
}

// descriptor writes a descriptor and its blocks, and returns what is left.
func (m *logMaker) descriptor(tid format.Tid, rest []logged, crc uint32, p *placed) ([]logged, uint32) {
	b := m.block()
	d := m.f.NewDescriptor(b, tid, m.s.UUID())
	var copies [][]byte
	for len(rest) > 0 && !d.Full() && (m.tags == 0 || len(copies) < m.tags) {
		data := append([]byte(nil), rest[0].data...)
		escape := format.EscapeJournalBlock(data)
		d.Add(rest[0].home, escape, m.f.TagSum(tid, data))
		copies, rest = append(copies, data), rest[1:]
	}
	d.Close()
	p.descriptors = append(p.descriptors, m.put(b))
	crc = format.JournalCRC(crc, b)
	for _, data := range copies {
		p.data = append(p.data, m.put(data))
		crc = format.JournalCRC(crc, data)
	}
	return rest, crc
}

// change lets fn change a block of the log.
func (m *logMaker) change(n uint32, fn func(b []byte)) {
	b := m.block()
	require.NoError(m.t, m.area.ReadBlock(n, b))
	fn(b)
	require.NoError(m.t, m.area.WriteBlocks(n, [][]byte{b}))
}

// flip changes one byte of a block of the log.
func (m *logMaker) flip(n uint32, off int) { m.change(n, func(b []byte) { b[off] ^= 0x40 }) }

// filled returns a block of the given size, all of whose bytes are v.
func filled(size int, v byte) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = v
	}
	return b
}

// homeBlocks is how many blocks of a memLog are not log.
const homeBlocks = 64

// memLog returns the area of an empty journal of blocks log blocks in memory;
// blocks 0 to 63 of the device are for homes.
func memLog(t testing.TB, blockSize int, blocks uint32) *journal.Area {
	dev := device.NewMem(int64(homeBlocks+blocks) * int64(blockSize))
	a, err := journal.NewArea(dev, blockSize, []format.Extent{{Len: blocks, Start: homeBlocks}})
	require.NoError(t, err)
	return a
}

// scan is journal.Scan of a log that can be read.
func scan(t testing.TB, a *journal.Area) *journal.Recovery {
	t.Helper()
	r, err := journal.Scan(a, journal.ScanOptions{Blocks: homeBlocks, InodeSize: 256})
	require.NoError(t, err)
	return r
}

// replayed returns what a replay writes, by home block, after checking that
// Replay writes the same, and that Finish ends with an empty log.
func replayed(t testing.TB, a *journal.Area) map[format.Block]byte {
	t.Helper()
	r := scan(t, a)
	got := map[format.Block]byte{}
	home := device.NewMem(homeBlocks * int64(a.BlockSize))
	require.NoError(t, r.Replay(home))
	p, q := make([]byte, a.BlockSize), make([]byte, a.BlockSize)
	last := -1
	for b := range r.Blocks() {
		require.Greater(t, int(b), last)
		last = int(b)
		ok, err := r.ReadBlock(b, p)
		require.NoError(t, err)
		require.True(t, ok)
		_, err = home.ReadAt(q, int64(b)*int64(a.BlockSize))
		require.NoError(t, err)
		require.Equal(t, p, q)
		got[b] = p[len(p)-1]
	}
	require.Len(t, got, r.Len())
	require.NoError(t, r.Finish())
	s, err := a.ReadSuperblock()
	require.NoError(t, err)
	require.Zero(t, s.Start())
	require.Equal(t, r.NextTid(), s.Sequence())
	return got
}

// devBlocks reads blocks of a device.
type devBlocks struct {
	dev  device.Device
	size int
}

func (d devBlocks) ReadBlock(b format.Block, p []byte) error {
	_, err := d.dev.ReadAt(p[:d.size], int64(b)*int64(d.size))
	return err
}

// imageSuper returns the superblock of a file system.
func imageSuper(t testing.TB, dev device.Device) format.Superblock {
	sb := make(format.Superblock, format.SuperblockSize)
	_, err := dev.ReadAt(sb, format.SuperblockOffset)
	require.NoError(t, err)
	require.NoError(t, format.ValidateSuperblock(sb))
	return sb
}

// imageExtents returns the extents of a file system's journal inode.
func imageExtents(t testing.TB, dev device.Device) []format.Extent {
	sb := imageSuper(t, dev)
	geo, err := format.GeometryOf(sb)
	require.NoError(t, err)
	desc := make([]byte, geo.BlockSize)
	read := devBlocks{dev, geo.BlockSize}
	require.NoError(t, read.ReadBlock(geo.DescBlock(0), desc))
	raw := make(format.Inode, geo.InodeSize)
	ino := format.Ino(sb.JournalInum()) // all images have it in group 0
	table := format.GroupDesc(desc[:geo.DescSize]).InodeTable()
	_, err = dev.ReadAt(raw, int64(table)*int64(geo.BlockSize)+int64(ino-1)*int64(geo.InodeSize))
	require.NoError(t, err)
	if raw.LinksCount() == 0 { // E14: the inode is lost, its map is in the superblock
		raw = backupInode(sb)
	}
	var extents []format.Extent
	for e, err := range extent.NewFile(read, geo, format.ChecksumsOf(sb), ino, raw).Map() {
		require.NoError(t, err)
		extents = append(extents, e)
	}
	return extents
}

// backupInode returns an inode with the map that the superblock keeps.
func backupInode(sb format.Superblock) format.Inode {
	raw, words := make(format.Inode, sb.InodeSize()), sb.JnlBlocks()
	for i, v := range words[:15] {
		binary.LittleEndian.PutUint32(raw.IBlock()[4*i:], v)
	}
	if _, err := format.ReadExtentHeader(raw.IBlock()); err == nil {
		raw.SetFlags(format.InodeExtents)
	}
	raw.SetMode(format.ModeRegular | 0o600)
	raw.SetSize(uint64(words[15])<<32 | uint64(words[16]))
	return raw
}

// imageArea returns the area of a file system's journal inode.
func imageArea(t testing.TB, dev device.Device) *journal.Area {
	sb := imageSuper(t, dev)
	a, err := journal.NewArea(dev, sb.BlockSize(), imageExtents(t, dev))
	require.NoError(t, err)
	return a
}

// setRecover sets or clears needs_recovery.
func setRecover(t testing.TB, dev device.Device, on bool) {
	sb := imageSuper(t, dev)
	sb.SetFeatureIncompat(sb.FeatureIncompat() &^ format.IncompatRecover)
	if on {
		sb.SetFeatureIncompat(sb.FeatureIncompat() | format.IncompatRecover)
	}
	format.SealSuperblock(sb)
	_, err := dev.WriteAt(sb, format.SuperblockOffset)
	require.NoError(t, err)
}
