package oracle

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// verdict is a test that records how it ends instead of ending.
type verdict struct {
	testing.TB
	skipped, failed string
	cleanups        []func()
	dir             string
}

func (v *verdict) Helper()          {}
func (v *verdict) Cleanup(f func()) { v.cleanups = append(v.cleanups, f) }
func (v *verdict) TempDir() string  { return v.dir }

func (v *verdict) Skipf(format string, args ...any) {
	v.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (v *verdict) Fatalf(format string, args ...any) {
	v.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (v *verdict) Error(args ...any)                 { v.failed = fmt.Sprint(args...) }
func (v *verdict) Errorf(format string, args ...any) { v.failed = fmt.Sprintf(format, args...) }

// judge runs body as a test of its own, with its cleanups.
func judge(t *testing.T, body func(testing.TB)) *verdict {
	v := &verdict{TB: t, dir: t.TempDir()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(v.cleanups) - 1; i >= 0; i-- {
				v.cleanups[i]()
			}
		}()
		body(v)
	}()
	<-done
	return v
}

func TestNeedSkipsOrFails(t *testing.T) {
	need := func(tb testing.TB) { Need(tb, "no-such-tool") }
	t.Setenv(requireEnv, "")
	v := judge(t, need)
	require.Equal(t, "skipped: needs no-such-tool (Debian package no-such-tool)", v.skipped)
	require.Empty(t, v.failed)

	t.Setenv(requireEnv, "require")
	v = judge(t, need)
	require.Empty(t, v.skipped)
	require.Equal(t, "DRYDOCK_ORACLES=require, but the test needs no-such-tool (Debian package no-such-tool)", v.failed)
}

func TestPackageNames(t *testing.T) {
	require.Equal(t, "e2fsprogs", packageOf("e2fsck"))
	require.Equal(t, "mount", packageOf("mount"))
	require.Equal(t, "xfsprogs", packageOf("mkfs.xfs"))
}

func TestRunShowsWhatFailed(t *testing.T) {
	Need(t, "sh")
	require.Equal(t, "C UTC\n", Run(t, "sh", "-c", "echo $LC_ALL $TZ; echo noise >&2"))
	v := judge(t, func(tb testing.TB) { Run(tb, "sh", "-c", "echo out; echo err >&2; exit 3") })
	require.Contains(t, v.failed, "exit status 3\nout\nerr\n")
}

func TestHasCapability(t *testing.T) {
	status := filepath.Join(t.TempDir(), "status")
	require.NoError(t, os.WriteFile(status, []byte("Name:\tx\nCapEff:\t0000000000200000\nCapBnd:\t0\n"), 0o666))
	require.True(t, hasCapability(status, capSysAdmin))
	require.False(t, hasCapability(status, capSysAdmin+1))
	require.False(t, hasCapability(status+".none", capSysAdmin))
}

func TestSharedIsFoundOrSkipped(t *testing.T) {
	top := t.TempDir()
	pkg := filepath.Join(top, "repo", "pkg")
	require.NoError(t, os.MkdirAll(pkg, 0o777))
	require.NoError(t, os.MkdirAll(filepath.Join(top, "shared"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(top, "repo", "go.mod"), nil, 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(top, "shared", "a.txt"), nil, 0o666))
	t.Chdir(pkg)
	t.Setenv(requireEnv, "require")

	var path string
	v := judge(t, func(tb testing.TB) { path = Shared(tb, "a.txt") })
	require.Empty(t, v.skipped+v.failed)
	require.FileExists(t, path)
	v = judge(t, func(tb testing.TB) { Shared(tb, "no-such-file") })
	require.Contains(t, v.skipped, "skipped: needs "+filepath.Join("shared", "no-such-file"))
	require.Empty(t, v.failed)
}

func TestWithoutBanner(t *testing.T) {
	require.Equal(t, "x: File not found\n", withoutBanner("debugfs 1.47.0 (5-Feb-2023)\nx: File not found\n"))
	require.Equal(t, "bad\n", withoutBanner("bad\n"))
}

func ext4Image(t *testing.T) string {
	Need(t, "mke2fs", "e2fsck", "debugfs")
	image := filepath.Join(t.TempDir(), "a.img")
	require.NoError(t, createSparse(image, 8<<20))
	Run(t, "mke2fs", "-q", "-F", "-t", "ext4", image)
	return image
}

func TestFsckAndDebugfs(t *testing.T) {
	image := ext4Image(t)
	Fsck(t, image)
	require.Contains(t, Debugfs(t, image, "ls -l /"), "lost+found")
	require.Contains(t, Debugfs(t, image, "stat /none"), "File not found")

	f, err := os.OpenFile(image, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, 4096), 1024)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	v := judge(t, func(tb testing.TB) { Fsck(tb, image) })
	require.Contains(t, v.failed, "e2fsck -fn "+image)
}

func TestMountLeavesNothing(t *testing.T) {
	Root(t)
	image := ext4Image(t)
	var dir string
	v := judge(t, func(tb testing.TB) {
		dir = Mount(tb, image)
		os.WriteFile(filepath.Join(dir, "hello"), []byte("world"), 0o666)
		tb.Fatalf("stopped half way")
	})
	require.Equal(t, "stopped half way", v.failed)
	require.False(t, mounted(dir))
	Fsck(t, image)
	require.Equal(t, "world", Debugfs(t, image, "cat /hello"))
}

func TestUnmountEarlyAndOptions(t *testing.T) {
	Root(t)
	image := ext4Image(t)
	dir := Mount(t, image, "ro", "noload")
	require.Error(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o666))
	Unmount(t, dir)
	require.False(t, mounted(dir))
	Unmount(t, dir)
}

