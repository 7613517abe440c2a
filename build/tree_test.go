package build

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/mkfs"
)

const fileMode = format.ModeRegular | 0o644

func finishTree(t testing.TB, tree *Tree) *mkfs.Content {
	c, err := tree.Finish()
	require.NoError(t, err)
	checkContent(t, c)
	return c
}

func TestTreeOfNothing(t *testing.T) {
	c := finishTree(t, NewTree(TreeOptions{Time: format.Time{Sec: 5}}))
	require.Equal(t, []mkfs.Node{{Mode: format.ModeDir | 0o755, Mtime: format.Time{Sec: 5}}}, c.Nodes)
	require.Empty(t, c.Entries)
}

// TestTreeDoesNotDependOnOrder adds the same things in two orders.
func TestTreeDoesNotDependOnOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 6))
	fill := func() *mkfs.Content {
		tree := NewTree(TreeOptions{})
		dirs := []uint32{RootNode}
		for i := range 20 { // directories 1 to 20, each below an earlier one
			n := tree.AddNode(mkfs.Node{Mode: format.ModeDir | 0o700, UID: uint32(i)})
			tree.Link(dirs[i/3], []byte(fmt.Sprintf("dir%d", i)), n)
			dirs = append(dirs, n)
		}
		for _, i := range r.Perm(40_000) {
			n := mkfs.Node{Mode: fileMode, Size: uint64(i)}
			if i%10 == 0 {
				n.Sparse = true
				n.First, n.Count = tree.AddRanges([]mkfs.Range{{Off: uint64(i), Len: 1}, {Off: uint64(i) + 5, Len: 2}})
			}
			if i%7 == 0 {
				n.Xattrs = tree.AddXattrs([]format.Xattr{{Index: 1, Name: "b", Value: []byte("x")}, {Index: 1, Name: fmt.Sprint(i % 5), Value: nil}})
			}
			node := tree.AddNode(n)
			for j := range 1 + i%3 {
				tree.Link(dirs[(i+j)%len(dirs)], []byte(fmt.Sprintf("file%d", i)), node)
			}
		}
		return finishTree(t, tree)
	}
	a, b := fill(), fill()
	require.Equal(t, withoutPlaces(a), withoutPlaces(b))
	require.Len(t, a.Nodes, 40_021)
	require.Len(t, a.Xattrs, 5)
	require.Equal(t, len(a.Ranges), 8000)
}

func TestTreeIsFilledByMany(t *testing.T) {
	tree := NewTree(TreeOptions{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			dir := tree.AddNode(mkfs.Node{Mode: format.ModeDir})
			tree.Link(RootNode, []byte{'a' + byte(i)}, dir)
			for j := range 1000 {
				n := mkfs.Node{Mode: format.ModeSymlink, First: uint32(tree.AddString([]byte("target")))}
				n.Xattrs = tree.AddXattrs([]format.Xattr{{Index: 1, Name: "a", Value: []byte{byte(j % 3)}}})
				tree.Link(dir, []byte(fmt.Sprint(j)), tree.AddNode(n))
				tree.Warn("what", fmt.Sprint(i))
			}
		})
	}
	wg.Wait()
	c := finishTree(t, tree)
	require.Len(t, c.Nodes, 8009)
	require.Len(t, c.Xattrs, 3)
	require.Equal(t, []Warning{{"what", "0", 8000}}, tree.Warnings())
	node, ok := pathNodes(c)["h/999"]
	require.True(t, ok)
	require.Equal(t, "target", string(c.Names.Get(mkfs.NameRef(c.Nodes[node].First))))
}

func TestTreeLookup(t *testing.T) {
	tree := NewTree(TreeOptions{})
	n := tree.AddNode(mkfs.Node{Mode: fileMode})
	tree.Link(RootNode, []byte("lost+found"), n)
	got, ok := tree.Lookup(RootNode, []byte("lost+found"))
	require.True(t, ok && got == n)
	_, ok = tree.Lookup(RootNode, []byte("other"))
	require.False(t, ok)
}

// TestTreeIndex looks names up while the table grows.
func TestTreeIndex(t *testing.T) {
	tree := NewTree(TreeOptions{})
	defer tree.Discard()
	name := func(i int) []byte { return []byte(fmt.Sprintf("name%d", i)) }
	const count = 20_000
	for i := range count {
		if i == 3000 {
			require.NotZero(t, tree.index.find(tree, 0, name(2999)))
		}
		tree.link(RootNode, name(i), 7)
	}
	for i := range count {
		l := tree.index.find(tree, 0, name(i))
		require.Equal(t, uint32(i+1), l)
	}
	require.Zero(t, tree.index.find(tree, 0, name(count)))
	require.Zero(t, tree.index.find(tree, 1, name(0)))
	require.LessOrEqual(t, tree.index.used*4, len(tree.index.slots)*3)
	require.Equal(t, count, tree.index.used)
}

