package dir

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/oracle"
)

// editorSeed makes the random tests run just one seed again.
const editorSeed = "DRYDOCK_DIR_SEED"

// randomOptions chooses a kind of file system.
func randomOptions(rng *rand.Rand) Options {
	sizes := []int{1024, 1024, 1024, 1024, 1024, 2048, 2048, 4096, 4096, 8192, 16384, 65536}
	o := testOptions(sizes[rng.IntN(len(sizes))])
	o.Csum = rng.IntN(3) > 0
	o.Checksums.Meta = o.Csum
	o.Filetype = rng.IntN(4) > 0
	o.Index = rng.IntN(6) > 0
	o.LargeDir = rng.IntN(3) == 0
	o.HashVersion = uint8(rng.IntN(6))
	return o
}

// Any sequence of operations leaves what a map would hold, and a directory that
// keeps to the rules.
func TestEditorModel(t *testing.T) {
	first, seeds := rand.Uint64(), 300
	if oracle.IsLong() {
		seeds = 10_000
	}
	if s := os.Getenv(editorSeed); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		first, seeds = seed, 1
	}
	indexed, deep := 0, 0
	for seed := first; seed < first+uint64(seeds); seed++ {
		d := runModel(t, seed)
		if d.e.Indexed {
			indexed++
			deep += format.DxRoot(d.s.blocks[0]).Levels()
		}
	}
	t.Logf("%d directories, %d indexed, %d with nodes", seeds, indexed, deep)
	if seeds > 1 {
		require.Greater(t, indexed, seeds/10)
		require.Positive(t, deep)
	}
}

func runModel(t *testing.T, seed uint64) *tested {
	rng := rand.New(rand.NewPCG(seed, 2))
	o := randomOptions(rng)
	d := newTested(t, o)
	defer func() {
		if t.Failed() {
			t.Logf("%s=%d makes this happen again: %+v", editorSeed, seed, o)
		}
	}()
	d.e.Hint = []*Hint{nil, {}}[rng.IntN(2)]
	ops := 20 + rng.IntN(300)
	if rng.IntN(30) == 0 {
		ops *= 10
	}
	if rng.IntN(4) > 0 {
		d.s.given = nil // looking after every block takes long
	}
	names := newNamer(t, rng, ops/2+1, o.HashVersion, o.HashSeed)
	if o.BlockSize == 1024 && rng.IntN(8) == 0 { // grows to a level of nodes
		names.pool, ops = nil, 1200
		names.addPlain(ops, 255)
	}
	growing := rng.IntN(3) > 0
	for i := range ops {
		d.step(rng, names.name(), growing)
		if rng.IntN(1+i/4) == 0 || i == ops-1 {
			d.check(10)
		}
	}
	for _, name := range d.names() {
		d.lookup(d.e.view(), name)
	}
	return d
}

// step does one random operation with a name, which exists or not.
func (d *tested) step(rng *rand.Rand, name string, growing bool) {
	to := target{format.Ino(1 + rng.Uint32N(1<<20)), format.FileType(1 + rng.IntN(7))}
	_, exists := d.model[name]
	kind := rng.IntN(20)
	if exists && growing && kind < 16 {
		kind = 17
	}
	switch {
	case kind < 17 && !exists:
		if err := d.insert(name, to); !errors.Is(err, syscall.ENOSPC) || d.hash(name) != format.MaxDirHash {
			require.NoError(d.t, err, "insert %q", name)
		}
	case kind < 14:
		require.NoError(d.t, d.remove(name), "remove %q", name)
	case kind < 18:
		d.want(exists, d.replace(name, to))
	case kind < 19:
		d.want(exists, d.remove(name))
	default:
		d.parent++
		require.NoError(d.t, d.run(func() error { return d.e.SetParent(d.parent) }))
	}
	d.lookup(d.e.view(), name)
}

// hash is the hash of a name where a new index is made.
func (d *tested) hash(name string) uint32 {
	hash, _ := format.DirHash(d.e.view().hashVersion(d.e.HashVersion), d.e.HashSeed, []byte(name))
	return hash
}

func (d *tested) want(exists bool, err error) {
	if exists {
		require.NoError(d.t, err)
	} else {
		require.ErrorIs(d.t, err, syscall.ENOENT)
	}
}

