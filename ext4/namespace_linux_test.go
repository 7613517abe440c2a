package ext4

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/internal/oracle"
)

// writeKinds are the kinds of file systems that are written to in tests.
var writeKinds = []struct{ name, args string }{
	{"1k", "-t ext4 -b 1024"},
	{"4k", "-t ext4 -b 4096"},
	{"no-journal", "-t ext4 -b 2048 -O ^has_journal"},
	{"1.42", "-t ext4 -O none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,flex_bg,sparse_super,large_file,huge_file,uninit_bg,dir_nlink,extra_isize"},
	{"inode-128", "-t ext4 -b 1024 -I 128 -O ^metadata_csum,^64bit"},
	{"orphan_file", "-t ext4 -b 1024 -O orphan_file,metadata_csum_seed"},
	{"no-index", "-t ext4 -b 1024 -O ^dir_index,^filetype"},
	{"meta_bg", "-t ext4 -b 1024 -g 1024 -O meta_bg,^resize_inode,^flex_bg"},
}

// openRW opens an image file for changes; the test ends with a check.
func openRW(t testing.TB, image string, o Options) *FS {
	t.Helper()
	dev, err := device.Open(image, device.Options{})
	require.NoError(t, err)
	o.ReadWrite = true
	fsys, err := Open(dev, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = dev.Close() })
	return fsys
}

func closeRW(t testing.TB, fsys *FS) {
	t.Helper()
	require.NoError(t, fsys.Close())
	require.NoError(t, fsys.dev.(*device.File).Close())
}

func TestNamespace(t *testing.T) {
	oracle.Need(t, "mke2fs")
	for _, k := range writeKinds {
		t.Run(k.name, func(t *testing.T) {
			image := mke2fs(t, 32<<20, strings.Fields(k.args)...)
			fsys := openRW(t, image, Options{})
			require.NoError(t, fsys.Mkdir("dir", 0o755))
			require.NoError(t, fsys.MkdirAll("dir/a/b/c", 0o700))
			f, err := fsys.OpenFile("dir/file", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			require.NoError(t, fsys.Link("dir/file", "hard"))
			require.NoError(t, fsys.Symlink("dir/file", "fast"))
			require.NoError(t, fsys.Symlink(strings.Repeat("x", 100), "slow"))
			require.NoError(t, fsys.Mknod("null", fs.ModeDevice|fs.ModeCharDevice|0o666, 1, 3))
			require.NoError(t, fsys.Rename("dir/a", "moved"))
			require.NoError(t, fsys.Remove("moved/b/c"))
			require.NoError(t, fsys.SetXattr("dir", "user.x", []byte("value"), 0))
			for i := range 300 {
				require.NoError(t, fsys.Mkdir(filepath.Join("dir", strings.Repeat("n", 1+i%100)+string(rune('0'+i%10))+strings.Repeat("z", i/10)), 0o700))
			}
			closeRW(t, fsys)
			oracle.Fsck(t, image)
			fsys = openRW(t, image, Options{})
			require.NoError(t, fsys.RemoveAll("dir"))
			require.NoError(t, fsys.Remove("slow"))
			require.NoError(t, fsys.Remove("hard"))
			closeRW(t, fsys)
			oracle.Fsck(t, image)
		})
	}
}
