package ext4

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/oracle"
)

// sharedImage returns an image of the collection beside the repository.
func sharedImage(t *testing.T, name string) []byte {
	t.Helper()
	return gunzip(t, filepath.Join(oracle.Shared(t, "e2fsprogs-images"), name+".img.gz"))
}

// TestSharedFastCommit replays the image of e2fsprogs' test of fast commits.
func TestSharedFastCommit(t *testing.T) {
	dev := memDev(t, sharedImage(t, "j_recover_fast_commit"))
	for _, o := range []Options{{}, {ReadWrite: true}, {}} {
		fsys, err := Open(dev, o)
		require.NoError(t, err)
		var blocks []string
		for x, err := range fsys.Extents("a/new") {
			require.NoError(t, err)
			blocks = append(blocks, fmt.Sprint(x.Start, x.Len))
		}
		require.Equal(t, []string{"1107 1"}, blocks)
		n := 0
		for _, err := range fsys.Extents("a/data") {
			require.NoError(t, err)
			n++
		}
		require.Equal(t, 5, n)
		st, err := fsys.Statfs()
		require.NoError(t, err)
		require.Equal(t, uint64(14), st.Inodes-st.FreeNodes)
		require.NoError(t, fsys.Close())
	}
}

// journalCases are journals of the collection: whether they can be opened, and
// what the file "a" then begins with in each of its parts.
var journalCases = []struct{ name, content string }{
	{"j_corrupt_commit_tid", "a*2048"},
	{"j_corrupt_descr_tid", "a*3072"},
	{"j_corrupt_revoke_csum", "b*2048"},
	{"j_corrupt_commit_csum", ""},
	{"j_corrupt_descr_csum", ""},
	{"j_corrupt_sb_csum", ""},
	{"j_corrupt_sb_magic", ""},
	{"j_corrupt_revoke_rcount", ""},
}

// TestSharedJournals opens journals with every kind of damage: what Linux would
// replay is replayed, and what it refuses is refused, for reading and for writing,
// without a byte written.
func TestSharedJournals(t *testing.T) {
	for _, c := range journalCases {
		b := sharedImage(t, c.name)
		for _, o := range []Options{{}, {ReadWrite: true}} {
			dev := memDev(t, b)
			fsys, err := Open(dev, o)
			if c.content == "" {
				require.ErrorIs(t, err, ErrNeedsRecovery, c.name)
				require.ErrorIs(t, err, format.ErrDamaged, c.name)
				now := make([]byte, len(b))
				_, _ = dev.ReadAt(now, 0)
				requireSame(t, b, now, c.name)
				continue
			}
			require.NoError(t, err, c.name)
			data, err := fsys.ReadFile("a")
			require.NoError(t, err, c.name)
			letter, count, _ := strings.Cut(c.content, "*")
			var n int
			_, err = fmt.Sscan(count, &n)
			require.NoError(t, err)
			require.Equal(t, strings.Repeat(letter, n), string(data), c.name)
			require.NoError(t, fsys.Close())
		}
	}
}

// TestSharedWrite opens damaged images for writing and changes all sorts of
// things in them: whatever fails, it fails with an error.
func TestSharedWrite(t *testing.T) {
	list, err := filepath.Glob(oracle.Shared(t, "e2fsprogs-images") + "/*.img.gz")
	require.NoError(t, err)
	opened := 0
	for _, path := range list {
		if gunzipSize(t, path) > 16<<20 && !oracle.IsLong() {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(path), ".img.gz")
		t.Run(name, func(t *testing.T) {
			fsys, err := Open(memDev(t, gunzip(t, path)), Options{ReadWrite: true})
			if err != nil {
				t.Log(err)
				return
			}
			opened++
			changeAll(t, fsys)
			t.Log(fsys.Close())
		})
	}
	require.Greater(t, opened, 20)
}

// changeAll changes what is there and makes new things, whatever fails.
func changeAll(t *testing.T, fsys *FS) {
	var paths []string
	_ = fsys.Walk(".", func(path string, _ fs.DirEntry, err error) error {
		if paths = append(paths, path); len(paths) > 200 {
			return fs.SkipAll
		}
		return nil
	})
	var errs []error
	for i, path := range paths {
		errs = append(errs,
			fsys.Mkdir(join(path, "new directory"), 0o700),
			fsys.WriteFile(join(path, "new file"), []byte("data"), 0o600),
			fsys.Symlink(strings.Repeat("t", 20+i%80), join(path, "new link")),
			fsys.SetXattr(path, "user.new", []byte("value"), 0),
			fsys.Chmod(path, 0o755),
			fsys.Truncate(path, 10),
			fsys.Rename(path, fmt.Sprintf("renamed%d", i)),
		)
	}
	errs = append(errs, fsys.Sync())
	for i := range paths {
		errs = append(errs, fsys.RemoveAll(fmt.Sprintf("renamed%d", i)))
	}
	for _, err := range errs {
		if err != nil && !errors.As(err, new(*fs.PathError)) && !strings.Contains(err.Error(), ": ") {
			t.Error("bare error:", err)
		}
	}
}
