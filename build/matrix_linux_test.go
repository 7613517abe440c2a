package build

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/internal/mkfs"
	"drydock/internal/oracle"
)

// TestMatrix builds a small tree at every block size, size and profile. All
// are clean for e2fsck; those that the kernel's pages can hold are mounted
// read-write and compared. Sizes from 1 TiB on take minutes and run with
// DRYDOCK_LONG only.
func TestMatrix(t *testing.T) {
	oracle.Need(t, "e2fsck")
	oracle.Root(t)
	tree := plainTree(t, 40)
	sizes := []int64{0, 8 << 20, 200_000_000, 2 << 30, 20 << 30}
	if oracle.IsLong() {
		sizes = append(sizes, 1<<40, 15<<40)
	}
	for _, profile := range mkfs.Profiles() {
		for _, bs := range []int{1024, 2048, 4096, 65536} {
			for _, size := range sizes {
				if size/int64(bs) >= 1<<32 {
					continue // more blocks than 32 bits count
				}
				t.Run(fmt.Sprintf("%s/%d/%d", profile, bs, size), func(t *testing.T) {
					img, _ := image(t, Options{From: []string{tree}, Profile: profile, BlockSize: bs, Size: size})
					oracle.Fsck(t, img)
					if bs <= os.Getpagesize() {
						dir := oracle.Mount(t, img)
						require.Empty(t, oracle.CompareTrees(t, tree, dir, "lost+found", int64(bs)))
						require.NoError(t, os.Chmod(filepath.Join(dir, "d0"), 0o700), "mounted read-write")
					}
				})
			}
		}
	}
}