// TestTreeLimits is B028, B032 and the other limits of ext4.
func TestTreeLimits(t *testing.T) {
	finish := func(o TreeOptions, fill func(tree *Tree, dir uint32)) error {
		tree := NewTree(o)
		dir := tree.AddNode(mkfs.Node{Mode: format.ModeDir})
		tree.Link(RootNode, []byte("dir"), dir)
		fill(tree, dir)
		_, err := tree.Finish()
		tree.Discard()
		return err
	}
	links := func(n int) func(*Tree, uint32) {
		return func(tree *Tree, dir uint32) {
			node := tree.AddNode(mkfs.Node{Mode: fileMode})
			for i := range n {
				tree.Link(dir, []byte(fmt.Sprintf("%06d", i)), node)
			}
		}
	}
	require.NoError(t, finish(TreeOptions{}, links(65000)))
	require.EqualError(t, finish(TreeOptions{}, links(65001)), `"dir/065000": file of 65001 names (hard links), at most 65000 are possible`)

	name := func(n int) func(*Tree, uint32) {
		return func(tree *Tree, dir uint32) {
			tree.Link(dir, []byte(strings.Repeat("n", n)), tree.AddNode(mkfs.Node{Mode: fileMode}))
		}
	}
	require.NoError(t, finish(TreeOptions{}, name(255)))
	err := finish(TreeOptions{}, name(256))
	require.EqualError(t, err, `"dir/`+strings.Repeat("n", 256)+`": name of 256 bytes, at most 255 are possible`)
	var limit *LimitError
	require.ErrorAs(t, err, &limit)
	require.NotEmpty(t, limit.Hint)

	size := func(n uint64) func(*Tree, uint32) {
		return func(tree *Tree, dir uint32) {
			tree.Link(dir, []byte("big"), tree.AddNode(mkfs.Node{Mode: fileMode, Size: n}))
		}
	}
	require.NoError(t, finish(TreeOptions{}, size(4096*(1<<32-1))))
	require.EqualError(t, finish(TreeOptions{}, size(1<<44)), `"dir/big": file of 17592186044416 bytes, at most 17592186040320 are possible`)
	require.EqualError(t, finish(TreeOptions{BlockSize: 1024}, size(1<<42)), `"dir/big": file of 4398046511104 bytes, at most 4398046510080 are possible`)
	require.NoError(t, finish(TreeOptions{BlockSize: 65536}, size(1<<47)))

	many := func(tree *Tree, dir uint32) {
		for i := range 30 {
			tree.Link(dir, []byte(fmt.Sprintf("%02d%s", i, strings.Repeat("n", 300))), tree.AddNode(mkfs.Node{Mode: fileMode}))
		}
	}
	err = finish(TreeOptions{}, many)
	require.Len(t, strings.Split(err.Error(), "\n"), maxListed+1)
	require.ErrorContains(t, err, "and 10 more")
	exclude, _ := NewExclude([]string{"dir/*"})
	require.NoError(t, finish(TreeOptions{Exclude: exclude}, many))

	twice := func(tree *Tree, dir uint32) { name(5)(tree, dir); name(5)(tree, dir) }
	require.ErrorContains(t, finish(TreeOptions{}, twice), `"dir/nnnnn": the name is in its directory twice`)
}

// TestTreeManySubdirectories is B077: as many as there are, no limit on links.
func TestTreeManySubdirectories(t *testing.T) {
	tree := NewTree(TreeOptions{})
	for i := range 70_000 {
		tree.Link(RootNode, []byte(fmt.Sprint(i)), tree.AddNode(mkfs.Node{Mode: format.ModeDir}))
	}
	require.EqualValues(t, 70_000, finishTree(t, tree).Nodes[RootNode].Count)
}

func TestTreeFull(t *testing.T) {
	tree := NewTree(TreeOptions{})
	defer tree.Discard()
	tree.names.n = maxNames - 10
	tree.AddString(make([]byte, 100))
	require.ErrorIs(t, tree.Err(), ErrTooLarge)
	_, err := tree.Finish()
	require.EqualError(t, err, "too many names: the source is too large")

	tree = NewTree(TreeOptions{})
	defer tree.Discard()
	n := tree.nodes.n
	tree.nodes.n = maxNodes
	tree.AddNode(mkfs.Node{})
	tree.nodes.n = n
	require.EqualError(t, tree.Err(), "too many files: the source is too large")
}

// TestTreeOwnersKeepTheRest is B103: a new owner costs neither target nor data.
func TestTreeOwnersKeepTheRest(t *testing.T) {
	owner, err := NewOwnerMap("7:8", nil)
	require.NoError(t, err)
	tree := NewTree(TreeOptions{Owner: owner})
	tree.Link(RootNode, []byte("a"), tree.AddNode(mkfs.Node{Mode: format.ModeSymlink | 0o777, First: uint32(tree.AddString([]byte("target")))}))
	tree.Link(RootNode, []byte("b"), tree.AddNode(mkfs.Node{Mode: format.ModeBlock | 0o600, First: 8, Count: 1}))
	tree.Link(RootNode, []byte("c"), tree.AddNode(mkfs.Node{Mode: fileMode, Size: 5, Source: 99}))
	c := finishTree(t, tree)
	require.Equal(t, "target", string(c.Names.Get(mkfs.NameRef(c.Nodes[1].First))))
	require.Equal(t, mkfs.Node{Mode: format.ModeBlock | 0o600, First: 8, Count: 1, UID: 7, GID: 8, Links: 1}, c.Nodes[2])
	require.Equal(t, mkfs.Node{Mode: fileMode, Size: 5, Source: 99, UID: 7, GID: 8, Links: 1}, c.Nodes[3])
}

