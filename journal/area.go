package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"drydock/device"
	"drydock/format"
)

// Area is where a log lies: the blocks of the journal inode, or an external
// device. Log blocks are numbered from 0. It may be used from many goroutines.
type Area struct {
	Device    device.Device
	BlockSize int             // bytes
	Extents   []format.Extent // log block -> block of Device; from 0 on, gapless, written
	Super     uint32          // the log block that holds the journal superblock; 0 but on an external device

	blocks uint32
}

// NewArea returns the area of a journal inode with the given extents, in
// ascending order. A hole, an unwritten extent, one outside the device, and
// two that share a block are damage: a log there would overwrite something
// else, or itself.
func NewArea(dev device.Device, blockSize int, extents []format.Extent) (*Area, error) {
	if blockSize < 1<<10 || blockSize > 1<<16 || blockSize&(blockSize-1) != 0 {
		return nil, areaDamage(0, "blocks of %d bytes", blockSize)
	}
	a := &Area{Device: dev, BlockSize: blockSize, Extents: slices.Clone(extents)}
	next := uint64(0)
	for _, e := range a.Extents {
		if err := a.checkExtent(e, next); err != nil {
			return nil, err
		}
		next = e.End()
	}
	if next == 0 || next > format.MaxLBlock {
		return nil, areaDamage(0, "%d blocks", next)
	}
	a.blocks = uint32(next)
	return a, a.checkOverlap()
}

// checkExtent checks one extent, which must begin at log block next.
func (a *Area) checkExtent(e format.Extent, next uint64) error {
	end := uint64(a.Device.Size()) / uint64(a.BlockSize)
	switch {
	case uint64(e.LBlock) > next:
		return areaDamage(e.Start, "hole at log block %d", next)
	case uint64(e.LBlock) < next || e.Len == 0:
		return areaDamage(e.Start, "%d blocks at log block %d, want some at %d", e.Len, e.LBlock, next)
	case e.Unwritten:
		return areaDamage(e.Start, "log block %d was never written", e.LBlock)
	case uint64(e.Start) >= end || uint64(e.Len) > end-uint64(e.Start):
		return areaDamage(e.Start, "%d blocks, device ends at block %d", e.Len, end)
	}
	return nil
}

// checkOverlap looks for blocks that are in the log twice. It also bounds the
// length of a log by that of its device.
func (a *Area) checkOverlap() error {
	byStart := slices.Clone(a.Extents)
	slices.SortFunc(byStart, func(x, y format.Extent) int { return cmp.Compare(x.Start, y.Start) })
	for i, e := range byStart[1:] {
		if last := byStart[i]; last.Start+format.Block(last.Len) > e.Start {
			return areaDamage(e.Start, "in the log twice, at %d and %d", last.LBlock, e.LBlock)
		}
	}
	return nil
}

func areaDamage(at format.Block, detail string, args ...any) error {
	return &format.DamagedError{Structure: "journal area", Block: at, Offset: -1, Detail: fmt.Sprintf(detail, args...)}
}

// Blocks is the number of log blocks that the area has, all of them.
func (a *Area) Blocks() uint32 { return a.blocks }

// run returns where log block n lies on the device and how many log blocks
// follow one another from there on.
func (a *Area) run(n uint32) (at format.Block, length uint32) {
	i := sort.Search(len(a.Extents), func(i int) bool { return a.Extents[i].End() > uint64(n) })
	e := a.Extents[i]
	skip := n - uint32(e.LBlock)
	return e.Start + format.Block(skip), e.Len - skip
}

// offset is where block at begins on the device, in bytes.
func (a *Area) offset(at format.Block) int64 { return int64(at) * int64(a.BlockSize) }

// errPastEnd is an access past the end of the area: a mistake of the caller.
var errPastEnd = errors.New("journal: past the end of the area")

// check makes sure that the area has count blocks from n on.
func (a *Area) check(n uint32, count int) error {
	if n >= a.blocks || uint64(count) > uint64(a.blocks-n) {
		return fmt.Errorf("%w: %d blocks at %d of %d", errPastEnd, count, n, a.blocks)
	}
	return nil
}

// ReadBlock reads log block n into p, which has BlockSize bytes.
func (a *Area) ReadBlock(n uint32, p []byte) error {
	if err := a.check(n, 1); err != nil {
		return err
	}
	at, _ := a.run(n)
	return readFull(a.Device, p, a.offset(at))
}

// readFull reads all of p; there is no end of the device inside it.
func readFull(dev device.Device, p []byte, off int64) error {
	n, err := dev.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// WriteBlocks writes bufs, each of one or more whole blocks, to log block n and
// the following ones, in one operation for each run of the area where the
// device can. It may not pass the end of the area.
func (a *Area) WriteBlocks(n uint32, bufs [][]byte) error {
	total := 0
	for _, b := range bufs {
		total += len(b) / a.BlockSize
	}
	if err := a.check(n, total); err != nil {
		return err
	}
	for len(bufs) > 0 {
		at, length := a.run(n)
		head, rest := splitBufs(bufs, int(min(uint64(length), uint64(total)))*a.BlockSize)
		if _, err := device.Writev(a.Device, head, a.offset(at)); err != nil {
			return err
		}
		bufs, n, total = rest, n+length, total-int(length)
	}
	return nil
}

// splitBufs splits bufs after size bytes.
func splitBufs(bufs [][]byte, size int) (head, rest [][]byte) {
	for i, b := range bufs {
		switch {
		case size == 0:
			return bufs[:i], bufs[i:]
		case size < len(b):
			return append(slices.Clone(bufs[:i]), b[:size]), append([][]byte{b[size:]}, bufs[i+1:]...)
		}
		size -= len(b)
	}
	return bufs, nil
}

// WriteBlockFUA writes log block n and makes that write durable.
func (a *Area) WriteBlockFUA(n uint32, p []byte) error {
	if err := a.check(n, 1); err != nil {
		return err
	}
	at, _ := a.run(n)
	_, err := device.WriteFUA(a.Device, p[:a.BlockSize], a.offset(at))
	return err
}

// ReadSuperblock reads and checks the journal superblock: a *format.DamagedError
// or *format.UnsupportedError if it cannot be relied on, as for a journal that
// says to be longer than its area.
func (a *Area) ReadSuperblock() (format.JournalSuperblock, error) {
	s := make(format.JournalSuperblock, format.JournalSuperblockSize)
	at, _ := a.run(min(a.Super, a.blocks-1))
	if err := readFull(a.Device, s, a.offset(at)); err != nil {
		return nil, err
	}
	if err := format.CheckJournalSuperblock(s, a.BlockSize, uint64(a.blocks)); err != nil {
		return nil, err
	}
	if s.First() <= a.Super {
		return nil, areaDamage(at, "log begins at block %d, over its superblock at %d", s.First(), a.Super)
	}
	return s, nil
}

// WriteSuperblock seals the journal superblock and writes it with FUA. What may
// change in it lies in one sector, so that no power cut leaves half of it.
func (a *Area) WriteSuperblock(s format.JournalSuperblock) error {
	s.Seal()
	at, _ := a.run(a.Super)
	_, err := device.WriteFUA(a.Device, s[:format.JournalSuperblockSize], a.offset(at))
	return err
}
