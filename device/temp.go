package device

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
)

// Temp is an image file in the making. It appears at its place as a whole, by
// Commit, or not at all:
//
//	t, err := device.CreateTemp("rootfs.img", device.TempOptions{Size: size})
//	...
//	defer t.Abort()
//	... write ...
//	err = t.Commit(true)
//
// On Linux it has no name before that, where the host file system can, so that
// nothing is left behind even by kill -9. Elsewhere, and for the moment that it
// takes Commit to replace a file, it lies beside its place as .NAME.RANDOM.tmp.
// Flush does nothing: there is nothing yet that a crash could
// spoil. Commit and Abort may be called from different goroutines, for instance
// one that handles signals; the first of them decides.
type Temp struct {
	*File
	final string   // where Commit puts it
	force bool     // in place of what is there
	old   *os.File // what is there, locked; nil for nothing

	mu   sync.Mutex
	name string // its own path; "" while it has none
	done bool
}

// TempOptions say what CreateTemp makes.
type TempOptions struct {
	Size  int64 // bytes, all of them a hole
	Force bool  // replace a regular file that is at the final path already
}

// What the host may lack; tests let it be missing.
var (
	openUnnamed = createUnnamed
	renameOnce  = renameExclusive
)

// CreateTemp starts an image file that is to be at path. Without Force it fails
// with fs.ErrExist if anything is there, now or at Commit. With Force, what is
// there must be a regular file that is not in use; a symlink to one is followed,
// and its permissions are kept.
func CreateTemp(path string, o TempOptions) (*Temp, error) {
	t := &Temp{final: path, force: o.Force}
	if err := t.create(o); err != nil {
		t.discard()
		return nil, pathError("create", path, err)
	}
	return t, nil
}

// Path is the path of the image to be.
func (t *Temp) Path() string { return t.final }

// Flush does nothing; see Commit.
func (t *Temp) Flush() error { return nil }

// WriteFUA is WriteAt, as is Flush with regard to durability.
func (t *Temp) WriteFUA(p []byte, off int64) (int, error) { return t.WriteAt(p, off) }

// Close is Abort.
func (t *Temp) Close() error { return t.Abort() }

// Commit closes the file and puts it at its path, where there must be nothing
// (fs.ErrExist) unless Force was given. With sync, content and name are durable
// when it returns. After an error Abort is still needed, and the image is not
// there - unless syncing the folder, the last step, was what failed.
func (t *Temp) Commit(sync bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done {
		return pathError("commit", t.final, fs.ErrClosed)
	}
	if sync {
		if err := t.f.Sync(); err != nil {
			return pathError("commit", t.final, err)
		}
	}
	if err := t.publish(); err != nil {
		return pathError("commit", t.final, err)
	}
	t.done, t.name = true, ""
	if sync {
		if err := syncDir(filepath.Dir(t.final)); err != nil {
			t.discard()
			return pathError("commit", t.final, err)
		}
	}
	return pathError("commit", t.final, t.discard())
}

// Abort closes the file and removes all trace of it. After Commit, or another
// Abort, it does nothing, so that it can be deferred.
func (t *Temp) Abort() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done {
		return nil
	}
	t.done = true
	return pathError("abort", t.final, t.discard())
}

// create opens the file and locks what it is to replace.
func (t *Temp) create(o TempOptions) error {
	perm, err := t.lookAtFinal()
	if err != nil {
		return err
	}
	f, err := openUnnamed(filepath.Dir(t.final))
	if isUnsupported(err) {
		f, t.name, err = createNamed(t.final)
	}
	if err != nil {
		return err
	}
	if t.File, err = newFile(f, t.final, o.Size, false); err != nil {
		return err
	}
	if t.old != nil {
		err = f.Chmod(perm)
	}
	return errors.Join(err, prepare(f, o.Size))
}

// lookAtFinal checks what is at the final path, and returns its permissions.
func (t *Temp) lookAtFinal() (fs.FileMode, error) {
	info, err := os.Lstat(t.final)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, err
	case !t.force:
		return 0, fs.ErrExist
	case info.Mode().Type() == fs.ModeSymlink:
		if t.final, err = filepath.EvalSymlinks(t.final); err != nil {
			return 0, err
		}
		if info, err = os.Stat(t.final); err != nil {
			return 0, err
		}
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("cannot replace %s: not a regular file", t.final)
	}
	return info.Mode().Perm(), t.claimOld(info)
}

// claimOld keeps other programs from the file that is to be replaced, as far as
// it may be opened.
func (t *Temp) claimOld(info fs.FileInfo) error {
	f, err := os.Open(t.final)
	if errors.Is(err, fs.ErrPermission) {
		return checkLoops(info)
	}
	if err != nil {
		return err
	}
	t.old = f
	return claim(f, info, true)
}

// publish gives the file its final name. The caller holds mu.
func (t *Temp) publish() error {
	if t.name == "" {
		err := linkUnnamed(t.f, t.final)
		if !t.force || !errors.Is(err, fs.ErrExist) {
			return err
		}
		name := tempName(t.final)
		if err := linkUnnamed(t.f, name); err != nil {
			return err
		}
		t.name = name
	}
	if runtime.GOOS == "windows" {
		// Open files cannot be renamed or replaced there.
		t.closeFiles()
	}
	if t.force {
		return cause(os.Rename(t.name, t.final))
	}
	return renameNew(t.name, t.final)
}

// discard closes the files and removes the temporary name, if there is one.
func (t *Temp) discard() error {
	err := t.closeFiles()
	if t.name != "" {
		err = errors.Join(err, os.Remove(t.name))
	}
	return err
}

func (t *Temp) closeFiles() (err error) {
	if t.File != nil {
		err = t.f.Close()
	}
	if t.old != nil {
		t.old.Close()
	}
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// createNamed makes a new file beside final.
func createNamed(final string) (*os.File, string, error) {
	name := tempName(final)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, "", err
	}
	return f, name, nil
}

// maxName is the length of the longest file name, in bytes.
const maxName = 255

// tempName is a new hidden name beside final.
func tempName(final string) string {
	dir, base := filepath.Split(final)
	var random [6]byte
	rand.Read(random[:])
	tail := "." + hex.EncodeToString(random[:]) + ".tmp"
	return dir + "." + base[:min(len(base), maxName-1-len(tail))] + tail
}

// renameNew renames unless there is something at the new name.
func renameNew(from, to string) error {
	err := renameOnce(from, to)
	if !isUnsupported(err) {
		return err
	}
	switch err := os.Link(from, to); {
	case err == nil:
		return os.Remove(from)
	case errors.Is(err, fs.ErrExist):
		return fs.ErrExist
	}
	// No links either: a moment remains in which another program may come first.
	if _, err := os.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return os.Rename(from, to)
}

// syncDir makes the names in a folder durable, where folders can be synced.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil || runtime.GOOS == "windows" {
		return err
	}
	defer d.Close()
	return d.Sync()
}
