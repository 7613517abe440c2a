package ext4

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock/cache"
	"drydock/device"
	"drydock/internal/oracle"
)

// Random operations on the data of one file, against a slice of bytes, as the
// program fsx does them. Variables of the environment repeat and vary a run:
//
//	DRYDOCK_FSX_SEED=n     this seed
//	DRYDOCK_FSX_OPS=n      so many operations
//	DRYDOCK_FSX_SHRINK=1   on failure: look for the fewest operations that fail
//	DRYDOCK_FSX_FILE=f     do the operations in f, a JSON object a line, as a failure prints them
const (
	fsxSeedEnv   = "DRYDOCK_FSX_SEED"
	fsxOpsEnv    = "DRYDOCK_FSX_OPS"
	fsxShrinkEnv = "DRYDOCK_FSX_SHRINK"
	fsxFileEnv   = "DRYDOCK_FSX_FILE"
)

// fsxMax is the largest size of the file, and fsxReopen how many operations
// lie between looks at the image from outside.
const (
	fsxMax    = 600_000
	fsxReopen = 4000
)

// fsxOp is an operation on the file.
type fsxOp struct {
	Kind   string
	Off, N int64  `json:",omitempty"`
	Seed   uint64 `json:",omitempty"`
	Keep   bool   `json:",omitempty"`
}

// fsxKind is a kind of file system and of use.
type fsxKind struct {
	name       string
	blockSize  int
	opts       Options
	background bool // Sync runs all the time
	full       bool // there is room for a part of the file only
}

func fsxKinds() []fsxKind {
	return []fsxKind{
		{"1k", 1024, Options{}, false, false},
		{"4k", 4096, Options{}, false, false},
		{"1k journaled data", 1024, Options{Data: DataJournal}, false, false},
		{"4k journaled data", 4096, Options{Data: DataJournal}, false, false},
		{"1k tiny memory", 1024, Options{Memory: 256 << 10}, false, false},
		{"4k tiny memory", 4096, Options{Memory: 256 << 10}, false, false},
		{"1k background", 1024, Options{}, true, false},
		{"4k background", 4096, Options{FolioSize: 1 << 20}, true, false},
		{"4k background, tiny memory", 4096, Options{Memory: 256 << 10}, true, false},
		{"1k full", 1024, Options{}, false, true},
		{"4k full", 4096, Options{}, false, true},
		{"1k full, journaled data", 1024, Options{Data: DataJournal}, false, true},
		{"4k full, background", 4096, Options{}, true, true},
	}
}

func TestFsx(t *testing.T) {
	oracle.Need(t, "mke2fs", "e2fsck")
	seed, count := uint64(1), 20_000/len(fsxKinds()) // the same on every run, but for long ones
	if oracle.IsLong() {
		seed, count = rand.Uint64(), 1_000_000
	}
	if s := os.Getenv(fsxSeedEnv); s != "" {
		seed = parseUint(t, s)
	}
	if s := os.Getenv(fsxOpsEnv); s != "" {
		count = int(parseUint(t, s))
	}
	for i, kind := range fsxKinds() {
		t.Run(kind.name, func(t *testing.T) {
			n := count
			if i > 1 && oracle.IsLong() {
				n /= 5
			}
			t.Logf("%s=%d repeats this", fsxSeedEnv, seed)
			ops := fsxOps(rand.New(rand.NewPCG(seed, 5)), n)
			if name := os.Getenv(fsxFileEnv); name != "" {
				ops = opsFrom[fsxOp](t, name)
			}
			fsx(t, kind, ops)
		})
	}
}

// fsx fails the test if the file is not what it should be, and says how to see it again.
func fsx(t *testing.T, kind fsxKind, ops []fsxOp) {
	base := fsxImage(t, kind)
	done, err := runFsx(t, base, kind, ops)
	if err == nil {
		return
	}
	ops = ops[:done]
	t.Logf("after %d operations: %v", done, err)
	if os.Getenv(fsxShrinkEnv) != "" {
		ops, err = shrinkFsx(t, base, kind, ops, err)
	}
	var list strings.Builder
	for _, o := range ops[max(0, len(ops)-20):] {
		line, _ := json.Marshal(o)
		list.Write(append(line, '\n'))
	}
	t.Fatalf("%v\nthe last operations:\n%s", err, list.String())
}

