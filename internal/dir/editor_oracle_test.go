package dir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/oracle"
)

// Edited directories are put into an image as /d with this inode; its names
// are links to linkFiles files, whose inodes come before it. One inode has 65,000 links at most.
const (
	linkFiles              = 4
	editedIno   format.Ino = fileIno + linkFiles
	editedGen              = 0x01020304
	editedFlags            = format.InodeExtents
)

func linkTarget(i int) target {
	return target{fileIno + format.Ino(i%linkFiles), format.FTRegular}
}

// newEdited is a directory as editedIno of an image made with o.
func newEdited(t testing.TB, o Options) *tested {
	d := &tested{t: t, model: map[string]target{}, parent: format.RootIno}
	d.s = &space{blockSize: o.BlockSize, changed: map[format.LBlock][]byte{}}
	d.e = newEditor(o, d.s)
	d.e.Ino, d.e.Generation, d.e.Hint = editedIno, editedGen, &Hint{}
	require.NoError(t, d.run(func() error { return d.e.Init(d.parent) }))
	return d
}

// plant puts the directory into an image.
func (d *tested) plant(path string) {
	tmp := d.t.TempDir()
	blocks, file := filepath.Join(tmp, "blocks"), filepath.Join(tmp, "file")
	require.NoError(d.t, os.WriteFile(blocks, d.s.memory().data, 0o600))
	require.NoError(d.t, os.WriteFile(file, []byte("content"), 0o600))
	var cmds []string
	links := map[format.Ino]int{}
	for _, to := range d.model {
		links[to.ino]++
	}
	for i := range linkFiles {
		cmds = append(cmds, fmt.Sprintf("write %s f%d", file, i), fmt.Sprintf("sif <%d> links_count %d", fileIno+format.Ino(i), 1+links[fileIno+format.Ino(i)]))
	}
	flags, hashFlag := editedFlags, format.FlagSignedHash
	if d.e.Indexed {
		flags |= format.InodeIndex
	}
	if d.e.HashUnsigned {
		hashFlag = format.FlagUnsignedHash
	}
	inode := fmt.Sprintf("<%d>", editedIno)
	cmds = append(cmds, "write "+blocks+" d", fmt.Sprintf("ssv flags %d", hashFlag),
		fmt.Sprintf("sif %s generation %#x", inode, editedGen), "sif "+inode+" mode 040755", fmt.Sprintf("sif %s flags %#x", inode, uint32(flags)),
		"sif "+inode+" links_count 2", "unlink d", "link "+inode+" d", "sif <2> links_count 4", "set_bg 0 used_dirs_count 3", "set_bg 0 checksum calc")
	script(d.t, path, cmds...)
}

// accepted asks e2fsck and the kernel, which finds every name and can go on
// adding and removing.
func (d *tested) accepted(path string) {
	oracle.Fsck(d.t, path)
	if d.e.BlockSize > os.Getpagesize() {
		return
	}
	root := oracle.Mount(d.t, path)
	dir := filepath.Join(root, "d")
	require.Equal(d.t, strings.Join(d.names(), "/"), strings.Join(sortedNames(readNames(d.t, dir)), "/"))
	for name := range d.model {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			require.NoError(d.t, err)
		}
	}
	_, err := os.Lstat(filepath.Join(dir, "no such name"))
	require.ErrorIs(d.t, err, os.ErrNotExist)
	more := min(50+len(d.model)/20, 500)
	for i := range more {
		require.NoError(d.t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("new %d", i)), nil, 0o600))
	}
	for i, name := range d.names() {
		if i%7 == 0 {
			require.NoError(d.t, os.Remove(filepath.Join(dir, name)))
		}
	}
	oracle.Unmount(d.t, root)
	oracle.Fsck(d.t, path)
}

