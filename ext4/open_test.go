package ext4

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// editSuper returns an image in testdata with a changed superblock, sealed.
func editSuper(t testing.TB, name string, edit func(format.Superblock)) []byte {
	t.Helper()
	b := gunzip(t, filepath.Join("testdata", name+".img.gz"))
	sb := format.Superblock(b[format.SuperblockOffset:][:format.SuperblockSize])
	edit(sb)
	format.SealSuperblock(sb)
	return b
}

// TestFeatures refuses what it cannot read, by name, and nothing else.
func TestFeatures(t *testing.T) {
	for _, c := range []struct {
		set  format.Features
		want string
	}{
		{format.Features{Incompat: 1<<30 | 1<<31}, "not supported: features FEATURE_I30 FEATURE_I31"},
		{format.Features{Incompat: format.IncompatCompression | format.IncompatDirData}, "not supported: features compression dirdata"},
		{format.Features{Incompat: format.IncompatMMP | format.IncompatLargeDir | format.IncompatEncrypt}, ""},
		{format.Features{ROCompat: 1<<30 | format.ROCompatVerity | format.ROCompatQuota}, ""},
		{format.Features{Compat: 1<<30 | format.CompatFastCommit}, ""},
	} {
		b := editSuper(t, "ext4", func(sb format.Superblock) { sb.SetFeatures(sb.Features().With(c.set)) })
		fsys, err := Open(memDev(t, b), Options{})
		if c.want != "" {
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, format.ErrUnsupported)
			continue
		}
		require.NoError(t, err)
		require.True(t, fsys.Features().Has(c.set))
		_, err = fsys.ReadFile("hello.txt")
		require.NoError(t, err)
	}
}

// TestDirtyJournal asks before it reads around the journal.
func TestDirtyJournal(t *testing.T) {
	b := editSuper(t, "ext4", func(sb format.Superblock) {
		sb.SetFeatures(sb.Features().With(format.Features{Incompat: format.IncompatRecover}))
	})
	_, err := Open(memDev(t, b), Options{})
	require.ErrorIs(t, err, ErrNeedsRecovery)
	require.ErrorContains(t, err, "e2fsck")
	fsys, err := Open(memDev(t, b), Options{IgnoreJournal: true})
	require.NoError(t, err)
	_, err = fsys.ReadFile("hello.txt")
	require.NoError(t, err)
}

// B137: an external journal is called one.
func TestB137JournalDevice(t *testing.T) {
	b := editSuper(t, "ext4", func(sb format.Superblock) { sb.SetFeatureIncompat(format.IncompatJournalDev) })
	_, err := Open(memDev(t, b), Options{})
	require.ErrorIs(t, err, format.ErrUnsupported)
	require.ErrorContains(t, err, "external journal device")
}

// B010: without 64bit descriptors have 32 bytes, whatever s_desc_size says.
func TestB010DescSize(t *testing.T) {
	for _, size := range []uint16{0, 1, 64, 65535} {
		b := editSuper(t, "ext2", func(sb format.Superblock) { sb.SetDescSize(size) })
		fsys, err := Open(memDev(t, b), Options{})
		require.NoError(t, err)
		require.Equal(t, 32, fsys.Geometry().DescSize)
		require.NoError(t, fsys.Walk(".", walkOK))
	}
}

// TestCutOff refuses a device that ends before its file system.
func TestCutOff(t *testing.T) {
	b := gunzip(t, filepath.Join("testdata", "ext4.img.gz"))
	_, err := Open(memDev(t, b[:len(b)-1]), Options{})
	require.ErrorIs(t, err, format.ErrDamaged)
	require.EqualError(t, err, "superblock: 512 blocks of 1024 bytes, but the device has 524287 bytes (cut off?)")
	_, err = Open(memDev(t, append(b, 1, 2, 3)), Options{})
	require.NoError(t, err)
}

// TestSuperblockChecksum refuses a superblock that was changed.
func TestSuperblockChecksum(t *testing.T) {
	b := gunzip(t, filepath.Join("testdata", "ext4.img.gz"))
	b[format.SuperblockOffset+0x200] ^= 1
	_, err := Open(memDev(t, b), Options{})
	require.EqualError(t, err, "superblock: wrong checksum")
	_, err = Open(memDev(t, b), Options{IgnoreChecksums: true})
	require.NoError(t, err)
}

// TestFacts reads what mke2fs was told.
func TestFacts(t *testing.T) {
	fsys, _ := testImage(t, "plain")
	require.Equal(t, "plain", fsys.Label())
	require.Equal(t, [16]byte{0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55}, fsys.UUID())
	require.Equal(t, 2048, fsys.Geometry().BlockSize)
	require.True(t, fsys.Features().HasROCompat(format.ROCompatMetadataCsum))
	sb := fsys.Superblock()
	sb.SetVolumeName("changed")
	require.Equal(t, "plain", fsys.Label())
	st, err := fsys.Statfs()
	require.NoError(t, err)
	require.Equal(t, uint64(sb.FreeBlocksCount()), st.Free)
	require.Equal(t, uint64(sb.FreeInodesCount()), st.FreeNodes)
	require.Equal(t, st.Free, st.Avail)
}
