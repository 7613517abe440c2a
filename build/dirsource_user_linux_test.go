package build

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// lockThreadAs makes the calling goroutine's thread, and it alone, that of a
// user without rights. The goroutine must end without unlocking it.
func lockThreadAs(t testing.TB, uid uintptr) {
	runtime.LockOSThread()
	for _, call := range []uintptr{syscall.SYS_SETRESGID, syscall.SYS_SETRESUID} {
		if _, _, errno := syscall.RawSyscall(call, uid, uid, uid); errno != 0 {
			t.Error(errno)
		}
	}
}

// scanHere scans on the calling thread.
func scanHere(s *DirSource, t *Tree) error {
	c, err := s.begin(context.Background(), t)
	if err != nil {
		return err
	}
	newScanWorker(c).run()
	return c.result()
}

func chownTree(root string, uid int) error {
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, uid)
	})
}
