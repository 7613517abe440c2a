package cache

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// treeModel is a tree and the same in maps.
type treeModel struct {
	tree   tree
	folios map[uint64]*folio
	dirty  map[uint64]bool
}

// next returns the smallest key from u on.
func next[V any](m map[uint64]V, u uint64) (uint64, bool) {
	keys := slices.Sorted(maps.Keys(m))
	i, _ := slices.BinarySearch(keys, u)
	if i == len(keys) {
		return 0, false
	}
	return keys[i], true
}

func (x *treeModel) put(u uint64, n int) {
	f := &folio{unit: u, units: int16(n)}
	x.tree.put(f, u, n)
	for i := u; i < u+uint64(n); i++ {
		x.folios[i] = f
	}
}

func (x *treeModel) drop(f *folio) {
	x.tree.drop(f)
	for i := f.unit; i < f.unit+uint64(f.units); i++ {
		if x.folios[i] == f {
			delete(x.folios, i)
			delete(x.dirty, i)
		}
	}
}

// unit returns a unit number: small ones, or any, near others.
func (x *treeModel) unit(r *rand.Rand) uint64 {
	u := r.Uint64N(1 << []int{2, 6, 7, 12, 20, 32}[r.IntN(6)])
	if len(x.folios) > 0 && r.IntN(2) == 0 {
		near, _ := next(x.folios, 0)
		u = near + r.Uint64N(200)
	}
	return u
}

func (x *treeModel) step(r *rand.Rand) {
	u, n := x.unit(r), 1<<r.IntN(9)
	switch r.IntN(5) {
	case 0, 1:
		x.put(u&^uint64(n-1), n)
	case 2:
		if v, ok := next(x.folios, u); ok {
			x.drop(x.folios[v])
		}
	case 3:
		if v, ok := next(x.folios, u); ok {
			x.tree.mark(v, 1)
			x.dirty[v] = true
		}
	case 4:
		x.tree.unmark(u, n)
		for i := u; i < u+uint64(n); i++ {
			delete(x.dirty, i)
		}
	}
}

func (x *treeModel) compare(t *testing.T, seed, u uint64, n int) {
	require.Equal(t, x.folios[u], x.tree.get(u), "seed %d, unit %d", seed, u)
	wantUnit, want := next(x.folios, u)
	got, ok := x.tree.nextPresent(u)
	require.Equal(t, want, ok, "seed %d, from %d", seed, u)
	require.Equal(t, wantUnit, got, "seed %d, from %d", seed, u)
	require.Equal(t, want && wantUnit < u+uint64(n), x.tree.occupied(u, n), "seed %d, from %d", seed, u)
	wantUnit, want = next(x.dirty, u)
	got, ok = x.tree.nextDirty(u)
	require.Equal(t, want, ok, "seed %d, dirty from %d", seed, u)
	require.Equal(t, wantUnit, got, "seed %d, dirty from %d", seed, u)
}

// TestTree compares a tree with maps, through random changes.
func TestTree(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		x := &treeModel{folios: map[uint64]*folio{}, dirty: map[uint64]bool{}}
		for range 60 {
			x.step(r)
			x.compare(t, seed, x.unit(r), 1+r.IntN(300))
		}
		owned := map[*folio]int{}
		for _, f := range x.folios {
			owned[f]++
		}
		for f, n := range owned {
			require.Equal(t, n, int(f.owned), "seed %d", seed)
		}
		for _, f := range x.folios {
			x.drop(f)
		}
		require.Nil(t, x.tree.root, "seed %d: nodes without folios", seed)
	}
}

// TestFrames hands frames out and takes them back: no two overlap, and in the end
// all is one again.
func TestFrames(t *testing.T) {
	c := newChunk()
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 3))
		var free frames
		free.give(&c.frames[0], true)
		var out []*frame
		for range 300 {
			if r.IntN(3) > 0 {
				order := r.IntN(maxOrder + 1)
				had := free.has(order)
				f := free.take(order)
				require.Equal(t, had, f != nil, "seed %d", seed)
				if f != nil {
					require.Len(t, f.bytes(), 4096<<order)
					require.Zero(t, int(f.page)%(1<<order), "seed %d: not aligned", seed)
					out = append(out, f)
				}
			} else if len(out) > 0 {
				requireDisjoint(t, seed, out)
				i := r.IntN(len(out))
				free.give(out[i], r.IntN(2) == 0)
				out = slices.Delete(out, i, i+1)
			}
		}
		requireDisjoint(t, seed, out)
		for _, f := range out {
			free.give(f, r.IntN(2) == 0)
		}
		require.Same(t, &c.frames[0], free.take(maxOrder), "seed %d: not one again", seed)
	}
}

func requireDisjoint(t *testing.T, seed uint64, out []*frame) {
	var pages [1 << maxOrder]bool
	for _, f := range out {
		for i := int(f.page); i < int(f.page)+1<<f.order; i++ {
			if pages[i] {
				t.Fatalf("seed %d: page %d is out twice", seed, i)
			}
			pages[i] = true
		}
	}
}
