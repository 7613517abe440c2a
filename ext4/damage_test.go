package ext4

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// editor changes bytes of an image in testdata.
type editor struct {
	t  testing.TB
	b  []byte
	fs *FS // before the changes
}

func edit(t testing.TB, name string) *editor {
	t.Helper()
	b := gunzip(t, filepath.Join("testdata", name+".img.gz"))
	fsys, err := Open(memDev(t, b), Options{})
	require.NoError(t, err)
	return &editor{t, b, fsys}
}

func (e *editor) ino(path string) format.Ino {
	info, err := e.fs.Lstat(path)
	require.NoError(e.t, err)
	return StatOf(info).Ino
}

// inode returns the bytes of a file's inode.
func (e *editor) inode(path string) format.Inode {
	g, index := e.fs.geo.InodeLocation(e.ino(path))
	desc, err := e.fs.merged().groupDesc(g)
	require.NoError(e.t, err)
	off := int(desc.InodeTable())*e.fs.geo.BlockSize + int(index)*e.fs.geo.InodeSize
	return format.Inode(e.b[off : off+e.fs.geo.InodeSize])
}

func (e *editor) block(n format.Block) []byte {
	return e.b[int(n)*e.fs.geo.BlockSize:][:e.fs.geo.BlockSize]
}

// data returns file block n of a file.
func (e *editor) data(path string, n format.LBlock) []byte {
	for x, err := range e.fs.Extents(path) {
		require.NoError(e.t, err)
		if n >= x.LBlock && uint64(n) < x.End() {
			return e.block(x.Start + format.Block(n-x.LBlock))
		}
	}
	e.t.Fatalf("%s has no block %d", path, n)
	return nil
}

func (e *editor) open(opts Options) *FS {
	e.t.Helper()
	fsys, err := Open(memDev(e.t, e.b), opts)
	require.NoError(e.t, err)
	return fsys
}

// TestChecksums flips a bit in every kind of structure: reading fails and says
// where (B013), or goes on if it was told to.
func TestChecksums(t *testing.T) {
	read := func(path string) func(*FS) error {
		return func(f *FS) error { _, err := f.ReadFile(path); return err }
	}
	for name, c := range map[string]struct {
		flip func(*editor)
		use  func(*FS) error
		want string
	}{
		"inode": {
			func(e *editor) { e.inode("hello.txt").SetUID(77) }, read("hello.txt"),
			`^open hello.txt: inode \d+ in block \d+ at 0x[0-9a-f]+: wrong checksum$`,
		},
		"descriptor": {
			func(e *editor) { e.block(2)[0x1c] ^= 1 }, read("hello.txt"),
			`^open hello.txt: inode 2: descriptor of group 0 in block 2 at 0x0: wrong checksum$`,
		},
		"directory": {
			func(e *editor) { e.data("dir/sub/deep", 0)[200] ^= 1 }, read("dir/sub/deep/file"),
			`^open dir/sub/deep/file: directory inode \d+, logical block 0: .*checksum`,
		},
		"htree": {
			func(e *editor) { e.data("many", 0)[0x1020-0x1000+5] ^= 0x80 },
			func(f *FS) error { _, err := f.ReadDir("many"); return err },
			`^readdir many: directory inode \d+, logical block 0: .*checksum`,
		},
		"extents": {
			func(e *editor) { e.block(format.GetExtentIndex(e.inode("holes").IBlock(), 0).Child)[1000] ^= 1 }, read("holes"),
			`^read holes: inode \d+: extent node in block \d+: .*checksum`,
		},
		"xattrs": {
			func(e *editor) { e.block(e.inode("hello.txt").FileACL())[600] ^= 1 },
			func(f *FS) error { _, err := f.Xattrs("hello.txt"); return err },
			`^getxattr hello.txt: inode \d+: xattr block in block \d+: wrong checksum$`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := edit(t, "ext4")
			c.flip(e)
			err := c.use(e.open(Options{}))
			require.ErrorIs(t, err, format.ErrDamaged)
			require.Regexp(t, c.want, err.Error())
			require.ErrorAs(t, err, new(*fs.PathError))
			require.NoError(t, c.use(e.open(Options{IgnoreChecksums: true})))
		})
	}
}

