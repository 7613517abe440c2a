package extent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/journal"
)

// txNodes allocates nodes of a journal's blocks, from the end.
type txNodes struct {
	tx   *journal.Tx
	next format.Block
}

func (n *txNodes) AllocNode(format.Block) (format.Block, error) {
	n.next--
	return n.next, nil
}

func (n *txNodes) FreeNode(b format.Block) error {
	n.tx.Forget(b)
	return nil
}

// BenchmarkInsert adds single blocks that go together with nothing to a file
// through transactions of 100 each.
func BenchmarkInsert(b *testing.B) {
	for name, step := range map[string]uint64{"up": 1, "random": 7919} {
		b.Run(name, func(b *testing.B) {
			g := testGeometry(4096)
			g.BlocksCount = 1 << 26
			j, err := journal.Open(journal.Options{Device: device.NewMem(1 << 38), BlockSize: 4096, Blocks: 1 << 26})
			require.NoError(b, err)
			nodes := &txNodes{next: 1 << 26}
			var root [60]byte
			putHeader(root[:], 0, format.ExtentRootMax, 0)
			inode := testInode(format.InodeExtents, root[:])
			var e *Editor
			l := uint64(0)
			const span = 1 << 21
			for i := range b.N {
				if i%100 == 0 {
					if nodes.tx != nil {
						_, err = nodes.tx.Commit()
						require.NoError(b, err)
					}
					nodes.tx, err = j.Begin()
					require.NoError(b, err)
					e, err = Edit(nodes.tx, nodes, &g, testSums, testIno, inode)
					require.NoError(b, err)
				}
				if i == span {
					b.Fatal("more than fits")
				}
				require.NoError(b, e.Insert(format.Extent{LBlock: format.LBlock(2 * l), Len: 1, Start: format.Block(100 + 2*l)}))
				l = (l + step) % span
			}
		})
	}
}
