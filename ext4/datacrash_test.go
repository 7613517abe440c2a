package ext4

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/internal/oracle"
)

// staleByte fills all space that mke2fs leaves alone. It must never be seen in a file.
const staleByte = 0xDB

// staleFS makes a file system in memory whose free space holds staleByte.
func staleFS(t testing.TB, size int64, args ...string) *device.Mem {
	t.Helper()
	image := filepath.Join(t.TempDir(), "img")
	require.NoError(t, os.WriteFile(image, []byte(strings.Repeat(string([]byte{staleByte}), int(size))), 0o644))
	args = append([]string{"-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0,nodiscard"}, args...)
	oracle.Run(t, "mke2fs", append(args, image)...)
	b, err := os.ReadFile(image)
	require.NoError(t, err)
	return memDev(t, b)
}

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(v byte)      { s[v>>6] |= 1 << (v & 63) }
func (s *byteSet) has(v byte) bool { return s[v>>6]>>(v&63)&1 != 0 }

// possible is what a file may hold after a crash: for each byte the values since
// the last Sync, and all sizes between the smallest and the largest since then.
type possible struct {
	now      []byte
	values   []byteSet
	min, max int
	saved    *possible // a copy that nobody changes; nil after a change
}

func (p *possible) add(i int, v byte) {
	for len(p.values) <= i {
		p.values = append(p.values, byteSet{1})
	}
	p.values[i].add(v)
}

func (p *possible) resize(n int) {
	p.saved = nil
	for i := n; i < len(p.now); i++ {
		p.add(i, 0)
	}
	m := model{p.now}
	m.resize(n)
	p.now = m.b
	p.min, p.max = min(p.min, n), max(p.max, n)
}

func (p *possible) write(b []byte, off int) {
	p.saved = nil
	if off+len(b) > len(p.now) {
		p.resize(off + len(b))
	}
	for i, v := range b {
		p.now[off+i] = v
		p.add(off+i, v)
	}
}

func (p *possible) zero(off, n int) {
	p.saved = nil
	for i := off; i < min(off+n, len(p.now)); i++ {
		p.now[i] = 0
		p.add(i, 0)
	}
}

// synced says that the content of now has become durable.
func (p *possible) synced() {
	p.saved = nil
	p.values = make([]byteSet, len(p.now))
	for i, v := range p.now {
		p.values[i].add(v)
	}
	p.min, p.max = len(p.now), len(p.now)
}

func (p *possible) clone() *possible {
	if p.saved == nil {
		p.saved = &possible{values: append([]byteSet(nil), p.values...), min: p.min, max: p.max}
	}
	return p.saved
}

// check compares a file after a crash with what is possible.
func (p *possible) check(b []byte) error {
	if len(b) < p.min || len(b) > p.max {
		return fmt.Errorf("%d bytes, want %d to %d", len(b), p.min, p.max)
	}
	for i, v := range b {
		if i < len(p.values) && !p.values[i].has(v) || i >= len(p.values) && v != 0 {
			return fmt.Errorf("byte %d of %d is %#x, which it never was", i, len(b), v)
		}
	}
	return nil
}

// crashRun is a recorded run of operations. After each, what files may hold from
// then on is kept with the number of events until then.
type crashRun struct {
	t     testing.TB
	base  *device.Mem
	rec   *device.Recorder
	fsys  *FS
	files map[string]*possible
	seq   uint32
	marks []crashMark
}

type crashMark struct {
	events int
	what   string
	files  map[string]*possible
}

func newCrashRun(t testing.TB, base *device.Mem, o Options) *crashRun {
	c := &crashRun{t: t, base: base, rec: device.NewRecorder(base.Clone()), files: map[string]*possible{}}
	c.fsys = openWith(t, c.rec, o)
	return c
}

func (c *crashRun) bytes(n int) []byte {
	c.seq++
	b := make([]byte, n+4)
	for i := 0; i < n; i += 4 {
		binary.LittleEndian.PutUint32(b[i:], 0x01010101*(1+c.seq%100)+uint32(i/4)%7)
	}
	return b[:n]
}

// done notes that an operation has ended. While it ran, what was possible before
// and what is now were both so.
func (c *crashRun) done(what string, args ...any) {
	files := map[string]*possible{}
	for name, p := range c.files {
		files[name] = p.clone()
	}
	c.marks = append(c.marks, crashMark{len(c.rec.Trace().Events), fmt.Sprintf(what, args...), files})
}

// state makes the device that a crash after the first n events leaves: what was
// durable, and of the rest a random part, in sectors.
func crashState(r *rand.Rand, base *device.Mem, events []device.Event) *device.Mem {
	dev := base.Clone()
	clock := 0
	for _, e := range events {
		clock = max(clock, e.Submit, e.Complete)
	}
	for i, e := range events {
		if e.Kind != device.EventWrite {
			continue
		}
		if durable(e, events[i:]) || r.IntN(2) == 0 {
			dev.WriteAt(e.Data, e.Off)
		} else if r.IntN(4) == 0 {
			for s := 0; s+device.SectorSize <= len(e.Data); s += device.SectorSize {
				if r.IntN(2) == 0 {
					dev.WriteAt(e.Data[s:s+device.SectorSize], e.Off+int64(s))
				}
			}
		}
	}
	return dev
}

