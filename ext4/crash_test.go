package ext4

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/oracle"
)

// formatMem makes a file system of our own in memory.
func formatMem(t testing.TB, size int64, o FormatOptions) *device.Mem {
	t.Helper()
	dev := device.NewMem(size)
	o.UUID, o.HashSeed, o.Clean = [16]byte{1, 2, 3}, [16]byte{4, 5, 6}, true
	require.NoError(t, Format(dev, o))
	return dev
}

// treeText returns all names with what they lead to, and what is free.
func treeText(fsys *FS) (string, error) {
	var b strings.Builder
	err := fsys.Walk(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := StatOf(info)
		fmt.Fprintf(&b, "%q %v %d links %d %d:%d", path, info.Mode(), st.Ino, st.Nlink, st.UID, st.GID)
		if st.Mode&format.ModeType == format.ModeSymlink {
			target, err := fsys.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " -> %q", target)
		}
		list, err := fsys.Lxattrs(path)
		if err != nil {
			return err
		}
		for _, x := range list {
			fmt.Fprintf(&b, " %s=%x", x.Name, x.Value)
		}
		b.WriteByte('\n')
		return nil
	})
	return b.String(), err
}

// nameRun does random operations on names and keeps what the file system looks
// like after each.
type nameRun struct {
	t      testing.TB
	r      *rand.Rand
	fsys   *FS
	rec    *device.Recorder
	paths  []string
	states []nameState
}

// nameState is how the file system looks after an operation, and the number of
// events until then; synced says that it is durable.
type nameState struct {
	events     int
	what, tree string
	synced     bool
}

func (n *nameRun) path() string {
	if len(n.paths) > 0 && n.r.IntN(3) > 0 {
		return n.paths[n.r.IntN(len(n.paths))]
	}
	dir := "."
	if n.r.IntN(2) == 0 && len(n.paths) > 0 {
		dir = n.paths[n.r.IntN(len(n.paths))]
	}
	p := join(dir, fmt.Sprintf("%d%s", n.r.IntN(60), strings.Repeat("n", n.r.IntN(120))))
	n.paths = append(n.paths, p)
	return p
}

// step does one operation; that it fails is as good as that it succeeds.
func (n *nameRun) step() {
	p, f := n.path(), n.fsys
	var err error
	what := ""
	switch n.r.IntN(12) {
	case 0, 1:
		what, err = "mkdir", f.Mkdir(p, 0o755)
	case 2, 3:
		what = "create"
		var file *File
		if file, err = f.OpenFile(p, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644); err == nil {
			err = file.Close()
		}
	case 4:
		q := n.path()
		what, err = "rename to "+q+" of", f.Rename(p, q)
	case 5:
		q := n.path()
		what, err = "link to "+q+" of", f.Link(p, q)
	case 6:
		what, err = "symlink", f.Symlink(strings.Repeat("t", 1+n.r.IntN(200)), p)
	case 7, 8:
		what, err = "remove", f.Remove(p)
	case 9:
		what, err = "xattr", f.SetXattr(p, fmt.Sprintf("user.%d", n.r.IntN(5)), bytes.Repeat([]byte{7}, n.r.IntN(300)), 0)
	case 10:
		what, err = "chmod", f.Chmod(p, fs.FileMode(n.r.IntN(0o1000)))
	case 11:
		what, err = "sync", f.Sync()
		require.NoError(n.t, err)
	}
	n.done(fmt.Sprintf("%s %s: %v", what, p, err), what == "sync")
}

func (n *nameRun) done(what string, synced bool) {
	tree, err := treeText(n.fsys)
	require.NoError(n.t, err)
	n.states = append(n.states, nameState{len(n.rec.Trace().Events), what, tree, synced})
}

// TestCrashNames cuts random runs of operations off anywhere: what is found then
// is the state after one of them, no older than the last Sync.
func TestCrashNames(t *testing.T) {
	kinds := []FormatOptions{{BlockSize: 1024}, {BlockSize: 4096}, {BlockSize: 1024, Features: orphanFile(t)}}
	for i, o := range kinds {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := newRand(t)
			base := formatMem(t, 16<<20, o)
			runs, states := 3, 60
			if oracle.IsLong() {
				runs, states = 20, 500
			}
			for range runs {
				crashNames(t, r, base, states)
			}
		})
	}
}

func orphanFile(t testing.TB) format.Features {
	f, err := format.Features{}.Apply("has_journal,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum,orphan_file")
	require.NoError(t, err)
	return f
}

func crashNames(t *testing.T, r *rand.Rand, base *device.Mem, states int) {
	rec := device.NewRecorder(base.Clone())
	fsys := openWith(t, rec, Options{})
	n := &nameRun{t: t, r: r, fsys: fsys, rec: rec}
	n.done("open", true)
	for range 80 {
		n.step()
	}
	require.NoError(t, fsys.Close())
	n.states = append(n.states, nameState{len(rec.Trace().Events), "close", n.states[len(n.states)-1].tree, true})
	for range states {
		n.crash(base)
	}
}

// crash makes one crash and compares.
func (n *nameRun) crash(base *device.Mem) {
	events := n.rec.Trace().Events
	cut := n.r.IntN(len(events) + 1)
	dev := crashState(n.r, base, events[:cut])
	fsys, err := Open(dev, Options{ReadWrite: true})
	if tornSuper(err) {
		return
	}
	require.NoError(n.t, err, "after event %d of %d", cut, len(events))
	tree, err := treeText(fsys)
	require.NoError(n.t, err, "after event %d of %d", cut, len(events))
	n.requirePossible(cut, tree)
	require.NoError(n.t, fsys.Close())
	if n.r.IntN(10) == 0 {
		fsck(n.t, dev)
	}
}

// tornSuper reports whether a file system cannot be opened because half of its
// superblock is new, as Linux would refuse it, too.
func tornSuper(err error) bool {
	return err != nil && errors.Is(err, format.ErrDamaged) && strings.Contains(err.Error(), "superblock: wrong checksum")
}

// requirePossible fails unless the tree is one of those between the last Sync
// before event cut and the operation that was under way then.
func (n *nameRun) requirePossible(cut int, tree string) {
	n.t.Helper()
	first, last := 0, 0
	for i, s := range n.states {
		if s.events <= cut {
			last = i
			if s.synced {
				first = i
			}
		}
	}
	for _, s := range n.states[first:min(last+2, len(n.states))] {
		if s.tree == tree {
			return
		}
	}
	for _, s := range n.states[first:min(last+2, len(n.states))] {
		n.t.Log(s.events, s.what)
	}
	n.t.Fatalf("after event %d: neither of %d states:\n%s\nlast:\n%s", cut, last-first+2, tree, n.states[last].tree)
}