// TestDamagedIndex looks names up in a directory whose index leads astray.
func TestDamagedIndex(t *testing.T) {
	e := edit(t, "ext4")
	root := format.DxRoot(e.data("many", 0))
	for i := range root.Entries().Count() {
		root.Entries().Set(i, root.Entries().Hash(i), 4000)
	}
	e.fs.csum.SealDxBlock(e.ino("many"), e.inode("many").Generation(), root)
	fsys := e.open(Options{})
	list, err := fsys.ReadDir("many")
	require.NoError(t, err)
	_, err = fsys.Lstat("many/" + list[50].Name())
	require.NoError(t, err)
}

// relink makes a name in the first block of a directory lead to another inode.
func (e *editor) relink(dir, name string, ino format.Ino) {
	block := e.data(dir, 0)
	require.NoError(e.t, format.WalkDirBlock(block, len(block), func(d format.Dirent) bool {
		if string(d.Name) == name {
			format.PutDirent(block, d.Off, d.RecLen, ino, d.Type, d.Name)
		}
		return true
	}))
}

// TestLoop ends in a tree whose directory holds a directory above itself.
func TestLoop(t *testing.T) {
	e := edit(t, "ext2")
	e.relink("dir/sub", "deep", e.ino("dir"))
	fsys := e.open(Options{})
	var errs []string
	require.NoError(t, fsys.Walk(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			errs = append(errs, err.Error())
		}
		return nil
	}))
	require.Equal(t, []string{fmt.Sprintf("readdir dir/sub/deep: inode %d: directory has a second name", e.ino("dir"))}, errs)
	_, err := fsys.Stat("dir/sub/deep/sub/deep")
	require.ErrorIs(t, err, format.ErrDamaged)
	require.Error(t, fs.WalkDir(fsys.FS(), ".", walkOK))
}

// TestWrongInode reports names that lead nowhere.
func TestWrongInode(t *testing.T) {
	for ino, want := range map[format.Ino]string{
		4_000_000_000: "lstat dir/hard: inode number: 4000000000, want 1 to 64",
		60:            "lstat dir/hard: inode 60: deleted, but a name leads to it",
	} {
		e := edit(t, "ext2")
		e.relink("dir", "hard", ino)
		_, err := e.open(Options{}).Lstat("dir/hard")
		require.EqualError(t, err, want)
	}
}

// TestB143DeletedEntry skips an entry that has a name but no inode.
func TestB143DeletedEntry(t *testing.T) {
	e := edit(t, "ext2")
	e.relink("dir", "hard", 0)
	fsys := e.open(Options{})
	list, err := fsys.ReadDir("dir")
	require.NoError(t, err)
	require.Equal(t, "L above,d sub/", dirString(list))
	_, err = fsys.Lstat("dir/hard")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestHostile changes one inode to what no file system has.
func TestHostile(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		edit func(e *editor, n format.Inode)
		use  func(f *FS, path string) error
		want error
	}{
		"size over 63 bits": {"twenty", func(_ *editor, n format.Inode) { n.SetSize(1 << 63) }, useStat, format.ErrDamaged},
		"huge size":         {"twenty", func(_ *editor, n format.Inode) { n.SetSize(1<<63 - 1) }, useRead, syscall.EFBIG},
		"huge directory":    {"dir", func(_ *editor, n format.Inode) { n.SetSize(1<<32 - 1024) }, useDir, format.ErrDamaged},
		"directory hole":    {"dir", func(_ *editor, n format.Inode) { n.SetSize(8192) }, useDir, format.ErrDamaged},
		"directory block twice": {"dir", func(_ *editor, n format.Inode) {
			copy(n.IBlock()[4:8], n.IBlock()[:4])
			n.SetSize(2048)
		}, useDir, format.ErrDamaged},
		"target too long":  {"slow", func(_ *editor, n format.Inode) { n.SetSize(1024) }, useLink, format.ErrDamaged},
		"target empty":     {"fast", func(_ *editor, n format.Inode) { n.SetSize(0) }, useLink, format.ErrDamaged},
		"target with zero": {"fast", func(_ *editor, n format.Inode) { n.SetSize(20) }, useLink, format.ErrDamaged},
		"block past end":   {"hello.txt", func(_ *editor, n format.Inode) { putLE32(n.IBlock(), 0, 512) }, useRead, format.ErrDamaged},
		"block 0xffffffff": {"hello.txt", func(_ *editor, n format.Inode) { putLE32(n.IBlock(), 0, math.MaxUint32) }, useRead, format.ErrDamaged},
		"indirect in itself": {"twenty", func(e *editor, n format.Inode) {
			block := e.block(format.BlockPointer(n.IBlock(), 12))
			for i := 0; i < len(block); i += 4 {
				putLE32(block, i, uint32(format.BlockPointer(n.IBlock(), 12)))
			}
			copy(n.IBlock()[52:], n.IBlock()[48:52])
			copy(n.IBlock()[56:], n.IBlock()[48:52])
			n.SetSize(1 << 30)
		}, useExtents, format.ErrDamaged},
		"xattr block":          {"hello.txt", func(_ *editor, n format.Inode) { n.SetFileACL(3) }, useXattr, format.ErrDamaged},
		"xattr block past end": {"hello.txt", func(_ *editor, n format.Inode) { n.SetFileACL(1 << 31) }, useXattr, format.ErrDamaged},
		"no type":              {"hello.txt", func(_ *editor, n format.Inode) { n.SetMode(0o644) }, useRead, syscall.ENXIO},
		"extents flag":         {"hello.txt", func(_ *editor, n format.Inode) { n.SetFlags(format.InodeExtents) }, useRead, format.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			e := edit(t, "ext2")
			c.edit(e, e.inode(c.path))
			start := time.Now()
			err := c.use(e.open(Options{}), c.path)
			require.Less(t, time.Since(start), 5*time.Second)
			require.ErrorIs(t, err, c.want)
			require.ErrorAs(t, err, new(*fs.PathError))
		})
	}
}

