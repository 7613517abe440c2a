package ext4

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/internal/oracle"
)

// The model is Linux itself: random operations are done on a mounted ext4 of
// the kernel and on an image through this package, and have to give the same
// results, the same errors and in the end the same tree.
//
// Variables of the environment repeat and vary a run:
//
//	DRYDOCK_MODEL_SEED=n     just this seed
//	DRYDOCK_MODEL_OPS=n      so many operations
//	DRYDOCK_MODEL_SHRINK=1   on failure: look for the fewest operations that fail
//	DRYDOCK_MODEL_SKIP=a,b   leave out operations of these kinds
//	DRYDOCK_MODEL_FILE=f     do the operations in f, a JSON object a line, as a failure prints them
const (
	modelSeedEnv   = "DRYDOCK_MODEL_SEED"
	modelOpsEnv    = "DRYDOCK_MODEL_OPS"
	modelShrinkEnv = "DRYDOCK_MODEL_SHRINK"
	modelSkipEnv   = "DRYDOCK_MODEL_SKIP"
	modelFileEnv   = "DRYDOCK_MODEL_FILE"
)

// modelCheckEvery is how many operations there are between looks at the image.
const modelCheckEvery = 500

// system is a file system that the operations are done on. Paths are absolute
// in it, as after chroot. Modes are those of Linux.
type system interface {
	open(name string, flag int, mode uint32) (handle, error)
	mkdir(name string, mode uint32) error
	mkdirAll(name string, mode uint32) error
	writeFile(name string, data []byte, mode uint32) error
	mknod(name string, mode, major, minor uint32) error
	remove(name string) error
	removeAll(name string) error
	rename(from, to string) error
	link(from, to string) error
	symlink(target, name string) error
	readlink(name string) (string, error)
	chmod(name string, mode uint32) error
	chown(name string, uid, gid int, follow bool) error
	chtimes(name string, atime, mtime time.Time, follow bool) error
	truncate(name string, size int64) error
	setXattr(name, attr string, value []byte, flags int, follow bool) error
	removeXattr(name, attr string, follow bool) error
	xattrs(name string, follow bool) (map[string][]byte, error)
	readDir(name string) ([]string, error) // "type name", sorted
	stat(name string, follow bool) (attributes, error)
	sync() error
}

// handle is an open file.
type handle interface {
	readAt(p []byte, off int64) (int, error)
	writeAt(p []byte, off int64) (int, error)
	write(p []byte) (int, error) // where the file position is, or at the end with O_APPEND
	truncate(size int64) error
	allocate(off, n int64, keepSize bool) error
	punch(off, n int64) error
	zero(off, n int64, keepSize bool) error
	chmod(mode uint32) error
	stat() (attributes, error)
	sync() error
	close() error
}

// attributes is what stat says, as far as it must be the same on both sides.
type attributes struct {
	mode, nlink, uid, gid uint32
	size                  int64 // 0 for a directory
	rdev                  string
	atime, mtime          string // "now" where the time was not set explicitly
	ino                   uint64 // not the same, but the same for the same file
}

func (a attributes) String() string {
	return fmt.Sprintf("mode %o links %d owner %d:%d size %d %s atime %s mtime %s", a.mode, a.nlink, a.uid, a.gid, a.size, a.rdev, a.atime, a.mtime)
}

// image is a system in an image file that can be closed, to be looked at from outside.
type image interface {
	system
	path() string
	close() error
	reopen() error
}

// modelKind is a kind of file system.
type modelKind struct {
	name   string
	mkfs   []string
	mount  []string
	choose func(*Options)
	inTx   bool // operations by name go through Update
}

func (k modelKind) hasJournal() bool { return !slices.Contains(k.mkfs, "^has_journal") }

func (k modelKind) hasOrphanFile() bool { return slices.Contains(k.mkfs, "orphan_file,large_dir") }

func modelKinds() []modelKind {
	none := func(*Options) {}
	return []modelKind{
		{"1k", []string{"-b", "1024"}, nil, none, false},
		{"4k", []string{"-b", "4096"}, nil, none, false},
		{"4k journaled data", []string{"-b", "4096"}, []string{"data=journal"}, func(o *Options) { o.Data = DataJournal }, false},
		{"1k tiny memory", []string{"-b", "1024"}, nil, func(o *Options) { o.Memory = 256 << 10 }, false},
		{"2k no journal", []string{"-b", "2048", "-O", "^has_journal"}, nil, none, false},
		{"1k uninit_bg, no 64bit", []string{"-b", "1024", "-O", "^64bit,^metadata_csum,uninit_bg"}, nil, none, false},
		{"4k small inodes", []string{"-b", "4096", "-I", "128"}, nil, none, false},
		{"4k in transactions", []string{"-b", "4096"}, nil, none, true},
		{"1k orphan file, large_dir", []string{"-b", "1024", "-O", "orphan_file,large_dir"}, nil, none, false},
	}
}