// TestTreeEpochAndOwners is B031 and B080: times are clamped, owners changed.
func TestTreeEpochAndOwners(t *testing.T) {
	owner, err := NewOwnerMap("", []string{"0:1000:10"})
	require.NoError(t, err)
	epoch := format.Time{Sec: 1000, Nsec: 5}
	tree := NewTree(TreeOptions{Epoch: &epoch, Owner: owner, Time: format.Time{Sec: 2000}})
	for i, sec := range []int64{-5, 999, 1000, 1001, 1 << 40} {
		tree.Link(RootNode, []byte{byte('a' + i)}, tree.AddNode(mkfs.Node{Mode: fileMode, Mtime: format.Time{Sec: sec, Nsec: 9}, UID: uint32(i), GID: 3}))
	}
	c := finishTree(t, tree)
	for i, want := range []format.Time{{Sec: -5, Nsec: 9}, {Sec: 999, Nsec: 9}, epoch, epoch, epoch} {
		n := c.Nodes[1+i]
		require.Equal(t, want, n.Mtime)
		require.EqualValues(t, 1000+i, n.UID)
		require.EqualValues(t, 1003, n.GID)
	}
	require.Equal(t, epoch, c.Nodes[RootNode].Mtime)
	require.EqualValues(t, 1000, c.Nodes[RootNode].UID)
	require.Equal(t, "e", tree.Warnings()[0].Path)
}

func TestTreeMessages(t *testing.T) {
	e := &UnreadableError{Files: []Unreadable{{"a\nb", "data", fs.ErrPermission}, {"c", "xattr user.x", os.ErrDeadlineExceeded}}}
	require.EqualError(t, e, "2 of the source's files cannot be read:\n  \"a\\nb\": data: permission denied\n  \"c\": xattr user.x: i/o timeout")
	require.True(t, errors.Is(e, fs.ErrPermission) && errors.Is(e, os.ErrDeadlineExceeded))
	require.Contains(t, e.Hint(), "--skip-unreadable")
	b, err := json.Marshal(e.Files[0])
	require.NoError(t, err)
	require.Equal(t, `{"path":"a\nb","what":"data","error":"permission denied"}`, string(b))
	require.Equal(t, `what: "p"`, Warning{"what", "p", 1}.String())
	require.Equal(t, `what: "p" and 2 more`, Warning{"what", "p", 3}.String())
	require.Len(t, quotePath(strings.Repeat("x", 5000)), maxShown+5)
}

func TestNameSlab(t *testing.T) {
	var s nameSlab
	type name struct {
		ref  mkfs.NameRef
		text string
	}
	var names []name
	for i := range 200 {
		text := strings.Repeat(string(rune('a'+i%26)), i*300)
		ref, ok := s.add([]byte(text))
		require.True(t, ok)
		names = append(names, name{ref, text})
	}
	check := func() {
		for _, n := range names {
			require.True(t, string(s.get(n.ref)) == n.text)
		}
	}
	check()
	flat := s.flatten(10)
	check()
	require.Greater(t, len(flat), 2*nameChunk)
	require.GreaterOrEqual(t, cap(flat), len(flat)+10)
	for _, n := range names {
		require.True(t, string(flat.Get(n.ref)) == n.text)
	}
}

func TestSlab(t *testing.T) {
	var s slab[uint64]
	const count = 3<<slabBits + 5
	for i := range uint64(count) {
		require.EqualValues(t, i, s.add(i*i))
	}
	require.EqualValues(t, 81, *s.at(9))
	flat := s.flatten(count-1, 7)
	require.Len(t, flat, count-1)
	require.GreaterOrEqual(t, cap(flat), count+6)
	for i, v := range flat {
		require.EqualValues(t, i*i, v)
	}
	require.Zero(t, s.n)
}

// BenchmarkTree makes trees of 300,000 files, as a scan does, and reports how
// much memory they take at most, on and off the heap.
func BenchmarkTree(b *testing.B) {
	for b.Loop() {
		before := residentNow()
		tree := NewTree(TreeOptions{})
		var dir uint32
		for i := range 300_000 {
			if i%1000 == 0 {
				dir = tree.AddNode(mkfs.Node{Mode: format.ModeDir})
				tree.Link(RootNode, []byte(fmt.Sprintf("dir-%d", i)), dir)
			}
			tree.Link(dir, []byte(fmt.Sprintf("file-%06d.txt", i)), tree.AddNode(mkfs.Node{Mode: fileMode, Size: 100}))
		}
		c, err := tree.Finish()
		require.NoError(b, err)
		b.ReportMetric(float64(residentPeak()-before)/1e6, "peak-MB")
		require.Len(b, c.Nodes, 300_301)
	}
}
