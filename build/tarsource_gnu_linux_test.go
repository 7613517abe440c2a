package build

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/format"
	"drydock/internal/oracle"
)

// tarHost makes an archive of a directory with GNU tar.
func tarHost(t testing.TB, root string, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "host.tar")
	args := append([]string{"-C", root, "-cf", out, "--numeric-owner"}, flags...)
	oracle.Run(t, "tar", append(args, ".")...)
	return out
}

// untar unpacks an archive with GNU tar and describes what that makes.
func untar(t testing.TB, archive string) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "unpacked")
	require.NoError(t, os.Mkdir(dir, 0o755))
	oracle.Run(t, "tar", "-C", dir, "-xpf", archive, "--numeric-owner", "--same-owner", "--xattrs", "--xattrs-include=*", "--acls")
	return describeHost(t, dir)
}

// tarContent describes what this package makes of an archive.
func tarContent(t testing.TB, o TarOptions, archives ...string) map[string]string {
	t.Helper()
	var inputs []TarInput
	for _, a := range archives {
		inputs = append(inputs, TarInput{Name: a})
	}
	src, err := NewTarSource(inputs, o)
	require.NoError(t, err)
	defer src.Close()
	c, _ := scanSource(t, src, TreeOptions{})
	return describeContent(t, c, src)
}

// TestTarOfGNUTar reads what GNU tar makes of the hard cases, in every format,
// and compares it with what GNU tar unpacks.
func TestTarOfGNUTar(t *testing.T) {
	oracle.Root(t)
	oracle.Need(t, "tar", "setfacl")
	root := oracle.HardTree(t)
	oracle.Privileged(t, root)
	require.NoError(t, os.Remove(root+"/socket")) // tar has none
	short := t.TempDir()                          // what fits into the old formats
	oracle.WriteFile(t, short+"/d/file", strings.Repeat("data", 1000), 0o640)
	require.NoError(t, os.Link(short+"/d/file", short+"/link"))
	require.NoError(t, os.Symlink("d/file", short+"/symlink"))
	require.NoError(t, unix.Mkfifo(short+"/fifo", 0o600))
	require.NoError(t, os.Mkdir(short+"/old", 0o700))
	oracle.SetTime(t, short+"/old", 1, 0)
	v7 := t.TempDir()
	oracle.WriteFile(t, v7+"/d/file", "data", 0o640)
	require.NoError(t, os.Link(v7+"/d/file", v7+"/link"))
	require.NoError(t, os.Symlink("d/file", v7+"/symlink"))

	all := []string{"--xattrs", "--xattrs-include=*", "--acls"}
	for _, x := range []struct {
		name, root string
		flags      []string
	}{
		{"gnu", root, []string{"--format=gnu"}},
		{"gnu sparse", root, []string{"--format=gnu", "--sparse"}},
		{"oldgnu", root, []string{"--format=oldgnu", "--sparse"}},
		{"pax", root, append([]string{"--format=pax"}, all...)},
		{"pax sparse 0.0", root, append([]string{"--format=pax", "--sparse", "--sparse-version=0.0"}, all...)},
		{"pax sparse 0.1", root, append([]string{"--format=pax", "--sparse", "--sparse-version=0.1"}, all...)},
		{"pax sparse 1.0", root, append([]string{"--format=pax", "--sparse", "--sparse-version=1.0"}, all...)},
		{"ustar", short, []string{"--format=ustar"}},
		{"v7", v7, []string{"--format=v7"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			archive := tarHost(t, x.root, x.flags...)
			sameTree(t, untar(t, archive), tarContent(t, TarOptions{}, archive))
		})
	}
}