// modelSize is the size of the images; it is more than the operations fill.
const modelSize = "400M"

// modelClock is the time at which our side always is: what has this time was not set explicitly.
var modelClock = time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)

// modelRun is one sequence of operations on both sides.
type modelRun struct {
	t    testing.TB
	kind modelKind
	ops  []op
	want *player // the kernel's
	got  *player // ours
	img  image
	done map[string]*[2]int // of each kind of operation: how many failed as they do in Linux, and did not
}

func TestModel(t *testing.T) {
	oracle.Root(t)
	oracle.Need(t, "mke2fs", "e2fsck", "mount", "umount", "cp")
	seeds, count := 2, 1500
	if oracle.IsLong() {
		seeds, count = 100, 10_000
	}
	first := uint64(1) // the same on every run, but for long ones
	if oracle.IsLong() {
		first = rand.Uint64() / 2
	}
	if s := os.Getenv(modelSeedEnv); s != "" {
		first, seeds = parseUint(t, s), 1
	}
	if s := os.Getenv(modelOpsEnv); s != "" {
		count = int(parseUint(t, s))
	}
	for seed := first; seed < first+uint64(seeds); seed++ {
		kinds := modelKinds()
		kind := kinds[seed%uint64(len(kinds))]
		t.Run(fmt.Sprintf("%d %s", seed, kind.name), func(t *testing.T) {
			t.Logf("%s=%d repeats this", modelSeedEnv, seed)
			modelSeed(t, kind, modelOps(t, seed, count))
		})
	}
}

func parseUint(t testing.TB, s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	require.NoError(t, err)
	return n
}

// modelOps makes the operations of a seed, or reads them from a file.
func modelOps(t testing.TB, seed uint64, count int) []op {
	if name := os.Getenv(modelFileEnv); name != "" {
		return opsFrom[op](t, name)
	}
	skip := strings.Split(os.Getenv(modelSkipEnv), ",")
	ops := randomOps(rand.New(rand.NewPCG(seed, 4)), count)
	return slices.DeleteFunc(ops, func(o op) bool { return slices.Contains(skip, o.Kind) })
}

// opsFrom reads operations from a file, a JSON object a line.
func opsFrom[T any](t testing.TB, name string) (ops []T) {
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	for dec := json.NewDecoder(f); dec.More(); {
		var o T
		require.NoError(t, dec.Decode(&o))
		ops = append(ops, o)
	}
	return ops
}

// modelSeed fails the test if the sides differ, and says how to see it again.
func modelSeed(t testing.TB, kind modelKind, ops []op) {
	done, err := runModel(t, kind, ops)
	if err == nil {
		return
	}
	ops = ops[:done]
	t.Logf("after %d operations: %v", done, err)
	if os.Getenv(modelShrinkEnv) != "" {
		ops, err = shrinkModel(t, kind, ops, err)
	} else {
		ops = ops[max(0, len(ops)-8):]
	}
	var list strings.Builder
	for _, o := range ops {
		line, _ := json.Marshal(o)
		list.Write(append(line, '\n'))
	}
	t.Fatalf("%v\nthe last operations:\n%s", err, list.String())
}

// shrinkModel leaves out operations as long as the rest fails.
func shrinkModel(t testing.TB, kind modelKind, ops []op, err error) ([]op, error) {
	for size := len(ops) / 2; size > 0; size /= 2 {
		for at := len(ops) - size; at >= 0; at -= size {
			fewer := slices.Delete(slices.Clone(ops), at, at+size)
			if done, again := runModel(t, kind, fewer); again != nil {
				ops, err = fewer[:done], again
				at = min(at, len(ops))
				t.Logf("fails with %d operations", len(ops))
			}
		}
	}
	return ops, err
}

// runModel does the operations on both sides and returns how many were done
// when something was wrong.
func runModel(t testing.TB, kind modelKind, ops []op) (done int, err error) {
	r := &modelRun{t: t, kind: kind, ops: ops, done: map[string]*[2]int{}}
	reference, tested := makeModelImage(t, kind), makeModelImage(t, kind)
	k := mountKernel(t, reference, kind.mount)
	defer k.end()
	r.img = newTested(t, tested, kind)
	require.NoError(t, r.img.reopen())
	defer func() { r.img.close() }()
	r.want, r.got = &player{sys: k}, &player{sys: r.img}
	defer r.closeSlots()
	for i, o := range ops {
		if err := r.step(o); err != nil {
			return i + 1, err
		}
		if i%modelCheckEvery == modelCheckEvery-1 {
			if err := r.look(); err != nil {
				return i + 1, fmt.Errorf("after %d operations: %w", i+1, err)
			}
		}
	}
	t.Log(r.summary())
	return len(ops), r.finish()
}

