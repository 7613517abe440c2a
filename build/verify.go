package build

import (
	"bytes"
	"context"
	"io/fs"
	"runtime"
	"sync"

	"drydock/device"
	"drydock/ext4"
	"drydock/format"
	"drydock/internal/mkfs"
)

// VerifyOptions says how an image is verified.
type VerifyOptions struct {
	Workers  int                      // goroutines; 0: one a CPU
	Progress func(bytes, files int64) // told what was added since it was last called
}

// Verify reads the file system on dev and compares everything in it with c and
// the data in src: names, types, modes, owners, times, links, attributes,
// devices, targets, sizes, every byte, holes; and that nothing else is there but
// lost+found. It knows nothing of how the image was planned: it opens it as anybody
// would.
//
// A *VerifyError lists what differs, by path. Other errors are those of ctx, or of a
// file system that cannot be opened.
//
// One goroutine goes through the directories, the others compare what it finds.
// Memory is that of the largest directory and of two buffers a worker.
func Verify(ctx context.Context, dev device.Device, src Source, c *mkfs.Content, o VerifyOptions) error {
	fsys, err := ext4.Open(dev, ext4.Options{})
	if err != nil {
		return err
	}
	defer fsys.Close()
	v := newVerifier(ctx, fsys, src, c, o)
	var workers sync.WaitGroup
	for range v.Workers {
		workers.Go(v.work)
	}
	v.walk()
	close(v.jobs)
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	v.checkIdentity()
	v.checkInodes()
	return v.report.err()
}

const lostFound = "lost+found"

// verifier is one Verify.
type verifier struct {
	VerifyOptions
	ctx    context.Context
	fs     *ext4.FS
	geo    format.Geometry
	src    Source
	c      *mkfs.Content
	jobs   chan verifyJob
	report differences

	inos  []format.Ino // of each node; 0: not seen yet
	dirs  []verifyDir  // still to be listed
	extra bool         // the image has a lost+found that the content has not
}

// verifyJob is an inode to compare with its node.
type verifyJob struct {
	node uint32
	ino  format.Ino
	path string
}

// verifyDir is a directory to list.
type verifyDir struct {
	node uint32
	ino  format.Ino
	path string // "" is the root
}

func newVerifier(ctx context.Context, fsys *ext4.FS, src Source, c *mkfs.Content, o VerifyOptions) *verifier {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Progress == nil {
		o.Progress = func(bytes, files int64) {}
	}
	return &verifier{
		VerifyOptions: o, ctx: ctx, fs: fsys, geo: fsys.Geometry(), src: src, c: c,
		jobs: make(chan verifyJob, 64*o.Workers), inos: make([]format.Ino, len(c.Nodes)),
	}
}

// work compares inodes until there are no more.
func (v *verifier) work() {
	w := newDataComparer(v)
	for job := range v.jobs {
		if v.ctx.Err() == nil {
			v.compare(w, job)
		}
	}
}

// walk lists every directory and hands out what is in it.
func (v *verifier) walk() {
	v.found(RootNode, format.RootIno, "")
	for len(v.dirs) > 0 && v.ctx.Err() == nil {
		d := v.dirs[len(v.dirs)-1]
		v.dirs = v.dirs[:len(v.dirs)-1]
		v.list(d)
	}
}

// found is told of a node under one of its names: the first one has it
// compared, the others must lead to the same inode.
func (v *verifier) found(node uint32, ino format.Ino, path string) {
	if v.inos[node] != 0 {
		if v.inos[node] != ino {
			v.report.add(path, "is inode %d, its other names are inode %d", ino, v.inos[node])
		}
		return
	}
	v.inos[node] = ino
	v.jobs <- verifyJob{node, ino, path}
	if isDir(&v.c.Nodes[node]) {
		v.dirs = append(v.dirs, verifyDir{node, ino, path})
	}
}

// list compares the names in a directory. Both lists are sorted bytewise.
func (v *verifier) list(d verifyDir) {
	names, err := v.readDir(d.ino)
	if err != nil {
		v.report.add(d.path, "cannot be listed: %w", err)
	}
	n := &v.c.Nodes[d.node]
	want := v.c.Entries[n.First : n.First+n.Count]
	for len(want) > 0 || len(names) > 0 {
		switch order := v.order(want, names); {
		case order < 0:
			v.report.add(joinPath(d.path, string(v.c.Names.Get(want[0].Name))), "is missing")
			want = want[1:]
		case order > 0:
			v.unexpected(d, names[0])
			names = names[1:]
		default:
			v.entry(d, want[0].Node, names[0].(*ext4.DirEntry))
			want, names = want[1:], names[1:]
		}
	}
}

func (v *verifier) readDir(ino format.Ino) ([]fs.DirEntry, error) {
	f, err := v.fs.OpenInode(ino)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// order compares the first names of both lists; one that is at its end comes last.
func (v *verifier) order(want []mkfs.Entry, got []fs.DirEntry) int {
	switch {
	case len(want) == 0:
		return 1
	case len(got) == 0:
		return -1
	}
	return bytes.Compare(v.c.Names.Get(want[0].Name), []byte(got[0].Name()))
}

// unexpected is told of a name that the content does not have.
func (v *verifier) unexpected(d verifyDir, e fs.DirEntry) {
	path := joinPath(d.path, e.Name())
	if path != lostFound || !e.IsDir() {
		v.report.add(path, "should not be there")
		return
	}
	v.extra = true
	names, err := v.readDir(e.(*ext4.DirEntry).Ino())
	switch {
	case err != nil:
		v.report.add(path, "cannot be listed: %w", err)
	case len(names) > 0:
		v.report.add(path, "is not empty: %q", names[0].Name())
	}
}

// entry is told of a name that is where it should be.
func (v *verifier) entry(d verifyDir, node uint32, e *ext4.DirEntry) {
	path := joinPath(d.path, e.Name())
	if want := ext4.FileMode(v.c.Nodes[node].Mode).Type(); e.Type() != want {
		v.report.add(path, "its name has type %v, want %v", e.Type(), want)
	}
	v.found(node, e.Ino(), path)
}

// checkIdentity looks for two nodes that became one inode.
func (v *verifier) checkIdentity() {
	owner := make(map[format.Ino]uint32, len(v.inos))
	for node, ino := range v.inos {
		if ino == 0 {
			continue // its names are missing
		}
		if other, taken := owner[ino]; taken {
			v.report.add(v.c.Path(uint32(node)), "is inode %d, and so is %s", ino, quotePath(v.c.Path(other)))
		}
		owner[ino] = uint32(node)
	}
}

// checkInodes looks for inodes that no name leads to.
func (v *verifier) checkInodes() {
	st, err := v.fs.Statfs()
	if err != nil {
		v.report.add(wholePath, "free space cannot be read: %w", err)
		return
	}
	sb := v.fs.Superblock()
	want := uint64(max(sb.FirstIno(), uint32(format.FirstNonReservedIno))) - 1 // the reserved ones
	want += uint64(len(v.c.Nodes)) - 1                                         // but the root, which is one of them
	if v.extra {
		want++
	}
	if sb.Features().HasCompat(format.CompatOrphanFile) {
		want++
	}
	if used := st.Inodes - st.FreeNodes; used != want && v.report.total == 0 {
		v.report.add(wholePath, "%d inodes are in use, want %d", used, want)
	}
}
