package device

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/internal/oracle"
)

func TestFindMount(t *testing.T) {
	const table = `26 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 26 7:0 / /mnt/with\040space rw,relatime shared:5 master:1 - ext4 /dev/loop0 rw
41 26 0:45 / /mnt/b rw,relatime - btrfs /dev/loop1 rw,space_cache=v2
bad line
42 26 7:3 - ext4
43 26 7:4 / /mnt/back\134slash rw - ext4 /dev/loop4 rw`
	for device, point := range map[string]string{
		"7:0": "/mnt/with space", "/dev/loop1": "/mnt/b", "7:3": "", "7:4": `/mnt/back\slash`, "7:1": "", "/dev/loop": "",
	} {
		require.Equal(t, point, findMount(table, map[string]bool{device: true}), device)
	}
	require.Empty(t, findMount(table, nil))
}

func TestInner(t *testing.T) {
	for _, c := range [][5]int64{ // offset, length, sector, start, end
		{0, 4096, 512, 0, 4096}, {1, 4096, 512, 512, 4096}, {511, 2, 512, 512, 512}, {1, 10, 512, 512, 0},
		{4095, 8194, 4096, 4096, 12288}, {4096, 0, 4096, 4096, 4096},
	} {
		start, end := inner(c[0], c[1], c[2])
		require.Equal(t, [2]int64{c[3], c[4]}, [2]int64{start, end}, c)
	}
}

func TestAdvance(t *testing.T) {
	bufs := [][]byte{{1, 2, 3}, {4}, {5, 6}}
	require.Equal(t, [][]byte{{2, 3}, {4}, {5, 6}}, advance(nonempty(bufs), 1))
	require.Equal(t, [][]byte{{4}, {5, 6}}, advance(nonempty(bufs), 3))
	require.Equal(t, [][]byte{{6}}, advance(nonempty(bufs), 5))
	require.Empty(t, advance(nonempty(bufs), 6))
	require.Equal(t, [][]byte{{1, 2, 3}, {4}, {5, 6}}, bufs)
}

// Hosts that tell no holes: all of the file is data, and nothing past its end.
func TestAllData(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(1000))
	for _, c := range [][3]int64{{0, 500, 500}, {0, 5000, 1000}, {900, 5000, 100}, {1000, 5000, 0}, {2000, 5000, -1000}} {
		s, err := allData(f, c[0], c[1])
		require.NoError(t, err)
		require.Equal(t, Segment{c[0], c[2]}, s)
	}
}

func TestStickyKeepsTheFirstError(t *testing.T) {
	var s sticky
	require.NoError(t, s.keep(nil))
	require.Equal(t, unix.EIO, s.keep(unix.EIO))
	require.Equal(t, unix.EIO, s.keep(nil))
	require.Equal(t, unix.EIO, s.keep(unix.ENOSPC))
}

// The kernel's zeroing is for devices that cannot make holes; loop devices can,
// so it is called by itself here.
func TestBlockZeroOut(t *testing.T) {
	oracle.Root(t)
	image := filepath.Join(t.TempDir(), "a.img")
	require.NoError(t, os.WriteFile(image, bytes.Repeat([]byte{1}, 1<<20), 0o666))
	d, err := Open(oracle.Loop(t, image), Options{})
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, blockRange(d.raw, unix.BLKZEROOUT, 4096, 8192))
	want := bytes.Repeat([]byte{1}, 1<<20)
	clear(want[4096 : 4096+8192])
	got := make([]byte, 1<<20)
	_, err = d.ReadAt(got, 0)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
}