// Directories of any size, made name by name and thinned out again.
func TestOracleEditor(t *testing.T) {
	for i, c := range []struct {
		blockSize, n, maxLen int
		version              uint8
		plain, large, long   bool // without checksums; with large_dir
	}{
		{blockSize: 1024, n: 0, maxLen: 10},
		{blockSize: 1024, n: 1, maxLen: 10},
		{blockSize: 1024, n: 100, maxLen: 40, version: format.HashHalfMD4},
		{blockSize: 1024, n: 100, maxLen: 40, plain: true, version: format.HashTea},
		{blockSize: 1024, n: 10_000, maxLen: 60, version: format.HashHalfMD4},
		{blockSize: 1024, n: 10_000, maxLen: 60, version: format.HashTeaUnsigned, plain: true, large: true, long: true},
		{blockSize: 1024, n: 60_000, maxLen: 255, version: format.HashTea, large: true, long: true},
		{blockSize: 2048, n: 10_000, maxLen: 255, version: format.HashLegacy, long: true},
		{blockSize: 4096, n: 0, maxLen: 10},
		{blockSize: 4096, n: 10_000, maxLen: 24, version: format.HashHalfMD4Unsigned},
		{blockSize: 4096, n: 200_000, maxLen: 20, version: format.HashHalfMD4, long: true},
		{blockSize: 65536, n: 10_000, maxLen: 255, version: format.HashHalfMD4},
	} {
		t.Run(fmt.Sprintf("%d/%dx%d", i, c.blockSize, c.n), func(t *testing.T) {
			needTime(t, c.long)
			o := testOptions(c.blockSize)
			o.Csum, o.LargeDir, o.HashVersion = !c.plain, c.large, c.version
			made, thinned := image(t, &o, "128M"), image(t, &o, "128M")
			rng := newRand(t)
			d := newEdited(t, o)
			for i, name := range randomList(rng, c.n, 3, c.maxLen).names {
				require.NoError(t, d.insert(string(name), linkTarget(i)))
			}
			d.check(100)
			d.plant(made)
			d.accepted(made)
			for i, name := range d.names() {
				if rng.IntN(3) > 0 {
					require.NoError(t, d.remove(name))
				}
				if rng.IntN(8) == 0 {
					require.NoError(t, d.insert(fmt.Sprintf("added later %d", i), linkTarget(i)))
				}
			}
			d.check(100)
			d.plant(thinned)
			d.accepted(thinned)
		})
	}
}

// adopt takes over a directory that the kernel made, as if it had always been
// editedIno: its blocks get new checksums, "." and ".." other inodes, and every
// name another target.
func adopt(t testing.TB, o Options, v *View, left []string) *tested {
	d := newEdited(t, o)
	d.s.blocks, d.s.verified, d.e.Indexed = nil, nil, v.Indexed
	m := v.Blocks.(*memory)
	for n := range m.NumBlocks() {
		block := m.block(n)
		if n == 0 {
			require.NoError(t, retarget(block, 0, editedIno, format.FTDir))
		}
		if v.Indexed && isIndex(n, block) {
			d.e.sealIndex(block)
		} else {
			d.e.sealLeaf(block)
		}
		d.s.blocks, d.s.verified = append(d.s.blocks, block), append(d.s.verified, false)
	}
	require.NoError(t, d.e.SetParent(d.parent))
	for i, name := range left {
		require.NoError(t, d.replace(name, linkTarget(i)))
	}
	return d
}

// B004, B125: names are added to and removed from directories that the kernel
// made, indexed ones with deep indexes and empty leaves among them.
func TestOracleEditKernelDirectory(t *testing.T) {
	for _, c := range []struct {
		blockSize, n, nameLen int
		plain, large, long    bool
	}{
		{blockSize: 1024, n: 30, nameLen: 20},
		{blockSize: 1024, n: 400, nameLen: 60},
		{blockSize: 1024, n: 12000, nameLen: 30, long: true},
		{blockSize: 1024, n: 3000, nameLen: 255, plain: true},
		{blockSize: 1024, n: 45000, nameLen: 255, large: true, long: true},
		{blockSize: 4096, n: 20000, nameLen: 12, long: true},
	} {
		t.Run(fmt.Sprintf("%dx%d", c.blockSize, c.n), func(t *testing.T) {
			needTime(t, c.long)
			o := testOptions(c.blockSize)
			o.Csum, o.LargeDir = !c.plain, c.large
			path := image(t, &o, "128M")
			left := fill(t, path, c.n, c.nameLen)
			v, _ := dump(t, path, o)
			d := adopt(t, o, v, left)
			d.check(50)
			for i, name := range left {
				if i%3 == 0 {
					require.NoError(t, d.remove(name))
				} else if i%5 == 0 {
					require.NoError(t, d.insert(fmt.Sprintf("added later %d", i), linkTarget(i)))
				}
			}
			d.check(50)
			fresh := image(t, &o, "128M")
			d.plant(fresh)
			d.accepted(fresh)
		})
	}
}

// Runs of equal hashes and the end of the hashes are what e2fsck and the kernel
// take them for.
func TestOracleEditedRuns(t *testing.T) {
	for kind, l := range runLists(t) {
		t.Run(kind, func(t *testing.T) {
			o := runOptions()
			path := image(t, &o, "16M")
			d := newEdited(t, o)
			for i, at := range newRand(t).Perm(l.Len()) {
				if err := d.insert(string(l.names[at]), linkTarget(i)); err != nil {
					require.EqualValues(t, format.MaxDirHash, d.hash(string(l.names[at])), err)
				}
			}
			d.plant(path)
			d.accepted(path)
		})
	}
}
