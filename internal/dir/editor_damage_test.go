package dir

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/oracle"
)

// watched is a Space that counts what is changed.
type watched struct {
	*space
	changes int
}

func (w *watched) Change(l format.LBlock) ([]byte, error) {
	w.changes++
	return w.space.Change(l)
}

func (w *watched) Append() (format.LBlock, []byte, error) {
	w.changes++
	return w.space.Append()
}

// damagedEditor edits blocks whose checksums count as right whatever they hold.
func damagedEditor(o Options, data []byte, indexed, large bool) (*Editor, *watched) {
	s := &space{blockSize: o.BlockSize, changed: map[format.LBlock][]byte{}}
	for b := range bytesChunks(data, o.BlockSize) {
		s.blocks = append(s.blocks, bytes.Clone(b))
		s.verified = append(s.verified, true)
	}
	w := &watched{space: s}
	e := newEditor(o, w)
	e.Indexed, e.LargeDir = indexed, large
	return e, w
}

func bytesChunks(data []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for ; len(data) >= size; data = data[size:] {
			if !yield(data[:size]) {
				return
			}
		}
	}
}

// edit does one operation. The error must be of a known kind, and after damage
// nothing may have changed.
func edit(t testing.TB, e *Editor, w *watched, kind int, name []byte) error {
	w.changes, w.reads = 0, 0
	var err error
	switch kind % 5 {
	case 0:
		err = e.Insert(name, 77, format.FTRegular)
	case 1:
		err = e.Remove(name)
	case 2:
		err = e.Replace(name, 77, format.FTDir)
	case 3:
		err = e.SetParent(77)
	default:
		_, err = e.Empty()
	}
	var errno syscall.Errno
	switch {
	case err == nil:
	case errors.Is(err, format.ErrDamaged), errors.Is(err, format.ErrUnsupported), errors.As(err, &errno):
		require.Zero(t, w.changes, "changed before %v", err)
	default:
		require.NoError(t, err)
	}
	require.LessOrEqual(t, w.reads, 5*int(w.NumBlocks())+10)
	return err
}

// editBase makes directories to damage: name of the kind, and blocks.
func editBases(t testing.TB, csum bool) (o Options, bases map[string][][]byte) {
	o = testOptions(1024)
	o.Csum, o.Checksums.Meta, o.LargeDir = csum, csum, true
	bases = map[string][][]byte{}
	for kind, n := range map[string]int{"empty": 0, "one": 20, "index": 60, "deep": 520} {
		d := newTested(t, o)
		size := map[bool]int{false: 24, true: 255}[kind == "deep"]
		for i := range n {
			require.NoError(t, d.insert(string(plainName(i, size)), target{12, format.FTRegular}))
		}
		bases[kind] = d.s.blocks
	}
	return o, bases
}

