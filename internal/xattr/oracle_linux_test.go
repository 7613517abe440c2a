package xattr

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/format"
	"drydock/internal/oracle"
)

// image is an ext4 image that mke2fs made and the kernel wrote.
type image struct {
	path string
	f    *os.File
	geo  format.Geometry
	sums format.Checksums
}

func openImage(t *testing.T, path string) *image {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	sb := format.Superblock(make([]byte, format.SuperblockSize))
	_, err = f.ReadAt(sb, format.SuperblockOffset)
	require.NoError(t, err)
	geo, err := format.GeometryOf(sb)
	require.NoError(t, err)
	return &image{path: path, f: f, geo: geo, sums: format.ChecksumsOf(sb)}
}

func (m *image) block(t *testing.T, b format.Block) []byte {
	p := make([]byte, m.geo.BlockSize)
	_, err := m.f.ReadAt(p, int64(b)*int64(m.geo.BlockSize))
	require.NoError(t, err)
	return p
}

// inode returns the inode that path names and its offset in the image.
func (m *image) inode(t *testing.T, path string) (ino format.Ino, n format.Inode, off int64) {
	match := regexp.MustCompile(`Inode: (\d+)`).FindStringSubmatch(oracle.Debugfs(t, m.path, "stat "+path))
	require.NotNil(t, match, path)
	number, err := strconv.Atoi(match[1])
	require.NoError(t, err)
	group, index := m.geo.InodeLocation(format.Ino(number))
	perBlock := m.geo.DescsPerBlock()
	table := m.block(t, m.geo.DescBlock(int(group)/perBlock))
	desc := format.GroupDesc(table[int(group)%perBlock*m.geo.DescSize:][:m.geo.DescSize])
	off = int64(desc.InodeTable())*int64(m.geo.BlockSize) + int64(index)*int64(m.geo.InodeSize)
	n = format.Inode(make([]byte, m.geo.InodeSize))
	_, err = m.f.ReadAt(n, off)
	require.NoError(t, err)
	require.True(t, m.sums.VerifyInode(format.Ino(number), n))
	return format.Ino(number), n, off
}

// tail returns the bytes of an inode that hold attributes.
func tail(n format.Inode) []byte { return n[format.GoodOldInodeSize+int(n.ExtraIsize()):] }

// attr is an attribute as programs see it.
type attr struct {
	name  string
	value string
}

func setAttrs(t *testing.T, path string, attrs ...attr) {
	for _, a := range attrs {
		require.NoError(t, unix.Lsetxattr(path, a.name, []byte(a.value), 0), a.name)
	}
}

// getAttrs returns all attributes that the kernel finds.
func getAttrs(t *testing.T, path string) map[string]string {
	list := make([]byte, 1<<16)
	n, err := unix.Llistxattr(path, list)
	require.NoError(t, err)
	attrs := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list[:n]), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		value := make([]byte, 1<<16)
		n, err := unix.Lgetxattr(path, name, value)
		require.NoError(t, err)
		attrs[name] = string(value[:n])
	}
	return attrs
}

// hostAttrs are decoded attributes as programs see them.
func hostAttrs(t *testing.T, attrs []format.Xattr) map[string]string {
	m := map[string]string{}
	for _, x := range attrs {
		name, value, err := ToHost(x)
		require.NoError(t, err)
		m[name] = string(value)
	}
	return m
}

// onDisk are the attributes of a file in the image: all hashes and checksums
// are checked, and that they are encoded to the same bytes if canonical is set.
func (m *image) onDisk(t *testing.T, path string, canonical bool) (inode, block []format.Xattr) {
	_, n, _ := m.inode(t, path)
	inode, err := format.DecodeInodeXattrs(tail(n))
	require.NoError(t, err)
	require.NoError(t, format.WalkInodeXattrs(tail(n), func(e format.XattrEntry) bool {
		require.True(t, e.HashOK(true), "%s: %s", path, e.FullName())
		return true
	}))
	if canonical {
		again := make([]byte, len(tail(n)))
		require.NoError(t, format.EncodeInodeXattrs(again, inode))
		require.Equal(t, tail(n), again, path)
	}
	if n.FileACL() == 0 {
		return inode, nil
	}
	return inode, m.blockAttrs(t, n.FileACL(), canonical)
}