func shrinkFsx(t *testing.T, base *device.Mem, kind fsxKind, ops []fsxOp, err error) ([]fsxOp, error) {
	for size := len(ops) / 2; size > 0; size /= 2 {
		for at := len(ops) - size; at >= 0; at -= size {
			fewer := slices.Delete(slices.Clone(ops), at, at+size)
			if done, again := runFsx(t, base, kind, fewer); again != nil {
				ops, err = fewer[:done], again
				at = min(at, len(ops))
			}
		}
	}
	return ops, err
}

// fsxImage makes an empty file system in memory.
func fsxImage(t *testing.T, kind fsxKind) *device.Mem {
	path := filepath.Join(t.TempDir(), "fsx.img")
	oracle.Run(t, "mke2fs", "-q", "-F", "-t", "ext4", "-b", fmt.Sprint(kind.blockSize), "-J", "size=4", path, "24M")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return memDev(t, data)
}

// fsxRun is a file and what it should hold.
type fsxRun struct {
	t     *testing.T
	kind  fsxKind
	dev   *device.Mem
	fs    *FS
	f     *File
	model []byte
	stop  func() // ends what runs in the background

	size   int    // of the file before the operation, where space may run out
	before []byte // its content then
}

// runFsx does the operations and returns how many were done when something was wrong.
func runFsx(t *testing.T, base *device.Mem, kind fsxKind, ops []fsxOp) (done int, err error) {
	r := &fsxRun{t: t, kind: kind, dev: base.Clone()}
	if err := r.open(os.O_CREATE); err != nil {
		return 0, err
	}
	if kind.full {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for i, o := range ops {
		err := r.do(o)
		if kind.full && errors.Is(err, syscall.ENOSPC) {
			err = r.outOfSpace(o)
		}
		if err != nil {
			return i + 1, fmt.Errorf("%+v: %w", o, err)
		}
		if i%fsxReopen == fsxReopen-1 {
			if err := r.reopen(); err != nil {
				return i + 1, err
			}
		}
	}
	return len(ops), r.reopen()
}

func (r *fsxRun) open(flag int) (err error) {
	opts := r.kind.opts
	opts.ReadWrite = true
	if r.fs, err = Open(r.dev, opts); err != nil {
		return err
	}
	if r.f, err = r.fs.OpenFile("/f", os.O_RDWR|flag, 0o600); err != nil {
		return err
	}
	r.stop = func() {}
	if r.kind.background {
		r.startSync()
	}
	return nil
}

// fill leaves room for half of the largest file.
func (r *fsxRun) fill() error {
	st, err := r.fs.Statfs()
	if err != nil {
		return err
	}
	f, err := r.fs.Create("/fill")
	if err != nil {
		return err
	}
	size := int64(st.Free)*int64(r.kind.blockSize) - fsxMax/2
	return errors.Join(f.Allocate(0, size, false), f.Close())
}

// startSync writes back all the time, as the background does on its own where
// there is more to write.
func (r *fsxRun) startSync() {
	end := make(chan struct{})
	var group sync.WaitGroup
	for _, sync := range []func() error{r.fs.Sync, r.f.Datasync} {
		group.Go(func() {
			for {
				select {
				case <-end:
					return
				case <-time.After(50 * time.Microsecond):
					if err := sync(); err != nil {
						r.t.Errorf("sync in the background: %v", err)
						return
					}
				}
			}
		})
	}
	r.stop = func() { close(end); group.Wait() }
}

func (r *fsxRun) close() error {
	if r.fs == nil {
		return nil
	}
	r.stop()
	err := errors.Join(r.f.Close(), r.fs.Close())
	r.fs = nil
	return err
}

// reopen looks at the file in every way: as it is, after a power cut behind
// Sync, and opened again; e2fsck looks at the closed image.
func (r *fsxRun) reopen() error {
	if err := r.compare(0, len(r.model)); err != nil {
		return err
	}
	if err := r.afterPowerCut(); err != nil {
		return fmt.Errorf("after a power cut: %w", err)
	}
	if err := r.close(); err != nil {
		return err
	}
	if err := fsckMem(r.t, r.dev); err != nil {
		return err
	}
	if err := r.open(0); err != nil {
		return err
	}
	return r.compare(0, len(r.model))
}

// afterPowerCut reads what Sync has made durable from a copy of the device.
func (r *fsxRun) afterPowerCut() error {
	if err := r.f.Sync(); err != nil {
		return err
	}
	fsys, err := Open(r.dev.Clone(), Options{})
	if err != nil {
		return err
	}
	defer fsys.Close()
	data, err := fsys.ReadFile("/f")
	if err != nil {
		return err
	}
	return differs(r.model, data, 0)
}

func fsckMem(t *testing.T, dev *device.Mem) error {
	path := filepath.Join(t.TempDir(), "fsck.img")
	defer os.Remove(path)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, io.NewSectionReader(dev, 0, dev.Size())); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return fsckClean(path)
}

