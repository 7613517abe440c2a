package cache

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"drydock/format"
	"drydock/internal/oracle"

	"github.com/stretchr/testify/require"
)

// model says what a Mapping over a disk should hold, in the simplest way: the file
// as one slice of bytes, and what is known of each block.
type model struct {
	t    testing.TB
	r    *rand.Rand
	d    *disk
	b    *Budget
	m    *Mapping
	o    MappingOptions
	rest *Mapping // another mapping, which takes memory away
	past *disk

	bytes   []byte
	state   []blockState
	flights []*flight
	bad     map[format.LBlock]bool // cannot be read now
}

type blockState struct {
	dirty bool
	life  int     // discards so far
	in    *flight // that has taken the current life's content
}

// flight is a Writeback that has not ended, and what it held when it began.
type flight struct {
	w    *Writeback
	held [][]byte // a run's content each
	life map[format.LBlock]int
}

const modelBytes = 320 << 10

func newModel(t testing.TB, seed uint64) *model {
	r := rand.New(rand.NewPCG(seed, 3))
	size := 1 << (10 + r.IntN(7))
	x := &model{t: t, r: r, d: newDisk(size), bytes: make([]byte, modelBytes), bad: map[format.LBlock]bool{}}
	x.state = make([]blockState, modelBytes/size)
	x.b = usedBudget(x.t)
	if r.IntN(3) > 0 {
		x.o.FolioSize = max(size, 4096) << r.IntN(3)
		if r.IntN(3) == 0 {
			x.o.FolioSize = max(size, 4096<<r.IntN(9))
		}
	}
	x.o.WholeFolio = r.IntN(8) == 0
	if r.IntN(3) == 0 {
		x.d.free = r.IntN(len(x.state) + 1)
	}
	if r.IntN(2) == 0 {
		x.fillDisk()
	}
	x.d.failFill = x.fails
	x.m = NewMapping(x.b, size, x.source(), x.o)
	x.past = newDisk(4096)
	x.rest = NewMapping(x.b, 4096, x.past, MappingOptions{})
	return x
}

// source returns the disk as one of the kinds of Source there are.
func (x *model) source() Source {
	odds := x.r.IntN(3)
	if odds == 0 {
		return x.d
	}
	return quickDisk{x.d, func() bool { return x.r.IntN(odds) == 0 }}
}

// fillDisk gives the file some mapped blocks.
func (x *model) fillDisk() {
	for l := range x.state {
		if x.r.IntN(2) == 0 {
			x.random(x.block(l))
			x.d.blocks[format.LBlock(l)] = bytes.Clone(x.block(l))
		}
	}
}

func (x *model) fails(l format.LBlock, n int) error {
	for b := l; b < l+format.LBlock(n); b++ {
		if x.bad[b] {
			return syscall.EIO
		}
	}
	return nil
}

func (x *model) block(l int) []byte { return x.bytes[l*x.d.size : (l+1)*x.d.size] }

// random fills p with bytes that are not zero, so that a block left out shows.
func (x *model) random(p []byte) {
	k := byte(x.r.Uint32())
	for i := range p {
		p[i] = byte(i)*7 + k | 1
	}
}

// span returns a random range, at least one byte long: of any alignment, or of
// whole blocks.
func (x *model) span() (from, to int) {
	length := 1 + x.r.IntN([]int{1, 10, x.d.size, 2 * x.d.size, 8 * x.d.size, modelBytes / 2}[x.r.IntN(6)])
	from = x.r.IntN(modelBytes - min(length, modelBytes-1))
	to = min(from+length, modelBytes)
	if x.r.IntN(2) == 0 {
		from -= from % x.d.size
		to = min((to+x.d.size-1)/x.d.size*x.d.size, modelBytes)
	}
	return from, to
}

// blocks returns a random range of whole blocks, at least one.
func (x *model) blocks() (from, to int) {
	from, to = x.span()
	return from / x.d.size, (to + x.d.size - 1) / x.d.size
}

