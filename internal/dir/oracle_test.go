package dir

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/oracle"
)

// Inode numbers that debugfs gives to the first two files of a new file system.
const (
	fileIno format.Ino = 12
	dirIno  format.Ino = 13
)

var fsUUID = uuid.UUID{0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE, 1, 2, 3, 4, 5, 6, 7, 8}

func thorough() bool { return os.Getenv("DRYDOCK_ORACLES") == "require" }

// needTime skips what takes seconds unless all oracles are asked for.
func needTime(t testing.TB, long bool) {
	if long && !thorough() {
		t.Skip("skipped: takes long, runs with DRYDOCK_ORACLES=require")
	}
}

// image makes a file system with a hash seed and options as o says.
func image(t testing.TB, o *Options, size string) string {
	oracle.Need(t, "mke2fs", "debugfs", "e2fsck")
	path := filepath.Join(t.TempDir(), "dir.img")
	features := "^has_journal,^resize_inode"
	if !o.Csum {
		features += ",^metadata_csum"
	}
	if o.LargeDir {
		features += ",large_dir"
	}
	oracle.Run(t, "mke2fs", "-q", "-F", "-t", "ext4", "-b", strconv.Itoa(o.BlockSize), "-O", features, "-N", "1000",
		"-U", fsUUID.String(), "-E", "hash_seed="+uuid.UUID(o.HashSeed).String(), path, size)
	o.Checksums = format.Checksums{Meta: o.Csum, Seed: format.Crc32c(^uint32(0), fsUUID[:])}
	return path
}

// inject puts a built directory into an image as /d; its entries are links to the file /f.
func inject(t testing.TB, path string, o Options, l *list) {
	h := Head{Self: dirIno, Parent: format.RootIno, Generation: 0x01020304}
	m, indexed := build(t, o, h, l)
	tmp := t.TempDir()
	blocks, file := filepath.Join(tmp, "blocks"), filepath.Join(tmp, "file")
	require.NoError(t, os.WriteFile(blocks, m.data, 0o600))
	require.NoError(t, os.WriteFile(file, []byte("content"), 0o600))
	flags := format.InodeExtents
	if indexed {
		flags |= format.InodeIndex
	}
	hashFlag := format.FlagSignedHash
	if o.HashVersion >= format.HashUnsigned {
		hashFlag = format.FlagUnsignedHash
	}
	script(t, path,
		"write "+file+" f", "write "+blocks+" d",
		fmt.Sprintf("ssv flags %d", hashFlag),
		"sif <13> generation 0x01020304", "sif <13> mode 040755", fmt.Sprintf("sif <13> flags %#x", uint32(flags)), "sif <13> links_count 2",
		"unlink d", "link <13> d",
		fmt.Sprintf("sif <12> links_count %d", l.Len()+1), "sif <2> links_count 4",
		"set_bg 0 used_dirs_count 3", "set_bg 0 checksum calc")
}

func script(t testing.TB, path string, commands ...string) string {
	name := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(name, []byte(strings.Join(commands, "\n")+"\n"), 0o600))
	return oracle.Run(t, "debugfs", "-w", "-f", name, path)
}

