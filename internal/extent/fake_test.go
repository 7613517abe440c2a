package extent

import (
	"bytes"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// fakeTx stands for a transaction: blocks in memory, changed in place. It is
// an allocator of nodes too, from firstNode on, that reuses nothing.
type fakeTx struct {
	t         testing.TB
	memory    *memory
	blockSize int
	next      format.Block
	nodes     map[format.Block]bool      // allocated
	left      int                        // nodes that may still be allocated; below 0: any number
	frozen    map[format.Block][2][]byte // versions that must not change any more, and copies of them
}

const firstNode = 1 << 30 // behind all data

type fakeVersion struct {
	b       []byte
	checked bool
}

func (v *fakeVersion) Bytes() []byte { return v.b }
func (v *fakeVersion) Checked() bool { return v.checked }
func (v *fakeVersion) SetChecked()   { v.checked = true }

func newFakeTx(t testing.TB, blockSize int) *fakeTx {
	return &fakeTx{t: t, memory: newMemory(), blockSize: blockSize, next: firstNode, left: -1,
		nodes: map[format.Block]bool{}}
}

func (f *fakeTx) get(b format.Block) (version, error) {
	data, ok := f.memory.blocks[b]
	if !ok {
		return nil, fmt.Errorf("block %d: %w", b, errNoBlock)
	}
	return &fakeVersion{b: data}, nil
}

// freeze makes sure that nobody changed a version that was handed over.
func (f *fakeTx) freeze() {
	for b, v := range f.frozen {
		if !bytes.Equal(v[0], v[1]) {
			f.t.Fatalf("block %d was changed in place", b)
		}
	}
	f.frozen = map[format.Block][2][]byte{}
	for b, v := range f.memory.blocks {
		f.frozen[b] = [2][]byte{v, slices.Clone(v)}
	}
}

func (f *fakeTx) Change(b format.Block) ([]byte, error) {
	data, ok := f.memory.blocks[b]
	if !ok {
		return nil, fmt.Errorf("block %d: %w", b, errNoBlock)
	}
	data = slices.Clone(data)
	f.memory.blocks[b] = data
	return data, nil
}

func (f *fakeTx) New(b format.Block) ([]byte, error) {
	f.memory.blocks[b] = make([]byte, f.blockSize)
	return f.memory.blocks[b], nil
}

func (f *fakeTx) AllocNode(format.Block) (format.Block, error) {
	if f.left == 0 {
		return 0, errNoSpace
	}
	f.left--
	f.next++
	f.nodes[f.next] = true
	return f.next, nil
}

func (f *fakeTx) FreeNode(b format.Block) error {
	if !f.nodes[b] {
		return fmt.Errorf("block %d is freed twice", b)
	}
	delete(f.nodes, b)
	delete(f.memory.blocks, b)
	return nil
}

var errNoSpace = fmt.Errorf("no space for a node")

// bench is a tree under test, beside a model that knows each block.
type bench struct {
	t     testing.TB
	r     *rand.Rand
	tx    *fakeTx
	g     format.Geometry
	inode format.Inode
	e     *Editor
	model map[format.LBlock]mapped
	delta int // of editors before
}

// mapped is one block of the model.
type mapped struct {
	b         format.Block
	unwritten bool
}

func newBench(t testing.TB, blockSize int, seed uint64) *bench {
	var root [60]byte
	putHeader(root[:], 0, format.ExtentRootMax, 0)
	m := &bench{t: t, r: rand.New(rand.NewPCG(seed, 2)), tx: newFakeTx(t, blockSize), g: testGeometry(blockSize),
		inode: testInode(format.InodeExtents, root[:]), model: map[format.LBlock]mapped{}}
	m.edit()
	return m
}

// edit begins with a new editor.
func (m *bench) edit() {
	m.tx.freeze()
	if m.e != nil {
		m.delta += m.e.NodeDelta()
	}
	var err error
	m.e, err = edit(m.tx, m.tx, &m.g, testSums, testIno, m.inode)
	require.NoError(m.t, err)
}

func (m *bench) insert(x format.Extent) {
	require.NoError(m.t, m.e.Insert(x), "%+v", x)
	m.add(x)
}

// add adds x to the model.
func (m *bench) add(x format.Extent) {
	for i := range x.Len {
		m.model[x.LBlock+format.LBlock(i)] = mapped{x.Start + format.Block(i), x.Unwritten}
	}
}

// remove removes [from, to) in steps and checks what is freed.
func (m *bench) remove(from, to format.LBlock, budget, pause int) {
	freed := map[format.Block]bool{}
	end := to
	for done := false; !done; {
		before := m.e.touched
		left := pause
		next, d, err := m.e.Remove(from, end, budget, func(start format.Block, n uint32) error {
			for i := range format.Block(n) {
				if freed[start+i] {
					m.t.Fatalf("block %d is freed twice", start+i)
				}
				freed[start+i] = true
			}
			if left--; left == 0 {
				return ErrPause
			}
			return nil
		})
		require.NoError(m.t, err)
		if !d {
			require.Less(m.t, next, end)
			require.Greater(m.t, next, from)
			if budget > 0 {
				require.LessOrEqual(m.t, m.e.touched-before, budget+2*format.MaxExtentDepth)
			}
			m.gone(next, end, freed)
			if m.r.IntN(1+len(m.model)/200) == 0 {
				m.check()
			}
		}
		end, done = next, d
	}
	require.Equal(m.t, from, end)
	m.gone(from, to, freed)
	require.Empty(m.t, freed)
}

// gone takes [from, to) out of the model; freed must hold its blocks.
func (m *bench) gone(from, to format.LBlock, freed map[format.Block]bool) {
	for l, x := range m.between(from, to) {
		if !freed[x.b] {
			m.t.Fatalf("file block %d, block %d: not freed", l, x.b)
		}
		delete(freed, x.b)
		delete(m.model, l)
	}
}

// between yields the blocks of the model in [from, to).
func (m *bench) between(from, to format.LBlock) iter.Seq2[format.LBlock, mapped] {
	if int(to-from) < len(m.model) {
		return func(yield func(format.LBlock, mapped) bool) {
			for l := from; l < to; l++ {
				if x, ok := m.model[l]; ok && !yield(l, x) {
					return
				}
			}
		}
	}
	return func(yield func(format.LBlock, mapped) bool) {
		for l, x := range m.model {
			if l >= from && l < to && !yield(l, x) {
				return
			}
		}
	}
}

func (m *bench) convert(from, to format.LBlock, unwritten bool) {
	require.NoError(m.t, m.e.Convert(from, to, unwritten))
	for l, x := range m.between(from, to) {
		m.model[l] = mapped{x.b, unwritten}
	}
}

// check walks the whole tree with File, which checks every node and checksum,
// and compares it with the model and the nodes with what is allocated.
func (m *bench) check() {
	m.t.Helper()
	f := NewFile(m.tx.memory, m.g, testSums, testIno, m.inode)
	n := 0
	for x, err := range f.Map() {
		require.NoError(m.t, err)
		for i := range x.Len {
			want, ok := m.model[x.LBlock+format.LBlock(i)]
			if !ok || want != (mapped{x.Start + format.Block(i), x.Unwritten}) {
				m.t.Fatalf("file block %d: %+v, want %+v, %v", x.LBlock+format.LBlock(i), x, want, ok)
			}
		}
		n += int(x.Len)
	}
	require.Equal(m.t, len(m.model), n)
	m.checkNodes(f)
}

func (m *bench) checkNodes(f *File) {
	m.t.Helper()
	nodes := map[format.Block]bool{}
	for b, err := range f.Nodes() {
		require.NoError(m.t, err)
		require.False(m.t, nodes[b])
		nodes[b] = true
	}
	require.Equal(m.t, m.tx.nodes, nodes)
	require.Equal(m.t, len(nodes), m.delta+m.e.NodeDelta())
}

// depth returns the depth of the tree.
func (m *bench) depth() int {
	h, err := format.ReadExtentHeader(m.inode.IBlock())
	require.NoError(m.t, err)
	return int(h.Depth)
}

// counts returns the entries of all nodes of a level, 0 being the leaves.
func (m *bench) counts(depth int) (list []int) {
	for b := range m.tx.nodes {
		h, err := format.ReadExtentHeader(m.tx.memory.blocks[b])
		require.NoError(m.t, err)
		if int(h.Depth) == depth {
			list = append(list, int(h.Entries))
		}
	}
	return list
}
