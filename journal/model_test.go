package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"drydock/device"
	"drydock/format"
)

// The model is a file system that does nothing but change blocks. Block 0 says
// whether recovery is needed. Block 1, the root, is changed by every Tx and says
// which one was the last. The others are free, metadata or data, by turns.
const (
	flagBlock  = 0
	rootBlock  = 1
	firstFree  = 2
	homeBlocks = 40
	areaBlocks = format.MinJournalBlocks
)

// content is what the model writes: the stamp, different in each place, or, for
// some stamps, a block that looks like one of the journal's own.
func content(p []byte, b format.Block, stamp uint64) {
	for i := 0; i < len(p); i += 8 {
		binary.LittleEndian.PutUint64(p[i:], stamp<<20^uint64(b)<<8^uint64(i)<<44)
	}
	if stamp%7 == 3 {
		format.PutJournalHeader(p, format.JournalHeader{Type: format.JournalCommit, Sequence: format.Tid(stamp >> 8 % 40)})
	}
	binary.LittleEndian.PutUint64(p[16:], stamp)
}

// state is what blocks hold after a Tx: stamps; 0: free, anything.
type state [homeBlocks]uint64

// crashCase is one run of the model.
type crashCase struct {
	seed       uint64
	blockSize  int
	logBlocks  uint32 // that the log uses, of those that the area has
	csum, wide bool
	lives      int
	txs        int  // in each life
	random     int  // states at each moment, besides all and nothing
	background bool // commits and checkpoints happen in the background
	external   bool // the log is on a device of its own
	tid        format.Tid
	faults     faults
	rule       func(c *crashCase, life int) device.Rule
	policy     CopyPolicy
	late       bool // checkpoints only when the log is full
	pieces     bool // the log lies in three places
}

// model is a run.
type model struct {
	crashCase
	r      *rand.Rand
	disk   *crashDisk
	rec    *device.Recorder
	dev    device.Device // rec, or the home part of it
	area   *Area
	j      *Journal
	states []state // after each Tx; [0]: at the start
	base   int     // number of states[0]
	stamp  uint64
	buf    []byte

	fired  bool // an error was injected
	aborts int  // calls of OnAbort
	clock  atomic.Uint64

	mu      sync.Mutex
	now     state
	meta    [homeBlocks]bool
	pending [homeBlocks]bool // freed, and not to be used again yet
	judged  int
}

func (c crashCase) String() string {
	return fmt.Sprintf("seed %d, %d blocks of %d bytes, csum %t, wide %t, external %t, background %t", c.seed, c.logBlocks, c.blockSize, c.csum, c.wide, c.external, c.background)
}

// run does the case and returns the first violation, and how many states were
// looked at.
func (c crashCase) run() (int, error) {
	m := &model{crashCase: c, r: rand.New(rand.NewPCG(c.seed, 77)), buf: make([]byte, c.blockSize)}
	m.disk = newCrashDisk(int64(homeBlocks+areaBlocks) * int64(c.blockSize))
	m.format()
	for life := range c.lives {
		if err := m.life(life); err != nil {
			return m.judged, fmt.Errorf("%v, life %d: %w", c, life, err)
		}
	}
	return m.judged, nil
}

// format makes the disk that the first life finds.
func (m *model) format() {
	m.write(m.disk, rootBlock, 0)
	super := make([]byte, m.blockSize)
	format.PutEmptyJournalSuperblock(super, m.blockSize, areaBlocks, [16]byte{1, 2, 3, byte(m.seed)})
	s := format.JournalSuperblock(super)
	s.SetFirst(areaBlocks - m.logBlocks)
	s.SetSequence(m.tid)
	m.disk.WriteAt(super, int64(homeBlocks*m.blockSize))
	m.disk.fold()
	m.now = state{}
	m.states, m.base = []state{m.now}, 0
}

func (m *model) write(dev device.Device, b format.Block, stamp uint64) error {
	p := make([]byte, m.blockSize)
	content(p, b, stamp)
	_, err := dev.WriteAt(p, int64(b)*int64(m.blockSize))
	return err
}

// setFlag says on the disk that recovery is needed, or not.
func (m *model) setFlag(dev device.Device, stamp uint64) error {
	if err := m.write(dev, flagBlock, stamp); err != nil {
		return err
	}
	return dev.Flush()
}