func (x *model) step() {
	switch x.r.IntN(20) {
	case 0, 1, 2, 3, 4, 5:
		x.write()
	case 6, 7, 8, 9:
		x.read()
	case 10:
		x.zero()
	case 11:
		x.discard()
	case 12, 13, 14:
		x.begin()
	case 15, 16:
		x.end()
	case 17:
		x.crowd()
	case 18:
		x.spoil()
	case 19:
		x.compareDirty()
	}
}

func (x *model) write() {
	from, to := x.span()
	p := make([]byte, to-from)
	x.random(p)
	n, err := x.writeAny(p, from)
	switch {
	case err == nil:
		require.Equal(x.t, len(p), n)
	case errors.Is(err, syscall.ENOSPC):
		require.Less(x.t, n, len(p))
		require.True(x.t, n == 0 || (from+n)%x.d.size == 0, "stopped inside a block")
		x.spaceIsGone(from + n)
	case errors.Is(err, syscall.EIO):
		require.NotEmpty(x.t, x.bad)
	default:
		require.ErrorIs(x.t, err, ErrWouldWait)
		require.Less(x.t, n, len(p))
	}
}

// spaceIsGone checks that a write which stopped at byte at for lack of space had
// taken all there was.
func (x *model) spaceIsGone(at int) {
	l := format.LBlock(at / x.d.size)
	if !x.o.WholeFolio {
		require.Nil(x.t, x.d.blocks[l])
		require.False(x.t, x.d.reserved[l])
		require.Zero(x.t, x.d.free)
	}
}

// writeAny writes in one of the ways there are. Nobody else makes room meanwhile,
// so that the one way that waits for it is left out.
func (x *model) writeAny(p []byte, off int) (int, error) {
	if x.r.IntN(2) == 0 {
		n, err := x.m.TryWriteAt(p, int64(off))
		x.wrote(off, p[:n])
		return n, err
	}
	done := 0
	for {
		n, err := x.m.WriteWithin(p[done:], int64(off+done))
		x.wrote(off+done, p[done:done+n])
		done += n
		if err != ErrNoRoom {
			return done, err
		}
		x.makeRoom()
	}
}

// makeRoom writes back until nothing is dirty.
func (x *model) makeRoom() {
	require.NoError(x.t, x.past.flush(x.rest))
	for len(x.flights) > 0 || x.m.Dirty() > 0 {
		x.start(0, len(x.state), 0)
		for len(x.flights) > 0 {
			x.finish(x.flights[0], nil)
		}
	}
}

// wrote notes a write of p at off.
func (x *model) wrote(off int, p []byte) {
	copy(x.bytes[off:], p)
	for l := off / x.d.size; len(p) > 0 && l*x.d.size < off+len(p); l++ {
		x.state[l].dirty = true
	}
}

func (x *model) read() {
	from, to := x.span()
	p := make([]byte, to-from)
	if err := x.m.ReadAt(p, int64(from)); err != nil {
		require.ErrorIs(x.t, err, syscall.EIO)
		require.NotEmpty(x.t, x.bad)
		return
	}
	x.same(x.bytes[from:to], p, from, "read")
}

// same compares without printing hundreds of KiB.
func (x *model) same(want, got []byte, at int, what string) {
	if bytes.Equal(want, got) {
		return
	}
	i := 0
	for want[i] == got[i] {
		i++
	}
	require.FailNow(x.t, what, "byte %d, block %d: %#x, want %#x", at+i, (at+i)/x.d.size, got[i], want[i])
}

func (x *model) zero() {
	from, to := x.span()
	to = min(to, from+3*x.d.size)
	done := 0
	for {
		n, err := x.m.ZeroWithin(int64(from+done), int64(to-from-done))
		x.zeroed(from+done, from+done+int(n))
		done += int(n)
		if err == nil {
			require.Equal(x.t, to-from, done)
			return
		}
		if err != ErrNoRoom {
			require.True(x.t, errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC), "%v", err)
			return
		}
		x.makeRoom()
	}
}

