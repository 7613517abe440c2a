package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
	"drydock/internal/mkfs"
)

// heapInUse is what is left on the heap after a collection, in bytes.
func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// residentNow and residentPeak are the memory of this process in bytes, now and
// at most; 0 where the host does not tell.
func residentNow() int64  { return statusBytes("VmRSS:") }
func residentPeak() int64 { return statusBytes("VmHWM:") }

func statusBytes(key string) int64 {
	b, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(b), key)
	var kib int64
	fmt.Sscan(rest, &kib)
	return kib << 10
}

// withoutPlaces is content without what may differ between scans: where
// names lie, and handles.
func withoutPlaces(c *mkfs.Content) any {
	type entry struct {
		name string
		node uint32
	}
	var entries []entry
	for _, e := range c.Entries {
		entries = append(entries, entry{string(c.Names.Get(e.Name)), e.Node})
	}
	nodes := append([]mkfs.Node(nil), c.Nodes...)
	targets := make(map[int]string)
	for i := range nodes {
		nodes[i].Source = 0
		if nodes[i].Mode&format.ModeType == format.ModeSymlink {
			targets[i] = string(c.Names.Get(mkfs.NameRef(nodes[i].First)))
			nodes[i].First = 0
		}
	}
	return []any{entries, nodes, targets, c.Ranges, c.Xattrs}
}

// This file describes trees as lines of text, a path a line: one from what a
// source made, one from what the host itself tells.

// describeContent describes content; src gives the data.
func describeContent(t testing.TB, c *mkfs.Content, src Source) map[string]string {
	lines := make(map[string]string)
	first := make(map[uint32]string)
	var walk func(dir uint32, path string)
	walk = func(dir uint32, path string) {
		n := c.Nodes[dir]
		entries := c.Entries[n.First : n.First+n.Count]
		for i, e := range entries {
			name := string(c.Names.Get(e.Name))
			if i > 0 {
				require.Less(t, string(c.Names.Get(entries[i-1].Name)), name, "names in bytewise order")
			}
			at := joinPath(path, name)
			if _, seen := first[e.Node]; !seen {
				first[e.Node] = at
			}
			lines[at] = describeNode(t, c, src, e.Node)
			if isDir(&c.Nodes[e.Node]) {
				walk(e.Node, at)
			}
		}
	}
	lines["."] = describeNode(t, c, src, RootNode)
	walk(RootNode, "")
	addLinks(lines, func(yield func(string, uint32)) {
		for path, node := range pathNodes(c) {
			yield(path, node)
		}
	})
	return lines
}

// pathNodes is every path of the content and its node.
func pathNodes(c *mkfs.Content) map[string]uint32 {
	all := make(map[string]uint32)
	var walk func(dir uint32, path string)
	walk = func(dir uint32, path string) {
		n := c.Nodes[dir]
		for _, e := range c.Entries[n.First : n.First+n.Count] {
			at := joinPath(path, string(c.Names.Get(e.Name)))
			all[at] = e.Node
			if isDir(&c.Nodes[e.Node]) {
				walk(e.Node, at)
			}
		}
	}
	walk(RootNode, "")
	return all
}

// addLinks adds to each line of several names of one file the first of them.
func addLinks[K comparable](lines map[string]string, each func(yield func(string, K))) {
	groups := make(map[K][]string)
	each(func(path string, id K) { groups[id] = append(groups[id], path) })
	for _, paths := range groups {
		slices.Sort(paths)
		for _, p := range paths {
			if len(paths) > 1 {
				lines[p] += fmt.Sprintf(" links=%d:%q", len(paths), paths[0])
			}
		}
	}
}

func describeNode(t testing.TB, c *mkfs.Content, src Source, i uint32) string {
	n := c.Nodes[i]
	s := fmt.Sprintf("%06o %d:%d %d.%09d", n.Mode, n.UID, n.GID, n.Mtime.Sec, n.Mtime.Nsec)
	switch n.Mode & format.ModeType {
	case format.ModeSymlink:
		s += fmt.Sprintf(" -> %q", c.Names.Get(mkfs.NameRef(n.First)))
	case format.ModeChar, format.ModeBlock:
		s += fmt.Sprintf(" dev=%d:%d", n.First, n.Count)
	case format.ModeRegular:
		s += fmt.Sprintf(" size=%d sha=%x", n.Size, sha256.Sum256(nodeData(t, c, src, n)))
	}
	if n.Xattrs != 0 {
		for _, x := range c.Xattrs[n.Xattrs-1] {
			s += fmt.Sprintf(" %s=%x", x.FullName(), x.Value)
		}
	}
	return s
}

// nodeData reads the data of a file and makes sure that its holes are zeros.
func nodeData(t testing.TB, c *mkfs.Content, src Source, n mkfs.Node) []byte {
	if n.Size == 0 {
		return nil
	}
	d, err := src.Open(n.Source)
	require.NoError(t, err)
	b := make([]byte, n.Size)
	m, err := d.ReadAt(b, 0)
	if err != io.EOF {
		require.NoError(t, err)
	}
	require.Equal(t, len(b), m)
	if n.Sparse {
		end := uint64(0)
		for _, r := range append(slices.Clone(c.Ranges[n.First:n.First+n.Count]), mkfs.Range{Off: n.Size}) {
			require.True(t, r.Off >= end && r.Off <= n.Size, "ranges ascend")
			require.Zero(t, len(bytes.Trim(b[end:r.Off], "\x00")), "a hole holds data")
			end = r.Off + r.Len
		}
	}
	if fr, ok := d.(FileRanger); ok {
		f, off := fr.FileRange()
		plain := make([]byte, n.Size)
		_, err := f.ReadAt(plain, off)
		if err != io.EOF {
			require.NoError(t, err)
		}
		require.True(t, bytes.Equal(b, plain), "FileRange leads elsewhere")
	}
	require.NoError(t, d.Close())
	return b
}

// scanSource scans a source into a new tree and finishes it.
func scanSource(t testing.TB, src Source, o TreeOptions) (*mkfs.Content, *Tree) {
	tree := NewTree(o)
	require.NoError(t, src.Scan(context.Background(), tree))
	c, err := tree.Finish()
	require.NoError(t, err)
	checkContent(t, c)
	return c, tree
}

// checkContent checks what mkfs relies on.
func checkContent(t testing.TB, c *mkfs.Content) {
	names := make([]uint32, len(c.Nodes))
	for _, e := range c.Entries {
		require.Less(t, int(e.Node), len(c.Nodes))
		names[e.Node]++
	}
	require.Zero(t, names[RootNode])
	for i, n := range c.Nodes {
		if i != RootNode {
			require.NotZero(t, names[i], "node %d without a name", i)
			require.Equal(t, names[i], n.Links)
		}
		if isDir(&n) && i != RootNode {
			require.EqualValues(t, 1, names[i])
		}
		require.LessOrEqual(t, int(n.Xattrs), len(c.Xattrs))
	}
}