// newArea returns where the log lies on a device that is the whole disk.
func (m *model) newArea(dev device.Device) (*Area, error) {
	if !m.pieces {
		return NewArea(dev, m.blockSize, []format.Extent{{Start: homeBlocks, Len: areaBlocks}})
	}
	const second, third = areaBlocks - 47, areaBlocks - 11 // in log blocks
	return NewArea(dev, m.blockSize, []format.Extent{
		{Start: homeBlocks, Len: second},
		{LBlock: second, Start: homeBlocks + second + areaBlocks - third, Len: third - second},
		{LBlock: third, Start: homeBlocks + second, Len: areaBlocks - third},
	})
}

// life opens the disk, changes it, and crashes or closes.
func (m *model) life(life int) error {
	lower := device.Device(m.disk.clone())
	if m.rule != nil {
		lower = device.NewFault(lower, m.noticed(m.rule(&m.crashCase, life)))
	}
	m.rec = device.NewRecorder(lower)
	if err := m.open(); err != nil {
		return err
	}
	closed, err := m.work()
	if err == nil {
		err = m.checkAbort()
	}
	if err != nil {
		return err
	}
	return m.crash(closed)
}

// noticed is rule, whose errors are noticed.
func (m *model) noticed(rule device.Rule) device.Rule {
	m.fired = false
	return func(op device.Op) error {
		err := rule(op)
		m.fired = m.fired || err != nil
		return err
	}
}

// checkAbort makes sure that OnAbort was called if it had to be.
func (m *model) checkAbort() error {
	want := 0
	if m.j.Err() != nil {
		want = 1
	}
	if m.aborts != want {
		return fmt.Errorf("%d calls of OnAbort, want %d", m.aborts, want)
	}
	return nil
}

// open opens the journal. The life's log may be on a device of its own, which
// then is another view of the same disk, so that one trace has it all.
func (m *model) open() error {
	m.dev, m.aborts = m.rec, 0
	logDev := device.Device(m.rec)
	if m.external {
		logDev = &otherDevice{m.rec}
	}
	var err error
	if m.area, err = m.newArea(logDev); err != nil {
		return err
	}
	m.j, err = Open(Options{
		Device: m.dev, BlockSize: m.blockSize, Blocks: homeBlocks, Area: m.area, Wide: m.wide, Csum: m.csum,
		Memory: 1, Poison: true, Policy: m.policy, BeforeLog: func() error { return m.setFlag(m.dev, 1) },
		Now: func() (uint64, uint32) { return m.clock.Add(1), 0 }, OnAbort: func(error) { m.aborts++ },
	})
	if err != nil {
		return err
	}
	m.j.inline, m.j.late, m.j.faults = !m.background, m.late, m.faults
	return nil
}

// otherDevice looks to the journal like a device that is not the home device. A
// mark stands for its flush, which covers nothing of the home device's.
type otherDevice struct{ *device.Recorder }

// Flush implements device.Device.
func (d *otherDevice) Flush() error {
	d.Mark(flushOfOther)
	return nil
}

// work does Txs and what lies between them, and perhaps closes. Errors of an
// aborted journal end it; the crash then shows what is left.
func (m *model) work() (closed bool, err error) {
	for range m.txs {
		if err := m.tx(); err != nil {
			return false, m.expected(err)
		}
		if err := m.between(); err != nil {
			return false, m.expected(err)
		}
	}
	if m.r.IntN(2) == 0 {
		if err := m.j.Close(); err != nil {
			return false, m.expected(err)
		}
		m.mark("sync", m.last())
		if err := m.setFlag(m.dev, 0); err != nil {
			return false, m.expected(err)
		}
		m.mark("closed", m.last())
		return true, nil
	}
	m.j.background.Wait()
	if m.fired && m.j.Err() == nil {
		return false, errors.New("an error was injected, and nothing says so")
	}
	return false, nil
}

// errInjected is what fault rules give.
var errInjected = errors.New("injected")

// expected swallows what comes of injected errors. The contents in memory must
// be those of the last Tx all the same.
func (m *model) expected(err error) error {
	if m.rule == nil || !errors.Is(err, errInjected) {
		return err
	}
	m.j.background.Wait()
	if m.j.Err() == nil { // the model's own write has failed
		return nil
	}
	if !errors.Is(m.j.Err(), ErrAborted) {
		return fmt.Errorf("aborted with %w", m.j.Err())
	}
	return m.compare(m.j.ReadBlock, m.states[len(m.states)-1])
}

