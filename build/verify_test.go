package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/ext4"
	"drydock/format"
	"drydock/internal/mkfs"
)

// treeSource is a source in memory with a file of every kind.
type treeSource struct {
	data  [][]byte
	open  func(file uint64) error
	read  func(file uint64) error
	close func(file uint64) error
}

const (
	smallFile = iota
	plainFile
	largeFile
	sparseFile
)

func newTreeSource() *treeSource {
	pattern := func(n int) []byte { return bytes.Repeat([]byte("0123456789abcdefg"), n/17+1)[:n] }
	sparse := make([]byte, 300_000)
	copy(sparse[100_000:], pattern(70_001))
	copy(sparse[250_000:], pattern(10))
	return &treeSource{data: [][]byte{pattern(1), pattern(5000), pattern(verifyBytes*2 + 4097), sparse}}
}

func (s *treeSource) Close() error { return nil }

func (s *treeSource) Open(file uint64) (Data, error) {
	if s.open != nil && s.open(file) != nil {
		return nil, s.open(file)
	}
	return treeData{s, file}, nil
}

type treeData struct {
	s    *treeSource
	file uint64
}

func (d treeData) ReadAt(p []byte, off int64) (int, error) {
	if d.s.read != nil && d.s.read(d.file) != nil {
		return 0, d.s.read(d.file)
	}
	n := copy(p, d.s.data[d.file][off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (d treeData) Close() error {
	if d.s.close != nil {
		return d.s.close(d.file)
	}
	return nil
}

func (s *treeSource) Scan(_ context.Context, t *Tree) error {
	at := func(sec int64, nsec uint32) format.Time { return format.Time{Sec: sec, Nsec: nsec} }
	t.SetNode(RootNode, mkfs.Node{Mode: format.ModeDir | 0o711, UID: 7, Mtime: at(1e9, 1)})
	dir := t.AddNode(mkfs.Node{Mode: format.ModeDir | format.ModeSetGID | 0o755, GID: 100_000, Mtime: at(-1, 5)})
	t.Link(RootNode, []byte("dir"), dir)
	for i, d := range s.data {
		n := mkfs.Node{Mode: format.ModeRegular | 0o644, Size: uint64(len(d)), Source: uint64(i), Mtime: at(1<<32+int64(i), 999_999_999)}
		if i == sparseFile {
			n.Sparse = true
			n.First, n.Count = t.AddRanges([]mkfs.Range{{Off: 100_000, Len: 70_001}, {Off: 250_000, Len: 10}})
		}
		t.Link(dir, fmt.Appendf(nil, "file%d", i), t.AddNode(n))
	}
	linked, _ := t.Lookup(dir, []byte("file1"))
	t.Link(RootNode, []byte("\xffhard\n"), linked)
	empty := mkfs.Node{Mode: format.ModeRegular, Xattrs: t.AddXattrs([]format.Xattr{
		{Index: format.XattrUser, Name: "note", Value: []byte("value")},
		{Index: format.XattrSecurity, Name: "capability", Value: bytes.Repeat([]byte{9}, 200)},
	})}
	t.Link(RootNode, []byte("empty"), t.AddNode(empty))
	for i, target := range []string{"dir", strings.Repeat("t", 59), strings.Repeat("s", 60), strings.Repeat("u", 900)} {
		n := mkfs.Node{Mode: format.ModeSymlink | 0o777, First: uint32(t.AddString([]byte(target))), Size: uint64(len(target))}
		t.Link(RootNode, fmt.Appendf(nil, "link%d", i), t.AddNode(n))
	}
	t.Link(RootNode, []byte("char"), t.AddNode(mkfs.Node{Mode: format.ModeChar | 0o600, First: 5, Count: 1}))
	t.Link(RootNode, []byte("block"), t.AddNode(mkfs.Node{Mode: format.ModeBlock | 0o600, First: 259, Count: 70000}))
	t.Link(RootNode, []byte("fifo"), t.AddNode(mkfs.Node{Mode: format.ModeFifo | 0o600}))
	return nil
}

// verified is an image with what it was made from.
type verified struct {
	dev     *device.Mem
	src     *treeSource
	content *mkfs.Content
}

func makeVerified(t testing.TB, o mkfs.Options) verified {
	t.Helper()
	v := verified{src: newTreeSource()}
	tree := NewTree(TreeOptions{BlockSize: o.BlockSize})
	require.NoError(t, v.src.Scan(t.Context(), tree))
	var err error
	v.content, err = tree.Finish()
	require.NoError(t, err)
	o.NoJournal = !o.Features.HasCompat(format.CompatOrphanFile)
	plan, err := mkfs.New(v.content, o)
	require.NoError(t, err)
	v.dev = device.NewMem(plan.Bytes())
	_, err = copyData(t.Context(), plan, v.content, v.src, v.dev, copyOptions{})
	require.NoError(t, err)
	require.NoError(t, plan.Write(t.Context(), v.dev, mkfs.WriteOptions{UUID: [16]byte{1}}))
	return v
}

func (v verified) verify(t testing.TB, workers int) *VerifyError {
	t.Helper()
	err := Verify(t.Context(), v.dev, v.src, v.content, VerifyOptions{Workers: workers})
	if err == nil {
		return nil
	}
	var differ *VerifyError
	require.ErrorAs(t, err, &differ)
	return differ
}

// node returns the number of the node at a path.
func (v verified) node(t testing.TB, path string) uint32 {
	node := uint32(RootNode)
next:
	for name := range strings.SplitSeq(path, "/") {
		n := v.content.Nodes[node]
		for _, e := range v.content.Entries[n.First : n.First+n.Count] {
			if string(v.content.Names.Get(e.Name)) == name {
				node = e.Node
				continue next
			}
		}
		t.Fatalf("no %s", path)
	}
	return node
}

func TestVerifySame(t *testing.T) {
	modern, err := mkfs.Profile("modern")
	require.NoError(t, err)
	for _, o := range []mkfs.Options{
		{BlockSize: 1024, Features: modern}, {BlockSize: 1024}, {}, {BlockSize: 65536}, {NoLostFound: true}, {BlockSize: 1024, FreeBlocks: 9000, InodeSize: 1024},
	} {
		v := makeVerified(t, o)
		var size, files atomic.Int64
		err := Verify(t.Context(), v.dev, v.src, v.content, VerifyOptions{Progress: func(b, f int64) { size.Add(b); files.Add(f) }})
		require.NoError(t, err)
		var want int64
		for _, d := range v.src.data {
			want += int64(len(d))
		}
		require.Equal(t, want, size.Load())
		require.Equal(t, int64(len(v.src.data)+1), files.Load())
	}
}

// TestVerifySmallInodes compares as much of a time as 128 bytes hold.
func TestVerifySmallInodes(t *testing.T) {
	f, err := mkfs.Profile("compat")
	require.NoError(t, err)
	f.ROCompat &^= format.ROCompatExtraIsize
	v := makeVerified(t, mkfs.Options{BlockSize: 1024, InodeSize: 128, Features: f})
	require.Nil(t, v.verify(t, 2))
}

// TestVerifyContent finds every single change of what the image should hold.
func TestVerifyContent(t *testing.T) {
	for name, c := range map[string]struct {
		path   string
		change func(v verified, n *mkfs.Node)
		want   string
	}{
		"permissions": {"empty", func(_ verified, n *mkfs.Node) { n.Mode |= 0o4111 }, `"empty": mode is 0100000, want 0104111`},
		"type":        {"fifo", func(_ verified, n *mkfs.Node) { n.Mode = format.ModeSocket | 0o600 }, `"fifo": is of type p---------, want S---------`},
		"uid":         {"", func(_ verified, n *mkfs.Node) { n.UID = 8 }, `root directory: uid is 7, want 8`},
		"gid":         {"dir", func(_ verified, n *mkfs.Node) { n.GID = 1 }, `"dir": gid is 100000, want 1`},
		"links":       {"dir/file1", func(_ verified, n *mkfs.Node) { n.Links = 3 }, `: link count is 2, want 3`},
		"nanoseconds": {"dir", func(_ verified, n *mkfs.Node) { n.Mtime.Nsec = 6 }, `"dir": mtime is 1969-12-31 23:59:59.000000005 +0000 UTC, want 1969-12-31 23:59:59.000000006 +0000 UTC`},
		"size":        {"dir/file0", func(_ verified, n *mkfs.Node) { n.Size = 2 }, `"dir/file0": size is 1, want 2`},
		"target": {"link0", func(v verified, n *mkfs.Node) { n.First = uint32(v.content.Names.Add("dip")) },
			`"link0": target is "dir" (error: <nil>), want "dip"`},
		"major":         {"char", func(_ verified, n *mkfs.Node) { n.First = 4 }, `"char": major number is 5, want 4`},
		"minor":         {"block", func(_ verified, n *mkfs.Node) { n.Count++ }, `"block": minor number is 70000, want 70001`},
		"xattr gone":    {"empty", func(_ verified, n *mkfs.Node) { n.Xattrs = 0 }, `"empty": attribute security.capability should not be there`},
		"xattr missing": {"dir", func(_ verified, n *mkfs.Node) { n.Xattrs = 1 }, `"dir": attribute user.note is missing`},
		"xattr value":   {"empty", func(v verified, n *mkfs.Node) { v.content.Xattrs[n.Xattrs-1][0].Value[0] ^= 1 }, `"empty": attribute `},
		"hole": {"dir/file3", func(v verified, n *mkfs.Node) { v.content.Ranges[n.First].Off += 4096 },
			`"dir/file3": bytes 98304+73728 have blocks, want 102400+73728`},
		"no range": {"dir/file3", func(v verified, n *mkfs.Node) { n.Count-- }, `"dir/file3": bytes 249856+4096 have blocks, want a hole`},
		"one more range": {"dir/file0", func(v verified, n *mkfs.Node) {
			v.content.Ranges = append(v.content.Ranges, mkfs.Range{Off: 0, Len: 1}, mkfs.Range{Off: 8192, Len: 1})
			n.Sparse, n.First, n.Count = true, uint32(len(v.content.Ranges)-2), 2
		}, `"dir/file0": bytes 8192+4096 have no blocks`},
		"other data": {"dir/file2", func(v verified, n *mkfs.Node) { v.src.data[largeFile][1_000_000] ^= 1 }, `"dir/file2": differs from byte 1000000 on`},
		"in a hole":  {"dir/file3", func(v verified, n *mkfs.Node) { v.src.data[sparseFile][5] = 1 }, `"dir/file3": differs from byte 5 on`},
		"missing name": {"", func(v verified, n *mkfs.Node) {
			v.content.Entries = append(v.content.Entries, v.content.Entries[n.First:n.First+n.Count]...)
			n.First = uint32(len(v.content.Entries)) - n.Count
			v.content.Entries = append(v.content.Entries, mkfs.Entry{Name: v.content.Names.Add("\xffzzz"), Node: v.node(t, "empty")})
			n.Count++
		}, `"\xffzzz": is missing`},
		"extra name":  {"", func(_ verified, n *mkfs.Node) { n.Count-- }, `"\xffhard\n": should not be there`},
		"extra inode": {"dir", func(v verified, n *mkfs.Node) { v.content.Nodes = append(v.content.Nodes, mkfs.Node{}) }, `file system: 24 inodes are in use, want 25`},
	} {
		t.Run(name, func(t *testing.T) {
			v := makeVerified(t, mkfs.Options{})
			node := uint32(RootNode)
			if c.path != "" {
				node = v.node(t, c.path)
			}
			n := v.content.Nodes[node]
			c.change(v, &n)
			v.content.Nodes[node] = n
			err := v.verify(t, 2)
			require.NotNil(t, err)
			require.Contains(t, err.Error(), c.want)
		})
	}
}

// TestVerifyIdentity tells hard links from copies.
func TestVerifyIdentity(t *testing.T) {
	v := makeVerified(t, mkfs.Options{})
	hard := v.node(t, "\xffhard\n")
	apart := v.content.Nodes[hard]
	apart.Links = 1
	v.content.Nodes[hard].Links = 1
	v.content.Nodes = append(v.content.Nodes, apart)
	for i, e := range v.content.Entries {
		if string(v.content.Names.Get(e.Name)) == "\xffhard\n" {
			v.content.Entries[i].Node = uint32(len(v.content.Nodes) - 1)
		}
	}
	require.Contains(t, v.verify(t, 2).Error(), `and so is "`)

	v = makeVerified(t, mkfs.Options{})
	for i, e := range v.content.Entries { // link2 as another name of link1
		if string(v.content.Names.Get(e.Name)) == "link2" {
			v.content.Entries[i].Node = v.node(t, "link1")
		}
	}
	require.Contains(t, v.verify(t, 2).Error(), "its other names are inode")
}

// TestVerifyImage finds changes of the image.
func TestVerifyImage(t *testing.T) {
	v := makeVerified(t, mkfs.Options{})
	fsys, err := ext4.Open(v.dev, ext4.Options{})
	require.NoError(t, err)
	for x, err := range fsys.Extents("dir/file1") {
		require.NoError(t, err)
		_, err = v.dev.WriteAt([]byte("!"), int64(x.Start)*4096+4096+77)
		require.NoError(t, err)
	}
	require.Equal(t, `"\xffhard\n": differs from byte 4173 on`, v.verify(t, 1).Error())

	st, err := fsys.Statfs()
	require.NoError(t, err)
	require.NotZero(t, st.Blocks)
	for x, err := range fsys.Extents("dir") {
		require.NoError(t, err)
		_, err = v.dev.WriteAt([]byte("!"), int64(x.Start)*4096+2000)
		require.NoError(t, err)
	}
	differ := v.verify(t, 1)
	require.ErrorIs(t, differ, format.ErrDamaged)
	require.Contains(t, differ.Error(), `"dir": cannot be listed: `)
	require.Contains(t, differ.Error(), `"dir/file0": is missing`)

	_, err = v.dev.WriteAt(make([]byte, 4096), 0)
	require.NoError(t, err)
	require.ErrorAs(t, Verify(t.Context(), v.dev, v.src, v.content, VerifyOptions{}), new(*ext4.NotExt4Error))
}

// TestVerifySource reports a source that changed or cannot be read.
func TestVerifySource(t *testing.T) {
	broken := errors.New("broken")
	only := func(file uint64) error {
		if file == plainFile {
			return broken
		}
		return nil
	}
	for _, set := range []func(*treeSource){
		func(s *treeSource) { s.open = only },
		func(s *treeSource) { s.read = only },
		func(s *treeSource) { s.close = only },
	} {
		v := makeVerified(t, mkfs.Options{})
		set(v.src)
		err := v.verify(t, 2)
		require.ErrorIs(t, err, broken)
		require.Equal(t, 1, err.Total)
	}
}

// TestVerifyMany lists the first differences by path, whatever finds them first.
func TestVerifyMany(t *testing.T) {
	v := makeVerified(t, mkfs.Options{})
	for i := range v.content.Nodes {
		v.content.Nodes[i].UID ^= 1
		v.content.Nodes[i].Mtime.Sec ^= 1
	}
	one, many := v.verify(t, 1), v.verify(t, 8)
	require.Equal(t, one.Error(), many.Error())
	require.Len(t, one.List, maxDifferences)
	require.Equal(t, len(v.content.Nodes)*5, one.Total)
	require.True(t, slices.IsSortedFunc(one.List, func(a, b Difference) int { return strings.Compare(a.Path, b.Path) }))
	require.Contains(t, one.Error(), fmt.Sprintf("and %d more", one.Total-maxDifferences))
}

func TestVerifyCancelled(t *testing.T) {
	v := makeVerified(t, mkfs.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	v.src.read = func(uint64) error { cancel(); return nil }
	require.ErrorIs(t, Verify(ctx, v.dev, v.src, v.content, VerifyOptions{Workers: 2}), context.Canceled)
}