func (m *image) blockAttrs(t *testing.T, at format.Block, canonical bool) []format.Xattr {
	raw := m.block(t, at)
	require.True(t, m.sums.VerifyXattrBlock(at, raw))
	require.NoError(t, format.WalkXattrBlock(raw, func(e format.XattrEntry) bool {
		require.Equal(t, format.XattrEntryHash(e.Name, e.Value), e.Hash, e.FullName())
		return true
	}))
	attrs, err := format.DecodeXattrBlock(raw)
	require.NoError(t, err)
	require.True(t, slices.IsSortedFunc(attrs, format.CompareXattrs))
	again := make([]byte, len(raw))
	require.NoError(t, format.EncodeXattrBlock(again, attrs, format.XattrBlock(raw).Refcount()))
	require.Equal(t, format.XattrBlock(raw).Hash(), format.XattrBlock(again).Hash())
	if canonical {
		m.sums.SealXattrBlock(at, again)
		require.Equal(t, raw, again)
	}
	return attrs
}

// kernelFiles are what the kernel is told to store, each in the order of the
// disk, so that there is only one way to lay it out.
var kernelFiles = map[string][]attr{
	"inode": {{"user.a", "1"}, {"user.b", ""}, {"trusted.c", "xyz"}, {"security.d", "1234"}},
	"block": {{"user.a", strings.Repeat("A", 301)}, {"user.bb", ""}, {"trusted.c", strings.Repeat("C", 200)}, {"security.d", strings.Repeat("D", 102)}},
	"both":  {{"user.a", strings.Repeat("A", 40)}, {"user.b", strings.Repeat("B", 500)}},
	"high":  {{"user.\xe4\xf6\xfc", strings.Repeat("Z", 90)}},
}

func TestKernelXattrs(t *testing.T) {
	oracle.Need(t, "mke2fs", "debugfs", "setfacl")
	for _, features := range []string{"metadata_csum,64bit", "^metadata_csum,uninit_bg,^64bit"} {
		path := t.TempDir() + "/fs.img"
		oracle.Run(t, "mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-I", "256", "-O", features, path, "16M")
		dir := oracle.Mount(t, path)
		want := writeKernelFiles(t, dir)
		oracle.Unmount(t, dir)
		oracle.Fsck(t, path)
		m := openImage(t, path)
		for name, attrs := range want {
			_, isPlain := kernelFiles[name]
			inode, block := m.onDisk(t, "/"+name, isPlain)
			require.Equal(t, attrs, hostAttrs(t, slices.Concat(inode, block)), name)
		}
		checkShared(t, m)
		checkACLGolden(t, m)
	}
}

// writeKernelFiles returns what the kernel says of each file that it wrote.
func writeKernelFiles(t *testing.T, dir string) map[string]map[string]string {
	want := map[string]map[string]string{}
	create := func(name string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, nil, 0644))
		require.NoError(t, os.Chmod(path, 0644))
		return path
	}
	for name, attrs := range kernelFiles {
		setAttrs(t, create(name), attrs...)
	}
	for _, name := range []string{"share1", "share2", "share3"} {
		setAttrs(t, create(name), attr{"user.shared", strings.Repeat("same", 50)})
	}
	oracle.Run(t, "setfacl", "-m", "u:1000:rwx,g:2000:r-x", create("acl"))
	setAttrs(t, filepath.Join(dir, "acl"), attr{"user.long", strings.Repeat("l", 200)}, attr{"security.e", "f"})
	require.NoError(t, os.Mkdir(filepath.Join(dir, "dir"), 0755))
	oracle.Run(t, "setfacl", "-m", "d:u:1000:rwx,d:u:4294967294:r,u:1:x", filepath.Join(dir, "dir"))
	require.NoError(t, os.Symlink("inode", filepath.Join(dir, "symlink")))
	setAttrs(t, filepath.Join(dir, "symlink"), attr{"trusted.link", "of a symlink"})
	for _, name := range []string{"inode", "block", "both", "high", "share1", "share2", "share3", "acl", "dir", "symlink"} {
		want[name] = getAttrs(t, filepath.Join(dir, name))
		require.NotEmpty(t, want[name])
	}
	return want
}

