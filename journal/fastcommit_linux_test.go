package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/oracle"
	"drydock/journal"
)

// Fast commits that Linux wrote: their names are those that Linux itself finds
// after its replay.
func TestKernelFastCommits(t *testing.T) {
	t.Parallel()
	oracle.Root(t)
	image := mkImage(t, "24M", "-b", "4096", "-O", "fast_commit", "-J", "size=8,fast_commit_size=400")
	dir := oracle.Mount(t, image)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "first"), make([]byte, 20000), 0o644))
	oracle.Run(t, "sync", "-f", dir) // a full commit, which must come before the first fast one
	for i := range 40 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint("file", i)))
		require.NoError(t, err)
		_, err = f.Write(make([]byte, 500*i))
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
	}
	ours := snapshot(t, image)
	oracle.Unmount(t, dir)

	dev := loadImage(t, ours)
	sb := imageSuper(t, dev)
	r, err := journal.Scan(imageArea(t, dev), journal.ScanOptions{Blocks: sb.BlocksCount(), InodeSize: int(sb.InodeSize())})
	require.NoError(t, err)
	require.NoError(t, r.Damage)
	require.True(t, r.Dirty)
	var created []string
	for rec, err := range r.FastCommits() {
		require.NoError(t, err)
		if rec.Tag == format.FCCreat {
			created = append(created, string(rec.Dentry().Name))
		}
	}
	require.Greater(t, len(created), 20)
	dir = oracle.Mount(t, ours)
	for _, name := range created {
		_, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
	}
	_, err = os.Stat(filepath.Join(dir, "file39"))
	require.NoError(t, err)
	require.Contains(t, created, "file39")
}
