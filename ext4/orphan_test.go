package ext4

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/oracle"
)

// crashed is what a crash leaves of the device behind rec: all that was written.
func crashed(base *device.Mem, rec *device.Recorder) *device.Mem {
	dev := base.Clone()
	for _, e := range rec.Trace().Events {
		if e.Kind == device.EventWrite {
			_, _ = dev.WriteAt(e.Data, e.Off)
		}
	}
	return dev
}

// scattered makes a file whose blocks are extents of their own, with every
// second block a hole.
func scattered(t testing.TB, fsys *FS, name string, blocks int) {
	t.Helper()
	f := openFile(t, fsys, name, os.O_RDWR|os.O_CREATE)
	bs := fsys.geo.BlockSize
	for i := range blocks {
		_, err := f.WriteAt(noise(bs, uint64(i)), int64(2*i*bs))
		require.NoError(t, err)
	}
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

// orphanBase returns a device as a crash leaves it while files that were deleted
// are still open.
func orphanBase(t testing.TB, o FormatOptions) *device.Mem {
	t.Helper()
	empty := formatMem(t, 24<<20, o)
	rec := device.NewRecorder(empty.Clone())
	fsys := openWith(t, rec, Options{})
	require.NoError(t, fsys.Mkdir("dir", 0o755))
	scattered(t, fsys, "large", 3000)
	scattered(t, fsys, "kept", 40)
	require.NoError(t, fsys.WriteFile("dir/small", []byte("small"), 0o600))
	require.NoError(t, fsys.SetXattr("dir/small", "user.x", []byte(strings.Repeat("v", 500)), 0))
	require.NoError(t, fsys.Sync())
	for _, name := range []string{"large", "dir/small", "dir"} {
		_, err := fsys.Open(name)
		require.NoError(t, err)
		require.NoError(t, fsys.Remove(name))
	}
	_, err := fsys.OpenTemp(0o600)
	require.NoError(t, err)
	require.NoError(t, fsys.Sync())
	return crashed(empty, rec)
}

// orphanKinds are the ways in which orphans are noted.
func orphanKinds(t testing.TB) map[string]FormatOptions {
	return map[string]FormatOptions{"list": {BlockSize: 1024}, "file": {BlockSize: 1024, Features: orphanFile(t)}}
}

// TestOrphans deletes what a crash left without a name, and gives all its space
// back.
func TestOrphans(t *testing.T) {
	for name, o := range orphanKinds(t) {
		t.Run(name, func(t *testing.T) {
			dev := orphanBase(t, o)
			ro, err := Open(dev, Options{})
			require.NoError(t, err)
			require.Len(t, names(t, ro), 3) // the root, lost+found, kept
			fsys := openWith(t, dev, Options{})
			require.Empty(t, fsys.orphanInos())
			st, err := fsys.Statfs()
			require.NoError(t, err)
			used := map[string]uint64{"list": 12, "file": 13} // the reserved ones, lost+found, kept, the orphan file
			require.Equal(t, used[name], st.Inodes-st.FreeNodes)
			require.NoError(t, fsys.Close())
			requireSettled(t, dev)
		})
	}
}

func names(t testing.TB, fsys *FS) (list []string) {
	t.Helper()
	tree, err := treeText(fsys)
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(tree), "\n")
}

// requireSettled fails unless the file system is one that was closed well.
func requireSettled(t testing.TB, dev device.Device) {
	t.Helper()
	sb, err := readSuper(dev)
	require.NoError(t, err)
	require.False(t, needsRecovery(sb))
	require.False(t, sb.Features().HasROCompat(format.ROCompatOrphanPresent))
	require.Zero(t, sb.LastOrphan())
	require.Equal(t, uint16(format.StateClean), sb.State())
	fsck(t, dev)
}

// O13, O15, E15, E18, E19, O07, E27: recovery, with the replay of the journal and
// the deletion of orphans in many transactions, is cut off anywhere, and the
// recovery of what that leaves again. The end is always the same.
func TestRecoveryCutOff(t *testing.T) {
	for name, o := range orphanKinds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRand(t)
			base := orphanBase(t, o)
			rec := device.NewRecorder(base.Clone())
			fsys := openWith(t, rec, Options{})
			want := fmt.Sprint(names(t, fsys))
			require.NoError(t, fsys.Close())
			states := 60
			if oracle.IsLong() {
				states = 1500
			}
			for range states {
				cutRecovery(t, r, base, rec.Trace().Events, want)
			}
		})
	}
}