// TestTarKeepsEverythingOfPax compares with the tree itself, not only with
// what GNU tar unpacks.
func TestTarKeepsEverythingOfPax(t *testing.T) {
	oracle.Root(t)
	oracle.Need(t, "tar", "setfacl")
	root := oracle.HardTree(t)
	oracle.Privileged(t, root)
	require.NoError(t, os.Remove(root+"/socket"))
	require.NoError(t, os.Remove(root+"/fifo-again")) // GNU tar makes two fifos of it
	oracle.SetTime(t, root, 1500000000, 5)
	archive := tarHost(t, root, "--format=pax", "--sparse", "--xattrs", "--xattrs-include=*", "--acls", "--pax-option=exthdr.name=x,delete=atime,delete=ctime")
	sameTree(t, describeHost(t, root), tarContent(t, TarOptions{}, archive))
}

// TestTarOfRandomTrees compares many small random trees.
func TestTarOfRandomTrees(t *testing.T) {
	oracle.Root(t)
	oracle.Need(t, "tar")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	formats := [][]string{{"--format=gnu"}, {"--format=gnu", "-S"}, {"--format=oldgnu"}, {"--format=pax", "-S"}, {"--format=pax", "-S", "--sparse-version=0.1"}, {"--format=posix"}}
	for range 6 {
		root := filepath.Join(t.TempDir(), "root")
		randomTree(t, r, root, 60)
		archive := tarHost(t, root, formats[r.IntN(len(formats))]...)
		sameTree(t, untar(t, archive), tarContent(t, TarOptions{}, archive))
	}
}

// randomTree makes a tree of about n files.
func randomTree(t testing.TB, r *rand.Rand, root string, n int) {
	t.Helper()
	require.NoError(t, os.Mkdir(root, 0o755))
	dirs, files := []string{root}, []string(nil)
	for i := range n {
		path := dirs[r.IntN(len(dirs))] + "/" + randomName(r, i)
		var err error
		switch r.IntN(6) {
		case 0:
			err = os.Mkdir(path, 0o755)
			dirs = append(dirs, path)
		case 1:
			err = os.Symlink(strings.Repeat("t", 1+r.IntN(300)), path)
		case 2:
			if len(files) > 0 {
				err = os.Link(files[r.IntN(len(files))], path)
			}
		default:
			oracle.WriteSparse(t, path, int64(r.IntN(200_000)), map[int64]string{int64(r.IntN(200_000)): strings.Repeat("x", r.IntN(9000))})
			files = append(files, path)
			err = errors.Join(os.Chmod(path, os.FileMode(r.IntN(0o1000))), os.Lchown(path, r.IntN(1<<22), r.IntN(1<<22)))
		}
		require.NoError(t, err)
	}
	for _, p := range append(dirs, files...) {
		oracle.SetTime(t, p, r.Int64N(1<<33), 0)
	}
}

func randomName(r *rand.Rand, i int) string {
	b := make([]byte, 1+r.IntN(120))
	for i := range b {
		for b[i] == 0 || b[i] == '/' {
			b[i] = byte(r.Uint32())
		}
	}
	return fmt.Sprintf("%s%d", b, i)
}

// TestTarLayersAgainstGNUTar takes random files away by whiteouts and compares
// with the directory that they were removed from.
func TestTarLayersAgainstGNUTar(t *testing.T) {
	oracle.Root(t)
	oracle.Need(t, "tar")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for range 3 {
		base := filepath.Join(t.TempDir(), "base")
		randomTree(t, r, base, 40)
		lower := tarHost(t, base, "--format=pax")
		upper := filepath.Join(t.TempDir(), "upper")
		require.NoError(t, os.Mkdir(upper, 0o755))
		want := describeHost(t, base)
		gone := 0
		for _, path := range slices.Sorted(maps.Keys(want)) {
			dir, name := filepath.Split(path)
			if _, ok := want[path]; !ok || path == "." || r.IntN(6) != 0 || len(name) > 240 {
				continue
			}
			gone++
			oracle.WriteFile(t, upper+"/"+dir+".wh."+name, "", 0o644)
			require.NoError(t, os.RemoveAll(base+"/"+path))
			for below := range want {
				if strings.HasPrefix(below, path+"/") || below == path {
					delete(want, below)
				}
			}
		}
		got := tarContent(t, TarOptions{}, lower, tarHost(t, upper, "--format=pax", "--exclude-from=/dev/null"))
		require.ElementsMatch(t, slices.Collect(maps.Keys(describeHost(t, base))), slices.Collect(maps.Keys(got)), "%d whiteouts", gone)
	}
}

