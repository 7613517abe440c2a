package mkfs

import (
	"fmt"
	"testing"

	"drydock/internal/oracle"
	"github.com/stretchr/testify/require"
)

// TestHuge has e2fsck read file systems as large as ext4 gets: sparse files.
func TestHuge(t *testing.T) {
	oracle.Need(t, "e2fsck")
	for _, bytes := range []uint64{1 << 40, 15 << 40} {
		for _, bs := range []int{1024, 4096, 65536} {
			for _, profile := range Profiles() {
				f, err := Profile(profile)
				require.NoError(t, err)
				if bs == 1024 && bytes > 1<<40 || !oracle.IsLong() && (bytes > 1<<40 || bs == 1024 || profile != "default") {
					continue
				}
				t.Run(fmt.Sprintf("%d/%s/%d", bytes>>40, profile, bs), func(t *testing.T) {
					_, img := writeImage(t, emptyContent(), Options{BlockSize: bs, Features: f, Blocks: bytes / uint64(bs)})
					oracle.Fsck(t, img)
				})
			}
		}
	}
}
