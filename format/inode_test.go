package format

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const inodePlaces128 = `
	Mode 0:2
	UID 2:2 78:2
	Size 4:4 6c:4
	Dtime 14:4
	GID 18:2 7a:2
	LinksCount 1a:2
	BlocksRaw 1c:4 74:2
	Flags 20:4
	Version 24:4
	Generation 64:4
	FileACL 68:4 76:2
	ObsoFaddr 70:4
	ChecksumLo 7c:2
`

const inodePlaces256 = inodePlaces128 + `
	ChecksumHi 82:2
	VersionHi 98:4
	Projid 9c:4
`

var inodeOthers = []string{"Atime", "Ctime", "Mtime", "Crtime", "ExtraIsize", "Device", "Sectors",
	"ChecksumHi", "VersionHi", "Projid"}

func TestInodeFields(t *testing.T) {
	checkFields(t, 128, func(Inode) {}, inodePlaces128, inodeOthers...)
	full := func(n Inode) { n.SetExtraIsize(32) }
	checkFields(t, 160, full, inodePlaces256, inodeOthers...)
	checkFields(t, 256, full, inodePlaces256, inodeOthers...)
	checkFields(t, 4096, full, inodePlaces256, inodeOthers...)
}

func TestInodeSizeLo(t *testing.T) {
	n := Inode(fieldBytes(128))
	require.Equal(t, uint32(n.Size()), n.SizeLo())
}

func TestInodeIBlock(t *testing.T) {
	n := Inode(fieldBytes(128))
	require.Equal(t, []byte(n[0x28:0x64]), n.IBlock())
	require.Equal(t, 60, cap(n.IBlock()))
}

// Fields after the first 128 bytes exist as far as i_extra_isize says, and never
// past the end of the inode, whatever it says.
func TestInodeExtraFields(t *testing.T) {
	tests := []struct {
		size   int
		extra  uint16
		exists map[string]bool
	}{
		{128, 0, nil},
		{256, 0, nil},
		{256, 3, nil},
		{256, 4, map[string]bool{"hi": true}},
		{256, 8, map[string]bool{"hi": true, "ctime": true}},
		{256, 24, map[string]bool{"hi": true, "ctime": true, "crtime": true}},
		{256, 28, map[string]bool{"hi": true, "ctime": true, "crtime": true, "version": true}},
		{256, 32, map[string]bool{"hi": true, "ctime": true, "crtime": true, "version": true, "projid": true}},
		{256, 0xffff, map[string]bool{"hi": true, "ctime": true, "crtime": true, "version": true, "projid": true}},
		{152, 0xffff, map[string]bool{"hi": true, "ctime": true, "crtime": true}},
		{132, 0xffff, map[string]bool{"hi": true}},
	}
	for _, test := range tests {
		n := Inode(make([]byte, test.size))
		n.SetExtraIsize(test.extra)
		n.SetChecksumHi(0x1234)
		n.SetCtime(Time{Sec: 1, Nsec: 5})
		n.SetCrtime(Time{Sec: 2, Nsec: 6})
		n.SetVersionHi(7)
		n.SetProjid(8)
		got := map[string]bool{
			"hi": n.ChecksumHi() == 0x1234, "ctime": n.Ctime().Nsec == 5, "crtime": n.Crtime() == Time{2, 6},
			"version": n.VersionHi() == 7, "projid": n.Projid() == 8,
		}
		for name, exists := range got {
			require.Equal(t, test.exists[name], exists, "%s in %d bytes, extra %d", name, test.size, test.extra)
		}
		if test.extra == 0 && test.size > 128 {
			require.True(t, allZero(n[128:]), "an inode without extra fields changed after byte 128")
		}
	}
}

func TestInodeExtraIsize(t *testing.T) {
	n := Inode(make([]byte, 128))
	n.SetExtraIsize(32)
	require.Zero(t, n.ExtraIsize())
	n = make([]byte, 256)
	n.SetExtraIsize(0x1234)
	require.Equal(t, uint16(0x1234), n.ExtraIsize())
	require.Equal(t, []byte{0x34, 0x12}, []byte(n[0x80:0x82]))
	require.Equal(t, 32, DefaultExtraIsize)
}

func TestFileTypeOf(t *testing.T) {
	types := map[uint16]FileType{
		0x1000: FTFifo, 0x2000: FTChar, 0x4000: FTDir, 0x6000: FTBlock,
		0x8000: FTRegular, 0xa000: FTSymlink, 0xc000: FTSocket,
	}
	for mode := range uint16(16) {
		require.Equal(t, types[mode<<12], FileTypeOf(mode<<12|0o7777), "%#x", mode<<12)
	}
}