// Random damage in one to three places, then a few operations.
func TestEditorRandomDamage(t *testing.T) {
	seed, rounds := rand.Uint64(), 4000
	if oracle.IsLong() {
		rounds *= 100
	}
	t.Logf("random seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	kinds := map[string]int{}
	for _, csum := range []bool{false, true} {
		o, bases := editBases(t, csum)
		for range rounds {
			kind := []string{"empty", "one", "index", "index", "deep"}[rng.IntN(5)]
			data := bytes.Join(bases[kind], nil)
			for range 1 + rng.IntN(3) {
				at := rng.IntN(len(data))
				if rng.IntN(2) == 0 {
					at = rng.IntN(min(len(data), 1024/16)) // heads matter most
				}
				data[at] = byte(rng.Uint32())
			}
			e, w := damagedEditor(o, data, kind == "index" || kind == "deep", rng.IntN(2) == 0)
			for range 6 {
				size := map[bool]int{false: 24, true: 255}[kind == "deep"]
				err := edit(t, e, w, rng.IntN(8)/2, plainName(rng.IntN(70), size))
				kinds[fmt.Sprint(errors.Is(err, format.ErrDamaged), err == nil)]++
			}
		}
	}
	t.Log(kinds)
	require.Greater(t, kinds["true false"], rounds/20)
	require.Greater(t, kinds["false true"], rounds)
}

// What each kind of damage is called, and that nothing is changed then.
func TestEditorDamage(t *testing.T) {
	for want, c := range map[string]struct {
		base   string
		damage func(b [][]byte)
		kind   int
	}{
		"length 7, want a multiple":             {"one", func(b [][]byte) { b[0][28] = 7 }, 0},
		`does not begin with "." and ".."`:      {"one", func(b [][]byte) { b[0][8] = 'x' }, 3},
		"has no room for a checksum":            {"one", func(b [][]byte) { b[0][1024-5] = 0 }, 0},
		"count 0, want 1 to":                    {"index", func(b [][]byte) { b[0][34] = 0 }, 0},
		"is a leaf and a part of the index":     {"index", func(b [][]byte) { b[0][36], b[0][44], b[0][52], b[0][60] = 0, 0, 0, 0 }, 0},
		"named by the index, but the directory": {"index", func(b [][]byte) { b[0][36], b[0][44], b[0][52], b[0][60] = 99, 99, 99, 99 }, 0},
		"htree root at 0x1e: 7 levels":          {"deep", func(b [][]byte) { b[0][30] = 7 }, 1},
		"htree root at 0x1c: hash version 5":    {"deep", func(b [][]byte) { b[0][28] = 5 }, 2},
		"hash of casefolded and encrypted":      {"deep", func(b [][]byte) { b[0][28] = format.HashSipHash }, 0},
	} {
		o, bases := editBases(t, true)
		blocks := bases[c.base]
		c.damage(blocks)
		e, w := damagedEditor(o, bytes.Join(blocks, nil), c.base == "index" || c.base == "deep", true)
		err := edit(t, e, w, c.kind, plainName(3, 24))
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "directory inode 19088743")
	}
}

// A wrong checksum is found before anything is changed.
func TestEditorChecksums(t *testing.T) {
	for _, kind := range []int{0, 1, 2} {
		for at := range 3 {
			d := newTested(t, testOptions(1024))
			for i := range 24 {
				require.NoError(t, d.insert(string(plainName(i, 40)), target{12, 1}))
			}
			require.EqualValues(t, 3, d.s.NumBlocks())
			d.s.blocks[at][1023] ^= 1
			clear(d.s.verified)
			w := &watched{space: d.s}
			d.e.Space = w
			failed := 0
			for i := range 24 {
				if errors.Is(edit(t, d.e, w, kind, plainName(i, 40)), format.ErrDamaged) {
					failed++
				}
			}
			require.Positive(t, failed)
			require.Equal(t, at == 0, failed == 24)
		}
	}
}

// Each block is verified once.
func TestVerifiedOnce(t *testing.T) {
	d := newTested(t, testOptions(1024))
	for i := range 60 {
		require.NoError(t, d.insert(string(plainName(i, 24)), target{12, 1}))
	}
	clear(d.s.verified)
	v := d.e.view()
	require.NoError(t, v.Walk(func(format.LBlock, format.Dirent) bool { return true }))
	for n, verified := range d.s.verified {
		require.True(t, verified, n)
		d.s.blocks[n][1023] ^= 1
	}
	for i := range 60 {
		_, found, err := v.Lookup(plainName(i, 24))
		require.NoError(t, err)
		require.True(t, found)
	}
}

func FuzzEditor(f *testing.F) {
	for _, csum := range []bool{false, true} {
		_, bases := editBases(f, csum)
		for kind, blocks := range bases {
			f.Add(bytes.Join(blocks[:min(len(blocks), 16)], nil), plainName(3, 24), csum, kind != "empty" && kind != "one", uint16(0x1234))
		}
	}
	f.Add(make([]byte, 1024), []byte("x"), false, false, uint16(0))
	f.Fuzz(func(t *testing.T, data, name []byte, csum, indexed bool, ops uint16) {
		o := testOptions(1024)
		o.Csum, o.Checksums.Meta = csum, csum
		e, w := damagedEditor(o, data[:min(len(data), 32*1024)], indexed, ops&1 == 1)
		for ; ops > 0; ops >>= 3 {
			edit(t, e, w, int(ops&7), name)
		}
	})
}