// cutRecovery makes a crash during a recovery, and one during the next.
func cutRecovery(t *testing.T, r *rand.Rand, base *device.Mem, events []device.Event, want string) {
	t.Helper()
	for round := range 2 {
		dev := crashState(r, base, events[:r.IntN(len(events)+1)])
		rec := device.NewRecorder(dev.Clone())
		fsys, err := Open(rec, Options{ReadWrite: true})
		if tornSuper(err) {
			return
		}
		require.NoError(t, err, "round %d", round)
		require.Equal(t, want, fmt.Sprint(names(t, fsys)))
		require.Empty(t, fsys.orphanInos())
		require.NoError(t, fsys.Close())
		if r.IntN(15) == 0 {
			requireSettled(t, crashed(dev, rec))
		}
		base, events = dev, rec.Trace().Events
	}
}

// A file that was deleted while it was open lives on until it is closed, as far
// as data and attributes go.
func TestOpenUnlinked(t *testing.T) {
	dev := formatMem(t, 16<<20, FormatOptions{BlockSize: 1024})
	fsys := openWith(t, dev, Options{})
	before, err := fsys.Statfs()
	require.NoError(t, err)
	f := openFile(t, fsys, "file", os.O_RDWR|os.O_CREATE)
	_, err = f.Write(noise(50_000, 1))
	require.NoError(t, err)
	require.NoError(t, fsys.Remove("file"))
	_, err = fsys.Stat("file")
	require.ErrorIs(t, err, os.ErrNotExist)
	info, err := f.Stat()
	require.NoError(t, err)
	require.Zero(t, StatOf(info).Nlink)
	_, err = f.Seek(0, io.SeekStart)
	require.NoError(t, err)
	data, err := io.ReadAll(f)
	require.NoError(t, err)
	requireSame(t, noise(50_000, 1), data, "file")
	require.NoError(t, f.Chmod(0o600))
	require.NoError(t, f.Sync())
	require.NoError(t, fsys.WriteFile("file", []byte("another"), 0o644))
	require.NoError(t, f.Close())
	require.NoError(t, fsys.Remove("file"))
	require.NoError(t, fsys.Sync())
	after, err := fsys.Statfs()
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoError(t, fsys.Close())
	requireSettled(t, dev)
}

// Files and directories that are still open and deleted when the file system is
// closed leave nothing behind.
func TestCloseDeletes(t *testing.T) {
	dev := formatMem(t, 16<<20, FormatOptions{})
	fsys := openWith(t, dev, Options{})
	f := openFile(t, fsys, "file", os.O_RDWR|os.O_CREATE)
	_, err := f.Write(noise(100_000, 1))
	require.NoError(t, err)
	require.NoError(t, fsys.Mkdir("dir", 0o700))
	d, err := fsys.Open("dir")
	require.NoError(t, err)
	require.NoError(t, fsys.Remove("dir"))
	require.NoError(t, fsys.Remove("file"))
	require.NoError(t, fsys.Close())
	require.NoError(t, f.Close())
	require.NoError(t, d.Close())
	requireSettled(t, dev)
}

// A file without a name gets one, and with it all that was written to it.
func TestLinkFile(t *testing.T) {
	dev := formatMem(t, 16<<20, FormatOptions{})
	fsys := openWith(t, dev, Options{})
	f, err := fsys.OpenTemp(0o640)
	require.NoError(t, err)
	_, err = f.Write([]byte("content"))
	require.NoError(t, err)
	require.NoError(t, fsys.WriteFile("there", []byte("older"), 0o600))
	require.ErrorIs(t, fsys.LinkFile(f, "there", false), os.ErrExist)
	require.NoError(t, fsys.LinkFile(f, "there", true))
	require.NoError(t, fsys.LinkFile(f, "there", true)) // it is that already
	require.NoError(t, fsys.LinkFile(f, "second", false))
	require.NoError(t, f.Close())
	data, err := fsys.ReadFile("there")
	require.NoError(t, err)
	require.Equal(t, "content", string(data))
	info, err := fsys.Stat("second")
	require.NoError(t, err)
	require.Equal(t, uint32(2), StatOf(info).Nlink)
	g, err := fsys.OpenTemp(0o640)
	require.NoError(t, err)
	require.NoError(t, g.Close())
	require.NoError(t, fsys.Close())
	requireSettled(t, dev)
}

