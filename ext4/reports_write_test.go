package ext4

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/oracle"
)

// blockSizes are what reports about removing and creating are tried with.
var blockSizes = []string{"1024", "2048", "4096"}

// B001, B158: removing a file and making others touches no third one; the image
// is clean after every step.
func TestB001RemoveAndCreate(t *testing.T) {
	oracle.Need(t, "mke2fs", "e2fsck")
	for _, bs := range blockSizes {
		dev, steps := emptyFS(t, 16<<20, "-b", bs), 8
		if oracle.IsLong() {
			dev, steps = emptyFS(t, 600<<20, "-b", bs), 40
		}
		content := func(i int) []byte { return noise(4096+904*(i%2), uint64(i)) }
		there := map[string]int{}
		for step := range steps {
			fsys := openWith(t, dev, Options{})
			name := fmt.Sprint("file", step)
			if step%4 == 3 {
				name = fmt.Sprint("file", step-2)
				require.NoError(t, fsys.Remove(name))
				delete(there, name)
			} else {
				require.NoError(t, fsys.WriteFile(name, content(step), 0o644))
				there[name] = step
			}
			require.NoError(t, fsys.Close())
			fsck(t, dev)
			for name, i := range there {
				data, err := fsys2(t, dev).ReadFile(name)
				require.NoError(t, err)
				requireSame(t, content(i), data, name)
			}
		}
	}
}

// fsys2 opens a device for reading.
func fsys2(t testing.TB, dev device.Device) *FS {
	t.Helper()
	fsys, err := Open(dev, Options{})
	require.NoError(t, err)
	return fsys
}

// B011: directories are made with descriptors of 32 and of 64 bytes, and larger.
func TestB011DescriptorSizes(t *testing.T) {
	oracle.Need(t, "mke2fs", "e2fsck")
	for _, args := range []string{"-O ^64bit", "-O 64bit", "-O 64bit -E desc_size=128", "-O ^64bit,^metadata_csum,uninit_bg", "-O ^64bit,^metadata_csum"} {
		dev := emptyFS(t, 24<<20, strings.Fields("-b 1024 "+args)...)
		fsys := openWith(t, dev, Options{})
		for i := range 40 {
			require.NoError(t, fsys.Mkdir(fmt.Sprint("dir", i), 0o755))
		}
		require.NoError(t, fsys.Close())
		fsck(t, dev)
	}
}

// B023: what is not written is refused by name, for writing only.
func TestB023RefusesByName(t *testing.T) {
	for _, c := range []struct {
		set  format.Features
		want string
	}{
		{format.Features{ROCompat: format.ROCompatBigalloc}, "features bigalloc"},
		{format.Features{ROCompat: format.ROCompatQuota | format.ROCompatProject}, "features quota project"},
		{format.Features{ROCompat: format.ROCompatVerity | 1<<30}, "features verity FEATURE_R30"},
		{format.Features{ROCompat: format.ROCompatReadonly | format.ROCompatSharedBlocks}, "features read-only shared_blocks"},
		{format.Features{Incompat: format.IncompatMMP | format.IncompatInlineData}, "features mmp inline_data"},
		{format.Features{Incompat: format.IncompatEAInode | format.IncompatEncrypt | format.IncompatCasefold}, "features ea_inode encrypt casefold"},
	} {
		b := editSuper(t, "ext4", func(sb format.Superblock) {
			sb.SetFeatures(sb.Features().With(c.set))
			if c.set.HasROCompat(format.ROCompatBigalloc) {
				sb.SetClustersPerGroup(sb.BlocksPerGroup())
			}
		})
		dev := memDev(t, b)
		_, err := Open(dev, Options{ReadWrite: true})
		require.ErrorIs(t, err, format.ErrUnsupported)
		require.ErrorContains(t, err, c.want)
		now := make([]byte, len(b))
		_, _ = dev.ReadAt(now, 0)
		require.True(t, bytes.Equal(b, now))
	}
	_, err := Open(memDev(t, gunzip(t, "testdata/ext2.img.gz")), Options{ReadWrite: true})
	require.ErrorIs(t, err, format.ErrUnsupported)
	require.ErrorContains(t, err, "extent")
}