func putLE32(b []byte, off int, v uint32) {
	b[off], b[off+1], b[off+2], b[off+3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
}

func useStat(f *FS, path string) error  { _, err := f.Stat(path); return err }
func useRead(f *FS, path string) error  { _, err := f.ReadFile(path); return err }
func useDir(f *FS, path string) error   { _, err := f.ReadDir(path); return err }
func useLink(f *FS, path string) error  { _, err := f.Readlink(path); return err }
func useXattr(f *FS, path string) error { _, err := f.Xattrs(path); return err }

func useExtents(f *FS, path string) error {
	for _, err := range f.Extents(path) {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestHugeSparse reads at the far end of a file with the largest size.
func TestHugeSparse(t *testing.T) {
	e := edit(t, "ext2")
	e.inode("twenty").SetSize(math.MaxInt64)
	f, err := e.open(Options{}).Open("twenty")
	require.NoError(t, err)
	p := []byte(strings.Repeat("x", 4096))
	n, err := f.ReadAt(p, math.MaxInt64-100)
	require.Equal(t, 100, n)
	require.Equal(t, io.EOF, err)
	require.Equal(t, strings.Repeat("\x00", 100), string(p[:100]))
	pos, err := f.Seek(0, io.SeekEnd)
	require.NoError(t, err)
	require.Equal(t, int64(math.MaxInt64), pos)
	_, err = f.Seek(1, io.SeekCurrent)
	require.ErrorIs(t, err, syscall.EINVAL)
}

// brokenDev fails to read one block.
type brokenDev struct {
	imageBytes
	from, to int64
}

type imageBytes []byte

var errBroken = errors.New("bad sector")

func (b imageBytes) ReadAt(p []byte, off int64) (int, error)  { return copy(p, b[off:]), nil }
func (b imageBytes) WriteAt(p []byte, off int64) (int, error) { return 0, errBroken }
func (b imageBytes) Size() int64                              { return int64(len(b)) }
func (b imageBytes) Flush() error                             { return nil }

func (d brokenDev) ReadAt(p []byte, off int64) (int, error) {
	if off < d.to && off+int64(len(p)) > d.from {
		return 0, errBroken
	}
	return d.imageBytes.ReadAt(p, off)
}

// TestBadSector keeps the cause of an error of the device.
func TestBadSector(t *testing.T) {
	e := edit(t, "ext4")
	for path, use := range map[string]func(*FS, string) error{"twenty": useRead, "dir": useDir} {
		var block format.Block
		for x := range e.fs.Extents(path) {
			block = x.Start
			break
		}
		from := int64(block) * int64(e.fs.geo.BlockSize)
		fsys, err := Open(brokenDev{e.b, from, from + 1}, Options{})
		require.NoError(t, err)
		err = use(fsys, path)
		require.ErrorIs(t, err, errBroken)
		require.ErrorContains(t, err, fmt.Sprintf("inode %d", e.ino(path)))
		require.NotErrorIs(t, err, format.ErrDamaged)
	}
}