// With errors recorded in the superblock nobody trusts its list of orphans: as
// in Linux it is forgotten, and the inodes stay for a check to find.
func TestOrphansWithErrors(t *testing.T) {
	dev := orphanBase(t, FormatOptions{BlockSize: 1024})
	raw, err := load(dev, Options{ReadWrite: true})
	require.NoError(t, err)
	require.NoError(t, raw.recover())
	require.NoError(t, raw.editSuper(func(sb format.Superblock) { sb.SetState(format.StateErrors) }))
	fsys := openWith(t, dev, Options{})
	require.Empty(t, fsys.orphanInos())
	require.NoError(t, fsys.Mkdir("new", 0o700))
	require.NoError(t, fsys.Close())
	sb, err := readSuper(dev)
	require.NoError(t, err)
	require.Equal(t, uint16(format.StateErrors), sb.State())
}

// E23: the number in i_dtime of a deleted inode leads nowhere, however small.
func TestE23SmallDtime(t *testing.T) {
	dev := formatMem(t, 16<<20, FormatOptions{BlockSize: 1024})
	fsys := openWith(t, dev, Options{})
	require.NoError(t, fsys.WriteFile("a", []byte("a"), 0o600))
	require.NoError(t, fsys.WriteFile("b", []byte("b"), 0o600))
	a, err := fsys.Lstat("a")
	require.NoError(t, err)
	b, err := fsys.Lstat("b")
	require.NoError(t, err)
	require.NoError(t, fsys.Remove("b"))
	require.NoError(t, fsys.update(func(tx *Tx) error {
		raw, err := tx.changeInode(StatOf(b).Ino)
		raw.SetDtime(uint32(StatOf(a).Ino))
		return err
	}))
	require.NoError(t, fsys.Close())
	fsys = openWith(t, dev, Options{})
	data, err := fsys.ReadFile("a")
	require.NoError(t, err)
	require.Equal(t, "a", string(data))
	require.NoError(t, fsys.Close())
}

// A damaged list of orphans ends where it cannot be right; what came before is
// deleted, and a check is due.
func TestDamagedOrphanList(t *testing.T) {
	for name, spoil := range map[string]func(tx *Tx, first format.Inode){
		"free inode": func(_ *Tx, raw format.Inode) { raw.SetDtime(100) },
		"reserved":   func(_ *Tx, raw format.Inode) { raw.SetDtime(2) },
		"no inode":   func(_ *Tx, raw format.Inode) { raw.SetDtime(1 << 30) },
		"circle":     func(tx *Tx, raw format.Inode) { raw.SetDtime(uint32(tx.fs.orphanInos()[0])) },
	} {
		t.Run(name, func(t *testing.T) {
			dev := formatMem(t, 16<<20, FormatOptions{BlockSize: 1024})
			fsys := openWith(t, dev, Options{})
			_, err := fsys.OpenTemp(0o600)
			require.NoError(t, err)
			require.NoError(t, fsys.update(func(tx *Tx) error {
				raw, err := tx.changeInode(fsys.orphanInos()[0])
				spoil(tx, raw)
				return err
			}))
			require.NoError(t, fsys.j.Close())
			warned := 0
			fsys = openWith(t, dev, Options{Warn: func(error) { warned++ }})
			require.Positive(t, warned)
			require.Empty(t, fsys.orphanInos())
			require.NoError(t, fsys.Close())
			sb, err := readSuper(dev)
			require.NoError(t, err)
			require.Zero(t, sb.LastOrphan())
			require.NotZero(t, sb.State()&format.StateErrors)
		})
	}
}