func TestBusyMountIsReportedAndTakenAway(t *testing.T) {
	Root(t)
	image := ext4Image(t)
	var dir string
	var inside *os.File
	v := judge(t, func(tb testing.TB) {
		dir = Mount(tb, image)
		inside, _ = os.Create(filepath.Join(dir, "open"))
	})
	require.Contains(t, v.failed, "umount "+dir)
	require.False(t, mounted(dir))
	require.NoError(t, inside.Close())
}

func TestLoopIsDetached(t *testing.T) {
	Root(t)
	image := ext4Image(t)
	var dev string
	v := judge(t, func(tb testing.TB) {
		dev = Loop(tb, image)
		require.True(t, attached(dev))
		dir := Mount(tb, dev)
		require.True(t, mounted(dir))
		Unmount(tb, dir)
		require.True(t, attached(dev))
		tb.Fatalf("stopped half way")
	})
	require.Equal(t, "stopped half way", v.failed)
	require.False(t, attached(dev))
}

// A killed test process cannot clean up; its loop device and its mount must go
// all the same.
func TestKilledProcessLeavesNothing(t *testing.T) {
	if image := os.Getenv("ORACLE_CHILD"); image != "" {
		fmt.Println("left:", Loop(t, image), Mount(t, image+".mounted"))
		self, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		self.Kill()
		select {}
	}
	Root(t)
	image, second := ext4Image(t), ext4Image(t)
	require.NoError(t, os.Rename(second, image+".mounted"))
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledProcessLeavesNothing$")
	cmd.Env = append(os.Environ(), "ORACLE_CHILD="+image, "TMPDIR="+t.TempDir())
	out, err := cmd.Output()
	require.Error(t, err)
	_, left, ok := strings.Cut(string(out), "left: ")
	require.True(t, ok, string(out))
	dev, dir, ok := strings.Cut(strings.TrimSpace(left), " ")
	require.True(t, ok, left)
	require.Eventually(t, func() bool { return !backs(dev, image) && !mounted(dir) }, 5*time.Second, 50*time.Millisecond)
}

// backs reports whether dev is attached to image.
func backs(dev, image string) bool {
	b, _ := os.ReadFile(filepath.Join("/sys/block", filepath.Base(dev), "loop/backing_file"))
	return strings.TrimSpace(string(b)) == image
}

func TestMkfsHost(t *testing.T) {
	for kind, size := range map[string]int64{"xfs": 320 << 20, "btrfs": 128 << 20, "ext4": 8 << 20} {
		t.Run(kind, func(t *testing.T) {
			dir := MkfsHost(t, kind, size)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "x"), []byte("y"), 0o666))
		})
	}
	v := judge(t, func(tb testing.TB) { MkfsHost(tb, "zfs", 1) })
	require.NotEmpty(t, v.failed+v.skipped)
}