// zeroed notes that the bytes became zeros: dirty where they were something else,
// or where the block is on the device and was not known to hold zeros.
func (x *model) zeroed(from, to int) {
	for at := from; at < to; {
		l := at / x.d.size
		next := min(to, (l+1)*x.d.size)
		now := x.state[l].dirty
		dirties := slices.ContainsFunc(x.m.DirtyRuns(format.LBlock(l), format.LBlock(l+1)), func(Run) bool { return true })
		if !isZero(x.bytes[at:next]) {
			require.True(x.t, dirties, "block %d", l)
		}
		if dirties && !now && !x.o.WholeFolio {
			require.True(x.t, x.d.blocks[format.LBlock(l)] != nil || !isZero(x.bytes[at:next]), "block %d got space for nothing", l)
		}
		x.state[l].dirty = dirties
		clear(x.bytes[at:next])
		at = next
	}
}

func (x *model) discard() {
	from, to := x.blocks()
	x.m.Discard(format.LBlock(from), format.LBlock(to))
	x.d.release(format.LBlock(from), format.LBlock(to))
	clear(x.bytes[from*x.d.size : to*x.d.size])
	for l := from; l < to; l++ {
		x.state[l] = blockState{life: x.state[l].life + 1}
		delete(x.bad, format.LBlock(l))
	}
}

func (x *model) begin() {
	from, to := 0, len(x.state)
	if x.r.IntN(2) == 0 {
		from, to = x.blocks()
	}
	limit := 0
	if x.r.IntN(2) == 0 {
		limit = 1 + x.r.IntN(20*x.d.size)
	}
	x.start(from, to, limit)
}

// start begins a writeback and checks which blocks it took.
func (x *model) start(from, to, limit int) {
	var want []Run
	left := max(limit/x.d.size, 1)
	for l := from; l < to && (limit == 0 || left > 0); l++ {
		if s := x.state[l]; s.dirty && s.in == nil {
			want = join(want, Run{format.LBlock(l), 1})
			left--
		}
	}
	if to == len(x.state) {
		to = math.MaxUint32 // whole folios have blocks beyond our end
	}
	w := x.m.Begin(format.LBlock(from), format.LBlock(to), int64(limit))
	if !x.o.WholeFolio {
		require.Equal(x.t, want, w.Runs)
	}
	if len(w.Runs) == 0 {
		return
	}
	f := &flight{w: w, life: map[format.LBlock]int{}}
	for _, r := range w.Runs {
		f.held = append(f.held, slices.Concat(w.Bufs(r)...))
		for l := r.First; l < r.end(); l++ {
			x.take(f, l)
		}
	}
	x.flights = append(x.flights, f)
}

func (x *model) take(f *flight, l format.LBlock) {
	if int(l) < len(x.state) {
		s := &x.state[l]
		f.life[l] = s.life
		s.dirty, s.in = false, f
	}
}

func (x *model) end() {
	if len(x.flights) == 0 {
		return
	}
	f := x.flights[x.r.IntN(len(x.flights))]
	if x.r.IntN(3) == 0 {
		x.finish(f, syscall.EIO)
		return
	}
	x.finish(f, nil)
}

// finish ends a flight, whose memory must be what it was.
func (x *model) finish(f *flight, err error) {
	x.flights = slices.DeleteFunc(x.flights, func(g *flight) bool { return g == f })
	for i, r := range f.w.Runs {
		x.same(f.held[i], slices.Concat(f.w.Bufs(r)...), int(r.First)*x.d.size, "memory in writeback")
	}
	var again []Run // written, but the transaction failed
	for _, r := range f.w.Runs {
		if err != nil && x.r.IntN(2) == 0 {
			continue // the device never got it
		}
		dead := func(l format.LBlock) bool { return int(l) >= len(x.state) || x.state[l].life != f.life[l] }
		require.NoError(x.t, x.d.store(r, f.w.Bufs(r), dead))
		if err == nil && x.r.IntN(8) == 0 {
			again = append(again, Run{r.First, 1 + x.r.IntN(r.N)})
		}
	}
	f.w.End(err, again...)
	if err != nil {
		again = f.w.Runs
	}
	x.settle(f, again)
}