// B025, B101, B109, B128: targets up to a block less one byte are kept, longer
// ones refused; removing a link frees no more than it has.
func TestB025Targets(t *testing.T) {
	oracle.Need(t, "mke2fs", "e2fsck")
	for _, bs := range []int{1024, 4096, 8192} {
		dev := emptyFS(t, 24<<20, "-b", fmt.Sprint(bs))
		fsys := openWith(t, dev, Options{})
		before, err := fsys.Statfs()
		require.NoError(t, err)
		lengths := []int{1, 58, 59, 60, 61, 255, min(bs, 4096) - 1}
		for _, n := range lengths {
			require.NoError(t, fsys.Symlink(strings.Repeat("/lib/systemd", n)[:n], fmt.Sprint("link", n)))
		}
		require.ErrorIs(t, fsys.Symlink(strings.Repeat("t", min(bs, 4096)), "long"), syscall.ENAMETOOLONG)
		require.ErrorIs(t, fsys.Symlink("", "empty"), syscall.ENOENT)
		require.NoError(t, fsys.Close())
		fsck(t, dev)
		fsys = openWith(t, dev, Options{})
		for _, n := range lengths {
			target, err := fsys.Readlink(fmt.Sprint("link", n))
			require.NoError(t, err)
			require.Equal(t, strings.Repeat("/lib/systemd", n)[:n], target)
			require.NoError(t, fsys.Remove(fmt.Sprint("link", n)))
		}
		require.NoError(t, fsys.Sync())
		after, err := fsys.Statfs()
		require.NoError(t, err)
		require.Equal(t, before, after)
		require.NoError(t, fsys.Close())
		fsck(t, dev)
	}
}