func TestEditorNames(t *testing.T) {
	d := newTested(t, testOptions(1024))
	require.NoError(t, d.insert("a", target{12, format.FTRegular}))
	require.ErrorIs(t, d.e.Insert(nil, 12, format.FTRegular), syscall.ENOENT)
	require.ErrorIs(t, d.e.Insert(make([]byte, 256), 12, format.FTRegular), syscall.ENAMETOOLONG)
	for _, name := range []string{"a", ".", ".."} {
		require.ErrorIs(t, d.e.Insert([]byte(name), 12, format.FTRegular), syscall.EEXIST)
	}
	for _, name := range []string{".", ".."} {
		require.ErrorIs(t, d.e.Remove([]byte(name)), syscall.EINVAL)
		require.ErrorIs(t, d.e.Replace([]byte(name), 12, format.FTDir), syscall.EINVAL)
	}
	require.ErrorIs(t, d.e.Remove([]byte("b")), syscall.ENOENT)
	d.check(1)
}

// An existing name in the leaf of its hash is met.
func TestInsertTwiceIndexed(t *testing.T) {
	d := newTested(t, testOptions(1024))
	for i := range 200 {
		require.NoError(t, d.insert(fmt.Sprint("name", i), target{12, 1}))
	}
	require.True(t, d.e.Indexed)
	for i := range 200 {
		require.ErrorIs(t, d.insert(fmt.Sprint("name", i), target{12, 1}), syscall.EEXIST)
	}
	d.check(200)
}

// The second block is the moment of the index, as for Linux: a root and two leaves.
func TestIndexBegins(t *testing.T) {
	for _, blockSize := range []int{1024, 4096, 65536} {
		for _, csum := range []bool{false, true} {
			o := testOptions(blockSize)
			o.Csum, o.Checksums.Meta = csum, csum
			d := newTested(t, o)
			for i := 0; !d.e.Indexed; i++ {
				require.EqualValues(t, 1, d.s.NumBlocks())
				require.NoError(t, d.insert(string(plainName(i, 100)), target{12, 1}))
			}
			require.EqualValues(t, 3, d.s.NumBlocks())
			root := format.DxRoot(d.s.blocks[0])
			require.Zero(t, root.Levels())
			require.Equal(t, format.DxRootLimit(blockSize, csum), root.Entries().Limit())
			require.Equal(t, 2, root.Entries().Count())
			require.Equal(t, format.HashHalfMD4, root.HashVersion())
			d.check(1000)
		}
	}
}

// An unknown default hash gives an index of the usual one.
func TestIndexWithUnknownHash(t *testing.T) {
	d := newTested(t, testOptions(1024))
	d.e.HashVersion = format.HashSipHash
	for i := 0; !d.e.Indexed; i++ {
		require.NoError(t, d.insert(string(plainName(i, 100)), target{12, 1}))
	}
	require.Equal(t, format.HashHalfMD4, format.DxRoot(d.s.blocks[0]).HashVersion())
	d.check(10)
}

// A directory that has been linear with more than one block stays so.
func TestLongLinearStays(t *testing.T) {
	o := testOptions(1024)
	d := newTested(t, o)
	_, block, err := d.s.Append()
	require.NoError(t, err)
	d.e.fill(block, 0, leafItems{}, nil)
	for i := range 200 {
		require.NoError(t, d.insert(fmt.Sprint("name", i), target{12, 1}))
	}
	require.False(t, d.e.Indexed)
	d.check(200)
}