// TestTarAgainstArchiveTar compares the members of random archives with what
// archive/tar says of them.
func TestTarAgainstArchiveTar(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	for range 200 {
		archive := randomArchive(t, r)
		compareWithArchiveTar(t, archive)
	}
}

func randomArchive(t testing.TB, r *rand.Rand) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range 1 + r.IntN(10) {
		h := &tar.Header{
			Name: randomName(r, i), Mode: int64(r.IntN(0o10000)), Uid: r.IntN(1 << 31), Gid: r.IntN(1 << 20),
			ModTime: time.Unix(r.Int64N(1<<34)-1<<32, 0), Typeflag: "012345670"[r.IntN(9)],
			Format: []tar.Format{tar.FormatUnknown, tar.FormatPAX, tar.FormatGNU}[r.IntN(3)],
		}
		if h.Format == tar.FormatPAX {
			h.ModTime = h.ModTime.Add(time.Duration(r.IntN(1e9)))
			h.PAXRecords = map[string]string{"SCHILY.xattr.user.x": randomName(r, i), "comment": "c"}
		}
		switch h.Typeflag {
		case '0', '7':
			h.Size = r.Int64N(2000)
		case '1', '2':
			h.Linkname = strings.Repeat(randomName(r, i), 1+r.IntN(3))
		case '3', '4':
			h.Devmajor, h.Devminor = r.Int64N(maxDevMajor), r.Int64N(maxDevMinor)
		case '5':
			h.Name += "/"
		}
		if w.WriteHeader(h) != nil { // not every combination has a form
			continue
		}
		_, err := io.CopyN(w, zeroReader{byte(i)}, h.Size)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// compareWithArchiveTar reads an archive with both readers.
func compareWithArchiveTar(t testing.TB, archive []byte) {
	t.Helper()
	theirs := tar.NewReader(bytes.NewReader(archive))
	ours := newTarReader(newFileInput(bytes.NewReader(archive), 0, int64(len(archive))))
	for {
		h, err := theirs.Next()
		m, err2 := ours.member()
		if err == io.EOF || err2 == io.EOF {
			require.Equal(t, err, err2)
			return
		}
		require.NoError(t, err)
		require.NoError(t, err2)
		require.Equal(t, h.Name, m.name)
		if h.Typeflag == tar.TypeLink || h.Typeflag == tar.TypeSymlink {
			require.Equal(t, h.Linkname, m.link)
		}
		require.Equal(t, h.Typeflag, max(m.kind, h.Typeflag*b2i(h.Typeflag == '7')))
		require.EqualValues(t, h.Mode, m.mode)
		require.EqualValues(t, h.Uid, m.uid)
		require.EqualValues(t, h.Gid, m.gid)
		require.Equal(t, format.TimeOf(h.ModTime), m.mtime)
		if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
			require.EqualValues(t, h.Devmajor, m.devMajor)
			require.EqualValues(t, h.Devminor, m.devMinor)
		}
		for k, v := range h.PAXRecords {
			if name, ok := strings.CutPrefix(k, keyXattr); ok {
				require.Equal(t, v, m.pax.xattrs[name])
			}
		}
		want, err := io.ReadAll(theirs)
		require.NoError(t, err)
		require.EqualValues(t, len(want), m.size)
		require.True(t, bytes.Equal(want, archive[m.data:m.data+int64(m.size)]))
	}
}

