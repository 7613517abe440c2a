package extent

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// damagedBench is a tree of two levels in whose nodes bytes are changed as data
// says: node, offset, value. There are no checksums that would show it.
func damagedBench(t *testing.T, data []byte) *bench {
	m := packed(t, 1024, 84*5, 3)
	m.g.BlocksCount = 1 << 31 // the nodes are inside
	m.withoutSums()
	for ; len(data) >= 4; data = data[4:] {
		node := m.inode.IBlock()
		if k := data[0] % 8; k > 0 {
			if b, ok := m.tx.memory.blocks[firstNode+format.Block(k)]; ok {
				node = b
			}
		}
		node[int(binary.LittleEndian.Uint16(data[1:]))%len(node)] = data[3]
	}
	return m
}

// withoutSums makes the editor one of a file system without checksums.
func (m *bench) withoutSums() {
	var err error
	m.e, err = edit(m.tx, m.tx, &m.g, format.Checksums{}, testIno, m.inode)
	require.NoError(m.t, err)
}

// intact reports whether the tree can be walked, and its blocks.
func (m *bench) intact() (map[format.LBlock]mapped, bool) {
	got := map[format.LBlock]mapped{}
	nodes := map[format.Block]bool{}
	f := NewFile(m.tx.memory, m.g, format.Checksums{}, testIno, m.inode)
	for x, err := range f.Map() {
		if err != nil || len(got) > 1<<21 {
			return map[format.LBlock]mapped{}, false
		}
		for i := range x.Len {
			got[x.LBlock+format.LBlock(i)] = mapped{x.Start + format.Block(i), x.Unwritten}
		}
	}
	for b, err := range f.Nodes() {
		if err != nil || nodes[b] || !m.tx.nodes[b] {
			return map[format.LBlock]mapped{}, false
		}
		nodes[b] = true
	}
	return got, len(nodes) == len(m.tx.nodes)
}

// fuzzOp does one operation; the model follows. It returns the error.
func (m *bench) fuzzOp(r *rand.Rand) error {
	from := format.LBlock(r.IntN(84 * 5 * 3))
	n := uint32(1 + r.IntN(200))
	to := from + format.LBlock(n)
	switch r.IntN(4) {
	case 0:
		x := format.Extent{LBlock: from, Len: 1, Start: format.Block(100000 + 2*r.IntN(50000)), Unwritten: r.IntN(2) == 0}
		err := m.e.Insert(x)
		if _, mapped := m.model[from]; mapped && errors.Is(err, format.ErrDamaged) {
			return nil
		}
		if err == nil {
			m.add(x)
		}
		return err
	case 1:
		unwritten := r.IntN(2) == 0
		err := m.e.Convert(from, to, unwritten)
		for l, x := range m.between(from, to) {
			m.model[l] = mapped{x.b, unwritten}
		}
		return err
	case 2:
		_, err := m.e.Lookup(from)
		return err
	}
	runs := 0
	next, _, err := m.e.Remove(from, to, 3*r.IntN(3), func(format.Block, uint32) error {
		if runs++; runs > 1<<16 {
			m.t.Fatal("no end of freed runs")
		}
		return nil
	})
	for l := range m.between(next, to) {
		delete(m.model, l)
	}
	return err
}

// Whatever is in the nodes, no operation panics or goes on for ever. On a tree
// that can be walked all of them succeed and do what they should.
func FuzzEditor(f *testing.F) {
	f.Add([]byte{}, uint64(1))
	f.Add([]byte{0, 2, 0, 9, 1, 6, 0, 7}, uint64(2))
	f.Add([]byte{1, 4, 0, 1, 2, 2, 0, 0, 2, 3, 0, 0}, uint64(3))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		fuzzEditor(t, data, seed)
	})
}

func fuzzEditor(t *testing.T, data []byte, seed uint64) {
	m := damagedBench(t, data)
	model, intact := m.intact()
	m.model = model
	r := rand.New(rand.NewPCG(seed, 5))
	for range 60 {
		if err := m.fuzzOp(r); err != nil {
			require.False(t, intact, "seed %d: %v", seed, err)
			return
		}
		if intact {
			got, ok := m.intact()
			require.True(t, ok, "seed %d", seed)
			require.Equal(t, m.model, got, "seed %d", seed)
		}
	}
}

// Random damage without the fuzzer: thousands of trees, most of them with
// damage in headers and first entries.
func TestEditorDamage(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 6))
		var data []byte
		for range r.IntN(6) {
			off := r.IntN(1024)
			if r.IntN(3) > 0 {
				off = r.IntN(40)
			}
			data = append(data, byte(r.IntN(8)), byte(off), byte(off>>8), byte(r.IntN(256)>>r.IntN(8)))
		}
		fuzzEditor(t, data, seed)
	}
}
