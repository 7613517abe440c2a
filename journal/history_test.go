package journal

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"drydock/device"
	"drydock/format"
)

// Histories that show what random ones do not find soon.

// testLog is a disk of homeBlocks, and a log behind them that uses n blocks.
type testLog struct {
	dev  device.Device
	area *Area
	size int
}

// newTestLog makes a disk in memory with an empty log. lay is laid over it.
func newTestLog(blockSize int, n uint32, lay func(device.Device) device.Device) *testLog {
	dev := device.Device(device.NewMem(int64(homeBlocks+areaBlocks) * int64(blockSize)))
	p := make([]byte, blockSize)
	format.PutEmptyJournalSuperblock(p, blockSize, areaBlocks, [16]byte{5})
	format.JournalSuperblock(p).SetFirst(areaBlocks - n)
	if _, err := dev.WriteAt(p, int64(homeBlocks*blockSize)); err != nil {
		panic(err)
	}
	if lay != nil {
		dev = lay(dev)
	}
	l := &testLog{dev: dev, size: blockSize}
	l.use(dev)
	return l
}

// use takes another view of the disk.
func (l *testLog) use(dev device.Device) {
	area, err := NewArea(dev, l.size, []format.Extent{{Start: homeBlocks, Len: areaBlocks}})
	if err != nil {
		panic(err)
	}
	l.dev, l.area = dev, area
}

func (l *testLog) options() Options {
	return Options{Device: l.dev, BlockSize: l.size, Blocks: homeBlocks, Area: l.area, Wide: true, Csum: true, Poison: true}
}

// open opens the journal with rules broken, and nothing in the background.
func (l *testLog) open(f faults) *Journal {
	j, err := Open(l.options())
	if err != nil {
		panic(err)
	}
	j.faults, j.inline = f, true
	return j
}

// set changes blocks, by fill, in one Tx and makes that durable.
func set(j *Journal, fill func(b format.Block, p []byte), blocks ...format.Block) error {
	tx, err := j.Begin()
	if err != nil {
		return err
	}
	defer tx.Abort()
	for _, b := range blocks {
		p, err := tx.Change(b)
		if err != nil {
			return err
		}
		fill(b, p)
	}
	tid, err := tx.Commit()
	if err != nil {
		return err
	}
	return j.Sync(tid)
}

func fillWith(stamp uint64) func(format.Block, []byte) {
	return func(b format.Block, p []byte) { content(p, b, stamp) }
}

// escapeHistory has blocks whose content is a whole transaction for the log: it
// changes block 5, and its number is that of the first which is not in the log.
// Their copies come to lie where the log ends.
func escapeHistory(f faults) error {
	l := newTestLog(1024, 32, nil)
	j := l.open(f)
	const fake = 2 + 8
	trap := func(b format.Block, p []byte) {
		junk := make([]byte, 1024)
		switch b {
		case 11:
			d := j.log.f.NewDescriptor(p, fake, j.log.uuid)
			d.Add(5, false, j.log.f.TagSum(fake, junk))
			d.Close()
		case 12:
			copy(p, junk)
		case 13:
			j.log.f.PutCommit(p, fake, 1, 0, 0)
		default:
			content(p, b, 1)
		}
	}
	if err := set(j, trap, 10, 11, 12, 13); err != nil { // 6 log blocks: 0 to 5
		return err
	}
	for range 7 { // 28 more, up to and with 1
		if err := set(j, fillWith(8), 5, 6); err != nil {
			return err
		}
	}
	if err := l.replay(); err != nil {
		return err
	}
	return l.want(5, 8)
}

// want compares a block on the disk.
func (l *testLog) want(b format.Block, stamp uint64) error {
	got, want := make([]byte, l.size), make([]byte, l.size)
	content(want, b, stamp)
	if err := readFull(l.dev, got, int64(b)*int64(l.size)); err != nil {
		return err
	}
	if string(got) != string(want) {
		return fmt.Errorf("block %d is not what was written last", b)
	}
	return nil
}