// What is built is accepted by e2fsck, and by the kernel, which finds every
// name and can go on adding and removing.
func TestOracleBuild(t *testing.T) {
	for i, c := range []struct {
		blockSize, n, minLen, maxLen int
		version                      uint8
		csum, linear, large, long    bool
	}{
		{blockSize: 1024, n: 10, minLen: 2, maxLen: 40, csum: true},
		{blockSize: 1024, n: 62, minLen: 8, maxLen: 8, csum: true},
		{blockSize: 1024, n: 300, minLen: 2, maxLen: 40, csum: true, linear: true},
		{blockSize: 1024, n: 300, minLen: 2, maxLen: 40, version: format.HashHalfMD4, csum: true},
		{blockSize: 1024, n: 9000, minLen: 3, maxLen: 60, version: format.HashHalfMD4, csum: true},
		{blockSize: 1024, n: 9000, minLen: 3, maxLen: 60, version: format.HashHalfMD4Unsigned, long: true},
		{blockSize: 1024, n: 3 * 123 * 126, minLen: 255, maxLen: 255, version: format.HashHalfMD4, csum: true, long: true},
		{blockSize: 1024, n: 3*123*126 + 1, minLen: 255, maxLen: 255, version: format.HashTea, csum: true, large: true, long: true},
		{blockSize: 2048, n: 4000, minLen: 3, maxLen: 255, version: format.HashTeaUnsigned, csum: true},
		{blockSize: 4096, n: 5000, minLen: 3, maxLen: 100, version: format.HashLegacy, csum: true, long: true},
		{blockSize: 4096, n: 5000, minLen: 3, maxLen: 100, version: format.HashLegacyUnsigned},
		{blockSize: 4096, n: 60000, minLen: 8, maxLen: 24, version: format.HashHalfMD4, csum: true, long: true},
		{blockSize: 8192, n: 5000, minLen: 3, maxLen: 255, version: format.HashHalfMD4, csum: true},
		{blockSize: 32768, n: 9000, minLen: 3, maxLen: 255, version: format.HashTea, csum: true, long: true},
		{blockSize: 65536, n: 20000, minLen: 3, maxLen: 255, version: format.HashHalfMD4, csum: true},
		{blockSize: 65536, n: 20000, minLen: 3, maxLen: 255, version: format.HashLegacy, long: true},
	} {
		t.Run(fmt.Sprintf("%d/%dx%d", i, c.blockSize, c.n), func(t *testing.T) {
			needTime(t, c.long)
			o := testOptions(c.blockSize)
			o.Csum, o.Index, o.LargeDir, o.HashVersion = c.csum, !c.linear, c.large, c.version
			l := randomList(newRand(t), c.n, c.minLen, c.maxLen).oneInode(fileIno, format.FTRegular)
			path := image(t, &o, "64M")
			inject(t, path, o, l)
			oracle.Fsck(t, path)
			if c.blockSize <= os.Getpagesize() {
				useKernel(t, path, l)
			}
		})
	}
}

// useKernel lets the kernel read a directory, look up its names and change it.
func useKernel(t *testing.T, path string, l *list) {
	d := filepath.Join(oracle.Mount(t, path), "d")
	require.Equal(t, sortedNames(names(l)), sortedNames(readNames(t, d)))
	for i := 0; i < l.Len(); i += 1 + l.Len()/2000 {
		info, err := os.Lstat(filepath.Join(d, string(l.names[i])))
		require.NoError(t, err)
		require.EqualValues(t, len("content"), info.Size())
	}
	_, err := os.Lstat(filepath.Join(d, "no such name"))
	require.ErrorIs(t, err, os.ErrNotExist)
	for i := range 500 {
		require.NoError(t, os.WriteFile(filepath.Join(d, fmt.Sprintf("new file %d", i)), nil, 0o600))
	}
	for i := 0; i < l.Len(); i += 1 + l.Len()/200 {
		require.NoError(t, os.Remove(filepath.Join(d, string(l.names[i]))))
	}
	oracle.Unmount(t, filepath.Dir(d))
	oracle.Fsck(t, path)
}

func names(l *list) []string {
	out := make([]string, l.Len())
	for i := range out {
		out[i] = string(l.names[i])
	}
	return out
}

func sortedNames(names []string) []string {
	slices.Sort(names)
	return names
}

func readNames(t testing.TB, dir string) []string {
	f, err := os.Open(dir)
	require.NoError(t, err)
	defer f.Close()
	out, err := f.Readdirnames(-1)
	require.NoError(t, err)
	return out
}