// checkShared makes sure that the kernel shares a block and counts its users.
func checkShared(t *testing.T, m *image) {
	_, one, _ := m.inode(t, "/share1")
	_, two, _ := m.inode(t, "/share2")
	require.NotZero(t, one.FileACL())
	require.Equal(t, one.FileACL(), two.FileACL())
	require.EqualValues(t, 3, format.XattrBlock(m.block(t, one.FileACL())).Refcount())
}

// checkACLGolden compares an ACL with the bytes that are expected on the disk.
func checkACLGolden(t *testing.T, m *image) {
	inode, _ := m.onDisk(t, "/acl", false)
	i := slices.IndexFunc(inode, func(x format.Xattr) bool { return x.Index == format.XattrACLAccess })
	require.GreaterOrEqual(t, i, 0)
	require.Equal(t, []byte{
		1, 0, 0, 0,
		1, 0, 6, 0,
		2, 0, 7, 0, 0xe8, 3, 0, 0,
		4, 0, 4, 0,
		8, 0, 5, 0, 0xd0, 7, 0, 0,
		16, 0, 7, 0,
		32, 0, 4, 0,
	}, inode[i].Value)
}

// What Place and the encoders make is what the kernel and e2fsck read.
func TestKernelReadsOurs(t *testing.T) {
	oracle.Need(t, "mke2fs", "debugfs", "e2fsck", "setfacl")
	path := t.TempDir() + "/fs.img"
	oracle.Run(t, "mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256", path, "16M")
	dir := oracle.Mount(t, path)
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0644))
	setAttrs(t, file, attr{"user.space", strings.Repeat("x", 1000)}) // so that there is a block
	oracle.Unmount(t, dir)

	want := map[string]string{
		"user.empty": "", "user.\xe4": strings.Repeat("v", 1001), "trusted.overlay.opaque": "y",
		"security.capability":              "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"security.selinux":                 "system_u:object_r:etc_t:s0\x00",
		"user." + strings.Repeat("n", 250): "long name", "system.posix_acl_access": string(hostACLWithMask),
		"user.big": strings.Repeat("b", 2000),
	}
	m := openImage(t, path)
	writeAttrs(t, m, "/file", want)
	oracle.Fsck(t, path)
	dir = oracle.Mount(t, path, "ro")
	require.Equal(t, want, getAttrs(t, filepath.Join(dir, "file")))
}

// hostACLWithMask is `setfacl -m u:1000:rwx` on a file of mode 0644.
var hostACLWithMask = []byte{
	2, 0, 0, 0,
	1, 0, 6, 0, 255, 255, 255, 255,
	2, 0, 7, 0, 0xe8, 3, 0, 0,
	4, 0, 4, 0, 255, 255, 255, 255,
	16, 0, 4, 0, 255, 255, 255, 255,
	32, 0, 4, 0, 255, 255, 255, 255,
}

// writeAttrs replaces the attributes of a file that has a block of its own.
func writeAttrs(t *testing.T, m *image, path string, attrs map[string]string) {
	var list []format.Xattr
	for name, value := range attrs {
		x, err := FromHost(name, []byte(value))
		require.NoError(t, err)
		list = append(list, x)
	}
	ino, n, off := m.inode(t, path)
	inode, block, err := Place(list, m.geo.InodeSize, int(n.ExtraIsize()), m.geo.BlockSize)
	require.NoError(t, err)
	require.NotEmpty(t, inode)
	require.NotEmpty(t, block)
	require.NoError(t, format.EncodeInodeXattrs(tail(n), inode))
	m.sums.SealInode(ino, n)
	_, err = m.f.WriteAt(n, off)
	require.NoError(t, err)
	raw := make([]byte, m.geo.BlockSize)
	require.NoError(t, format.EncodeXattrBlock(raw, block, 1))
	m.sums.SealXattrBlock(n.FileACL(), raw)
	_, err = m.f.WriteAt(raw, int64(n.FileACL())*int64(m.geo.BlockSize))
	require.NoError(t, err)
}
