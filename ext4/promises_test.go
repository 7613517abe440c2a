package ext4

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tree of a file gets more extents, by other means than writing, between a
// write and its writeback: the write was promised fewer nodes then than it needs in the
// end. It finds them all the same, and the promises of all come out even.
func TestTreeGrowsUnderPromise(t *testing.T) {
	for name, grow := range map[string]func(f *File, block int64) error{
		"allocate": func(f *File, b int64) error { return f.Allocate(20*b, b, false) },
		"punch":    func(f *File, b int64) error { return f.PunchHole(11*b, b) },
		"zero":     func(f *File, b int64) error { return f.ZeroRange(11*b, b, false) },
		"direct": func(f *File, b int64) error {
			_, err := f.WriteDirect(noise(int(b), 5), 30*b)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys, dev := newFS(t, 16<<20, FormatOptions{BlockSize: 1024}, Options{})
			const block = 1024
			f := openFile(t, fsys, "f", os.O_RDWR|os.O_CREATE)
			for _, at := range []int64{0} {
				_, err := f.WriteAt(noise(block, uint64(at)), at*block)
				require.NoError(t, err)
			}
			_, err := f.WriteAt(noise(3*block, 10), 10*block)
			require.NoError(t, err)
			require.NoError(t, f.Sync())
			for i := range int64(2) {
				_, err = f.WriteAt(noise(block, uint64(40+i)), (40+2*i)*block)
				require.NoError(t, err)
			}
			require.NoError(t, grow(f, block))
			require.NoError(t, f.Sync())
			_, reserved, _, _ := fsys.alloc.Totals()
			require.Zero(t, reserved)
			require.NoError(t, f.Close())
			closeAndFsck(t, fsys, dev)
		})
	}
}
