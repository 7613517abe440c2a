package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/internal/oracle"
)

// TestBlockDevice makes images on a loop device: the whole of it, in a
// partition of it, and not while it is mounted.
func TestBlockDevice(t *testing.T) {
	oracle.Root(t)
	oracle.Need(t, "e2fsck", "blkid")
	tree, file := t.TempDir(), filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(filepath.Join(tree, "name"), []byte("content"), 0o644))
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.NoError(t, os.Truncate(file, 32<<20))
	loop := oracle.Loop(t, file)

	code, stdout, stderr := runMkimg(t, loop, "--from", tree, "--json")
	require.Zero(t, code, stderr)
	require.Equal(t, float64(32<<20), parseJSON(t, stdout)["bytes"], "the device is filled")
	oracle.Fsck(t, loop)

	code, _, stderr = runMkimg(t, loop, "--from", tree)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, loop+": holds ext2/3/4 file system already")
	require.Contains(t, stderr, "hint: --force replaces it")

	dir := oracle.Mount(t, loop)
	require.FileExists(t, filepath.Join(dir, "name"))
	code, _, stderr = runMkimg(t, loop, "--from", tree, "--force")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "mounted at "+dir)
	require.Contains(t, stderr, "hint: unmount it first")
	oracle.Unmount(t, dir)

	code, _, stderr = runMkimg(t, loop, "--from", tree, "--force", "--partition", "gpt", "--label", "data")
	require.Zero(t, code, stderr)
	require.Contains(t, oracle.Run(t, "blkid", "-p", loop), `PTTYPE="gpt"`)
	require.Contains(t, oracle.Run(t, "blkid", "-p", "--offset", "1048576", loop), `TYPE="ext4"`)
	require.NotContains(t, oracle.Run(t, "blkid", "-p", loop), " TYPE=", "the file system that was on the whole device is gone")
}