// B115: every table of an index leaves room for its checksum. Filled to the
// end, an index of two levels has no space, and with large_dir a third level.
func TestIndexFull(t *testing.T) {
	for _, csum := range []bool{false, true} {
		o := testOptions(1024)
		o.Csum, o.Checksums.Meta, o.HashVersion = csum, csum, format.HashTea
		d := newTested(t, o)
		d.s.given = nil
		err := error(nil)
		i := 0
		for ; err == nil; i++ {
			err = d.e.Insert(plainName(i, 255), 12, 1)
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.Equal(t, 1, format.DxRoot(d.s.blocks[0]).Levels())
		require.Greater(t, i, format.DxRootLimit(1024, csum)*format.DxNodeLimit(1024, csum))
		checkIndex(t, d.e, d.s.memory())
		_, found, err := d.e.view().Lookup(plainName(i-1, 255))
		require.NoError(t, err)
		require.False(t, found)

		blocks := d.s.NumBlocks()
		d.e.LargeDir = true
		for more := range 4000 {
			require.NoError(t, d.e.Insert(plainName(i+more, 255), 12, 1))
		}
		require.Equal(t, 2, format.DxRoot(d.s.blocks[0]).Levels())
		require.Greater(t, d.s.NumBlocks(), blocks+1000)
		checkIndex(t, d.e, d.s.memory())
		for n := range i + 4000 {
			_, found, err := d.e.view().Lookup(plainName(n, 255))
			require.NoError(t, err)
			require.Equal(t, n != i-1 || i-1 >= i, found, n)
		}
	}
}

// Runs of one hash that fill many leaves, and the end of the hashes, where no
// run may pass from leaf to leaf.
func TestRunsInserted(t *testing.T) {
	for name, l := range runLists(t) {
		t.Run(name, func(t *testing.T) {
			d := newTested(t, runOptions())
			rng := newRand(t)
			refused := 0
			for _, i := range rng.Perm(l.Len()) {
				err := d.insert(string(l.names[i]), target{12, 1})
				if errors.Is(err, syscall.ENOSPC) {
					hash, _ := format.DirHash(format.HashLegacy, [16]byte{}, l.names[i])
					require.EqualValues(t, format.MaxDirHash, hash)
					refused++
					continue
				}
				require.NoError(t, err)
			}
			require.Less(t, refused, l.Len()/2)
			d.check(1000)
			for _, i := range rng.Perm(l.Len())[:l.Len()/2] {
				d.want(d.model[string(l.names[i])].ino != 0, d.remove(string(l.names[i])))
			}
			d.check(1000)
		})
	}
}

// Space that runs out in the middle is an error of Space, and the transaction
// is undone; with enough of it the same goes through.
func TestSpaceRunsOut(t *testing.T) {
	d := newTested(t, testOptions(1024))
	failed := 0
	for i := range 600 {
		name, to := string(plainName(i, 200)), target{12, 1}
		for d.s.limit = len(d.s.blocks); ; d.s.limit++ {
			if d.s.limit == 0 {
				continue
			}
			err := d.insert(name, to)
			if err == nil {
				break
			}
			require.ErrorIs(t, err, errFull)
			failed++
		}
	}
	require.Greater(t, failed, 200)
	d.check(1000)
}

// Filling a linear directory does not search it from its start each time.
func TestHint(t *testing.T) {
	o := testOptions(1024)
	o.Index = false
	d := newTested(t, o)
	d.s.given, d.s.reads = nil, 0
	for i := range 5000 {
		require.NoError(t, d.e.Insert(plainName(i, 30+i%4*60), 12, 1))
	}
	require.Less(t, d.s.reads, 4*5000)
	blocks := d.s.NumBlocks()
	require.NoError(t, d.e.Remove(plainName(3, 30+3*60)))
	require.NoError(t, d.e.Insert(plainName(5000, 100), 12, 1))
	require.Equal(t, blocks, d.s.NumBlocks())
	e, found, err := d.e.view().Lookup(plainName(5000, 100))
	require.NoError(t, err)
	require.True(t, found)
	require.Zero(t, e.Block, "the space that became free is used again")
}

// Removing and adding in a full block closes up gaps before it grows.
func TestPackFirst(t *testing.T) {
	for _, index := range []bool{false, true} {
		o := testOptions(1024)
		o.Index = index
		d := newTested(t, o)
		for i := 0; i < 40; i++ {
			require.NoError(t, d.insert(fmt.Sprintf("n%02d", i), target{12, 1}))
		}
		for i := 0; i < 40; i += 2 {
			require.NoError(t, d.remove(fmt.Sprintf("n%02d", i)))
		}
		for i := range 5 {
			require.NoError(t, d.insert(string(plainName(i, 100)), target{12, 1}))
		}
		require.EqualValues(t, 1, d.s.NumBlocks())
		d.check(100)
	}
}

// Without the feature dir_index an index is given up when a name is added, as
// Linux does it; with checksums that cannot be.
func TestIndexWithoutFeature(t *testing.T) {
	for _, csum := range []bool{false, true} {
		o := testOptions(1024)
		o.Csum, o.Checksums.Meta = csum, csum
		d := newTested(t, o)
		for i := range 100 {
			require.NoError(t, d.insert(string(plainName(i, 40)), target{12, 1}))
		}
		require.True(t, d.e.Indexed)
		d.e.DirIndex = false
		require.NoError(t, d.remove(string(plainName(50, 40))))
		err := d.insert("more", target{12, 1})
		if csum {
			require.ErrorIs(t, err, format.ErrUnsupported)
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, csum, d.e.Indexed)
		d.check(100)
	}
}

// B142 and the like: what was removed leaves no trace of its name.
func TestRemovedNameIsGone(t *testing.T) {
	d := newTested(t, testOptions(1024))
	require.NoError(t, d.insert("secret", target{12, 1}))
	require.NoError(t, d.insert("second", target{12, 1}))
	require.NoError(t, d.remove("second"))
	require.NoError(t, d.remove("secret"))
	require.NotContains(t, string(d.s.blocks[0]), "sec")
	d.check(1)
}

func TestInitOfUsedDirectory(t *testing.T) {
	d := newTested(t, testOptions(1024))
	require.ErrorIs(t, d.run(func() error { return d.e.Init(2) }), format.ErrDamaged)
	d.check(1)
}
