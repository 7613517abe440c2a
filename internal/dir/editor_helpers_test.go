package dir

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// space is a Space in memory, with blocks that are replaced, not overwritten,
// as those of a transaction are. It keeps what it has handed out by Get, to see
// that nobody writes there.
type space struct {
	blockSize int
	blocks    [][]byte
	verified  []bool
	changed   map[format.LBlock][]byte // to what the block was before, nil for a new one
	given     map[*byte]given          // what Get returned, unless nil
	limit     int                      // blocks that Append has; 0: no limit
	appends   int
	reads     int
}

// given is a block of readers, and its checksum.
type given struct {
	block []byte
	sum   uint32
}

var errFull = errors.New("no blocks left")

func (s *space) NumBlocks() format.LBlock { return format.LBlock(len(s.blocks)) }

func (s *space) Get(l format.LBlock) ([]byte, bool, error) {
	if l >= s.NumBlocks() {
		return nil, false, fmt.Errorf("block %d of %d", l, s.NumBlocks())
	}
	s.reads++
	b := s.blocks[l]
	if _, ours := s.changed[l]; s.given != nil && !ours {
		s.given[&b[0]] = given{b, format.Crc32c(0, b)}
	}
	return b, s.verified[l], nil
}

func (s *space) SetVerified(l format.LBlock) { s.verified[l] = true }

func (s *space) Change(l format.LBlock) ([]byte, error) {
	if l >= s.NumBlocks() {
		return nil, fmt.Errorf("block %d of %d", l, s.NumBlocks())
	}
	if _, ours := s.changed[l]; !ours {
		s.changed[l] = s.blocks[l]
		s.blocks[l] = bytes.Clone(s.blocks[l])
	}
	s.verified[l] = true
	return s.blocks[l], nil
}

func (s *space) Append() (format.LBlock, []byte, error) {
	if s.limit > 0 && len(s.blocks) >= s.limit {
		return 0, nil, errFull
	}
	s.appends++
	n := s.NumBlocks()
	s.blocks = append(s.blocks, make([]byte, s.blockSize))
	s.verified = append(s.verified, true)
	s.changed[n] = nil
	return n, s.blocks[n], nil
}

// end ends a transaction, and undoes it if it has failed. Nothing that Get
// returned may have changed.
func (s *space) end(t testing.TB, failed bool) {
	for _, g := range s.given {
		if g.sum != format.Crc32c(0, g.block) {
			require.Fail(t, "a block that belongs to readers was written to")
		}
	}
	first := len(s.blocks)
	for n, old := range s.changed {
		if old == nil {
			first = min(first, int(n))
		} else if failed {
			s.blocks[n] = old
		}
	}
	if failed {
		s.blocks, s.verified = s.blocks[:first], s.verified[:first]
	}
	clear(s.given)
	clear(s.changed)
}

func (s *space) memory() *memory {
	return &memory{blockSize: s.blockSize, data: bytes.Join(s.blocks, nil)}
}

// target is what a name leads to.
type target struct {
	ino format.Ino
	ft  format.FileType
}

// tested is an Editor together with a model of what it edits.
type tested struct {
	t      testing.TB
	e      *Editor
	s      *space
	model  map[string]target
	parent format.Ino
}

func newEditor(o Options, s Space) *Editor {
	return &Editor{
		Space: s, BlockSize: o.BlockSize, Ino: testHead.Self, Generation: testHead.Generation, DirIndex: o.Index, LargeDir: o.LargeDir,
		Filetype: o.Filetype, HashVersion: o.HashVersion % format.HashUnsigned, HashUnsigned: o.HashVersion >= format.HashUnsigned,
		HashSeed: o.HashSeed, Checksums: o.Checksums,
	}
}

func newTested(t testing.TB, o Options) *tested {
	s := &space{blockSize: o.BlockSize, changed: map[format.LBlock][]byte{}, given: map[*byte]given{}}
	d := &tested{t: t, e: newEditor(o, s), s: s, model: map[string]target{}, parent: testHead.Parent}
	require.NoError(t, d.run(func() error { return d.e.Init(d.parent) }))
	return d
}

// run does one operation as a transaction, and undoes it if it fails.
func (d *tested) run(op func() error) error {
	indexed := d.e.Indexed
	err := op()
	d.s.end(d.t, err != nil)
	if err != nil {
		d.e.Indexed = indexed
	}
	return err
}