// B028, B077: a directory of more than 65,000 has a link count of 1 and an index,
// a file that many names and no more.
func TestB028ManyLinks(t *testing.T) {
	oracle.Long(t)
	oracle.Need(t, "e2fsck")
	dev := formatMem(t, 160<<20, FormatOptions{BlockSize: 1024, Inodes: 68_000})
	fsys := openWith(t, dev, Options{})
	require.NoError(t, fsys.MkdirAll("many/0", 0o700))
	for at := 1; at < 65_100; at += 200 {
		require.NoError(t, fsys.Update(func(tx *Tx) error {
			for i := at; i < at+200; i++ {
				if err := tx.Mkdir(fmt.Sprint("many/", i), 0o700); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	links := func(name string) uint32 {
		info, err := fsys.Stat(name)
		require.NoError(t, err)
		return StatOf(info).Nlink
	}
	require.Equal(t, uint32(1), links("many"))
	require.NoError(t, fsys.Remove("many/77"))
	require.Equal(t, uint32(1), links("many"))

	require.NoError(t, fsys.WriteFile("file", nil, 0o600))
	require.NoError(t, fsys.update(func(tx *Tx) error { // as if it had the names already
		in, err := tx.resolve("file", false)
		if err != nil {
			return err
		}
		raw, err := tx.changeInode(in.num)
		raw.SetLinksCount(format.LinkMax - 1)
		return err
	}))
	require.NoError(t, fsys.Link("file", "second"))
	require.ErrorIs(t, fsys.Link("file", "third"), syscall.EMLINK)
	require.NoError(t, fsys.update(func(tx *Tx) error {
		in, err := tx.resolve("file", false)
		if err != nil {
			return err
		}
		raw, err := tx.changeInode(in.num)
		raw.SetLinksCount(2)
		return err
	}))
	require.NoError(t, fsys.Close())
	fsck(t, dev)
}

// The count of an indexed directory becomes 1 when it would pass the limit, and
// stays that.
func TestDirLinksOne(t *testing.T) {
	fsys := openWith(t, formatMem(t, 16<<20, FormatOptions{BlockSize: 1024}), Options{})
	for i := range 40 {
		require.NoError(t, fsys.MkdirAll(fmt.Sprintf("dir/%d%s", i, strings.Repeat("n", 100)), 0o700))
	}
	links := func(set uint16) (got uint16) {
		require.NoError(t, fsys.update(func(tx *Tx) error {
			in, err := tx.resolve("dir", false)
			if err != nil {
				return err
			}
			raw, err := tx.changeInode(in.num)
			if set != 0 {
				raw.SetLinksCount(set)
			}
			got = raw.LinksCount()
			return err
		}))
		return got
	}
	require.Equal(t, uint16(42), links(0))
	links(format.LinkMax)
	require.NoError(t, fsys.Mkdir("dir/one", 0o700))
	require.Equal(t, uint16(1), links(0))
	require.NoError(t, fsys.Mkdir("dir/two", 0o700))
	require.NoError(t, fsys.Remove("dir/one"))
	require.Equal(t, uint16(1), links(0))
}

// Without dir_nlink, or without an index, the limit holds for directories, too.
func TestDirLinkLimit(t *testing.T) {
	f, err := format.Features{}.Apply("has_journal,ext_attr,dir_index,filetype,extent,sparse_super,large_file,extra_isize,metadata_csum")
	require.NoError(t, err)
	fsys := openWith(t, formatMem(t, 16<<20, FormatOptions{Features: f}), Options{})
	require.NoError(t, fsys.Mkdir("dir", 0o700))
	require.NoError(t, fsys.update(func(tx *Tx) error {
		in, err := tx.resolve("dir", false)
		if err != nil {
			return err
		}
		raw, err := tx.changeInode(in.num)
		raw.SetLinksCount(format.LinkMax)
		return err
	}))
	require.ErrorIs(t, fsys.Mkdir("dir/sub", 0o700), syscall.EMLINK)
	require.NoError(t, fsys.Mkdir("sub", 0o700))
	require.ErrorIs(t, fsys.Rename("sub", "dir/sub"), syscall.EMLINK)
}

// B022, B119, B130: needs_recovery decides, not the state, and all that is read
// after the replay is what the replay has put there: here a superblock with
// another label and a root directory that was damaged on the disk.
func TestB119ReplayFirst(t *testing.T) {
	base := formatMem(t, 16<<20, FormatOptions{BlockSize: 1024, Label: "before"})
	rec := device.NewRecorder(base.Clone())
	fsys := openWith(t, rec, Options{})
	require.NoError(t, fsys.Mkdir("dir", 0o755))
	require.NoError(t, fsys.SetLabel("after"))
	require.NoError(t, fsys.Sync())
	dev := crashed(base, rec)
	sb, err := readSuper(dev)
	require.NoError(t, err)
	require.Equal(t, uint16(format.StateClean), sb.State())
	require.True(t, needsRecovery(sb))
	require.Equal(t, "before", sb.VolumeName())
	var root format.Block
	for x, err := range fsys.Extents(".") {
		require.NoError(t, err)
		root = x.Start
	}
	_, err = dev.WriteAt(make([]byte, 1024), int64(root)*1024)
	require.NoError(t, err)
	for _, o := range []Options{{}, {ReadWrite: true}} {
		fsys, err := Open(dev, o)
		require.NoError(t, err)
		require.Equal(t, "after", fsys.Label())
		_, err = fsys.Stat("dir")
		require.NoError(t, err)
		require.NoError(t, fsys.Close())
	}
	requireSettled(t, dev)
}

// B041: a file system without a journal that is not closed says that it needs a
// check, from before its first change on.
func TestB041NoJournal(t *testing.T) {
	base := formatMem(t, 16<<20, FormatOptions{NoJournal: true})
	rec := device.NewRecorder(base.Clone())
	fsys := openWith(t, rec, Options{})
	require.NoError(t, fsys.Mkdir("dir", 0o755))
	require.NoError(t, fsys.Sync())
	first := rec.Trace().Events[0]
	require.Equal(t, int64(format.SuperblockOffset), first.Off)
	require.True(t, first.FUA)
	sb, err := readSuper(crashed(base, rec))
	require.NoError(t, err)
	require.Zero(t, sb.State()&format.StateClean)
	require.NoError(t, fsys.Close())
	sb, err = readSuper(crashed(base, rec))
	require.NoError(t, err)
	require.Equal(t, uint16(format.StateClean), sb.State())
}

// O06, E21: needs_recovery is on the disk, durable, before the first write to the
// log, and leaves it after the log is empty; also after a recovery.
func TestO06NeedsRecovery(t *testing.T) {
	base := formatMem(t, 16<<20, FormatOptions{BlockSize: 1024})
	for range 2 {
		rec := device.NewRecorder(base.Clone())
		fsys := openWith(t, rec, Options{})
		require.NoError(t, fsys.Mkdir(fmt.Sprint("dir", len(names(t, fsys))), 0o755))
		require.NoError(t, fsys.Sync())
		requireStepped(t, base, rec)
		base = crashed(base, rec)
		require.NoError(t, fsys.Close())
		requireStepped(t, base, rec)
	}
}

// requireStepped fails unless at each event the mark was set when there was
// something in the log.
func requireStepped(t *testing.T, base *device.Mem, rec *device.Recorder) {
	t.Helper()
	dev := base.Clone()
	for i, e := range rec.Trace().Events {
		if e.Kind == device.EventWrite {
			_, err := dev.WriteAt(e.Data, e.Off)
			require.NoError(t, err)
		}
		fsys, err := load(dev, Options{})
		require.NoError(t, err)
		log, _, err := fsys.scan()
		require.NoError(t, err)
		require.False(t, log.Dirty && !needsRecovery(fsys.super), "event %d", i)
	}
}

// K22: a create that finds no space leaves nothing behind, neither an inode nor a
// place in the list of orphans.
func TestK22NoSpace(t *testing.T) {
	oracle.Need(t, "e2fsck")
	dev := formatMem(t, 8<<20, FormatOptions{BlockSize: 1024, Inodes: 8192, JournalBlocks: 1024})
	fsys := openWith(t, dev, Options{})
	var failed error
	for i := 0; failed == nil; i++ {
		failed = fsys.Mkdir(fmt.Sprint("directory ", i, strings.Repeat("n", 100)), 0o700)
	}
	require.ErrorIs(t, failed, syscall.ENOSPC)
	var errno syscall.Errno
	require.True(t, errors.As(failed, &errno))
	before := fmt.Sprint(names(t, fsys))
	for i := range 50 {
		_ = fsys.Symlink(strings.Repeat("t", 200), fmt.Sprint(strings.Repeat("s", 150), i))
		_ = fsys.SetXattr("lost+found", "user.x", bytes.Repeat([]byte{1}, 500), 0)
	}
	require.Empty(t, fsys.orphanInos())
	require.Contains(t, fmt.Sprint(names(t, fsys)), before[:100])
	require.NoError(t, fsys.Close())
	fsck(t, dev)
}

// E06, K29: an error that the journal has recorded is put into the superblock,
// which is durable before it leaves the journal.
func TestE06JournalError(t *testing.T) {
	for _, dirty := range []bool{false, true} {
		base := formatMem(t, 16<<20, FormatOptions{BlockSize: 1024})
		if dirty {
			rec := device.NewRecorder(base.Clone())
			fsys := openWith(t, rec, Options{})
			require.NoError(t, fsys.Mkdir("dir", 0o755))
			require.NoError(t, fsys.Sync())
			base = crashed(base, rec)
		}
		fsys, err := load(base, Options{})
		require.NoError(t, err)
		log, area, err := fsys.scan()
		require.NoError(t, err)
		js := append(format.JournalSuperblock(nil), log.Super...)
		js.SetErrno(-5)
		require.NoError(t, area.WriteSuperblock(js))

		rec := device.NewRecorder(base.Clone())
		require.NoError(t, openWith(t, rec, Options{}).Close())
		events := rec.Trace().Events
		for n := range len(events) + 1 {
			dev := base.Clone()
			for i, e := range events[:n] {
				if e.Kind == device.EventWrite && (e.FUA || durable(e, events[i:n])) {
					_, err := dev.WriteAt(e.Data, e.Off)
					require.NoError(t, err)
				}
			}
			fsys, err := load(dev, Options{})
			require.NoError(t, err)
			log, _, err := fsys.scan()
			require.NoError(t, err)
			require.True(t, log.Errno != 0 || fsys.super.State()&format.StateErrors != 0, "after event %d: the error is lost", n)
		}
		sb, err := readSuper(crashed(base, rec))
		require.NoError(t, err)
		require.NotZero(t, sb.State()&format.StateErrors)
	}
}

// Rule 14 of replays: an error recorded in the superblock stays, though the
// replay puts an older superblock in place.
func TestErrorKeptOverReplay(t *testing.T) {
	base := formatMem(t, 16<<20, FormatOptions{BlockSize: 1024})
	rec := device.NewRecorder(base.Clone())
	fsys := openWith(t, rec, Options{})
	require.NoError(t, fsys.SetLabel("label")) // the superblock is in the log
	require.NoError(t, fsys.Sync())
	dev := crashed(base, rec)
	raw, err := load(dev, Options{ReadWrite: true})
	require.NoError(t, err)
	require.NoError(t, raw.editSuper(func(sb format.Superblock) { recordError(sb, 77) }))
	require.NoError(t, openWith(t, dev, Options{}).Close())
	sb, err := readSuper(dev)
	require.NoError(t, err)
	require.NotZero(t, sb.State()&format.StateErrors)
	require.Equal(t, uint32(1), sb.ErrorCount())
	require.Equal(t, uint64(77), sb.LastErrorTime())
	require.Equal(t, "label", sb.VolumeName())
}

// E14: a journal whose inode was lost is found through its copy in the
// superblock, replayed, and gets its inode back.
func TestE14JournalInode(t *testing.T) {
	oracle.Need(t, "mke2fs", "e2fsck")
	for _, args := range []string{"-b 1024", "-b 1024 -O ^metadata_csum,^64bit", "-b 1024 -I 128 -O ^metadata_csum"} {
		base := emptyFS(t, 16<<20, strings.Fields(args)...)
		rec := device.NewRecorder(base.Clone())
		fsys := openWith(t, rec, Options{})
		require.NoError(t, fsys.Mkdir("dir", 0o755))
		require.NoError(t, fsys.Sync())
		dev := crashed(base, rec)
		block, at, err := fsys.merged().inodePlace(format.JournalIno)
		require.NoError(t, err)
		_, err = dev.WriteAt(make([]byte, fsys.geo.InodeSize), int64(block)*1024+int64(at))
		require.NoError(t, err)
		ro := fsys2(t, dev)
		_, err = ro.Stat("dir")
		require.NoError(t, err)
		require.NoError(t, openWith(t, dev, Options{}).Close())
		fsck(t, dev)
		_, err = fsys2(t, dev).Stat("dir")
		require.NoError(t, err)
	}
}

// Mutations through a file system opened for reading, one that is closed, and
// one whose device has failed, are refused.
func TestRefusesChanges(t *testing.T) {
	dev := formatMem(t, 16<<20, FormatOptions{})
	ro := fsys2(t, dev)
	rw := openWith(t, dev.Clone(), Options{})
	require.NoError(t, rw.Close())
	for _, c := range []struct {
		fsys *FS
		want error
	}{{ro, syscall.EROFS}, {rw, fs.ErrClosed}} {
		for _, err := range []error{
			c.fsys.Mkdir("x", 0o700), c.fsys.Remove("lost+found"), c.fsys.Rename("lost+found", "x"), c.fsys.Symlink("t", "x"),
			c.fsys.Chmod("lost+found", 0o700), c.fsys.WriteFile("x", nil, 0o600), c.fsys.SetXattr(".", "user.x", nil, 0),
			c.fsys.Truncate("x", 0), c.fsys.Update(func(*Tx) error { return nil }), c.fsys.Sync(), c.fsys.MkdirAll("x/y", 0o700), c.fsys.RemoveAll("x"),
		} {
			require.ErrorIs(t, err, c.want)
		}
	}
}

// A journal that cannot be written any more turns the file system read-only: the
// error is in the superblock, reading goes on, and what was acknowledged is there
// after a recovery.
func TestAbort(t *testing.T) {
	base := formatMem(t, 16<<20, FormatOptions{BlockSize: 1024})
	fault := device.NewFault(base, nil)
	fsys := openWith(t, fault, Options{})
	require.NoError(t, fsys.Mkdir("durable", 0o700))
	require.NoError(t, fsys.Sync())
	area := func() (from, n int64) {
		for x, err := range fsys.merged().mustJournal(t).Extents() {
			require.NoError(t, err)
			return int64(x.Start+1) * 1024, int64(x.Len-1) * 1024
		}
		return 0, 0
	}
	from, n := area()
	bad := errors.New("no more writes")
	fault.SetRule(device.FailRange(device.OpWrite|device.OpFUA, from, n, bad))
	require.NoError(t, fsys.Mkdir("lost", 0o700))
	err := fsys.Sync()
	require.ErrorIs(t, err, bad)
	require.ErrorIs(t, fsys.Err(), bad)
	require.ErrorIs(t, fsys.Mkdir("more", 0o700), syscall.EROFS)
	_, err = fsys.Stat("durable")
	require.NoError(t, err)
	require.Error(t, fsys.Close())
	sb, err := readSuper(base)
	require.NoError(t, err)
	require.NotZero(t, sb.State()&format.StateErrors)
	require.True(t, needsRecovery(sb))
	fsys = openWith(t, base, Options{})
	_, err = fsys.Stat("durable")
	require.NoError(t, err)
	require.NoError(t, fsys.Close())
}

// mustJournal opens the journal's inode as a file.
func (r reader) mustJournal(t testing.TB) *File {
	t.Helper()
	f, err := r.fs.OpenInode(format.JournalIno)
	require.NoError(t, err)
	return f
}

// Update takes all of its operations or none; one that fails alone leaves nothing.
func TestUpdate(t *testing.T) {
	dev := formatMem(t, 16<<20, FormatOptions{})
	fsys := openWith(t, dev, Options{})
	boom := errors.New("boom")
	require.NoError(t, fsys.WriteFile("old", []byte("old"), 0o644))
	before := fmt.Sprint(names(t, fsys))
	require.ErrorIs(t, fsys.Update(func(tx *Tx) error {
		require.NoError(t, tx.MkdirAll("a/b/c", 0o700))
		require.NoError(t, tx.WriteFile("a/file", noise(10_000, 3), 0o600))
		require.NoError(t, tx.Rename("old", "a/new"))
		require.NoError(t, tx.Truncate("a/new", 1))
		return boom
	}), boom)
	require.Equal(t, before, fmt.Sprint(names(t, fsys)))
	data, err := fsys.ReadFile("old")
	require.NoError(t, err)
	require.Equal(t, "old", string(data))
	require.NoError(t, fsys.Update(func(tx *Tx) error {
		require.NoError(t, tx.MkdirAll("a/b/c", 0o700))
		require.ErrorIs(t, tx.Mkdir("a/b", 0o700), os.ErrExist)
		require.ErrorIs(t, tx.Remove("a"), syscall.ENOTEMPTY)
		require.NoError(t, tx.WriteFile("a/file", noise(10_000, 3), 0o600))
		require.NoError(t, tx.Link("a/file", "a/b/hard"))
		require.NoError(t, tx.SetXattr("a/file", "user.x", []byte("x"), 0))
		info, err := tx.Stat("a/b/hard")
		require.NoError(t, err)
		require.Equal(t, int64(10_000), info.Size())
		list, err := tx.ReadDir("a")
		require.NoError(t, err)
		require.Len(t, list, 2)
		return nil
	}))
	data, err = fsys.ReadFile("a/b/hard")
	require.NoError(t, err)
	requireSame(t, noise(10_000, 3), data, "hard")
	require.NoError(t, fsys.Close())
	requireSettled(t, dev)
}
