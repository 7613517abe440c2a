package format_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/oracle"
)

// inlineParts returns the two places of an inode's inline data.
func inlineParts(t *testing.T, n format.Inode) (iblock, value []byte) {
	t.Helper()
	require.True(t, n.HasFlags(format.InodeInlineData))
	attrs, err := format.DecodeInodeXattrs(n[format.GoodOldInodeSize+int(n.ExtraIsize()):])
	require.NoError(t, err)
	for _, a := range attrs {
		if a.FullName() == "system.data" {
			return n.IBlock(), a.Value
		}
	}
	return n.IBlock(), nil
}

// Files and directories that the kernel has put into inodes.
func TestOracleInline(t *testing.T) {
	for _, inodeSize := range []string{"256", "1024"} {
		t.Run(inodeSize, func(t *testing.T) {
			path := makeImage(t, "4M", "-t", "ext4", "-b", "1024", "-O", "inline_data", "-I", inodeSize)
			contents, names := inlineTree(t, path)
			oracle.Fsck(t, path)
			im := openImage(t, path)
			for name, want := range contents {
				_, n := im.find(t, "/"+name)
				iblock, value := inlineParts(t, n)
				got, err := format.InlineData(iblock, value, n.Size())
				require.NoError(t, err)
				require.Equal(t, want, got, name)
			}
			for dir, want := range names {
				checkInlineDir(t, im, dir, want)
			}
		})
	}
}

// inlineTree makes files of all lengths around the border of i_block, and
// directories with 0 to 8 names of which every third has been removed.
func inlineTree(t *testing.T, path string) (contents map[string][]byte, names map[string][]string) {
	root := oracle.Mount(t, path)
	contents, names = map[string][]byte{}, map[string][]string{}
	for _, size := range []int{1, 2, 59, 60, 61, 80, 100, 110} {
		name, content := fmt.Sprintf("f%d", size), make([]byte, size)
		for i := range content {
			content[i] = byte(rand.Uint32())
		}
		contents[name] = content
		require.NoError(t, os.WriteFile(filepath.Join(root, name), content, 0o600))
	}
	for count := range 9 {
		dir := fmt.Sprintf("d%d", count)
		names[dir] = []string{}
		require.NoError(t, os.Mkdir(filepath.Join(root, dir), 0o700))
		for i := range count {
			require.NoError(t, os.Mkdir(filepath.Join(root, dir, fmt.Sprint("n", i)), 0o700))
			names[dir] = append(names[dir], fmt.Sprint("n", i))
		}
		for i := 0; i < count; i += 3 {
			require.NoError(t, os.Remove(filepath.Join(root, dir, fmt.Sprint("n", i))))
			names[dir] = slices.DeleteFunc(names[dir], func(s string) bool { return s == fmt.Sprint("n", i) })
		}
	}
	oracle.Unmount(t, root)
	return contents, names
}

func checkInlineDir(t *testing.T, im *fixedImage, dir string, want []string) {
	_, n := im.find(t, "/"+dir)
	iblock, value := inlineParts(t, n)
	require.Equal(t, format.RootIno, format.InlineDirParent(iblock))
	got := []string{}
	require.NoError(t, format.WalkInlineDir(iblock, value, func(d format.Dirent) bool {
		if d.Ino != 0 {
			require.Equal(t, format.FTDir, d.Type)
			got = append(got, string(d.Name))
		}
		return true
	}))
	slices.Sort(got)
	require.Equal(t, want, got, dir)
	require.EqualValues(t, n.Size(), 60+len(value), dir)
}
