package ext4

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"drydock/device"
	"drydock/internal/mkfs"
	"drydock/internal/oracle"
	"github.com/stretchr/testify/require"
)

// TestFormat formats devices full of old data (B113: stale journal blocks
// must not replay).
func TestFormat(t *testing.T) {
	for _, size := range []int64{1 << 20, 8 << 20, 20_000_000} {
		for _, bs := range []int{1024, 4096} {
			t.Run(fmt.Sprintf("%d/%d", size, bs), func(t *testing.T) {
				dev := device.NewMem(size)
				junk := make([]byte, 1<<20)
				for i := range junk {
					junk[i] = byte(i*7) | 1
				}
				for off := int64(0); off < size; off += int64(len(junk)) {
					_, err := dev.WriteAt(junk[:min(int64(len(junk)), size-off)], off)
					require.NoError(t, err)
				}
				require.NoError(t, Format(dev, FormatOptions{BlockSize: bs, UUID: [16]byte{1}}))
				fsys, err := Open(dev, Options{})
				require.NoError(t, err)
				entries, err := fsys.ReadDir(".")
				require.NoError(t, err)
				require.Len(t, entries, 1)
				require.Equal(t, "lost+found", entries[0].Name())
				oracle.Need(t, "e2fsck")
				path := filepath.Join(t.TempDir(), "fs.img")
				f, err := os.Create(path)
				require.NoError(t, err)
				buf := make([]byte, size)
				_, err = dev.ReadAt(buf, 0)
				require.NoError(t, err)
				_, err = f.Write(buf)
				require.NoError(t, err)
				require.NoError(t, f.Close())
				oracle.Fsck(t, path)
			})
		}
	}
}

func TestFormatTooSmall(t *testing.T) {
	err := Format(device.NewMem(32<<10), FormatOptions{})
	var small *mkfs.SizeError
	require.ErrorAs(t, err, &small)
	require.NoError(t, Format(device.NewMem(int64(small.Smallest())), FormatOptions{}))
}
