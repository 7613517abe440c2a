package build

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/mkfs"
)

// rawMember is a member of an archive that is put together byte by byte.
type rawMember struct {
	kind       byte
	name, link string
	data       string
	mode       int64 // 0: 0644
	uid, gid   int64
	mtime      int64
	size       int64 // -1: that of data
	pax        []string
	magic      string
	major      int64
	minor      int64
	more       func(h []byte) // last changes before the checksum
}

// rawNumber writes octal digits or, where those are too few, binary.
func rawNumber(field []byte, v int64) {
	s := fmt.Sprintf("%0*o", len(field)-1, v)
	if v >= 0 && len(s) < len(field) {
		copy(field, s)
		return
	}
	for i := len(field) - 1; i >= 0; i-- {
		field[i] = byte(v)
		v >>= 8
	}
	field[0] |= 0x80
}

func pad(b []byte) []byte { return append(b, make([]byte, padding(int64(len(b))))...) }

func (m rawMember) bytes() []byte {
	var out []byte
	if len(m.pax) > 0 {
		out = rawMember{kind: tarPax, name: "PaxHeaders/x", data: paxData(m.pax...)}.bytes()
	}
	h := make([]byte, tarBlock)
	copy(h[thName:thName+lenName], m.name)
	copy(h[thLink:thLink+lenName], m.link)
	if m.mode == 0 {
		m.mode = 0o644
	}
	if m.size == 0 {
		m.size = int64(len(m.data))
	}
	rawNumber(h[thMode:][:lenID], m.mode)
	rawNumber(h[thUID:][:lenID], m.uid)
	rawNumber(h[thGID:][:lenID], m.gid)
	rawNumber(h[thSize:][:lenSize], m.size)
	rawNumber(h[thMtime:][:lenMtime], m.mtime)
	rawNumber(h[thDevMajor:][:lenDev], m.major)
	rawNumber(h[thDevMinor:][:lenDev], m.minor)
	h[thType] = m.kind
	if m.magic == "" {
		m.magic = magicUstar + "00"
	}
	copy(h[thMagic:], m.magic)
	if m.more != nil {
		m.more(h)
	}
	rawSum(h)
	return append(append(out, h...), pad([]byte(m.data))...)
}

// rawSum sets the checksum of a header.
func rawSum(h []byte) {
	copy(h[thSum:], "        ")
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[thSum:], fmt.Sprintf("%06o\x00 ", sum))
}

// paxData makes records of "key=value".
func paxData(records ...string) string {
	var b strings.Builder
	for _, r := range records {
		n := len(r) + 2
		for len(fmt.Sprint(n))+len(r)+2 != n {
			n++
		}
		fmt.Fprintf(&b, "%d %s\n", n, r)
	}
	return b.String()
}

func rawTar(members ...rawMember) []byte {
	var b []byte
	for _, m := range members {
		b = append(b, m.bytes()...)
	}
	return append(b, make([]byte, 2*tarBlock)...)
}

// script makes an archive of lines: "d NAME", "f NAME DATA", "s NAME TARGET"
// (symlink), "l NAME TARGET" (hard link), "p NAME" (fifo), "c NAME".
func script(lines string) []byte {
	var members []rawMember
	for line := range strings.SplitSeq(lines, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		m := rawMember{name: f[1], mtime: 1, uid: 5}
		rest := strings.Join(f[2:], " ")
		switch f[0] {
		case "d":
			m.kind, m.mode = tarDir, 0o700
		case "f":
			m.kind, m.data = tarFile, rest
		case "s":
			m.kind, m.link = tarSymlink, rest
		case "l":
			m.kind, m.link = tarHardLink, rest
		case "p":
			m.kind = tarFifo
		case "c":
			m.kind, m.major, m.minor = tarChar, 1, 3
		default:
			panic(line)
		}
		members = append(members, m)
	}
	return rawTar(members...)
}

// tarSourceOf makes a source of archives in memory.
func tarSourceOf(t testing.TB, o TarOptions, archives ...[]byte) *TarSource {
	if o.SpoolDir == "" {
		o.SpoolDir = t.TempDir()
	}
	var inputs []TarInput
	for i, a := range archives {
		inputs = append(inputs, TarInput{Name: fmt.Sprintf("layer%d", i), Reader: bytes.NewReader(a)})
	}
	src, err := NewTarSource(inputs, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, src.Close()) })
	return src
}

// tarLines describes what scripts make: a line a path.
func tarLines(t testing.TB, o TarOptions, to TreeOptions, layers ...string) (string, error) {
	var archives [][]byte
	for _, l := range layers {
		archives = append(archives, script(l))
	}
	src := tarSourceOf(t, o, archives...)
	tree := NewTree(to)
	if err := src.Scan(context.Background(), tree); err != nil {
		return "", err
	}
	c, err := tree.Finish()
	if err != nil {
		return "", err
	}
	checkContent(t, c)
	return shortLines(t, c, src), nil
}