// last is the number of the last Tx.
func (m *model) last() int { return m.base + len(m.states) - 1 }

func (m *model) mark(what string, tx int) { m.rec.Mark(what + " " + strconv.Itoa(tx)) }

// between does what a program does between its changes.
func (m *model) between() error {
	switch n := m.r.IntN(20); {
	case n < 5:
		if err := m.j.SyncAll(); err != nil {
			return err
		}
		m.mark("sync", m.last())
	case n < 7:
		m.j.StartCommit()
	case n < 8:
		return m.j.Checkpoint()
	}
	return nil
}

// tx does one Tx.
func (m *model) tx() error {
	tx, err := m.j.Begin()
	if err != nil {
		return err
	}
	defer tx.Abort()
	m.mu.Lock()
	next, meta := m.now, m.meta
	m.mu.Unlock()
	var freed []format.Block
	n := m.last() + 1
	if err := m.changeTo(tx, &next, rootBlock, uint64(n), false); err != nil {
		return err
	}
	for range m.r.IntN(m.j.MaxTx() - 1) {
		b := format.Block(firstFree + m.r.IntN(homeBlocks-firstFree))
		if err := m.step(tx, b, &next, &meta, &freed); err != nil {
			return err
		}
	}
	tx.OnDurable(func() { m.unpend(freed) })
	if m.r.IntN(8) == 0 {
		return nil // aborted
	}
	m.mark("tx", n)
	tx.OnMerge(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.now, m.meta = next, meta
		for _, b := range freed {
			m.pending[b] = true
		}
	})
	m.states = append(m.states, next)
	if _, err = tx.Commit(); err != nil {
		m.states = m.states[:len(m.states)-1]
	}
	return err
}

func (m *model) unpend(freed []format.Block) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range freed {
		m.pending[b] = false
	}
}

func (m *model) isPending(b format.Block) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pending[b]
}

// step does something that the block allows.
func (m *model) step(tx *Tx, b format.Block, next *state, meta *[homeBlocks]bool, freed *[]format.Block) error {
	m.stamp++
	stamp := m.stamp<<8 | 0x80
	taken := next[b] != 0 || slices.Contains(*freed, b)
	pending := m.isPending(b)
	free := !taken && !pending
	switch op := m.r.IntN(10); {
	case next[b] != 0 && meta[b] && op < 5:
		return m.changeTo(tx, next, b, stamp, false)
	case next[b] != 0 && meta[b] && op < 6: // freed, and used again as metadata
		tx.Forget(b)
		return m.changeTo(tx, next, b, stamp, true)
	case next[b] != 0 && meta[b]:
		tx.Forget(b)
		next[b] = 0
		*freed = append(*freed, b)
	case next[b] != 0 && op < 5: // data
		next[b] = 0
		*freed = append(*freed, b)
	case next[b] != 0:
	case free && op < 5, !taken && pending && op < 2: // the journal does not mind
		meta[b] = true
		return m.changeTo(tx, next, b, stamp, true)
	case free:
		meta[b], next[b] = false, stamp
		return m.write(m.dev, b, stamp)
	}
	return nil
}

// changeTo changes a block of metadata, or makes a new one.
func (m *model) changeTo(tx *Tx, next *state, b format.Block, stamp uint64, fresh bool) error {
	get := tx.Change
	if fresh {
		get = tx.New
	}
	p, err := get(b)
	if err != nil {
		return err
	}
	content(p, b, stamp)
	next[b] = stamp
	return nil
}