// compare reads the bytes from off to end-1 of the file.
func (r *fsxRun) compare(off, end int) error {
	info, err := r.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != int64(len(r.model)) {
		return fmt.Errorf("size %d, want %d", info.Size(), len(r.model))
	}
	end = min(end, len(r.model))
	if off >= end {
		return nil
	}
	p := make([]byte, end-off)
	if n, err := r.f.ReadAt(p, int64(off)); n < len(p) {
		return fmt.Errorf("read %d of %d bytes at %d: %w", n, len(p), off, err)
	}
	return differs(r.model[off:end], p, off)
}

// differs says where two slices that begin at off do.
func differs(want, got []byte, off int) error {
	if bytes.Equal(want, got) {
		return nil
	}
	if len(want) != len(got) {
		return fmt.Errorf("%d bytes, want %d", len(got), len(want))
	}
	at := 0
	for want[at] == got[at] {
		at++
	}
	n := 1
	for at+n < len(want) && want[at+n] != got[at+n] {
		n++
	}
	return fmt.Errorf("bytes from %d on differ (about %d of them): %x, want %x", off+at, n, got[at:at+min(n, 8)], want[at:at+min(n, 8)])
}

// fsxOrder fixes the order in which kinds are chosen from, by weight.
var fsxOrder = []struct {
	kind   string
	weight int
}{
	{"write", 30}, {"try", 10}, {"direct", 5}, {"append", 4}, {"read", 25}, {"truncate", 10}, {"punch", 9}, {"zero", 9}, {"allocate", 7},
	{"sync", 2}, {"datasync", 2}, {"syncall", 1}, {"reopen", 1}, {"segments", 3}, {"compare", 2},
}

func fsxOps(rng *rand.Rand, count int) []fsxOp {
	var bag []string
	for _, k := range fsxOrder {
		for range k.weight {
			bag = append(bag, k.kind)
		}
	}
	ops := make([]fsxOp, count)
	for i := range ops {
		ops[i] = fsxOp{Kind: bag[rng.IntN(len(bag))], Seed: rng.Uint64(), Keep: rng.IntN(2) == 0}
		ops[i].Off, ops[i].N = fsxRange(rng)
	}
	return ops
}

// fsxRange is a range within the largest size: short or long, aligned or not.
func fsxRange(rng *rand.Rand) (off, n int64) {
	align := []int64{1, 1, 512, 1024, 4096, 65536}[rng.IntN(6)]
	most := []int64{10, 3000, 3000, 20_000, 20_000, 200_000}[rng.IntN(6)]
	off = rng.Int64N(fsxMax/align) * align
	n = 1 + rng.Int64N(most)
	if align > 1 && rng.IntN(2) == 0 {
		n = (n + align - 1) / align * align
	}
	return off, min(n, fsxMax-off)
}

// outOfSpace looks at the file after an operation that had no space. A write has
// said how much of it was done; the others that need space may have done a part.
func (r *fsxRun) outOfSpace(o fsxOp) error {
	switch o.Kind {
	case "write", "direct", "try", "append":
		return r.compare(0, len(r.model))
	case "punch", "zero", "allocate":
	default:
		return errors.New("needs no space, but had not enough")
	}
	data := make([]byte, fsxMax+1)
	n, err := r.f.ReadAt(data, 0)
	if !errors.Is(err, io.EOF) || n > len(r.model) || n < r.size {
		return fmt.Errorf("out of space: read %d bytes of %d to %d: %w", n, r.size, len(r.model), err)
	}
	for i, c := range data[:n] {
		inside := int64(i) >= o.Off && int64(i) < o.Off+o.N
		if c != r.model[i] && !(inside && i < r.size && c == r.before[i]) {
			return fmt.Errorf("out of space: byte %d is %#x, want %#x", i, c, r.model[i])
		}
	}
	r.model = append(r.model[:0], data[:n]...)
	return nil
}