func (x *model) settle(f *flight, again []Run) {
	for l, life := range f.life {
		if s := &x.state[l]; s.life == life {
			s.in = nil
			if slices.ContainsFunc(again, func(r Run) bool { return r.First <= l && l < r.end() }) {
				s.dirty = true
			}
		}
	}
}

// crowd takes memory for something else.
func (x *model) crowd() {
	n, err := x.rest.TryWriteAt(make([]byte, 1+x.r.IntN(256<<10)), x.r.Int64N(4<<20))
	if err != nil {
		require.ErrorIs(x.t, err, ErrWouldWait, "after %d bytes", n)
	}
	if x.r.IntN(2) == 0 {
		require.NoError(x.t, x.past.flush(x.rest))
	}
}

// spoil makes a block of the device bad, or all of them good.
func (x *model) spoil() {
	if len(x.bad) > 0 {
		clear(x.bad)
		return
	}
	x.bad[format.LBlock(x.r.IntN(len(x.state)))] = true
}

func (x *model) compareDirty() {
	from, to := x.blocks()
	var want []Run
	for l := from; l < to; l++ {
		if x.state[l].dirty {
			want = join(want, Run{format.LBlock(l), 1})
		}
	}
	if !x.o.WholeFolio {
		require.Equal(x.t, want, x.m.DirtyRuns(format.LBlock(from), format.LBlock(to)))
	}
}

// finally writes all back and compares the device with the model.
func (x *model) finally() {
	clear(x.bad)
	x.makeRoom()
	x.same(x.bytes, x.d.content(modelBytes), 0, "device at the end")
	p := make([]byte, modelBytes)
	require.NoError(x.t, x.m.ReadAt(p, 0))
	x.same(x.bytes, p, 0, "read at the end")
	require.LessOrEqual(x.t, x.b.Held(), x.b.Limit())
	x.m.Close()
	x.rest.Close()
	x.b.checkEmpty(x.t)
}

// used is the chunk of a budget of an earlier case: a new one costs more than the
// rest of a case.
var used *chunk

// usedBudget returns a budget of one chunk, full of old data.
func usedBudget(t testing.TB) *Budget {
	b := NewBudget(BudgetOptions{Limit: chunkSize})
	if used == nil {
		require.True(t, b.grow())
		used = b.scratch.chunk
		return b
	}
	for i := range used.mem {
		used.mem[i] = 0xdb
	}
	b.chunks = 1
	b.free.give(&used.frames[0], true)
	b.scratch = b.free.take(orderOf(maxBlockSize))
	return b
}

// checkEmpty checks that a budget whose mappings are closed has all its memory back
// in one piece a chunk.
func (b *Budget) checkEmpty(t testing.TB) {
	require.Zero(t, b.Used())
	require.Zero(t, b.Dirty())
	require.Zero(t, b.clock.n)
	require.Nil(t, b.clock.first)
	require.Zero(t, b.mappings.n)
	if b.scratch != nil {
		b.free.give(b.scratch, true)
		b.scratch = nil
	}
	whole := 0
	for f := b.free.lists[maxOrder].first; f != nil; f = f.next {
		whole++
	}
	require.Equal(t, b.chunks, whole)
}

func runModel(t *testing.T, seed uint64, steps int) {
	x := newModel(t, seed)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d: blocks of %d, %+v", seed, x.d.size, x.o)
		}
	}()
	for range steps {
		x.step()
		require.LessOrEqual(t, x.b.Used(), x.b.Limit())
		require.Equal(t, x.b.Dirty(), x.m.Dirty()+x.rest.Dirty())
	}
	x.finally()
}

// TestModel holds a mapping to the model through random operations, several
// thousand cases of block size, folio size, space and state of the device.
func TestModel(t *testing.T) {
	cases, steps := uint64(600), 50
	if underRace {
		cases = 50
	}
	if oracle.IsLong() {
		cases, steps = 40000, 300
	}
	for seed := range cases {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) { runModel(t, seed, steps) })
		if !ok {
			return
		}
	}
}