// shortLines describes content: "a/ 700", "f=data", "s->target", "l=first".
func shortLines(t testing.TB, c *mkfs.Content, src Source) string {
	var lines []string
	first := make(map[uint32]string)
	nodes := pathNodes(c)
	paths := make([]string, 0, len(nodes))
	for p := range nodes {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		n := c.Nodes[nodes[p]]
		if f, ok := first[nodes[p]]; ok {
			lines = append(lines, p+" == "+f)
			continue
		}
		first[nodes[p]] = p
		line := p
		switch n.Mode & format.ModeType {
		case format.ModeDir:
			line += fmt.Sprintf("/ %o", n.Mode&0o7777)
		case format.ModeRegular:
			line += " = " + string(nodeData(t, c, src, n))
		case format.ModeSymlink:
			line += " -> " + string(c.Names.Get(mkfs.NameRef(n.First)))
		case format.ModeChar:
			line += fmt.Sprintf(" c%d:%d", n.First, n.Count)
		default:
			line += fmt.Sprintf(" %o", n.Mode)
		}
		if n.Xattrs != 0 {
			for _, x := range c.Xattrs[n.Xattrs-1] {
				line += fmt.Sprintf(" %s=%s", x.FullName(), x.Value)
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// unindent takes the blanks away that a test's source is indented by.
func unindent(s string) string {
	var lines []string
	for l := range strings.SplitSeq(s, "\n") {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "\n")
}

// tarCase is archives and what they come to.
type tarCase struct {
	name   string
	o      TarOptions
	layers []string
	want   string
	err    string // a part of the error
}

func runTarCases(t *testing.T, cases []tarCase) {
	for _, x := range cases {
		t.Run(x.name, func(t *testing.T) {
			got, err := tarLines(t, x.o, TreeOptions{}, x.layers...)
			if x.err != "" {
				require.ErrorContains(t, err, x.err)
				var where *TarError
				require.ErrorAs(t, err, &where)
				return
			}
			require.NoError(t, err)
			require.Equal(t, unindent(x.want), got)
		})
	}
}

func TestTarMembers(t *testing.T) {
	one := func(name, in, want string) tarCase { return tarCase{name: name, layers: []string{in}, want: want} }
	bad := func(name, in, err string) tarCase { return tarCase{name: name, layers: []string{in}, err: err} }
	runTarCases(t, []tarCase{
		one("B026 hard link to a symlink", "f t x\ns s t\nl l s", `
			l -> t
			s == l
			t = x`),
		one("B035 missing parents of a hard link", "f bin/app x\nl bin/app.runfiles/_main/app_/app bin/app", `
			bin/ 755
			bin/app = x
			bin/app.runfiles/ 755
			bin/app.runfiles/_main/ 755
			bin/app.runfiles/_main/app_/ 755
			bin/app.runfiles/_main/app_/app == bin/app`),
		one("B035 missing parents of files and symlinks", "f a/b/c x\ns d/e f", `
			a/ 755
			a/b/ 755
			a/b/c = x
			d/ 755
			d/e -> f`),
		one("B053 symlink in place of a file", "f bin/systemd x\ns bin/systemd other", "bin/ 755\nbin/systemd -> other"),
		one("B053 file in place of a symlink", "s a b\nf a x", "a = x"),
		one("B053 directory in place of a file", "f a x\nd a\nf a/b y", "a/ 700\na/b = y"),
		one("B053 file in place of a directory", "f a/b x\nf a/c x\nf a y\nf z z", "a = y\nz = z"),
		one("B053 fifo, device", "f a x\np a\nf b x\nc b", "a 10644\nb c1:3"),
		one("directory twice keeps what is in it", "f a/b x\nd a", "a/ 700\na/b = x"),
		one("directory that comes back is empty", "f a/b x\nf a y\nd a", "a/ 700"),
		one("last entry wins", "f a 1\nf a 2\nf a 3", "a = 3"),
		one("implied directory in place of a file", "f a x\nf a/b y", "a/ 755\na/b = y"),
		one("B055 below a symlink", "d usr/lib\ns lib usr/lib\nf lib/x y", `
			lib -> usr/lib
			usr/ 755
			usr/lib/ 700
			usr/lib/x = y`),
		one("B055 directory in place of a symlink", "d usr/lib\ns lib usr/lib\nd lib\nf lib/x y", `
			lib/ 700
			lib/x = y
			usr/ 755
			usr/lib/ 700`),
		one("symlinked parents stay inside", "s a ../../../x\ns b /y/../../z\nf a/f 1\nf b/f 2\ns c a/../../x\nf c/g 3", `
			a -> ../../../x
			b -> /y/../../z
			c -> a/../../x
			x/ 755
			x/f = 1
			x/g = 3
			y/ 755
			z/ 755
			z/f = 2`),
		one("symlink chain and absolute target", "s a b\ns b /c/d\nf a/f 1", `
			a -> b
			b -> /c/d
			c/ 755
			c/d/ 755
			c/d/f = 1`),
		one("names that try to leave", "f ../../etc/passwd x\nf /abs y\nf a/../../b z\nf ./././c 1\nf d//e 2\nd .", `
			abs = y
			b = z
			c = 1
			d/ 755
			d/e = 2
			etc/ 755
			etc/passwd = x`),
		one("names with dots", "f .a 1\nf a/.b 2\nf ... 3\nf ..a 4\nf a../b 5\nf a/..b/c 6", `
			... = 3
			..a = 4
			.a = 1
			a/ 755
			a../ 755
			a../b = 5
			a/..b/ 755
			a/..b/c = 6
			a/.b = 2`),
		one("B100 hard link with ./", "f bar x\nl foo ./bar\nl ./a/foo /bar\nl b/c ../bar", `
			a/ 755
			a/foo = x
			b/ 755
			b/c == a/foo
			bar == a/foo
			foo == a/foo`),
		one("hard link before its target", "l a b\nf b x", "a = x\nb == a"),
		one("hard links that wait for one another", "l a b\nl b c\nl c d\nf d x\nl e a", `
			a = x
			b == a
			c == a
			d == a
			e == a`),
		one("hard link that waits and is replaced", "l a none\nf a x", "a = x"),
		one("hard link through a symlink", "f usr/f x\ns u usr\nl l u/f", "l = x\nu -> usr\nusr/ 755\nusr/f == l"),
		one("hard link to itself", "f a x\nl a a", "a = x"),
		one("hard link keeps what its target was", "f a 1\nl b a\nf a 2", "a = 2\nb = 1"),
		one("hard link in place of a directory", "f t x\nf a/b y\nl a t", "a = x\nt == a"),
		one("root entry", "d ./\nf a x", "a = x"),
		bad("hard link to nothing", "f x 1\nl a/b no/ne", `member "a/b" at byte 1024: hard link to "no/ne", which is not there`),
		bad("hard links in a circle", "l a b\nl b a", `"a"`),
		bad("hard link to itself alone", "l a a", "leads back"),
		bad("hard link to a directory", "d b\nl a b", `hard link to a directory "b"`),
		bad("hard link to a directory later", "l a b\nd b", `hard link to a directory "b"`),
		bad("symlink loop in a parent", "s a b\ns b a\nf a/f x", "more than 40 symlinks"),
		bad("root as a file", "f . x", "the root can only be a directory"),
		bad("root as a symlink", "s / x", "the root can only be a directory"),
		bad("symlink without a target", "s a", "without a target"),
	})
}

// TestTarWhiteouts is B050 and B052 and what else layers can hold.
func TestTarWhiteouts(t *testing.T) {
	apply, overlay, keep := TarOptions{Whiteouts: WhiteoutsApply}, TarOptions{Whiteouts: WhiteoutsOverlay}, TarOptions{Whiteouts: WhiteoutsKeep}
	runTarCases(t, []tarCase{
		{"B050 lower package is gone", TarOptions{}, []string{"f opt/pkg/a 1\nf opt/other 2", "f opt/.wh.pkg x\nf new 3"}, `
			new = 3
			opt/ 755
			opt/other = 2`, ""},
		{"B052 whiteout that is a hard link", apply, []string{"f tmp/KEY 1\nf tmp/other 2", "l tmp/.wh.KEY tmp/other"}, "tmp/ 755\ntmp/other = 2", ""},
		{"whiteouts of other types", apply, []string{"f a 1\nf b 1\nf c 1", "s .wh.a x\nd .wh.b\nc .wh.c"}, "", ""},
		{"same layer stays, whiteout last", apply, []string{"f d/old 1", "f d/new 2\nf .wh.d x"}, "d/ 755\nd/new = 2", ""},
		{"same layer stays, whiteout first", apply, []string{"f d/old 1", "f .wh.d x\nf d/new 2"}, "d/ 755\nd/new = 2", ""},
		{"same layer's file stays", apply, []string{"f a 1", "f a 2\nf .wh.a x"}, "a = 2", ""},
		{"opaque first", apply, []string{"f d/a 1\nf d/sub/b 2\nf e 3", "f d/.wh..wh..opq x\nf d/new 4"}, "d/ 755\nd/new = 4\ne = 3", ""},
		{"opaque last", apply, []string{"f d/a 1\nf d/sub/b 2", "f d/new 4\nf d/sub/new 5\nf d/.wh..wh..opq x"}, `
			d/ 755
			d/new = 4
			d/sub/ 755
			d/sub/new = 5`, ""},
		{"opaque: attributes of lower directories go", apply, []string{"d d/sub\nf d/sub/b 2", "f d/sub/new 5\nf d/.wh..wh..opq x"}, `
			d/ 755
			d/sub/ 755
			d/sub/new = 5`, ""},
		{"opaque root", apply, []string{"f a 1\nf b/c 2", "f .wh..wh..opq x\nf d 3"}, "d = 3", ""},
		{"only lower layers", apply, []string{"f a 1", "f .wh.a x", "f a 3"}, "a = 3", ""},
		{"of a missing name or directory", apply, []string{"f a 1", "f .wh.b x\nf c/.wh.d x\nf e/.wh..wh..opq x"}, "a = 1", ""},
		{"through a symlink", apply, []string{"d usr/lib\nf usr/lib/x 1\ns lib usr/lib", "f lib/.wh.x y"}, "lib -> usr/lib\nusr/ 755\nusr/lib/ 700", ""},
		{"of aufs", apply, []string{"f a 1", "f .wh..wh.aufs x\nd .wh..wh.plnk\nf .wh..wh.plnk.f x"}, "a = 1", ""},
		{"one archive", apply, []string{"f a 1\nf .wh.a x\nf .wh.b x"}, "a = 1", ""},
		{"B053 layers replace", TarOptions{}, []string{"f bin/systemd 1\ns b x\nf c/d 1", "s bin/systemd other\nf b 2\nf c 3"}, `
			b = 2
			bin/ 755
			bin/systemd -> other
			c = 3`, ""},
		{"B055 base symlink, upper file below it", TarOptions{}, []string{"d usr/lib\ns lib usr/lib", "f lib/x86_64/libfoo.so 1"}, `
			lib -> usr/lib
			usr/ 755
			usr/lib/ 700
			usr/lib/x86_64/ 755
			usr/lib/x86_64/libfoo.so = 1`, ""},
		{"B055 base symlink, upper directory", TarOptions{}, []string{"f usr/lib/a 1\ns lib usr/lib", "d lib/\nf lib/b 2"}, `
			lib/ 700
			lib/b = 2
			usr/ 755
			usr/lib/ 755
			usr/lib/a = 1`, ""},
		{"hard link to a lower layer", TarOptions{}, []string{"f a 1", "l b a"}, "a = 1\nb == a", ""},
		{"keep", keep, []string{"f a 1", "f .wh.a x\nf d/.wh..wh..opq y"}, ".wh.a = x\na = 1\nd/ 755\nd/.wh..wh..opq = y", ""},
		{"default of one archive", TarOptions{}, []string{"f a 1\nf .wh.a x"}, ".wh.a = x\na = 1", ""},
		{"overlay", overlay, []string{"f a 1\nf d/x 2\nf .wh.gone y\nf d/.wh..wh..opq x"}, `
			a = 1
			d/ 755 trusted.overlay.opaque=y
			d/x = 2
			gone c0:0`, ""},
		{"overlay of two layers", overlay, []string{"f a 1\nf d/x 2", "f .wh.a x\nf d/.wh..wh..opq x\nf d/y 3"}, `
			a c0:0
			d/ 755 trusted.overlay.opaque=y
			d/y = 3`, ""},
		{"overlay: directory in place of a whiteout", overlay, []string{"f .wh.d x\nf d/y 3\nf .wh.e x\nd e"}, `
			d/ 755 trusted.overlay.opaque=y
			d/y = 3
			e/ 700 trusted.overlay.opaque=y`, ""},
		{"overlay: whiteout of a directory of the same layer", overlay, []string{"f d/y 3\nf .wh.d x\nf f 1\nf .wh.f x"}, `
			d/ 755 trusted.overlay.opaque=y
			d/y = 3
			f = 1`, ""},
		{"overlay: attributes come later", overlay, []string{"f d/.wh..wh..opq x\nd d"}, "d/ 700 trusted.overlay.opaque=y", ""},
		{"nameless", apply, []string{"f a/.wh. x"}, "", "names nothing"},
		{"dots", apply, []string{"f a/.wh... x"}, "", "names nothing"},
	})
}

// TestTarManyLayersInReverse replaces and hides in many layers.
func TestTarManyLayersInReverse(t *testing.T) {
	var layers []string
	for i := range 40 {
		layers = append(layers, fmt.Sprintf("f f%d x\nf .wh.f%d x\nf d/f%d x\nf d/.wh..wh..opq x", i, i-1, i))
	}
	got, err := tarLines(t, TarOptions{}, TreeOptions{}, layers...)
	require.NoError(t, err)
	require.Equal(t, "d/ 755\nd/f39 = x\nf39 = x", got)
}

func nodeOfTar(t testing.TB, o TreeOptions, path string, archive []byte) (mkfs.Node, *mkfs.Content, *Tree) {
	c, tree := scanSource(t, tarSourceOf(t, TarOptions{}, archive), o)
	if path == "" {
		return c.Nodes[RootNode], c, tree
	}
	node, ok := pathNodes(c)[path]
	require.True(t, ok, "%v", pathNodes(c))
	return c.Nodes[node], c, tree
}

// TestTarAttributes is B056 (owner and setuid from the header), B031 (times)
// and the precedence of extended headers.
func TestTarAttributes(t *testing.T) {
	tm := func(sec int64, nsec uint32) format.Time { return format.Time{Sec: sec, Nsec: nsec} }
	for _, x := range []struct {
		name string
		m    rawMember
		want mkfs.Node
	}{
		{"plain", rawMember{mode: 0o4755, uid: 0, gid: 42, mtime: 1234567890}, mkfs.Node{Mode: 0o104755, GID: 42, Mtime: tm(1234567890, 0)}},
		{"mode with a type", rawMember{mode: 0o100644}, mkfs.Node{Mode: 0o100644}},
		{"base-256", rawMember{uid: 4294967294, gid: 1 << 21, mtime: 1 << 33}, mkfs.Node{Mode: 0o100644, UID: 4294967294, GID: 1 << 21, Mtime: tm(1<<33, 0)}},
		{"base-256 negative", rawMember{uid: -2, mtime: -315619200}, mkfs.Node{Mode: 0o100644, UID: 4294967294, Mtime: tm(-315619200, 0)}},
		{"PAX wins", rawMember{uid: 1, gid: 2, mtime: 3, pax: []string{"uid=4000000000", "gid=70000", "mtime=10.5"}}, mkfs.Node{Mode: 0o100644, UID: 4000000000, GID: 70000, Mtime: tm(10, 500_000_000)}},
		{"B031 1960", rawMember{pax: []string{"mtime=-315619200"}}, mkfs.Node{Mode: 0o100644, Mtime: tm(-315619200, 0)}},
		{"1960 and a fraction", rawMember{pax: []string{"mtime=-315619200.25"}}, mkfs.Node{Mode: 0o100644, Mtime: tm(-315619201, 750_000_000)}},
		{"just before 1970", rawMember{pax: []string{"mtime=-0.000000001"}}, mkfs.Node{Mode: 0o100644, Mtime: tm(-1, 999_999_999)}},
		{"long fraction", rawMember{pax: []string{"mtime=1.12345678999"}}, mkfs.Node{Mode: 0o100644, Mtime: tm(1, 123456789)}},
		{"2446", rawMember{pax: []string{"mtime=15032385535.999999999"}}, mkfs.Node{Mode: 0o100644, Mtime: format.MaxTime}},
		{"after 2446", rawMember{pax: []string{"mtime=15032385536"}}, mkfs.Node{Mode: 0o100644, Mtime: format.MaxTime}},
		{"before 1901", rawMember{pax: []string{"mtime=-99999999999999999999999.5"}}, mkfs.Node{Mode: 0o100644, Mtime: format.MinTime}},
		{"empty value means the header", rawMember{uid: 7, pax: []string{"uid=", "path="}}, mkfs.Node{Mode: 0o100644, UID: 7}},
		{"contiguous", rawMember{kind: tarContiguous}, mkfs.Node{Mode: 0o100644}},
		{"old file", rawMember{kind: tarFileV7, magic: "\x00\x00"}, mkfs.Node{Mode: 0o100644}},
		{"device", rawMember{kind: tarBlockDev, major: 259, minor: 70000}, mkfs.Node{Mode: 0o060644, First: 259, Count: 70000}},
		{"device of star", rawMember{kind: tarChar, pax: []string{"SCHILY.devmajor=4095", "SCHILY.devminor=1048575"}}, mkfs.Node{Mode: 0o020644, First: 4095, Count: 1048575}},
		{"fifo", rawMember{kind: tarFifo, mode: 0o1600}, mkfs.Node{Mode: 0o011600}},
	} {
		t.Run(x.name, func(t *testing.T) {
			if x.m.kind == 0 && x.m.magic == "" {
				x.m.kind = tarFile
			}
			x.m.name = "n"
			got, _, _ := nodeOfTar(t, TreeOptions{}, "n", rawTar(x.m))
			got.Links = 0
			require.Equal(t, x.want, got)
		})
	}
}

func TestTarRootAndMadeDirectories(t *testing.T) {
	root := rawMember{kind: tarDir, name: "./", mode: 0o1777, uid: 3, gid: 4, pax: []string{"mtime=5.5", "SCHILY.xattr.user.x=y"}}
	got, c, _ := nodeOfTar(t, TreeOptions{}, "", rawTar(root))
	require.EqualValues(t, format.ModeDir|0o1777, got.Mode)
	require.EqualValues(t, 3, got.UID)
	require.Equal(t, format.Time{Sec: 5, Nsec: 500_000_000}, got.Mtime)
	require.Equal(t, "user.x", c.Xattrs[got.Xattrs-1][0].FullName())

	when := format.Time{Sec: 77}
	for _, path := range []string{"", "a", "a/b"} {
		got, _, _ := nodeOfTar(t, TreeOptions{Time: when}, path, script("f a/b/c x"))
		require.EqualValues(t, format.ModeDir|0o755, got.Mode)
		require.Equal(t, when, got.Mtime)
		require.Zero(t, got.UID)
	}
}

func TestTarWarnsOfTimes(t *testing.T) {
	_, _, tree := nodeOfTar(t, TreeOptions{}, "b", rawTar(
		rawMember{kind: tarFile, name: "b", pax: []string{"mtime=99999999999"}}, rawMember{kind: tarFile, name: "a", pax: []string{"mtime=-99999999999"}}))
	require.Equal(t, []Warning{{What: warnTime, Path: "a", Count: 2}}, tree.Warnings())
}

// TestTarXattrs is B079 and B049: every namespace is kept, in all the forms
// that archives have.
func TestTarXattrs(t *testing.T) {
	const selinux = "system_u:object_r:etc_t:s0"
	acl := "\x02\x00\x00\x00" + "\x01\x00\x06\x00\xff\xff\xff\xff" + "\x02\x00\x04\x00\xd2\x04\x00\x00" + "\x04\x00\x04\x00\xff\xff\xff\xff" + "\x10\x00\x04\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff"
	disk, err := format.ACLToDisk([]byte(acl))
	require.NoError(t, err)
	for _, x := range []struct {
		name string
		pax  []string
		want []string
	}{
		{"SCHILY", []string{"SCHILY.xattr.security.selinux=" + selinux + "\x00", "SCHILY.xattr.user.a=1", "SCHILY.xattr.trusted.t=\x00\n", "SCHILY.xattr.user.empty=", "SCHILY.xattr.security.capability=\x01\x00"},
			[]string{"user.a=1", "user.empty=", "trusted.t=\x00\n", "security.selinux=" + selinux + "\x00", "security.capability=\x01\x00"}},
		{"RHT", []string{"RHT.security.selinux=" + selinux}, []string{"security.selinux=" + selinux + "\x00"}},
		{"LIBARCHIVE", []string{"LIBARCHIVE.xattr.user.per%25cent=AAEC", "LIBARCHIVE.xattr.user.padded=YQ=="}, []string{"user.padded=a", "user.per%cent=\x00\x01\x02"}},
		{"both", []string{"SCHILY.xattr.user.a=1", "LIBARCHIVE.xattr.user.a=Mg"}, []string{"user.a=1"}},
		{"ACL as xattr", []string{"SCHILY.xattr.system.posix_acl_access=" + acl}, []string{"system.posix_acl_access=" + string(disk)}},
		{"ACL as text", []string{"SCHILY.acl.access=user::rw-\nuser:1234:r--\ngroup::r--\nmask::r--\nother::---\n"}, []string{"system.posix_acl_access=" + string(disk)}},
		{"ACL of star", []string{"SCHILY.acl.access=user::rw-,group::r--,user:joe:r--:1234,mask::r--,other::---"}, []string{"system.posix_acl_access=" + string(disk)}},
		{"ACL that is the mode", []string{"SCHILY.acl.access=user::rw-\ngroup::r--\nother::r--\n"}, nil},
		{"unknown namespaces", []string{"SCHILY.xattr.btrfs.compression=zstd", "SCHILY.xattr.system.data=x", "SCHILY.xattr.user.a=1"}, []string{"user.a=1"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			n, c, _ := nodeOfTar(t, TreeOptions{}, "f", rawTar(rawMember{kind: tarFile, name: "f", pax: x.pax}))
			var got []string
			if n.Xattrs != 0 {
				for _, a := range c.Xattrs[n.Xattrs-1] {
					got = append(got, a.FullName()+"="+string(a.Value))
				}
			}
			require.Equal(t, x.want, got)
		})
	}
	_, _, tree := nodeOfTar(t, TreeOptions{}, "f", rawTar(rawMember{kind: tarFile, name: "f", pax: []string{"SCHILY.xattr.btrfs.compression=zstd"}}))
	require.Equal(t, `xattr "btrfs.compression" is left out, ext4 has no such namespace: "f"`, tree.Warnings()[0].String())
}

func TestTarXattrErrorsAndFilter(t *testing.T) {
	named := rawTar(rawMember{kind: tarFile, name: "f", pax: []string{"SCHILY.acl.access=user::rw-\nuser:joe:r--\ngroup::r--\nmask::r--\nother::---"}})
	src := tarSourceOf(t, TarOptions{}, named)
	err := src.Scan(context.Background(), NewTree(TreeOptions{}))
	require.ErrorContains(t, err, `layer0: member "f" at byte 1024: damaged ACL: entry "user:joe:r--": "joe" is a name; make the archive with --numeric-owner`)

	filter, err := NewXattrFilter("!system.posix_acl_*")
	require.NoError(t, err)
	n, _, _ := nodeOfTar(t, TreeOptions{Xattrs: filter}, "f", named)
	require.Zero(t, n.Xattrs)
	none, err := NewXattrFilter("none")
	require.NoError(t, err)
	n, _, _ = nodeOfTar(t, TreeOptions{Xattrs: none}, "f", named)
	require.Zero(t, n.Xattrs)
}

// TestTarGlobalHeaders has records for all members, which a member's own ones
// overrule.
func TestTarGlobalHeaders(t *testing.T) {
	global := func(records ...string) rawMember {
		return rawMember{kind: tarPaxGlobal, name: "g", data: paxData(records...)}
	}
	archive := rawTar(
		global("comment=1234", "uid=7", "SCHILY.xattr.user.g=1"), rawMember{kind: tarFile, name: "a"},
		rawMember{kind: tarFile, name: "b", pax: []string{"uid=8"}}, rawMember{kind: tarFile, name: "c"},
		global("uid=9"), rawMember{kind: tarFile, name: "d"},
		global("uid="), rawMember{kind: tarFile, name: "e", uid: 3})
	for path, uid := range map[string]uint32{"a": 7, "b": 8, "c": 7, "d": 9, "e": 3} {
		n, _, _ := nodeOfTar(t, TreeOptions{}, path, archive)
		require.Equal(t, uid, n.UID, path)
		require.NotZero(t, n.Xattrs)
	}
}

func TestTarLongNames(t *testing.T) {
	long := strings.Repeat("long/", 60) + "name"
	target := strings.Repeat("t", 300)
	gnu := func(kind byte, s string) rawMember {
		return rawMember{kind: kind, name: "././@LongLink", data: s + "\x00", magic: magicGNU}
	}
	for name, archive := range map[string][]byte{
		"GNU": rawTar(gnu(tarLongName, long), gnu(tarLongLink, target), rawMember{kind: tarSymlink, name: long[:100], link: target[:100], magic: magicGNU}),
		"PAX": rawTar(rawMember{kind: tarSymlink, name: long[:100], link: target[:100], pax: []string{"path=" + long, "linkpath=" + target}}),
		"Sun": rawTar(rawMember{kind: tarPaxSun, name: "x", data: paxData("path="+long, "linkpath="+target)}, rawMember{kind: tarSymlink, name: long[:100], link: target[:100]}),
	} {
		n, c, _ := nodeOfTar(t, TreeOptions{}, long, archive)
		require.Equal(t, target, string(c.Names.Get(mkfs.NameRef(n.First))), name)
	}
	prefixed := rawMember{kind: tarFile, name: "name", more: func(h []byte) { copy(h[thPrefix:], "pre/fix") }}
	nodeOfTar(t, TreeOptions{}, "pre/fix/name", rawTar(prefixed))
	star := rawMember{kind: tarFile, name: "name", more: func(h []byte) {
		copy(h[thPrefix:], strings.Repeat("p", 131)+"0000000")
		copy(h[thStarEnd:], endStar)
	}}
	nodeOfTar(t, TreeOptions{}, strings.Repeat("p", 131)+"/name", rawTar(star))
	v7 := rawMember{name: "dir/", magic: "\x00\x00"}
	n, _, _ := nodeOfTar(t, TreeOptions{}, "dir", rawTar(v7))
	require.True(t, isDir(&n))
	dump := rawMember{kind: tarGNUDumpDir, name: "dir/", data: "Yfile\x00\x00", magic: magicGNU}
	n, _, _ = nodeOfTar(t, TreeOptions{}, "dir", rawTar(rawMember{kind: tarGNUVolume, name: "label"}, dump))
	require.True(t, isDir(&n))
}

// TestTarSymlinkTargets is B025, B032 and B101.
func TestTarSymlinkTargets(t *testing.T) {
	archive := func(n int) []byte {
		return rawTar(rawMember{kind: tarSymlink, name: "s", pax: []string{"linkpath=" + strings.Repeat("t", n)}})
	}
	for _, n := range []int{1, 59, 60, 61, 1023, 4095} {
		got, c, _ := nodeOfTar(t, TreeOptions{}, "s", archive(n))
		require.Len(t, c.Names.Get(mkfs.NameRef(got.First)), n)
	}
	finish := func(block, n int) error {
		tree := NewTree(TreeOptions{BlockSize: block})
		require.NoError(t, tarSourceOf(t, TarOptions{}, archive(n)).Scan(context.Background(), tree))
		_, err := tree.Finish()
		return err
	}
	require.EqualError(t, finish(4096, 4096), `"s": symlink target of 4096 bytes, at most 4095 are possible`)
	require.EqualError(t, finish(1024, 1024), `"s": symlink target of 1024 bytes, at most 1023 are possible`)
	require.EqualError(t, finish(65536, 4096), `"s": symlink target of 4096 bytes, at most 4095 are possible`)
	err := tarSourceOf(t, TarOptions{}, archive(70000)).Scan(context.Background(), NewTree(TreeOptions{}))
	require.ErrorContains(t, err, "symlink target of 70000 bytes")
}

func sparseRecords(version string, size int, name string, ranges ...uint64) (pax []string, data string) {
	var list []string
	for _, n := range ranges {
		list = append(list, fmt.Sprint(n))
	}
	switch version {
	case "0.0":
		pax = []string{fmt.Sprintf("GNU.sparse.size=%d", size), fmt.Sprintf("GNU.sparse.numblocks=%d", len(ranges)/2)}
		for i := 0; i < len(list); i += 2 {
			pax = append(pax, "GNU.sparse.offset="+list[i], "GNU.sparse.numbytes="+list[i+1])
		}
	case "0.1":
		pax = []string{fmt.Sprintf("GNU.sparse.size=%d", size), fmt.Sprintf("GNU.sparse.numblocks=%d", len(ranges)/2),
			"GNU.sparse.map=" + strings.Join(list, ","), "GNU.sparse.name=" + name}
	case "1.0":
		pax = []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=" + name, fmt.Sprintf("GNU.sparse.realsize=%d", size)}
		data = string(pad([]byte(strings.Join(append([]string{fmt.Sprint(len(ranges) / 2)}, list...), "\n") + "\n")))
	}
	return pax, data
}

// TestTarSparse is B148 and B149: sparse members have the right name and
// content, and their holes stay holes.
func TestTarSparse(t *testing.T) {
	for _, version := range []string{"0.0", "0.1", "1.0"} {
		pax, data := sparseRecords(version, 20000, "dir/services.db", 0, 5, 12345, 1, 20000, 0)
		name := "dir/GNUSparseFile.0/services.db"
		if version == "0.0" {
			name = "dir/services.db"
		}
		m := rawMember{kind: tarFile, name: name, data: data + "hello!", pax: pax}
		archive := rawTar(m, rawMember{kind: tarFile, name: "next", data: "x"})
		for _, holes := range []HoleMode{HolesPreserve, HolesDig, HolesFill} {
			src := tarSourceOf(t, TarOptions{Holes: holes}, archive)
			c, _ := scanSource(t, src, TreeOptions{})
			nodes := pathNodes(c)
			require.Len(t, nodes, 3, version)
			n := c.Nodes[nodes["dir/services.db"]]
			require.EqualValues(t, 20000, n.Size)
			require.Equal(t, holes != HolesFill, n.Sparse)
			want := make([]byte, 20000)
			copy(want, "hello")
			want[12345] = '!'
			require.True(t, bytes.Equal(want, nodeData(t, c, src, n)), version)
			if holes == HolesPreserve {
				require.Equal(t, []mkfs.Range{{Len: 5}, {Off: 12345, Len: 1}}, c.Ranges[n.First:n.First+n.Count])
			}
		}
	}
}

// TestTarSparseLarge is B037 and B065: a member of 129 GiB takes no time or
// space for its holes.
func TestTarSparseLarge(t *testing.T) {
	const size = 129 << 30
	pax, data := sparseRecords("1.0", size, "big", 0, 1, size-1, 1)
	n, c, _ := nodeOfTar(t, TreeOptions{}, "big", rawTar(rawMember{kind: tarFile, name: "x", data: data + "ab", pax: pax}))
	require.EqualValues(t, size, n.Size)
	require.Equal(t, []mkfs.Range{{Len: 1}, {Off: size - 1, Len: 1}}, c.Ranges[n.First:n.First+n.Count])

	pax, data = sparseRecords("1.0", 1<<40, "hole")
	n, _, _ = nodeOfTar(t, TreeOptions{}, "hole", rawTar(rawMember{kind: tarFile, name: "x", data: data, pax: pax}))
	require.True(t, n.Sparse)
	require.Zero(t, n.Count)
}

func TestTarOldGNUSparse(t *testing.T) {
	entry := func(h []byte, i int, off, n int64) {
		rawNumber(h[i*gsEntry:][:gsNumber], off)
		rawNumber(h[i*gsEntry+gsNumber:][:gsNumber], n)
	}
	more := make([]byte, tarBlock)
	for i := range 3 {
		entry(more, i, int64(4+i)*10000, 1)
	}
	m := rawMember{kind: tarGNUSparse, name: "s", magic: magicGNU, data: string(more) + "1234567", size: 7, more: func(h []byte) {
		for i := range 4 {
			entry(h[gsMap:], i, int64(i)*10000, 1)
		}
		h[gsMore] = 1
		rawNumber(h[gsRealSize:][:gsNumber], 1<<36)
	}}
	archive := m.bytes() // the extension is no data: it is padded on its own
	archive = append(archive, rawTar(rawMember{kind: tarFile, name: "next", data: "x"})...)
	n, c, _ := nodeOfTar(t, TreeOptions{}, "s", archive)
	require.EqualValues(t, 1<<36, n.Size)
	require.EqualValues(t, 7, n.Count)
	require.Equal(t, mkfs.Range{Off: 60000, Len: 1}, c.Ranges[n.First+6])
	require.Contains(t, pathNodes(c), "next")
}

func TestTarSparseDamage(t *testing.T) {
	for name, m := range map[string]rawMember{
		"overlap":      sparseMember1("1.0", 100, 0, 10, 5, 10),
		"backwards":    sparseMember1("0.1", 100, 50, 10, 5, 10),
		"past the end": sparseMember1("0.0", 100, 95, 10),
		"too long":     sparseMember1("1.0", math.MaxInt64, math.MaxInt64-5, 10),
		"wrong amount": {kind: tarFile, name: "s", data: "xx", pax: []string{"GNU.sparse.size=100", "GNU.sparse.numblocks=1", "GNU.sparse.map=0,1"}},
		"odd":          {kind: tarFile, name: "s", data: "x", pax: []string{"GNU.sparse.size=100", "GNU.sparse.map=0,1,5"}},
		"no size":      {kind: tarFile, name: "s", data: "x", pax: []string{"GNU.sparse.map=0,1"}},
		"negative":     {kind: tarFile, name: "s", data: "x", pax: []string{"GNU.sparse.size=100", "GNU.sparse.map=-5,6"}},
		"version":      {kind: tarFile, name: "s", data: "x", pax: []string{"GNU.sparse.major=2", "GNU.sparse.minor=0", "GNU.sparse.realsize=100"}},
		"many":         {kind: tarFile, name: "s", data: "99999999999\n0\n1\nx", pax: []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.realsize=100"}},
		"short map":    {kind: tarFile, name: "s", data: "2\n0\n1\n", pax: []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.realsize=100"}},
		"no map":       {kind: tarFile, name: "s", data: "", pax: []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.realsize=100"}},
	} {
		src := tarSourceOf(t, TarOptions{}, rawTar(m))
		err := src.Scan(context.Background(), NewTree(TreeOptions{}))
		require.ErrorIs(t, err, errSparse, name)
		require.ErrorIs(t, err, ErrTarDamaged, name)
		require.ErrorContains(t, err, `member "s"`, name)
	}
}

func sparseMember1(version string, size int, ranges ...uint64) rawMember {
	pax, data := sparseRecords(version, size, "s", ranges...)
	return rawMember{kind: tarFile, name: "s", pax: pax, data: data + strings.Repeat("x", 20)}
}

func gzipped(t testing.TB, parts ...[]byte) []byte {
	var b bytes.Buffer
	for _, p := range parts {
		z := gzip.NewWriter(&b)
		_, err := z.Write(p)
		require.NoError(t, err)
		require.NoError(t, z.Close())
	}
	return b.Bytes()
}

func zstded(t testing.TB, parts ...[]byte) []byte {
	var b []byte
	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	for _, p := range parts {
		b = z.EncodeAll(p, b)
	}
	return b
}

// compressions is an archive in all the forms in which it can come, the plain
// one as a file too.
func compressions(t testing.TB, archive []byte) map[string]TarInput {
	half := len(archive) / 3
	skippable := append([]byte{0x53, 0x2A, 0x4D, 0x18, 3, 0, 0, 0}, "abc"...)
	forms := map[string][]byte{
		"plain": archive, "gzip": gzipped(t, archive), "gzip members": gzipped(t, archive[:half], archive[half:]),
		"gzip, padded": append(gzipped(t, archive), make([]byte, 5000)...),
		"zstd":         zstded(t, archive), "zstd frames": zstded(t, archive[:half], archive[half:]),
		"zstd, skippable first": append(skippable, zstded(t, archive)...),
	}
	inputs := make(map[string]TarInput)
	for name, b := range forms {
		path := t.TempDir() + "/archive"
		require.NoError(t, os.WriteFile(path, b, 0o644))
		inputs[name+" file"] = TarInput{Name: path}
		inputs[name+" stream"] = TarInput{Name: "-", Reader: io.MultiReader(bytes.NewReader(b))}
	}
	return inputs
}

func TestTarCompressions(t *testing.T) {
	var members []rawMember
	for i := range 200 {
		members = append(members, rawMember{kind: tarFile, name: fmt.Sprintf("d/f%d", i), data: strings.Repeat(fmt.Sprint(i), i*20)})
	}
	members = append(members, rawMember{kind: tarFile, name: "large", data: strings.Repeat("large", 100_000)})
	pax, data := sparseRecords("1.0", 1<<20, "sparse", 1000, 4, 65536, 2)
	members = append(members, rawMember{kind: tarFile, name: "x", data: data + "abcdef", pax: pax})
	archive := rawTar(members...)
	var want string
	for name, in := range compressions(t, archive) {
		src, err := NewTarSource([]TarInput{in}, TarOptions{SpoolDir: t.TempDir()})
		require.NoError(t, err)
		c, _ := scanSource(t, src, TreeOptions{})
		got := shortLines(t, c, src)
		if want == "" {
			want = got
		}
		require.True(t, want == got, name)
		require.Len(t, pathNodes(c), 203)
		require.NoError(t, src.Close())
	}
}

// TestTarReaderFromWhereItStands gives a file that has been read in part.
func TestTarReaderFromWhereItStands(t *testing.T) {
	path := t.TempDir() + "/f"
	require.NoError(t, os.WriteFile(path, append([]byte("12345"), script("f a data")...), 0o644))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Seek(5, io.SeekStart)
	require.NoError(t, err)
	src, err := NewTarSource([]TarInput{{Name: "-", Reader: f}}, TarOptions{})
	require.NoError(t, err)
	defer src.Close()
	c, _ := scanSource(t, src, TreeOptions{})
	require.Equal(t, "a = data", shortLines(t, c, src))
	require.Nil(t, src.spool.f, "nothing is copied")
}

func TestTarNoticesChanges(t *testing.T) {
	path := t.TempDir() + "/f.tar"
	require.NoError(t, os.WriteFile(path, script("f a data"), 0o644))
	src, err := NewTarSource([]TarInput{{Name: path}}, TarOptions{})
	require.NoError(t, err)
	defer src.Close()
	c, _ := scanSource(t, src, TreeOptions{})
	d, err := src.Open(c.Nodes[1].Source)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, script("f a data\nf b"), 0o644))
	require.ErrorIs(t, d.Close(), ErrChanged)
	require.ErrorIs(t, src.Changed(), ErrChanged)
}

// TestTarEndlessInput gives data without end behind the archive.
func TestTarEndlessInput(t *testing.T) {
	src, err := NewTarSource([]TarInput{{Name: "-", Reader: io.MultiReader(bytes.NewReader(script("f a x")), zeroReader{})}}, TarOptions{SpoolDir: t.TempDir()})
	require.NoError(t, err)
	defer src.Close()
	c, _ := scanSource(t, src, TreeOptions{})
	require.Len(t, c.Nodes, 2)

	packed := io.MultiReader(bytes.NewReader(gzipped(t, script("f a x"))), endlessGzip(t))
	src, err = NewTarSource([]TarInput{{Name: "-", Reader: packed}}, TarOptions{SpoolDir: t.TempDir()})
	require.NoError(t, err)
	defer src.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, src.Scan(ctx, NewTree(TreeOptions{})), context.DeadlineExceeded)
}

// zeroReader is bytes of one value without end.
type zeroReader struct{ b byte }

func (z zeroReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = z.b
	}
	return len(p), nil
}

// endlessGzip is one compressed member after another.
func endlessGzip(t testing.TB) io.Reader {
	member := gzipped(t, make([]byte, 10_000))
	r, w := io.Pipe()
	t.Cleanup(func() { r.Close() })
	go func() {
		for {
			if _, err := w.Write(member); err != nil {
				return
			}
		}
	}()
	return r
}

// TestTarTruncated is B040: an archive cut anywhere, in any form, ends in an
// error that says where, never in a loop.
func TestTarTruncated(t *testing.T) {
	archive := rawTar(
		rawMember{kind: tarFile, name: "first", data: strings.Repeat("1", 1000)},
		rawMember{kind: tarFile, name: "second", data: strings.Repeat("2", 1000), pax: []string{"mtime=1.5"}},
		rawMember{kind: tarDir, name: "third"})
	dir := t.TempDir()
	scan := func(b []byte, stream bool) error {
		path := dir + "/cut"
		in := TarInput{Name: "cut", Reader: bytes.NewReader(b)}
		if !stream {
			require.NoError(t, os.WriteFile(path, b, 0o644))
			in = TarInput{Name: path}
		}
		src, err := NewTarSource([]TarInput{in}, TarOptions{SpoolDir: dir})
		require.NoError(t, err)
		defer src.Close()
		return src.Scan(context.Background(), NewTree(TreeOptions{}))
	}
	for _, stream := range []bool{true, false} {
		require.NoError(t, scan(archive, stream))
		for n := 0; n <= len(archive)-2*tarBlock; n += 128 {
			err := scan(archive[:n], stream)
			require.ErrorIs(t, err, ErrTarDamaged, "%d bytes", n)
			var where *TarError
			require.ErrorAs(t, err, &where)
			require.LessOrEqual(t, where.Offset, int64(n))
		}
		require.ErrorContains(t, scan(archive[:1100], stream), fmt.Sprintf("member %q at byte 1100: ", "first"))
		require.ErrorContains(t, scan(archive[:1536], stream), `after member "first" at byte 1536: damaged or truncated archive: the archive ends here, without its end mark`)
		require.NoError(t, scan(archive[:len(archive)-tarBlock], stream), "one block of zeros and the end")
	}
	for name, packed := range map[string][]byte{"gzip": gzipped(t, archive), "zstd": zstded(t, archive)} {
		for n := 1; n < len(packed); n += 3 {
			for _, stream := range []bool{true, false} {
				err := scan(packed[:n], stream)
				var where *TarError
				require.ErrorAs(t, err, &where, "%s, %d of %d bytes", name, n, len(packed))
			}
		}
	}
	bad := bytes.Clone(archive)
	bad[1536+thUID] ^= 1
	require.ErrorContains(t, scan(bad, false), `after member "first" at byte 1536: damaged or truncated archive: no tar header: its checksum is wrong`)
	lone := append(bytes.Clone(archive[:1536]), make([]byte, 512)...)
	require.ErrorIs(t, scan(append(lone, archive...), false), errTarLone)
}

func TestTarDamage(t *testing.T) {
	file := rawMember{kind: tarFile, name: "f", data: "data"}
	for name, x := range map[string]struct {
		archive []byte
		err     string
	}{
		"empty":           {nil, "layer0: at byte 0: damaged or truncated archive: the archive is empty"},
		"no tar":          {bytes.Repeat([]byte("no tar "), 1000), "layer0: at byte 0: damaged or truncated archive: no tar header"},
		"unknown type":    {rawTar(file, rawMember{kind: 'Z', name: "weird"}), `layer0: member "weird" at byte 1024: damaged or truncated archive: type 'Z' is not supported`},
		"multi-volume":    {rawTar(rawMember{kind: 'M', name: "weird"}), "type 'M'"},
		"negative size":   {rawTar(rawMember{kind: tarFile, name: "f", pax: []string{"size=-1"}}), "size -1"},
		"huge size":       {rawTar(rawMember{kind: tarFile, name: "f", pax: []string{"size=9223372036854775807"}}), "size 9223372036854775807"},
		"large size":      {rawTar(rawMember{kind: tarFile, name: "f", pax: []string{"size=1000000000000"}}), "ends here"},
		"huge header":     {rawTar(rawMember{kind: tarPax, name: "x", size: 1 << 40}, file), "extended header of 1099511627776 bytes"},
		"uid":             {rawTar(rawMember{kind: tarFile, name: "f", pax: []string{"uid=4294967295"}}), "uid 4294967295: want 0 to 4294967294"},
		"negative uid":    {rawTar(rawMember{kind: tarFile, name: "f", pax: []string{"gid=-99999999999"}}), "gid -99999999999"},
		"device":          {rawTar(rawMember{kind: tarChar, name: "f", pax: []string{"SCHILY.devmajor=4096"}}), "devmajor 4096: want 0 to 4095"},
		"record length":   {rawTar(rawMember{kind: tarPax, name: "x", data: "99 path=x\n"}, file), "damaged extended header"},
		"record end":      {rawTar(rawMember{kind: tarPax, name: "x", data: "9 path=xy"}, file), "damaged extended header"},
		"record zero":     {rawTar(rawMember{kind: tarPax, name: "x", data: "0 \n"}, file), "damaged extended header"},
		"record key":      {rawTar(rawMember{kind: tarPax, name: "x", data: "6 =ab\n"}, file), "without a key"},
		"path with zero":  {rawTar(rawMember{kind: tarFile, name: "f", pax: []string{"path=a\x00b"}}), "a zero byte"},
		"bad number":      {rawTar(rawMember{kind: tarFile, name: "f", pax: []string{"uid=abc"}}), "no number"},
		"bad time":        {rawTar(rawMember{kind: tarFile, name: "f", pax: []string{"mtime=1.2x"}}), "no number"},
		"bad octal":       {rawTar(rawMember{kind: tarFile, name: "f", more: func(h []byte) { copy(h[thMode:], "zzz") }}), "field mode"},
		"long xattr name": {rawTar(rawMember{kind: tarFile, name: "f", pax: []string{"SCHILY.xattr.user." + strings.Repeat("n", 256) + "=x"}}), "name of 256 bytes after its namespace, at most 255 are possible"},
		"large xattr":     {rawTar(rawMember{kind: tarFile, name: "f", pax: []string{"SCHILY.xattr.user.x=" + strings.Repeat("v", 65537)}}), `xattr "user.x": value of 65537 bytes, at most 65536 are possible`},
		"bad ACL":         {rawTar(rawMember{kind: tarFile, name: "f", pax: []string{"SCHILY.xattr.system.posix_acl_access=xx"}}), "posix_acl_access"},
		"bad ACL text":    {rawTar(rawMember{kind: tarFile, name: "f", pax: []string{"SCHILY.acl.access=user:x"}}), "damaged ACL"},
		"bad base64":      {rawTar(rawMember{kind: tarFile, name: "f", pax: []string{"LIBARCHIVE.xattr.user.a=*"}}), "LIBARCHIVE.xattr.user.a"},
		"xz":              {[]byte("\xFD7zXZ\x00" + strings.Repeat("x", 1000)), "layer0: is a file of the kind xz, which cannot be read"},
		"zip":             {[]byte("PK\x03\x04" + strings.Repeat("x", 1000)), "kind zip"},
		"garbage in gzip": {gzipped(t, []byte(strings.Repeat("garbage", 1000))), "no tar header"},
		"gzip header":     {[]byte("\x1F\x8Bxxxxxxxxxxxxxxxxx"), "layer0: at byte 0"},
	} {
		t.Run(name, func(t *testing.T) {
			src := tarSourceOf(t, TarOptions{}, x.archive)
			require.ErrorContains(t, src.Scan(context.Background(), NewTree(TreeOptions{})), x.err)
		})
	}
	// what begins like another kind but is an archive
	n, _, _ := nodeOfTar(t, TreeOptions{}, "BZh-notes", rawTar(rawMember{kind: tarFile, name: "BZh-notes"}))
	require.EqualValues(t, 0o100644, n.Mode)
	var format *FormatError
	err := tarSourceOf(t, TarOptions{}, []byte("BZh91AY")).Scan(context.Background(), NewTree(TreeOptions{}))
	require.ErrorAs(t, err, &format)
	require.Equal(t, "bzip2 -dc FILE | mkimg OUT --from -", format.Hint())
}

func TestTarCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := tarSourceOf(t, TarOptions{}, script("f a x")).Scan(ctx, NewTree(TreeOptions{}))
	require.ErrorIs(t, err, context.Canceled)
}

// TestTarSpoolIsFlat is B067: data of a stream goes through a bounded buffer,
// and the temporary file has no name.
func TestTarSpoolIsFlat(t *testing.T) {
	dir := t.TempDir()
	const size = 64 << 20
	r, w := io.Pipe()
	go func() {
		h := rawMember{kind: tarFile, name: "big", size: size}
		w.Write(h.bytes())
		block := make([]byte, 1<<20)
		for i := range size >> 20 {
			block[0] = byte(i)
			w.Write(block)
		}
		w.Write(make([]byte, 1024))
		w.Close()
	}()
	src, err := NewTarSource([]TarInput{{Name: "-", Reader: r}}, TarOptions{SpoolDir: dir})
	require.NoError(t, err)
	before := heapInUse()
	c, _ := scanSource(t, src, TreeOptions{})
	require.Less(t, heapInUse(), before+8<<20)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	d, err := src.Open(c.Nodes[1].Source)
	require.NoError(t, err)
	b := make([]byte, 1)
	_, err = d.ReadAt(b, 63<<20)
	require.NoError(t, err)
	require.EqualValues(t, 63, b[0])
	require.NoError(t, src.Close())
}

func TestTarSourceArguments(t *testing.T) {
	_, err := NewTarSource(nil, TarOptions{})
	require.Error(t, err)
	_, err = NewTarSource([]TarInput{{Name: t.TempDir() + "/none"}}, TarOptions{})
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, w := range []string{"", "apply", "overlay", "keep"} {
		_, err := ParseWhiteouts(w)
		require.NoError(t, err)
	}
	_, err = ParseWhiteouts("other")
	require.Error(t, err)
	src := tarSourceOf(t, TarOptions{}, script("f a x"))
	_, err = src.Open(5)
	require.Error(t, err)
	_, err = src.Open(sparseFlag | 5)
	require.Error(t, err)
}

func TestTarExclude(t *testing.T) {
	exclude, err := NewExclude([]string{"a", "d/", "**/*.tmp"})
	require.NoError(t, err)
	got, err := tarLines(t, TarOptions{}, TreeOptions{Exclude: exclude}, "f a 1\nl b a\nl c a\nf d/x 2\nf e/d 3\nf e/x.tmp 4\nf x.tmp 5")
	require.NoError(t, err)
	require.Equal(t, "b = 1\nc == b\ne/ 755\ne/d = 3", got)
}

// TestTarOrderDoesNotMatter shuffles members that do not depend on their order.
func TestTarOrderDoesNotMatter(t *testing.T) {
	lines := strings.Split("f a 1\nf b/c 2\ns d a\np e\nf g/h/i 3\nl j a\nf k 4\nc l", "\n")
	want, err := tarLines(t, TarOptions{}, TreeOptions{}, strings.Join(lines, "\n"))
	require.NoError(t, err)
	slices.Reverse(lines)
	got, err := tarLines(t, TarOptions{}, TreeOptions{}, strings.Join(lines, "\n"))
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestCleanPath(t *testing.T) {
	for in, want := range map[string]string{
		"": "", ".": "", "./": "", "/": "", "a": "a", "a/": "a", "./a/./b/": "a/b", "a//b": "a/b", "../a": "a", "a/../b": "b",
		"a/..": "", "/../../a": "a", "..a": "..a", ".a": ".a", "a/.b": "a/.b", "a/...": "a/...", "a/b/../../../c": "c", "a//": "a",
	} {
		require.Equal(t, want, cleanPath(in), "%q", in)
	}
}

func TestTarNumber(t *testing.T) {
	for in, want := range map[string]int64{
		"0000644\x00": 0o644, "   644 \x00": 0o644, "644": 0o644, "": 0, "\x00\x00": 0, "  ": 0, "77777777777\x00": 1<<33 - 1,
		"\x80\x00\x00\x01": 1, "\xff\xff\xff\xfe": -2, "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff": math.MaxInt64, "12\x00 garbage": 0o12,
	} {
		got, err := tarNumber([]byte(in))
		require.NoError(t, err, "%q", in)
		require.Equal(t, want, got, "%q", in)
	}
	for _, in := range []string{"8", "x", "-1", "1 2", "777777777777777777777777", "\x80\x00\x00\x00\x80\x00\x00\x00\x00\x00\x00\x00", "\x81\x00\x00\x00\x00\x00\x00\x00\x00"} {
		_, err := tarNumber([]byte(in))
		require.Error(t, err, "%q", in)
	}
}

func TestTarErrorIsJoined(t *testing.T) {
	err := error(&TarError{Archive: "a", Member: "m", Offset: 5, Err: damaged(errTarEnd)})
	require.True(t, errors.Is(err, ErrTarDamaged) && errors.Is(err, errTarEnd))
	require.EqualError(t, err, `a: member "m" at byte 5: damaged or truncated archive: the archive ends here, without its end mark`)
}

func TestParseACL(t *testing.T) {
	for text, entries := range map[string]int{
		"user::rw-\ngroup::r--\nother::---\n": 3, "u::rwx,g::r-x,o::---": 3, "": 0, "# none\n\n": 0,
		"user::rw- # owner\nuser:5:r--\ngroup::r--\ngroup:7:-w-\nmask::rwx\nother::r--": 6,
		"user::rw-,user:joe:r--:5,group::r--,mask:rw-,other:---":                        5,
	} {
		form, n, err := parseACL(text)
		require.NoError(t, err, text)
		require.Equal(t, entries, n)
		if n > 0 {
			_, err = format.ACLToDisk(form)
			require.NoError(t, err, text)
		}
	}
	for _, text := range []string{"user", "user::rwz", "default:user::rw-", "x::rwx", "mask:5:rwx", "user:5:rw-:6:7", "user:-1:rw-", "user:4294967295:rw-", "user:joe:rw-"} {
		_, _, err := parseACL(text)
		require.ErrorIs(t, err, errACL, text)
	}
}

func FuzzParseACL(f *testing.F) {
	f.Add("user::rw-\nuser:1234:r--\ngroup::r--\nmask::r--\nother::---\n")
	f.Add("u::7,g:joe:r:5,#")
	f.Fuzz(func(t *testing.T, text string) {
		if form, n, err := parseACL(text); err == nil && n < 1000 {
			_, _ = format.ACLToDisk(form)
		}
	})
}