// step does an operation on both sides.
func (r *modelRun) step(o op) error {
	switch o.Kind {
	case "reopen":
		r.closeSlots()
		return r.reopen()
	case "turn":
		return r.turn(o.Keep && r.kind.hasJournal())
	}
	want := r.want.do(o)
	got := r.got.do(o)
	r.count(o.Kind, want)
	if want != got {
		return fmt.Errorf("%s: Linux says %s\nwe say %s", o, want, got)
	}
	if strings.HasPrefix(want, "ENOSPC") && o.Kind != "setxattr" {
		return fmt.Errorf("%s: the image is too small for this test", o)
	}
	return nil
}

// count notes how an operation went.
func (r *modelRun) count(kind, result string) {
	if r.done[kind] == nil {
		r.done[kind] = &[2]int{}
	}
	if strings.HasPrefix(strings.TrimLeft(result, "0"), "E") {
		r.done[kind][0]++
	} else {
		r.done[kind][1]++
	}
}

func (r *modelRun) summary() string {
	s := "failed/done:"
	for _, kind := range opOrder {
		if n := r.done[kind]; n != nil {
			s += fmt.Sprintf(" %s %d/%d", kind, n[0], n[1])
		}
	}
	return s
}

func (r *modelRun) closeSlots() {
	r.want.closeAll()
	r.got.closeAll()
}

func (r *modelRun) reopen() error {
	if err := r.img.close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if err := fsckClean(r.img.path()); err != nil {
		return err
	}
	return r.img.reopen()
}

// turn hands the image over: from us to Linux, or back. If it is dirty it goes
// as it is after Sync, with its journal full and files without a name in use.
func (r *modelRun) turn(dirty bool) error {
	path := r.img.path()
	if dirty {
		if err := r.img.sync(); err != nil {
			return err
		}
		path = strings.TrimSuffix(path, ".turn")
		if path == r.img.path() {
			path += ".turn"
		}
		oracle.Run(r.t, "cp", "--sparse=always", r.img.path(), path)
	}
	r.closeSlots()
	if err := r.img.close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if !dirty {
		if err := fsckClean(path); err != nil {
			return err
		}
	}
	if _, theirs := r.img.(*kernelImage); theirs {
		r.img = newTested(r.t, path, r.kind)
	} else {
		r.img = &kernelImage{t: r.t, file: path, opts: r.kind.mount}
	}
	r.got.sys = r.img
	if err := r.img.reopen(); err != nil {
		return fmt.Errorf("hand over, dirty %v: %w", dirty, err)
	}
	return r.compareTrees(r.want.sys, r.got.sys)
}

// look compares the trees and has e2fsck look at the image: as it is while it
// is open, its journal replayed, and closed.
func (r *modelRun) look() error {
	if err := r.compareTrees(r.want.sys, r.got.sys); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if err := r.lookAtOpen(); err != nil {
		return fmt.Errorf("open, after Sync: %w", err)
	}
	r.closeSlots()
	if err := r.reopen(); err != nil {
		return fmt.Errorf("closed: %w", err)
	}
	if err := r.compareTrees(r.want.sys, r.got.sys); err != nil {
		return fmt.Errorf("opened again: %w", err)
	}
	return nil
}

// lookAtOpen copies the image as it is after Sync, as a power cut would leave it.
func (r *modelRun) lookAtOpen() error {
	if !r.kind.hasJournal() {
		r.closeSlots() // nothing on disk says that files without a name are to be freed
	}
	if err := r.got.sys.sync(); err != nil {
		return err
	}
	copied := r.img.path() + ".copy"
	defer os.Remove(copied)
	oracle.Run(r.t, "cp", "--sparse=always", r.img.path(), copied)
	if r.kind.hasJournal() {
		if err := recoverImage(copied, r.kind); err != nil {
			return err
		}
	}
	if err := fsckClean(copied); err != nil {
		return err
	}
	return r.compareMounted(copied)
}

// compareMounted compares the kernel's tree with what the kernel finds in an image of ours.
func (r *modelRun) compareMounted(path string) error {
	k := mountKernel(r.t, path, []string{"ro"})
	defer k.end()
	return r.compareTrees(r.want.sys, k)
}

// finish closes the image, which has then to be right for e2fsck and to read
// back the same in Linux.
func (r *modelRun) finish() error {
	if err := r.look(); err != nil {
		return err
	}
	if err := r.img.close(); err != nil {
		return err
	}
	return r.compareMounted(r.img.path())
}