func b2i(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// FuzzTar reads anything at all. Whatever it is, reading ends, in a tree or in
// an error, with memory in proportion; read from a file or as a stream it is
// the same.
func FuzzTar(f *testing.F) {
	f.Add(script("d a\nf a/b data\ns c a\nl d a/b\np e\nc f"), byte(0))
	f.Add(script("f a 1\nf .wh.a x\nf d/.wh..wh..opq x\nl .wh.b a"), byte(1))
	f.Add(script("l a b\nl b c\nf c x\ns x ../../y\nf x/z 1"), byte(2))
	for _, version := range []string{"0.0", "0.1", "1.0"} {
		f.Add(rawTar(sparseMember1(version, 70000, 0, 10, 60000, 10)), byte(3))
	}
	f.Add(rawTar(rawMember{kind: tarFile, name: "f", pax: []string{"mtime=-1.5", "path=x/y", "SCHILY.xattr.user.a=b", "SCHILY.acl.access=user::rw-\nuser:7:r--\ngroup::r--\nmask::r--\nother::r--", "uid=5"}}), byte(0))
	f.Add(rawTar(rawMember{kind: tarGNUSparse, name: "s", magic: magicGNU, data: "1", more: func(h []byte) {
		rawNumber(h[gsMap:][:gsNumber], 100)
		rawNumber(h[gsMap+gsNumber:][:gsNumber], 1)
		rawNumber(h[gsRealSize:][:gsNumber], 1000)
	}}), byte(0))
	f.Add(gzipped(f, script("f a x")), byte(0))
	f.Add(zstded(f, script("f a x")), byte(0))
	f.Fuzz(func(t *testing.T, archive []byte, how byte) {
		o := TarOptions{SpoolDir: os.TempDir(), Whiteouts: []Whiteouts{WhiteoutsKeep, WhiteoutsApply, WhiteoutsOverlay}[how%3], Holes: []HoleMode{HolesPreserve, HolesFill}[how>>2&1]}
		stream, err := fuzzTar(t, archive, o, true)
		file, err2 := fuzzTar(t, archive, o, false)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("stream: %v, file: %v", err, err2)
		}
		if stream != file {
			t.Fatalf("stream: %s\nfile: %s", stream, file)
		}
	})
}

// fuzzTar reads an archive twice, as two layers, and describes the tree.
func fuzzTar(t testing.TB, archive []byte, o TarOptions, stream bool) (string, error) {
	var inputs []TarInput
	for range 2 {
		in := TarInput{Name: "fuzz", Reader: io.MultiReader(bytes.NewReader(archive))}
		if !stream {
			f, _, err := openUnnamed(os.TempDir())
			require.NoError(t, err)
			defer f.Close()
			_, err = f.WriteAt(archive, 0)
			require.NoError(t, err)
			in.Reader = f
		}
		inputs = append(inputs, in)
	}
	src, err := NewTarSource(inputs, o)
	require.NoError(t, err)
	defer src.Close()
	tree := NewTree(TreeOptions{})
	defer tree.Discard()
	if err := src.Scan(context.Background(), tree); err != nil {
		return "", err
	}
	c, err := tree.Finish()
	if err != nil {
		return "", err
	}
	checkContent(t, c)
	for _, n := range c.Nodes {
		if n.Size > 1<<20 { // holes
			return "large", nil
		}
	}
	lines := describeContent(t, c, src)
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&b, "%q %s\n", p, lines[p])
	}
	return b.String(), nil
}

// TestTarWithChangedBytes reads archives with a few bytes changed, in the hope
// of more than the fuzzer's time allows.
func TestTarWithChangedBytes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 4))
	for range 300 {
		archive := randomArchive(t, r)
		for range 1 + r.IntN(3) {
			archive[r.IntN(len(archive))] = byte(r.Uint32())
		}
		for i := 0; i+tarBlock <= len(archive) && r.IntN(2) == 0; i += tarBlock { // pass the checksum
			if !isZero(archive[i : i+tarBlock]) {
				rawSum(archive[i : i+tarBlock])
			}
		}
		src := tarSourceOf(t, TarOptions{}, archive)
		tree := NewTree(TreeOptions{})
		if src.Scan(context.Background(), tree) == nil {
			if c, err := tree.Finish(); err == nil {
				checkContent(t, c)
			}
		}
		tree.Discard()
	}
}