func TestInodeDevice(t *testing.T) {
	tests := []struct {
		major, minor uint32
		words        [2]uint32
	}{
		{1, 3, [2]uint32{0x103, 0}},
		{255, 255, [2]uint32{0xffff, 0}},
		{8, 256, [2]uint32{0, 0x100800}},
		{256, 0, [2]uint32{0, 0x10000}},
		{4095, 0xfffff, [2]uint32{0, 0xffffffff}},
		{259, 0x12345, [2]uint32{0, 0x12310345}},
		{0, 0, [2]uint32{0, 0}},
	}
	for _, test := range tests {
		n := Inode(fieldBytes(128))
		n.SetDevice(test.major, test.minor)
		require.Equal(t, test.words, [2]uint32{le32(0).get(n.IBlock()), le32(4).get(n.IBlock())})
		require.True(t, allZero(n.IBlock()[8:]))
		major, minor := n.Device()
		require.Equal(t, test.major, major)
		require.Equal(t, test.minor, minor)
	}
}

func TestInodeIsFastSymlink(t *testing.T) {
	tests := []struct {
		name  string
		mode  uint16
		flags uint32
		size  uint64
		want  bool
	}{
		{"short", ModeSymlink | 0o777, 0, 10, true},
		{"longest", ModeSymlink | 0o777, 0, 59, true},
		{"too long", ModeSymlink | 0o777, 0, 60, false},
		{"empty", ModeSymlink | 0o777, 0, 0, false},
		{"extents", ModeSymlink | 0o777, InodeExtents, 10, false},
		{"inline", ModeSymlink | 0o777, InodeInlineData, 10, false},
		{"other flags", ModeSymlink | 0o777, InodeNoAtime, 10, true},
		{"file", ModeRegular, 0, 10, false},
		{"socket", ModeSocket, 0, 10, false},
		{"large", ModeSymlink, 0, 1<<32 + 10, false},
	}
	for _, test := range tests {
		n := Inode(make([]byte, 256))
		n.SetMode(test.mode)
		n.SetFlags(test.flags)
		n.SetSize(test.size)
		n.SetFileACL(77)
		n.SetBlocksRaw(8) // the attribute block
		require.Equal(t, test.want, n.IsFastSymlink(), test.name)
	}
}

func TestInodeSectors(t *testing.T) {
	huge := Features{ROCompat: ROCompatHugeFile}
	tests := []struct {
		name    string
		f       Features
		sectors uint64
		raw     uint64
		flag    bool
		ok      bool
	}{
		{"small", huge, 8, 8, false, true},
		{"small without the feature", Features{}, 8, 8, false, true},
		{"32 bits", Features{}, 1<<32 - 1, 1<<32 - 1, false, true},
		{"33 bits without the feature", Features{}, 1 << 32, 0, false, false},
		{"33 bits", huge, 1 << 32, 1 << 32, false, true},
		{"48 bits", huge, 1<<48 - 1, 1<<48 - 1, false, true},
		{"49 bits", huge, 1 << 48, 1 << 45, true, true},
		{"too large", huge, 1 << 51, 0, false, false},
	}
	for _, test := range tests {
		n := Inode(make([]byte, 256))
		n.SetFlags(InodeExtents)
		require.Equal(t, test.ok, n.SetSectors(test.f, 4096, test.sectors), test.name)
		require.Equal(t, test.raw, n.BlocksRaw(), test.name)
		require.Equal(t, test.flag, n.HasFlags(InodeHugeFile), test.name)
		require.True(t, n.HasFlags(InodeExtents))
		if test.ok {
			require.Equal(t, test.sectors, n.Sectors(test.f, 4096), test.name)
		}
	}
	n := Inode(make([]byte, 128))
	n.SetBlocksRaw(1<<40 + 5)
	require.Equal(t, uint64(5), n.Sectors(Features{}, 4096), "the high half does not exist without the feature")
}

// FuzzInode reads every field of an inode of any bytes, and puts back what it read.
func FuzzInode(f *testing.F) {
	f.Add(make([]byte, 256), uint16(32))
	f.Add(fieldBytes(256), uint16(0xffff))
	f.Add(fieldBytes(128), uint16(4))
	f.Add(fieldBytes(4096), uint16(32))
	f.Fuzz(func(t *testing.T, b []byte, extra uint16) {
		if len(b) < GoodOldInodeSize {
			return
		}
		n := Inode(b)
		n.SetExtraIsize(extra)
		before := append(Inode(nil), n...)
		n.SetVersionHi(n.VersionHi())
		n.SetProjid(n.Projid())
		n.SetChecksumHi(n.ChecksumHi())
		n.SetUID(n.UID())
		n.SetGID(n.GID())
		n.SetSize(n.Size())
		n.SetBlocksRaw(n.BlocksRaw())
		n.SetFileACL(n.FileACL())
		require.Equal(t, before, n)

		for _, field := range inodeTimes {
			at := field.get(n)
			require.False(t, at.Before(MinTime) || MaxTime.Before(at), "%s %v", field.name, at)
			field.set(n, at)
			require.Equal(t, at, field.get(n), field.name)
		}
		major, minor := n.Device()
		n.SetDevice(major, minor)
		n.IsFastSymlink()
		n.Sectors(Features{ROCompat: ROCompatHugeFile}, 65536)
		c := Checksums{Meta: true}
		c.SealInode(11, n)
		require.True(t, c.VerifyInode(11, n))
		n[0] ^= 1
		require.False(t, c.VerifyInode(11, n) && !allZero(n))
	})
}