func durable(e device.Event, later []device.Event) bool {
	if e.FUA {
		return e.Complete > 0
	}
	for _, f := range later {
		if f.Kind == device.EventFlush && f.Submit > e.Complete && e.Complete > 0 && f.Complete > 0 {
			return true
		}
	}
	return false
}

// judge makes random crashes of the run and checks each.
func (c *crashRun) judge(r *rand.Rand, states int) {
	c.t.Helper()
	events := c.rec.Trace().Events
	for range states {
		m := r.IntN(len(c.marks))
		first, last := c.marks[m].events, len(events)
		if m+1 < len(c.marks) {
			last = c.marks[m+1].events
		}
		n := first + r.IntN(last-first+1)
		before := c.marks[m].files
		after := before
		if m+1 < len(c.marks) {
			after = c.marks[m+1].files
		}
		dev := crashState(r, c.base, events[:n])
		if err := c.recovered(dev, before, after); err != nil {
			for _, k := range c.marks[max(0, m-12) : m+1] {
				c.t.Logf("%6d %s", k.events, k.what)
			}
			c.t.Fatalf("crash after event %d of %d, after mark %d (%s): %v", n, len(events), m, c.marks[m].what, err)
		}
		if r.IntN(20) == 0 {
			fsck(c.t, dev)
		}
	}
}

// recovered opens and closes the file system and checks its files: they hold what
// was possible before the operation under way, or after it.
func (c *crashRun) recovered(dev device.Device, before, after map[string]*possible) error {
	fsys, err := Open(dev, Options{ReadWrite: true})
	if err != nil {
		return err
	}
	for name, p := range before {
		b, err := fsys.ReadFile(name)
		if err != nil {
			return err
		}
		if err := p.check(b); err != nil {
			if q := after[name]; q == nil || q.check(b) != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return fsys.Close()
}

// crashFile does random operations on one file of a run.
type crashFile struct {
	c    *crashRun
	f    *File
	p    *possible
	name string
	max  int
}

func (c *crashRun) create(name string, max int) *crashFile {
	f := openFile(c.t, c.fsys, name, os.O_RDWR|os.O_CREATE)
	p := &possible{}
	require.NoError(c.t, f.Sync())
	c.files[name] = p
	c.done("create %s", name)
	return &crashFile{c, f, p, name, max}
}

func (f *crashFile) step(r *rand.Rand) {
	c, t := f.c, f.c.t
	off := r.IntN(f.max)
	n := 1 + r.IntN(f.max-off)
	switch r.IntN(12) {
	case 0, 1, 2, 3:
		b := c.bytes(n)
		f.p.write(b, off)
		_, err := f.f.WriteAt(b, int64(off))
		require.NoError(t, err)
		c.done("%s: write %d+%d", f.name, off, n)
	case 4:
		f.p.resize(off)
		require.NoError(t, f.f.Truncate(int64(off)))
		c.done("%s: truncate %d", f.name, off)
	case 5:
		f.p.zero(off, n)
		require.NoError(t, f.f.PunchHole(int64(off), int64(n)))
		c.done("%s: punch %d+%d", f.name, off, n)
	case 6:
		f.p.zero(off, n)
		require.NoError(t, f.f.ZeroRange(int64(off), int64(n), true))
		c.done("%s: zero %d+%d", f.name, off, n)
	case 7:
		require.NoError(t, f.f.Allocate(int64(off), int64(n), true))
		c.done("%s: allocate %d+%d", f.name, off, n)
	case 8:
		b := c.bytes(n)
		f.p.write(b, off)
		_, err := f.f.WriteDirect(b, int64(off))
		require.NoError(t, err)
		c.done("%s: direct %d+%d", f.name, off, n)
	case 9:
		require.NoError(t, f.f.n.flush())
		c.done("%s: flush", f.name)
	case 10:
		c.fsys.j.StartCommit()
		c.done("commit")
	case 11:
		require.NoError(t, f.f.Datasync())
		f.p.synced()
		c.done("%s: datasync", f.name)
	}
}

func TestCrashData(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		o    Options
	}{
		{"1K", []string{"-b", "1024"}, Options{Memory: 512 << 10}},
		{"4K", []string{"-b", "4096"}, Options{}},
		{"data journal", []string{"-b", "1024"}, Options{Data: DataJournal}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRand(t)
			base := staleFS(t, 16<<20, c.args...)
			runs, steps, states := 2, 60, 40
			if oracle.IsLong() {
				runs, steps, states = 40, 200, 300
			}
			for range runs {
				run := newCrashRun(t, base, c.o)
				files := []*crashFile{run.create("a", 40_000), run.create("b", 120_000), run.create("c", 5000)}
				for range steps {
					files[r.IntN(len(files))].step(r)
				}
				run.judge(r, states)
			}
		})
	}
}