// recoverImage replays the journal and frees orphans with e2fsck, which must
// have nothing else to do.
func recoverImage(path string, kind modelKind) error {
	known := []string{"recovering journal", "rphan", ": clean, "}
	if kind.hasOrphanFile() {
		// orphan_present is not set in the backups, and stays set while a file system is in use.
		known = append(known, "features different from backup, check forced", "CLEARED.", " files (")
	}
	out, err := exec.Command("e2fsck", "-p", path).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if !slices.ContainsFunc(known, func(k string) bool { return strings.Contains(line, k) }) {
			return fmt.Errorf("e2fsck -p: %s (%v)", out, err)
		}
	}
	return nil
}

func fsckClean(path string) error {
	out, err := exec.Command("e2fsck", "-fn", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("e2fsck -fn: %w\n%s", err, out)
	}
	return nil
}

func makeModelImage(t testing.TB, kind modelKind) string {
	path := filepath.Join(t.TempDir(), "model.img")
	args := append([]string{"-q", "-F", "-t", "ext4", "-N", "8192", "-J", "size=8", "-E", "lazy_itable_init=0,lazy_journal_init=0"}, kind.mkfs...)
	if !kind.hasJournal() {
		args = slices.Delete(args, 6, 8)
	}
	t.Setenv("E2FSPROGS_FAKE_TIME", fmt.Sprint(modelClock.Unix()))
	oracle.Run(t, "mke2fs", append(args, path, modelSize)...)
	return path
}

// compareTrees compares everything that both sides hold.
func (r *modelRun) compareTrees(want, got system) error {
	a, b := treeOf(want), treeOf(got)
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name] != b[name] {
			return fmt.Errorf("%.300q: in Linux %.400s\nhere %.400s", name, a[name], b[name])
		}
		delete(b, name)
	}
	for name, line := range b {
		return fmt.Errorf("%.300q is not in Linux: %.400s", name, line)
	}
	return nil
}

// treeOf describes everything in a file system, a line a name.
func treeOf(sys system) map[string]string {
	tree, seen := map[string]string{}, map[uint64]string{}
	var visit func(name string)
	visit = func(name string) {
		a, err := sys.stat(name, false)
		if err != nil {
			tree[name] = "stat: " + errorName(err)
			return
		}
		tree[name] = a.String() + describe(sys, name, a) + ", xattrs " + xattrLine(sys, name)
		if a.mode&unix.S_IFMT != unix.S_IFDIR {
			if first, ok := seen[a.ino]; ok {
				tree[name] += ", same as " + first
			} else {
				seen[a.ino] = name
			}
			return
		}
		list, err := sys.readDir(name)
		if err != nil {
			tree[name] += errorName(err)
		}
		for _, line := range list {
			_, child, _ := strings.Cut(line, " ")
			visit(strings.TrimSuffix(name, "/") + "/" + child)
		}
	}
	visit("/")
	return tree
}

// describe says what a file holds.
func describe(sys system, name string, a attributes) string {
	switch a.mode & unix.S_IFMT {
	case unix.S_IFREG:
		return ", data " + content(sys, name, a.size)
	case unix.S_IFLNK:
		target, err := sys.readlink(name)
		return fmt.Sprintf(", target %.50q of %d bytes %s", target, len(target), errorName(err))
	default:
		return ""
	}
}

func content(sys system, name string, size int64) string {
	h, err := sys.open(name, os.O_RDONLY, 0)
	if err != nil {
		return errorName(err)
	}
	defer h.close()
	p := make([]byte, min(size, 1<<20))
	sum := uint32(0)
	for off := int64(0); off < size; off += int64(len(p)) {
		n := min(int64(len(p)), size-off)
		if got, err := h.readAt(p[:n], off); got != int(n) {
			return fmt.Sprintf("%d of %d bytes at %d: %s", got, n, off, errorName(err))
		}
		sum = crc32.Update(sum, crc32.IEEETable, p[:n])
	}
	return fmt.Sprintf("%08x", sum)
}

func xattrLine(sys system, name string) string {
	attrs, err := sys.xattrs(name, false)
	if err != nil {
		return errorName(err)
	}
	var s strings.Builder
	for _, attr := range slices.Sorted(maps.Keys(attrs)) {
		fmt.Fprintf(&s, "%s %d %08x ", attr, len(attrs[attr]), crc32.ChecksumIEEE(attrs[attr]))
	}
	return s.String()
}

// errorName is how the results of both sides say an error.
func errorName(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	case errors.Is(err, fs.ErrClosed):
		return "closed"
	default:
		return err.Error()
	}
}
