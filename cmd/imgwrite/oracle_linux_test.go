package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/ext4"
	"drydock/internal/cli"
	"drydock/internal/oracle"
)

// imgwrite runs the command in this process.
func imgwrite(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, messages bytes.Buffer
	env := &cli.Env{Name: "imgwrite", Stdin: strings.NewReader(""), Stdout: &out, Stderr: &messages, Exit: cli.StandardExit}
	code = env.Run(context.Background(), newCommand(env), args)
	return out.String(), messages.String(), code
}

// must runs the command, which has to succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, messages, code := imgwrite(t, args...)
	require.Zero(t, code, "imgwrite %s: %s", strings.Join(args, " "), messages)
	return out
}

// hardTree is a tree of all that is hard to copy.
func hardTree(t *testing.T) string {
	oracle.Root(t)
	oracle.Need(t, "e2fsck", "mke2fs", "setfacl")
	tree := oracle.HardTree(t)
	oracle.Privileged(t, tree)
	return tree
}

// TestCopyHardTree puts a tree into images of all kinds; the kernel finds it there
// as it was. What get makes of it is the same again.
func TestCopyHardTree(t *testing.T) {
	tree := hardTree(t)
	for name, args := range map[string][]string{
		"default": {"-t", "ext4"}, "meta_bg": {"-t", "ext4", "-O", "meta_bg,^resize_inode"}, "old": {"-t", "ext4", "-O", "^metadata_csum,^64bit,uninit_bg"},
		"no journal": {"-t", "ext4", "-O", "^has_journal"}, "large inodes": {"-t", "ext4", "-I", "1024"},
	} {
		t.Run(name, func(t *testing.T) {
			img := filepath.Join(t.TempDir(), "a.img")
			oracle.Run(t, "mke2fs", append(append([]string{"-q", "-b", "4096"}, args...), img, "96M")...)
			must(t, "put", img, "-r", tree, "/tree")
			out := filepath.Join(t.TempDir(), "out")
			must(t, "get", img, "-r", "/tree", out)
			require.Empty(t, oracle.CompareTrees(t, tree, out, "", 4096))
			archive := filepath.Join(t.TempDir(), "all.tar")
			must(t, "tar-out", img, archive, "/tree/.")
			must(t, "tar-in", img, archive, "/untarred")
			oracle.Fsck(t, img)
			dir := oracle.Mount(t, img)
			require.Empty(t, oracle.CompareTrees(t, tree, filepath.Join(dir, "tree"), "", 4096))
			oracle.Unmount(t, dir)
			oracle.Fsck(t, img)
		})
	}
}

// TestGetStaysInside: links that lie in the target do not lead get outside.
func TestGetStaysInside(t *testing.T) {
	oracle.Need(t, "mke2fs")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.MkdirAll(at("tree/sub"), 0o755))
	require.NoError(t, os.WriteFile(at("tree/sub/file"), []byte("new"), 0o644))
	require.NoError(t, os.WriteFile(at("tree/link"), []byte("new"), 0o644))
	require.NoError(t, os.MkdirAll(at("outside"), 0o755))
	require.NoError(t, os.WriteFile(at("outside/file"), []byte("old"), 0o644))
	require.NoError(t, os.MkdirAll(at("target/tree"), 0o755))
	require.NoError(t, os.Symlink("../../outside", at("target/tree/sub")))
	require.NoError(t, os.Symlink("../../outside/file", at("target/tree/link")))
	img := at("a.img")
	oracle.Run(t, "mke2fs", "-q", "-t", "ext4", img, "16M")
	must(t, "put", img, "-r", at("tree"), "/")

	_, messages, code := imgwrite(t, "get", img, "-r", "/tree", at("target"))
	require.Equal(t, 1, code, messages)
	data, err := os.ReadFile(at("outside/file"))
	require.NoError(t, err)
	require.Equal(t, "old", string(data))
}

// TestGetRefusesNames: an image with names that no kernel makes cannot write
// outside the target.
func TestGetRefusesNames(t *testing.T) {
	for _, name := range []string{"..", ".", "x/y", "/xy", "x\x00y", "../x"} {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			dir := t.TempDir()
			img := filepath.Join(dir, "a.img")
			placeholder := strings.Repeat("N", len(name))
			makeImageWith(t, img, placeholder)
			data, err := os.ReadFile(img)
			require.NoError(t, err)
			at := bytes.Index(data, append([]byte{byte(len(name)), 1}, placeholder...))
			require.Positive(t, at)
			copy(data[at+2:], name)
			require.NoError(t, os.WriteFile(img, data, 0o600))
			target := filepath.Join(dir, "in", "target")
			require.NoError(t, os.MkdirAll(target, 0o755))
			_, _, code := imgwrite(t, "get", img, "-r", "/dir", target)
			_ = code // some names are damage already to the reader, and none gets out
			require.NoFileExists(t, filepath.Join(dir, "in", "x"))
			require.NoFileExists(t, "/xy")
			entries, err := os.ReadDir(filepath.Join(dir, "in"))
			require.NoError(t, err)
			require.Len(t, entries, 1)
		})
	}
}

// makeImageWith makes an image without checksums whose /dir holds a file of that name.
func makeImageWith(t *testing.T, img, name string) {
	t.Helper()
	oracle.Need(t, "mke2fs")
	oracle.Run(t, "mke2fs", "-q", "-t", "ext4", "-O", "^metadata_csum,^has_journal", img, "8M")
	dev, err := device.Open(img, device.Options{})
	require.NoError(t, err)
	fsys, err := ext4.Open(dev, ext4.Options{ReadWrite: true})
	require.NoError(t, err)
	require.NoError(t, fsys.Mkdir("/dir", 0o755))
	require.NoError(t, fsys.WriteFile("/dir/"+name, []byte("data"), 0o644))
	require.NoError(t, fsys.Close())
	require.NoError(t, dev.Close())
}

// TestGoTree puts the tree of the Go toolchain into an image of mke2fs; the kernel
// finds it as it was.
func TestGoTree(t *testing.T) {
	oracle.Long(t)
	oracle.Root(t)
	oracle.Need(t, "e2fsck", "mke2fs")
	tree := strings.TrimSpace(oracle.Run(t, "go", "env", "GOROOT"))
	img := filepath.Join(t.TempDir(), "a.img")
	oracle.Run(t, "mke2fs", "-q", "-t", "ext4", img, "1G")
	must(t, "put", img, "-r", tree, "/go")
	oracle.Fsck(t, img)
	dir := oracle.Mount(t, img)
	require.Empty(t, oracle.CompareTrees(t, tree, filepath.Join(dir, "go"), "", 4096))
	oracle.Unmount(t, dir)
}
