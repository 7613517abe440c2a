package ext4

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConcurrentChanges has many goroutines change and read one tree at once: names come
// and go, files are written while others remove, rename and read them.
func TestConcurrentChanges(t *testing.T) {
	dev := formatMem(t, 48<<20, FormatOptions{BlockSize: 1024})
	fsys := openWith(t, dev, Options{})
	require.NoError(t, fsys.Mkdir("dir", 0o755))
	var wg sync.WaitGroup
	for w := range 8 {
		r := newRand(t)
		wg.Go(func() {
			for i := range 150 {
				name := fmt.Sprintf("dir/f%d", r.IntN(12))
				var err error
				switch r.IntN(10) {
				case 0:
					err = fsys.Remove(name)
				case 1:
					err = fsys.Rename(name, fmt.Sprintf("dir/f%d", r.IntN(12)))
				case 2:
					err = fsys.Link(name, fmt.Sprintf("dir/l%d-%d", w, i))
				case 3:
					_, err = fsys.ReadDir("dir")
				case 4:
					_, err = fsys.Stat(name)
				case 5:
					err = fsys.Walk(".", func(_ string, _ fs.DirEntry, err error) error { return nil })
				case 6:
					err = fsys.SetXattr(name, "user.x", noise(r.IntN(300), 1), 0)
				case 7:
					err = fsys.Sync()
				default:
					err = concurrentFile(fsys, name, noise(r.IntN(5000), uint64(i)))
				}
				if err != nil && !expected(err) {
					t.Errorf("%d: %s: %v", w, name, err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, fsys.Close())
	requireSettled(t, dev)
}

// expected are the errors that others may cause.
func expected(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist)
}

func concurrentFile(fsys *FS, name string, data []byte) error {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if _, err := f.ReadAt(make([]byte, len(data)), 0); err != nil && err != io.EOF {
		return err
	}
	return f.Close()
}
