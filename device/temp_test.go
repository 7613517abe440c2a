package device_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
)

// entries are the names in a folder.
func entries(t testing.TB, dir string) (names []string) {
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func createTemp(t testing.TB, path string, o device.TempOptions) *device.Temp {
	d, err := device.CreateTemp(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { d.Abort() })
	return d
}

// Hosts without files that have no name, and without a rename that never
// replaces, give the same results in another way.
func TestTempOnPoorHosts(t *testing.T) {
	tests := map[string]func(*testing.T){
		"commit": TestTempCommit, "abort": TestTempAbort, "unasked": TestTempNeverReplacesUnasked,
		"force": TestTempForce, "refuse": TestTempForceRefusesOthers, "symlink": TestTempThroughSymlink,
		"mode": TestTempMode, "long": TestTempOfLongName, "race": TestTempRace,
	}
	for _, lacks := range []string{"unnamed", "unnamed and rename"} {
		device.LackUnnamed(t)
		if strings.Contains(lacks, "rename") {
			device.LackRename(t)
		}
		for name, test := range tests {
			t.Run(lacks+"/"+name, test)
		}
	}
	dir := t.TempDir()
	d := createTemp(t, filepath.Join(dir, "a.img"), device.TempOptions{Size: 10})
	require.Regexp(t, `^\.a\.img\.[0-9a-f]{12}\.tmp$`, entries(t, dir)[0])
	require.NoError(t, d.Abort())
	require.Empty(t, entries(t, dir))
}

func TestTempCommit(t *testing.T) {
	for _, sync := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.img")
		d := createTemp(t, path, device.TempOptions{Size: 8192})
		require.Equal(t, path, d.Path())
		_, err := d.WriteAt([]byte("content"), 1000)
		require.NoError(t, err)
		require.NoError(t, d.Flush())
		require.NotContains(t, entries(t, dir), "a.img", "not there before it is whole")
		require.NoError(t, d.Commit(sync))
		require.Equal(t, []string{"a.img"}, entries(t, dir))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Len(t, got, 8192)
		require.Equal(t, "content", string(got[1000:1007]))

		require.NoError(t, d.Abort(), "too late to do anything")
		require.ErrorIs(t, d.Commit(sync), fs.ErrClosed)
		require.FileExists(t, path)
	}
}

func TestTempAbort(t *testing.T) {
	dir := t.TempDir()
	d := createTemp(t, filepath.Join(dir, "a.img"), device.TempOptions{Size: 8192})
	require.NoError(t, d.Abort())
	require.NoError(t, d.Abort())
	require.NoError(t, d.Close())
	require.ErrorIs(t, d.Commit(false), fs.ErrClosed)
	require.Empty(t, entries(t, dir))
}

func TestTempNeverReplacesUnasked(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.img")
	late := createTemp(t, path, device.TempOptions{Size: 8192})
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o666))
	_, err := device.CreateTemp(path, device.TempOptions{Size: 8192})
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, path)
	require.ErrorIs(t, late.Commit(false), fs.ErrExist)
	require.NoError(t, late.Abort())
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(got))
	require.Equal(t, []string{"a.img"}, entries(t, dir))
}

func TestTempForce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.img")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	d := createTemp(t, path, device.TempOptions{Size: 8192, Force: true})
	_, err := device.CreateTemp(path, device.TempOptions{Size: 8192, Force: true})
	require.ErrorIs(t, err, device.ErrInUse, "two cannot replace it at once")
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(got))
	require.NoError(t, d.Commit(true))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 8192, info.Size())
	if runtime.GOOS != "windows" {
		require.Equal(t, fs.FileMode(0o600), info.Mode(), "what nobody else could read stays so")
	}
	require.Equal(t, []string{"a.img"}, entries(t, dir))

	fresh := createTemp(t, filepath.Join(dir, "b.img"), device.TempOptions{Force: true})
	require.NoError(t, fresh.Commit(false))
	require.Equal(t, []string{"a.img", "b.img"}, entries(t, dir))
}

func TestTempForceRefusesOthers(t *testing.T) {
	dir := t.TempDir()
	_, err := device.CreateTemp(dir, device.TempOptions{Force: true})
	require.ErrorContains(t, err, "not a regular file")
	_, err = device.CreateTemp(dir, device.TempOptions{})
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = device.CreateTemp(filepath.Join(dir, "none", "a.img"), device.TempOptions{})
	require.ErrorIs(t, err, fs.ErrNotExist)

	used := filepath.Join(dir, "used.img")
	d, err := device.Create(used, 4096)
	require.NoError(t, err)
	defer d.Close()
	_, err = device.CreateTemp(used, device.TempOptions{Force: true})
	require.ErrorIs(t, err, device.ErrInUse)
	require.Equal(t, []string{"used.img"}, entries(t, dir))
}

func TestTempThroughSymlink(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "deep", "real.img")
	require.NoError(t, os.Mkdir(filepath.Dir(target), 0o777))
	require.NoError(t, os.WriteFile(target, nil, 0o666))
	link := filepath.Join(dir, "link.img")
	if err := os.Symlink(target, link); err != nil {
		t.Skip("skipped: needs symlinks")
	}
	_, err := device.CreateTemp(link, device.TempOptions{})
	require.ErrorIs(t, err, fs.ErrExist)
	d := createTemp(t, link, device.TempOptions{Size: 4096, Force: true})
	require.NoError(t, d.Commit(false))
	info, err := os.Stat(target)
	require.NoError(t, err)
	require.EqualValues(t, 4096, info.Size())
	require.Equal(t, []string{"deep", "link.img"}, entries(t, dir))

	require.NoError(t, os.Remove(target))
	_, err = device.CreateTemp(link, device.TempOptions{Force: true})
	require.ErrorIs(t, err, fs.ErrNotExist, "where the link leads is not for us to decide")
}

func TestTempMode(t *testing.T) {
	dir := t.TempDir()
	plain, err := os.Create(filepath.Join(dir, "plain"))
	require.NoError(t, err)
	require.NoError(t, plain.Close())
	require.NoError(t, createTemp(t, filepath.Join(dir, "a.img"), device.TempOptions{}).Commit(false))
	want, err := os.Stat(filepath.Join(dir, "plain"))
	require.NoError(t, err)
	got, err := os.Stat(filepath.Join(dir, "a.img"))
	require.NoError(t, err)
	require.Equal(t, want.Mode(), got.Mode())
}

func TestTempOfLongName(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 255))
	require.NoError(t, createTemp(t, path, device.TempOptions{}).Commit(false))
	require.NoError(t, createTemp(t, path, device.TempOptions{Force: true}).Commit(false))
}

// One of many that make the same image at once comes first; no other gets it.
func TestTempRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.img")
	var wg sync.WaitGroup
	var won atomic.Int32
	var winner atomic.Uint32
	var all [8]*device.Temp
	for i := range all {
		all[i] = createTemp(t, path, device.TempOptions{Size: 4096})
	}
	for i, d := range all {
		wg.Go(func() {
			d.WriteAt(bytes.Repeat([]byte{byte(i)}, 4096), 0)
			if d.Commit(false) == nil {
				won.Add(1)
				winner.Store(uint32(i))
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, won.Load())
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat([]byte{byte(winner.Load())}, 4096), got)
}