func (d *tested) insert(name string, to target) error {
	err := d.run(func() error { return d.e.Insert([]byte(name), to.ino, to.ft) })
	if err == nil {
		if _, exists := d.model[name]; exists {
			require.Fail(d.t, "inserted twice", "%q", name)
		}
		d.model[name] = to
	}
	return err
}

func (d *tested) remove(name string) error {
	err := d.run(func() error { return d.e.Remove([]byte(name)) })
	if err == nil {
		delete(d.model, name)
	}
	return err
}

func (d *tested) replace(name string, to target) error {
	err := d.run(func() error { return d.e.Replace([]byte(name), to.ino, to.ft) })
	if err == nil {
		d.model[name] = to
	}
	return err
}

// lookup compares a lookup with the model.
func (d *tested) lookup(v *View, name string) {
	want, exists := d.model[name]
	for _, find := range []func([]byte) (Entry, bool, error){v.Lookup, v.LookupLinear} {
		got, found, err := find([]byte(name))
		if err != nil || found != exists || exists && (got.Ino != want.ino || got.Type != d.e.fileType(want.ft)) {
			require.Fail(d.t, "wrong lookup", "%q: %v %v %v, want %v %v", name, got, found, err, want, exists)
		}
	}
}

// names returns the names of the model in an order that depends on them alone.
func (d *tested) names() []string { return slices.Sorted(maps.Keys(d.model)) }

// check compares the whole directory with the model and with the rules of the
// format, in blocks that have not been verified.
func (d *tested) check(lookups int) {
	m := d.s.memory()
	v := *d.e.view()
	v.Blocks = m
	got := map[string]target{}
	var dots []string
	require.NoError(d.t, v.Walk(func(n format.LBlock, x format.Dirent) bool {
		if isDots(x.Name) {
			dots = append(dots, fmt.Sprintf("%s %d", x.Name, x.Ino))
			return true
		}
		if _, twice := got[string(x.Name)]; twice {
			require.Fail(d.t, "name exists twice", "%q", x.Name)
		}
		got[string(x.Name)] = target{x.Ino, x.Type}
		return true
	}))
	require.Equal(d.t, []string{fmt.Sprintf(". %d", d.e.Ino), fmt.Sprintf(".. %d", d.parent)}, dots)
	require.Len(d.t, got, len(d.model))
	for name, to := range d.model {
		if got[name].ino != to.ino || got[name].ft != d.e.fileType(to.ft) {
			require.Fail(d.t, "wrong target", "%q: %v, want %v", name, got[name], to)
		}
	}
	empty, err := d.e.Empty()
	require.NoError(d.t, err)
	require.Equal(d.t, len(d.model) == 0, empty)
	if d.e.Indexed {
		checkIndex(d.t, d.e, m)
	}
	for i, name := range d.names() {
		if i >= lookups {
			break
		}
		d.lookup(&v, name)
		d.lookup(&v, name+"x")
	}
}

// checkIndex holds an index to the rules of e2fsck, reading by the numbers of
// the format's description: limits, order, every block named once, names in the
// range of their leaf.
func checkIndex(t testing.TB, e *Editor, m *memory) {
	c := &indexCheck{t: t, e: e, m: m, used: map[uint32]bool{0: true}}
	b := m.block(0)
	c.version = b[28]
	if e.HashUnsigned {
		c.version += format.HashUnsigned
	}
	require.EqualValues(t, 8, b[29])
	require.LessOrEqual(t, int(b[30]), maxLevels(e.LargeDir))
	c.table(b, 32, int(b[30]), 0, 1<<32)
	require.Len(t, c.used, int(m.NumBlocks()), "blocks that the index names")
}

type indexCheck struct {
	t       testing.TB
	e       *Editor
	m       *memory
	version uint8
	used    map[uint32]bool
}

// table checks a table of the hashes from low, at which names of the leaf
// before may go on if it is odd, to high.
func (c *indexCheck) table(b []byte, off, levels int, low, high uint64) {
	limit, count := int(binary.LittleEndian.Uint16(b[off:])), int(binary.LittleEndian.Uint16(b[off+2:]))
	room := len(b) - off
	if c.e.Checksums.Meta {
		room -= 8
	}
	require.Equal(c.t, room/8, limit)
	require.Positive(c.t, count)
	require.LessOrEqual(c.t, count, limit)
	for i := range count {
		from, to := low, high
		if i > 0 {
			from = uint64(binary.LittleEndian.Uint32(b[off+8*i:]))
		}
		if i+1 < count {
			to = uint64(binary.LittleEndian.Uint32(b[off+8*i+8:]))
		}
		if from > to || from == to && from&1 == 0 && from > 0 {
			require.Fail(c.t, "order", "%#x after %#x", to, from)
		}
		child := binary.LittleEndian.Uint32(b[off+8*i+4:])
		if c.used[child] {
			require.Fail(c.t, "block is used twice", "%d", child)
		}
		c.used[child] = true
		c.child(child, levels, from, to)
	}
}

