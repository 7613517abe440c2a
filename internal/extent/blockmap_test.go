package extent

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// mapBlock puts block b into the ext2 map of the inode, at file block l.
func (m *bench) mapBlock(l format.LBlock, b format.Block) {
	path, ok := format.BlockPathOf(l, m.g.BlockSize)
	require.True(m.t, ok)
	at := m.inode.IBlock()
	for level := 0; level < path.Levels; level++ {
		p := format.BlockPointer(at, path.Index[level])
		if p == 0 {
			p, _ = m.tx.AllocNode(0)
			_, err := m.tx.New(p)
			require.NoError(m.t, err)
			format.PutBlockPointer(at, path.Index[level], p)
			m.delta++
		}
		at = m.tx.memory.blocks[p]
	}
	format.PutBlockPointer(at, path.Index[path.Levels], b)
	m.model[l] = mapped{b: b}
}

// blockMapped returns a bench whose inode has an ext2 map.
func blockMapped(t *testing.T, seed uint64) *bench {
	m := newBench(t, 1024, seed)
	m.g.Features.Incompat = format.IncompatExtents
	m.inode.SetFlags(0)
	clear(m.inode.IBlock())
	return m
}

func (m *bench) convertMap() error {
	e, err := edit(m.tx, m.tx, &m.g, testSums, testIno, m.inode)
	require.ErrorIs(m.t, err, ErrBlockMap)
	m.e = e
	return e.FromBlockMap()
}

func TestFromBlockMap(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := blockMapped(t, seed)
			l := format.LBlock(0)
			for n := 0; n < 60 && l < 1<<20; n++ {
				run := 1 + m.r.IntN(100)
				for i := range run {
					m.mapBlock(l+format.LBlock(i), format.Block(10+l)+format.Block(i))
				}
				l += format.LBlock(run + m.r.IntN(1<<(2+seed%17)))
			}
			require.NoError(t, m.convertMap())
			require.True(t, m.inode.HasFlags(format.InodeExtents))
			m.check()
			require.NoError(t, m.e.FromBlockMap())
			m.remove(500, 1<<19, 0, 0)
			m.check()
		})
	}
}

func TestFromBlockMapRefuses(t *testing.T) {
	m := blockMapped(t, 1)
	m.g.Features.Incompat = 0
	require.ErrorIs(t, m.convertMap(), format.ErrUnsupported)
	m = blockMapped(t, 1)
	m.mapBlock(3, 5)
	m.mapBlock(200, 1<<31)
	m.g.BlocksCount = 1 << 31
	require.ErrorIs(t, m.convertMap(), format.ErrDamaged)
}