// collisions are names of 255 bytes with the same legacy hash, by that hash.
// testdata/legacy_collisions.txt was found by trying all endings of six letters
// and digits behind 249 times "c"; it has the hash without the step that keeps
// names off the end of the directory, and the ending.
func collisions(t testing.TB) map[uint32][][]byte {
	f, err := os.Open("testdata/legacy_collisions.txt")
	require.NoError(t, err)
	defer f.Close()
	found := make(map[uint32][][]byte)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var hash uint32
		var ending string
		_, err := fmt.Sscanf(lines.Text(), "%x %s", &hash, &ending)
		require.NoError(t, err)
		name := append(bytes.Repeat([]byte{'c'}, 249), ending...)
		got, _ := format.DirHash(format.HashLegacy, [16]byte{}, name)
		require.Equal(t, min(hash, 0xFFFFFFFC), got, "%s", ending)
		found[got] = append(found[got], name)
	}
	return found
}

// runLists are directories in which a run of equal hashes spans leaves of 1 KiB,
// three names each: below the root, over the end of a node, at the end.
func runLists(t testing.TB) map[string]*list {
	byHash := collisions(t)
	mixed := func(hash uint32, below, above int) *list {
		l := &list{}
		for _, name := range byHash[hash] {
			l.add(name, fileIno, format.FTRegular)
		}
		rng := newRand(t)
		for below+above > 0 {
			name := plainName(int(rng.Uint32()), 255)
			got, _ := format.DirHash(format.HashLegacy, [16]byte{}, name)
			switch {
			case got < hash && below > 0:
				below--
			case got > hash && above > 0:
				above--
			default:
				continue
			}
			l.add(name, fileIno, format.FTRegular)
		}
		return l
	}
	return map[string]*list{
		"alone":         mixed(0x2468ACE0, 0, 0),
		"amid":          mixed(0x2468ACE0, 31, 40),
		"first":         mixed(0x2468ACE0, 0, 40),
		"over node":     mixed(0x2468ACE0, 3*126-7, 600),
		"over node end": mixed(0x2468ACE0, 3*126-20, 600),
		"last":          mixed(0xFFFFFFFC, 100, 0),
		"last, deep":    mixed(0xFFFFFFFC, 3*126*2-9, 0),
	}
}

func runOptions() Options {
	o := testOptions(1024)
	o.HashVersion = format.HashLegacy
	return o
}

func TestRuns(t *testing.T) {
	for name, l := range runLists(t) {
		t.Run(name, func(t *testing.T) {
			o := runOptions()
			m, indexed := build(t, o, testHead, l)
			require.Equal(t, !strings.HasPrefix(name, "last"), indexed)
			checkDir(t, o, testHead, l, m, indexed)
		})
	}
}

func TestOracleRuns(t *testing.T) {
	for name, l := range runLists(t) {
		t.Run(name, func(t *testing.T) {
			o := runOptions()
			path := image(t, &o, "16M")
			inject(t, path, o, l)
			oracle.Fsck(t, path)
			useKernel(t, path, l)
		})
	}
}

// dump reads directory /d of an image: its blocks and what else a View needs.
func dump(t testing.TB, path string, o Options) (v *View, size int) {
	stat := oracle.Debugfs(t, path, "stat /d")
	field := func(pattern string) uint64 {
		found := regexp.MustCompile(pattern).FindStringSubmatch(stat)
		require.NotNil(t, found, "%s in %s", pattern, stat)
		n, err := strconv.ParseUint(found[1], 0, 64)
		require.NoError(t, err)
		return n
	}
	blocks := filepath.Join(t.TempDir(), "blocks")
	oracle.Debugfs(t, path, "dump /d "+blocks)
	data, err := os.ReadFile(blocks)
	require.NoError(t, err)
	require.EqualValues(t, field(`Size: (\d+)`), len(data))
	v = view(o, Head{Self: format.Ino(field(`Inode: (\d+)`)), Generation: uint32(field(`Generation: (\d+)`))},
		&memory{blockSize: o.BlockSize, data: data}, field(`Flags: (0x[0-9a-f]+)`)&uint64(format.InodeIndex) != 0)
	return v, len(data)
}