func (c *indexCheck) child(n uint32, levels int, low, high uint64) {
	b := c.m.block(format.LBlock(n))
	if levels > 0 {
		require.Zero(c.t, binary.LittleEndian.Uint32(b))
		require.Zero(c.t, b[6])
		c.table(b, 8, levels-1, low, high)
		return
	}
	top := high &^ 1 // the next leaf's lowest hash, which is here too if it is marked
	if high&1 == 0 && high > 0 {
		top = high - 2
	}
	require.NoError(c.t, format.WalkDirBlock(b, c.e.room(), func(d format.Dirent) bool {
		hash, _ := format.DirHash(c.version, c.e.HashSeed, d.Name)
		if d.Ino != 0 && (uint64(hash) < low&^1 || uint64(hash) > top) {
			require.Fail(c.t, "hash out of range", "%q %#x in block %d, which has %#x to %#x", d.Name, hash, n, low, high)
		}
		return true
	}))
}

// namer makes names for tests, many of them again and again.
type namer struct {
	rng  *rand.Rand
	pool []string
}

// newNamer has a pool of n names of some style.
func newNamer(t testing.TB, rng *rand.Rand, n int, version uint8, seed [16]byte) *namer {
	r := &namer{rng: rng}
	switch rng.IntN(5) {
	case 0:
		r.addPlain(n, 255)
	case 1:
		r.addPlain(n, 8)
	case 2:
		r.addRandom(n)
	case 3:
		r.addColliding(t, n, version, seed)
	default:
		r.addPlain(n/3, 12)
		r.addRandom(n / 3)
		r.addColliding(t, n/3, version, seed)
	}
	rng.Shuffle(len(r.pool), func(i, j int) { r.pool[i], r.pool[j] = r.pool[j], r.pool[i] })
	return r
}

func (r *namer) addPlain(n, size int) {
	for i := range n {
		r.pool = append(r.pool, string(plainName(i, size)))
	}
}

func (r *namer) addRandom(n int) {
	for _, name := range randomList(r.rng, n, 2, 255).names {
		r.pool = append(r.pool, string(name))
	}
}

// addColliding adds names of which many have one hash.
func (r *namer) addColliding(t testing.TB, n int, version uint8, seed [16]byte) {
	var groups [][]string
	if version%format.HashUnsigned == format.HashLegacy {
		for _, hash := range slices.Sorted(maps.Keys(legacyGroups(t))) {
			groups = append(groups, legacyGroups(t)[hash])
		}
	} else {
		groups = collidingPairs(version, seed)
	}
	for _, g := range groups {
		r.pool = append(r.pool, g[:min(len(g), max(0, n-len(r.pool)))]...)
	}
}

func (r *namer) name() string { return r.pool[r.rng.IntN(len(r.pool))] }

var legacyCache map[uint32][]string

// legacyGroups is collisions, as strings; ASCII names have the same hash signed and unsigned.
func legacyGroups(t testing.TB) map[uint32][]string {
	if legacyCache == nil {
		legacyCache = map[uint32][]string{}
		for hash, list := range collisions(t) {
			for _, name := range list {
				legacyCache[hash] = append(legacyCache[hash], string(name))
			}
		}
	}
	return legacyCache
}

var pairCache = map[string][][]string{}

// collidingPairs finds pairs of long names with one hash.
func collidingPairs(version uint8, seed [16]byte) (pairs [][]string) {
	key := fmt.Sprint(version, seed)
	if found, ok := pairCache[key]; ok {
		return found
	}
	const tries = 300_000
	byHash := make(map[uint32]int32, tries)
	long := strings.Repeat("l", 90)
	for i := range int32(tries) {
		name := fmt.Sprintf("%x%s", i, long)
		hash, _ := format.DirHash(version, seed, []byte(name))
		if before, ok := byHash[hash]; ok {
			pairs = append(pairs, []string{fmt.Sprintf("%x%s", before, long), name})
		}
		byHash[hash] = i
	}
	pairCache[key] = pairs
	return pairs
}