// gate is a device that stops writes at one offset until it is opened.
type gate struct {
	device.Device
	off             int64
	stopped, opened chan struct{}
}

func newGate(dev device.Device, off int64) *gate {
	return &gate{dev, off, make(chan struct{}), make(chan struct{})}
}

// WriteAt implements device.Device.
func (g *gate) WriteAt(p []byte, off int64) (int, error) {
	select {
	case <-g.opened:
	default:
		if off == g.off {
			close(g.stopped)
			<-g.opened
		}
	}
	return g.Device.WriteAt(p, off)
}

// soon is long enough for a goroutine to do what it may do at once.
const soon = 20 * time.Millisecond

// writtenWhileFreed frees a block while a checkpoint is writing it, and writes
// data there as soon as that is allowed.
func writtenWhileFreed(f faults) error {
	var g *gate
	l := newTestLog(1024, 64, func(dev device.Device) device.Device {
		g = newGate(dev, 5*1024)
		return g
	})
	j := l.open(f)
	if err := set(j, fillWith(1), 5); err != nil {
		return err
	}
	checkpointed := make(chan error)
	go func() { checkpointed <- j.checkpoint(0, func() bool { return false }) }()
	<-g.stopped
	tx, err := j.Begin()
	if err != nil {
		return err
	}
	tx.Forget(5)
	written := make(chan error, 1)
	tx.OnDurable(func() {
		p := make([]byte, 1024)
		content(p, 5, 2)
		_, err := g.Device.WriteAt(p, 5*1024)
		written <- err
	})
	tid, err := tx.Commit()
	if err != nil {
		return err
	}
	synced := make(chan error)
	go func() { synced <- j.Sync(tid) }()
	for !j.Durable(tid) {
		runtime.Gosched()
	}
	time.Sleep(soon)
	close(g.opened)
	if err := errors.Join(<-written, <-synced, <-checkpointed); err != nil {
		return err
	}
	return l.want(5, 2)
}

// usedAgain frees a block in one Tx and makes it metadata again in the next, both
// in one transaction.
func usedAgain(f faults) error {
	l := newTestLog(1024, 64, nil)
	j := l.open(f)
	if err := set(j, fillWith(1), 5, 6); err != nil {
		return err
	}
	tx, err := j.Begin()
	if err != nil {
		return err
	}
	tx.Forget(5)
	if _, err := tx.Commit(); err != nil {
		return err
	}
	if err := set(j, fillWith(2), 5); err != nil {
		return err
	}
	if err := l.replay(); err != nil {
		return err
	}
	return l.want(5, 2)
}

// replay recovers the disk as it is now.
func (l *testLog) replay() error {
	r, err := Scan(l.area, ScanOptions{})
	if err != nil {
		return err
	}
	return errors.Join(r.Damage, r.Replay(l.dev))
}

// clockSetBack has a clock that is set back between two commits. Then a
// descriptor of the second is damaged: recovery has to see that, and not take it
// for what an earlier use of the log has left.
func clockSetBack(f faults) error {
	l := newTestLog(1024, 64, nil)
	o, sec := l.options(), uint64(1000)
	o.Now = func() (uint64, uint32) { sec -= 100; return sec, 0 }
	j, err := Open(o)
	if err != nil {
		return err
	}
	j.faults, j.inline = f, true
	for stamp := range uint64(3) {
		if err := set(j, fillWith(stamp), 5); err != nil { // 3 log blocks
			return err
		}
	}
	p := make([]byte, 1024)
	second := j.log.first + 3
	if err := l.area.ReadBlock(second, p); err != nil {
		return err
	}
	p[20] ^= 1
	if err := l.area.WriteBlocks(second, [][]byte{p}); err != nil {
		return err
	}
	r, err := Scan(l.area, ScanOptions{})
	if err != nil {
		return err
	}
	if r.Damage == nil {
		return fmt.Errorf("recovery drops transactions, and finds no fault")
	}
	return nil
}