// fill makes /d through the kernel, with n links to one file, and removes a third again.
func fill(t testing.TB, path string, n, nameLen int) (left []string) {
	root := oracle.Mount(t, path)
	d := filepath.Join(root, "d")
	require.NoError(t, os.Mkdir(d, 0o700))
	file := filepath.Join(root, "f")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for i := range n {
		require.NoError(t, os.Link(file, filepath.Join(d, string(plainName(i, nameLen)))))
	}
	for i := range n {
		name := string(plainName(i, nameLen))
		if i%3 == 0 {
			require.NoError(t, os.Remove(filepath.Join(d, name)))
		} else {
			left = append(left, name)
		}
	}
	oracle.Unmount(t, root)
	return left
}

// Directories that the kernel made, and what e2fsck -D makes of them, read right.
func TestOracleRead(t *testing.T) {
	for _, c := range []struct {
		blockSize, n, nameLen, levels int
		csum, large, long             bool
	}{
		{blockSize: 1024, n: 10, nameLen: 20, csum: true, levels: -1},
		{blockSize: 1024, n: 400, nameLen: 30, csum: true},
		{blockSize: 1024, n: 12000, nameLen: 30, csum: true, levels: 1},
		{blockSize: 1024, n: 12000, nameLen: 30, levels: 1, long: true},
		{blockSize: 1024, n: 45000, nameLen: 255, levels: 2, csum: true, large: true, long: true},
		{blockSize: 2048, n: 2000, nameLen: 100, csum: true},
		{blockSize: 4096, n: 20000, nameLen: 12, csum: true, long: true},
	} {
		t.Run(fmt.Sprintf("%dx%d", c.blockSize, c.n), func(t *testing.T) {
			needTime(t, c.long)
			o := testOptions(c.blockSize)
			o.Csum, o.LargeDir = c.csum, c.large
			path := image(t, &o, "128M")
			left := fill(t, path, c.n, c.nameLen)
			v, size := dump(t, path, o)
			checkRead(t, v, left, c.levels)

			oracle.Run(t, "sh", "-c", "e2fsck -fyD "+path+" || test $? = 1")
			oracle.Fsck(t, path)
			v, packed := dump(t, path, o)
			require.LessOrEqual(t, packed, size)
			checkRead(t, v, left, -1)
		})
	}
}

// checkRead compares what v reads with the names in the directory; levels is
// the number of levels of its index, or -1 for any or none.
func checkRead(t *testing.T, v *View, left []string, levels int) {
	if levels >= 0 {
		require.True(t, v.Indexed)
		require.EqualValues(t, levels, v.Blocks.(*memory).data[30])
	}
	var got []string
	for _, e := range walked(t, v) {
		got = append(got, e.name)
	}
	require.Equal(t, sortedNames(append([]string{".", ".."}, left...)), sortedNames(got))
	for _, name := range left {
		_, found, err := v.Lookup([]byte(name))
		require.NoError(t, err)
		require.True(t, found, name)
	}
	for i := range 100 {
		_, found, err := v.Lookup(fmt.Appendf(nil, "none %d", i))
		require.NoError(t, err)
		require.False(t, found)
	}
}

// Names of any bytes: the kernel's and our hash agree on signs.
func TestOracleReadBytes(t *testing.T) {
	o := testOptions(1024)
	path := image(t, &o, "16M")
	l := randomList(newRand(t), 3000, 1, 255)
	root := oracle.Mount(t, path)
	d, file := filepath.Join(root, "d"), filepath.Join(root, "f")
	require.NoError(t, os.Mkdir(d, 0o700))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, name := range l.names {
		require.NoError(t, os.Link(file, filepath.Join(d, string(name))))
	}
	oracle.Unmount(t, root)
	v, _ := dump(t, path, o)
	checkRead(t, v, names(l), 1)
}