// crash looks at all states that the life can have left, and goes on with one
// of them.
func (m *model) crash(closed bool) error {
	trace := m.rec.Trace()
	w := &crashWalk{disk: m.disk, r: m.r}
	if m.external {
		w.other = int64(homeBlocks * m.blockSize)
	}
	var survivor *crashDisk
	var marks []string
	seen := 0
	err := w.walk(trace, m.random, func(d *crashDisk) error {
		m.judged++
		if seen++; m.r.IntN(seen) == 0 {
			survivor, marks = d.clone(), slices.Clone(w.marks)
		}
		if _, err := m.judge(d, w.marks); err != nil {
			return fmt.Errorf("after %d marks, %v: %w", len(w.marks), w.marks[max(0, len(w.marks)-3):], err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if closed && m.r.IntN(4) > 0 || survivor == nil {
		for _, p := range w.pending {
			w.disk.WriteAt(p.e.Data, p.e.Off)
		}
		w.disk.fold()
		survivor, marks = w.disk, w.marks
	}
	return m.resume(survivor, marks)
}

// resume recovers a disk, for the next life.
func (m *model) resume(d *crashDisk, marks []string) error {
	k, err := m.judge(d, marks)
	if err != nil {
		return err
	}
	d.fold()
	m.disk = d
	m.now, m.meta, m.pending = m.states[k-m.base], [homeBlocks]bool{}, [homeBlocks]bool{}
	for b, stamp := range m.now {
		m.meta[b] = stamp != 0 // data may become metadata too
	}
	m.states, m.base = []state{m.now}, k
	return nil
}

// judge recovers the disk as a file system would, and compares it with what it
// may hold: the state after one Tx, not older than the last that was synced.
func (m *model) judge(d *crashDisk, marks []string) (int, error) {
	if err := m.recover(d); err != nil {
		return 0, err
	}
	lo, hi := m.base, m.base
	for _, mark := range marks {
		what, number, _ := strings.Cut(mark, " ")
		n, _ := strconv.Atoi(number)
		if what == "tx" {
			hi = max(hi, n)
		} else {
			lo = max(lo, n)
		}
	}
	root := make([]byte, m.blockSize)
	if _, err := d.ReadAt(root, int64(rootBlock*m.blockSize)); err != nil {
		return 0, err
	}
	k := int(binary.LittleEndian.Uint64(root[16:]))
	if k < lo || k > hi {
		return 0, fmt.Errorf("state is that after Tx %d, want %d to %d", k, lo, hi)
	}
	read := func(b format.Block, p []byte) error {
		_, err := d.ReadAt(p, int64(b)*int64(m.blockSize))
		return err
	}
	if err := m.compare(read, m.states[k-m.base]); err != nil {
		return 0, fmt.Errorf("state after Tx %d: %w", k, err)
	}
	return k, nil
}

// recover does what a file system does when it is opened.
func (m *model) recover(d *crashDisk) error {
	flag := make([]byte, m.blockSize)
	if _, err := d.ReadAt(flag, 0); err != nil {
		return err
	}
	area, err := m.newArea(d)
	if err != nil {
		return err
	}
	r, err := Scan(area, ScanOptions{Blocks: homeBlocks})
	if err != nil {
		return err
	}
	if r.Damage != nil {
		return r.Damage
	}
	if binary.LittleEndian.Uint64(flag[16:]) == 0 { // the log counts for nothing
		return r.Discard()
	}
	if err := r.Replay(d); err != nil {
		return err
	}
	if err := r.Finish(); err != nil {
		return err
	}
	return m.setFlag(d, 0)
}

// compare compares all blocks in use with a state.
func (m *model) compare(read func(format.Block, []byte) error, want state) error {
	got, right := make([]byte, m.blockSize), make([]byte, m.blockSize)
	for b, stamp := range want {
		if stamp == 0 {
			continue
		}
		if err := read(format.Block(b), got); err != nil {
			return err
		}
		content(right, format.Block(b), stamp)
		if string(got) != string(right) {
			return fmt.Errorf("block %d has stamp %#x, want %#x", b, binary.LittleEndian.Uint64(got[16:]), stamp)
		}
	}
	return nil
}

// randomCase is the case of a seed.
func randomCase(seed uint64) crashCase {
	r := rand.New(rand.NewPCG(seed, 5))
	sizes := []int{1024, 1024, 1024, 2048, 4096, 8192}
	return crashCase{
		seed: seed, blockSize: sizes[r.IntN(len(sizes))], logBlocks: uint32(32 + r.IntN(60)),
		csum: r.IntN(3) > 0, wide: r.IntN(2) == 0, lives: 3, txs: 8 + r.IntN(20), random: 2, tid: format.Tid(r.Uint32N(3)) - 1, late: r.IntN(2) == 0, pieces: seed%4 == 1,
	}
}
