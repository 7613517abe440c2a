package xattr

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// fakeTx stands for a transaction and its allocator: blocks in memory.
type fakeTx struct {
	t         testing.TB
	blockSize int
	blocks    map[format.Block][]byte
	used      map[format.Block]bool // allocated
	left      int                   // blocks that may still be allocated; below 0: any number
	onAbort   []func()
	goals     []format.Block
}

type fakeVersion struct{ b []byte }

func (v fakeVersion) Bytes() []byte { return v.b }
func (v fakeVersion) Checked() bool { return false }
func (v fakeVersion) SetChecked()   {}

func (f *fakeTx) get(b format.Block) (version, error) {
	data, ok := f.blocks[b]
	if !ok {
		return nil, fmt.Errorf("block %d: %w", b, errNoBlock)
	}
	return fakeVersion{data}, nil
}

func (f *fakeTx) Change(b format.Block) ([]byte, error) {
	if _, ok := f.blocks[b]; !ok || !f.used[b] {
		return nil, fmt.Errorf("block %d: %w", b, errNoBlock)
	}
	f.blocks[b] = slices.Clone(f.blocks[b])
	return f.blocks[b], nil
}

func (f *fakeTx) New(b format.Block) ([]byte, error) {
	f.blocks[b] = make([]byte, f.blockSize)
	return f.blocks[b], nil
}

func (f *fakeTx) OnAbort(fn func()) { f.onAbort = append(f.onAbort, fn) }

// AllocBlock gives the same block again soon after it was freed, so that stale
// hints are found out.
func (f *fakeTx) AllocBlock(goal format.Block) (format.Block, error) {
	if f.left == 0 {
		return 0, errNoSpace
	}
	f.left--
	f.goals = append(f.goals, goal)
	for b := format.Block(100); ; b++ {
		if !f.used[b] {
			f.used[b] = true
			return b, nil
		}
	}
}

var errNoBlock = fmt.Errorf("no such block")

var errNoSpace = fmt.Errorf("no space for a block")

// FreeBlock leaves the content, as a disk does.
func (f *fakeTx) FreeBlock(b format.Block) error {
	if !f.used[b] {
		return fmt.Errorf("block %d is freed twice", b)
	}
	delete(f.used, b)
	return nil
}

// begin returns a function that makes all undone.
func (f *fakeTx) begin() (abort func()) {
	blocks, used := maps.Clone(f.blocks), maps.Clone(f.used)
	f.onAbort = nil
	return func() {
		for _, fn := range slices.Backward(f.onAbort) {
			fn()
		}
		for b, data := range f.blocks { // what was never committed may still be there
			if _, ok := blocks[b]; !ok {
				blocks[b] = data
			}
		}
		f.blocks, f.used = blocks, used
	}
}

// bench is a store with some inodes, beside a model.
type bench struct {
	t      *testing.T
	r      *rand.Rand
	tx     *fakeTx
	s      *Store
	inodes []format.Inode
	model  []map[string]string
	blocks []int  // that each inode is charged
	fixed  int    // bytes of an inode before its attributes
	fields []byte // what they are
}

var testSums = format.Checksums{Meta: true, Seed: 7}

func newBench(t *testing.T, blockSize, inodeSize, extra, inodes int, seed uint64) *bench {
	tx := &fakeTx{t: t, blockSize: blockSize, blocks: map[format.Block][]byte{}, used: map[format.Block]bool{}, left: -1}
	g := &format.Geometry{BlockSize: blockSize, BlocksCount: 1 << 20, InodesPerGroup: 8192, InodesCount: 8192, BlocksPerGroup: 8192, InodeSize: inodeSize}
	m := &bench{t: t, r: rand.New(rand.NewPCG(seed, 1)), tx: tx, s: NewStore(g, testSums)}
	m.fixed = format.GoodOldInodeSize + extra
	for range inodes {
		n := format.Inode(make([]byte, inodeSize))
		for i := range n[:m.fixed] {
			n[i] = byte(i)
		}
		n.SetFlags(0)
		n.SetFileACL(0)
		n.SetExtraIsize(uint16(extra))
		m.fields = slices.Clone(n[:m.fixed])
		m.inodes = append(m.inodes, n)
		m.model = append(m.model, map[string]string{})
		m.blocks = append(m.blocks, 0)
	}
	return m
}

// check compares all inodes with the model, blocks and their users with what
// is allocated, and looks for what e2fsck would find.
func (m *bench) check() {
	m.t.Helper()
	refs := map[format.Block]uint32{}
	for i, n := range m.inodes {
		m.checkInode(i)
		require.Equal(m.t, m.blocks[i], count(n.FileACL()))
		if b := n.FileACL(); b != 0 {
			refs[b]++
		}
	}
	require.Len(m.t, m.tx.used, len(refs))
	for b, n := range refs {
		raw := m.tx.blocks[b]
		require.True(m.t, m.tx.used[b])
		require.Equal(m.t, n, format.XattrBlock(raw).Refcount())
		require.True(m.t, testSums.VerifyXattrBlock(b, raw))
		m.checkEntries(raw)
	}
}

func (m *bench) checkEntries(raw []byte) {
	var list []format.Xattr
	require.NoError(m.t, format.WalkXattrBlock(raw, func(e format.XattrEntry) bool {
		list = append(list, e.Xattr)
		return e.HashOK(false) || m.t.Failed()
	}))
	require.NotEmpty(m.t, list)
	require.True(m.t, slices.IsSortedFunc(list, format.CompareXattrs))
}

func (m *bench) checkInode(i int) {
	m.t.Helper()
	list, err := m.s.read(m.tx, format.Ino(i+1), m.inodes[i])
	require.NoError(m.t, err)
	got := map[string]string{}
	for _, x := range list {
		got[x.FullName()] = string(x.Value)
	}
	require.Len(m.t, list, len(got))
	require.Equal(m.t, m.model[i], got)
	fields := slices.Clone(m.inodes[i][:m.fixed])
	format.Inode(fields).SetFileACL(0)
	require.True(m.t, bytes.Equal(m.fields, fields), "fields of the inode changed")
}