// do does an operation on the file and the model.
func (r *fsxRun) do(o fsxOp) error {
	if r.kind.full {
		r.size, r.before = len(r.model), append(r.before[:0], r.model...)
	}
	switch o.Kind {
	case "write":
		return r.write(o, r.f.WriteAt)
	case "direct":
		return r.write(o, r.f.WriteDirect)
	case "try":
		return r.write(o, r.try)
	case "append":
		o.Off, o.N = int64(len(r.model)), min(o.N, fsxMax-int64(len(r.model)))
		return r.write(o, r.f.WriteAt)
	case "truncate":
		r.resize(o.Off)
		return r.f.Truncate(o.Off)
	case "punch":
		r.zero(o, true)
		return r.f.PunchHole(o.Off, o.N)
	case "zero":
		r.zero(o, o.Keep)
		return r.f.ZeroRange(o.Off, o.N, o.Keep)
	case "allocate":
		if !o.Keep {
			r.resize(max(o.Off+o.N, int64(len(r.model))))
		}
		return r.f.Allocate(o.Off, o.N, o.Keep)
	default:
		return r.look(o)
	}
}

// look does an operation that changes nothing.
func (r *fsxRun) look(o fsxOp) error {
	switch o.Kind {
	case "read":
		return r.compare(int(o.Off), int(o.Off+o.N))
	case "compare":
		return r.compare(0, len(r.model))
	case "sync":
		return r.f.Sync()
	case "datasync":
		return r.f.Datasync()
	case "syncall":
		return r.fs.Sync()
	case "segments":
		return r.segments(o)
	case "reopen":
		r.stop()
		if err := r.f.Close(); err != nil {
			return err
		}
		f, err := r.fs.OpenFile("/f", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		r.f, r.stop = f, func() {}
		if r.kind.background {
			r.startSync()
		}
		return nil
	}
	return fmt.Errorf("no such operation")
}

func (r *fsxRun) write(o fsxOp, write func([]byte, int64) (int, error)) error {
	if o.N == 0 {
		return nil
	}
	p := noise(int(o.N), o.Seed)
	n, err := write(p, o.Off)
	if n > 0 {
		r.resize(max(int64(len(r.model)), o.Off+int64(n)))
		copy(r.model[o.Off:], p[:n])
	}
	if err == nil && n < len(p) {
		err = fmt.Errorf("%d of %d bytes written", n, len(p))
	}
	return err
}

// try writes what it can without waiting, and the rest.
func (r *fsxRun) try(p []byte, off int64) (int, error) {
	n, err := r.f.TryWriteAt(p, off)
	if n == len(p) || err != nil && !errors.Is(err, cache.ErrWouldWait) {
		return n, err
	}
	m, err := r.f.WriteAt(p[n:], off+int64(n))
	return n + m, err
}

func (r *fsxRun) resize(size int64) {
	if size <= int64(len(r.model)) {
		r.model = r.model[:size]
		return
	}
	r.model = append(r.model, make([]byte, size-int64(len(r.model)))...)
}

func (r *fsxRun) zero(o fsxOp, keep bool) {
	if !keep {
		r.resize(max(o.Off+o.N, int64(len(r.model))))
	}
	if size := int64(len(r.model)); o.Off < size {
		clear(r.model[o.Off:min(o.Off+o.N, size)])
	}
}

// segments checks that what lies outside of the segments reads as zeros.
func (r *fsxRun) segments(o fsxOp) error {
	at, end := o.Off, min(o.Off+o.N, int64(len(r.model)))
	for s, err := range r.f.Segments(o.Off, o.N) {
		if err != nil {
			return err
		}
		if s.Off < at || s.Len <= 0 {
			return fmt.Errorf("segment %+v after %d", s, at)
		}
		if hole := r.model[min(at, end):min(s.Off, end)]; len(bytes.Trim(hole, "\x00")) > 0 {
			return fmt.Errorf("data in the hole from %d to %d", at, s.Off)
		}
		at = s.End()
	}
	if at < end && len(bytes.Trim(r.model[at:end], "\x00")) > 0 {
		return fmt.Errorf("data in the hole from %d to %d", at, end)
	}
	return nil
}
