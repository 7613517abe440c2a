package build

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	mrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/internal/oracle"
)

// buildInChild is set in the child of TestKill: the directory to build from.
const buildInChild = "DRYDOCK_TEST_BUILD_FROM"

func TestMain(m *testing.M) {
	if from := os.Getenv(buildInChild); from != "" {
		_, err := Run(context.Background(), Options{Out: os.Args[len(os.Args)-1], From: []string{from}, Force: true})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestKill kills builds at random moments with SIGKILL: at the image's place
// there must be nothing, the old image, or a whole new one.
func TestKill(t *testing.T) {
	oracle.Need(t, "e2fsck")
	tree := plainTree(t, 300)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := mrand.New(mrand.NewPCG(seed, 0))
	done, nothing := 0, 0
	for i := range 60 {
		dir := t.TempDir()
		out := filepath.Join(dir, "out.img")
		old := i%2 == 1
		if old {
			require.NoError(t, os.WriteFile(out, []byte("old"), 0o644))
		}
		child := exec.Command(os.Args[0], out)
		child.Env = append(os.Environ(), buildInChild+"="+tree)
		require.NoError(t, child.Start())
		time.Sleep(time.Duration(r.IntN(120_000)) * time.Microsecond)
		child.Process.Kill()
		child.Wait()
		data, err := os.ReadFile(out)
		switch {
		case os.IsNotExist(err):
			require.False(t, old, "the old image is gone")
			nothing++
		case old && string(data) == "old":
			nothing++
		default:
			require.NoError(t, err)
			oracle.Fsck(t, out)
			done++
		}
	}
	t.Logf("%d builds were done before the kill, %d left nothing", done, nothing)
}

// TestFullDisk builds onto a host file system that is too small.
func TestFullDisk(t *testing.T) {
	oracle.Root(t)
	host := oracle.MkfsHost(t, "ext4", 16<<20)
	free := func() uint64 {
		var st unix.Statfs_t
		unix.Sync()
		require.NoError(t, unix.Statfs(host, &st))
		return st.Bfree
	}
	before := free()
	tree := t.TempDir()
	noise := make([]byte, 24<<20)
	rand.Read(noise)
	require.NoError(t, os.WriteFile(filepath.Join(tree, "big"), noise, 0o644))
	_, err := Run(context.Background(), Options{Out: filepath.Join(host, "out.img"), From: []string{tree}})
	require.ErrorIs(t, err, unix.ENOSPC)
	entries, err := os.ReadDir(host)
	require.NoError(t, err)
	for _, e := range entries {
		require.Equal(t, "lost+found", e.Name())
	}
	require.Equal(t, before, free())
}

// TestReflink builds where the host shares blocks: the image takes no room of
// its own for the files' data.
func TestReflink(t *testing.T) {
	oracle.Root(t)
	for _, kind := range []string{"xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			oracle.Need(t, "mkfs."+kind)
			host := oracle.MkfsHost(t, kind, 700<<20)
			tree := filepath.Join(host, "tree")
			require.NoError(t, os.Mkdir(tree, 0o755))
			noise := make([]byte, 64<<20+12345)
			rand.Read(noise)
			require.NoError(t, os.WriteFile(filepath.Join(tree, "big"), noise, 0o644))
			used := func() uint64 {
				var st unix.Statfs_t
				fd, err := unix.Open(host, unix.O_RDONLY, 0)
				require.NoError(t, err)
				require.NoError(t, unix.Syncfs(fd))
				unix.Close(fd)
				require.NoError(t, unix.Statfs(host, &st))
				return (st.Blocks - st.Bfree) * uint64(st.Bsize)
			}
			before := used()
			out := filepath.Join(host, "out.img")
			_, err := Run(context.Background(), Options{Out: out, From: []string{tree}, Verify: true})
			require.NoError(t, err)
			require.Less(t, used()-before, uint64(16<<20), "shared, not copied")
			oracle.Fsck(t, out)
			image := oracle.Mount(t, out, "ro")
			data, err := os.ReadFile(filepath.Join(image, "big"))
			require.NoError(t, err)
			require.True(t, bytes.Equal(noise, data))
		})
	}
}

// TestLoopDevice builds onto a block device full of old data.
func TestLoopDevice(t *testing.T) {
	oracle.Need(t, "e2fsck")
	oracle.Root(t)
	file := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte("old data"), 8<<20), 0o644))
	loop := oracle.Loop(t, file)
	tree := plainTree(t, 100)
	_, err := Run(context.Background(), Options{Out: loop, From: []string{tree}, Force: true, Verify: true})
	require.NoError(t, err)
	oracle.Fsck(t, loop)
	_, err = Run(context.Background(), Options{Out: loop, From: []string{tree}})
	require.ErrorIs(t, err, os.ErrExist, "holds a file system already")
	dir := t.TempDir()
	oracle.Run(t, "mount", loop, dir)
	_, err = Run(context.Background(), Options{Out: loop, From: []string{tree}, Force: true})
	unmount := exec.Command("umount", dir).Run()
	require.ErrorContains(t, err, dir, "mounted")
	require.NoError(t, unmount)
	r, err := Run(context.Background(), Options{Out: loop, From: []string{tree}, Force: true, Partition: PartitionGPT})
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, r.Offset)
	require.EqualValues(t, 64<<20, r.Size)
}
