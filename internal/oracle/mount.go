package oracle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Mount mounts an ext4 image (or a block device) through the kernel and
// returns the mount point; it is unmounted when the test ends, or before by
// Unmount. opts are mount options ("ro", "noload"); the default is read-write.
func Mount(t testing.TB, image string, opts ...string) (dir string) {
	t.Helper()
	return mount(t, "ext4", image, opts)
}

// Unmount unmounts what Mount or MkfsHost mounted at dir, so that all of it is
// in the image. It fails the test if something there is still in use.
func Unmount(t testing.TB, dir string) {
	t.Helper()
	if err := unmount(dir, false); err != nil {
		t.Fatal(err)
	}
}

// Loop attaches a loop device to image and returns its path; it is detached
// when the test ends. opts go to losetup before the image ("--read-only",
// "--partscan", "--sector-size=4096").
func Loop(t testing.TB, image string, opts ...string) (dev string) {
	t.Helper()
	Root(t)
	args := append([]string{"--find", "--show"}, opts...)
	dev = strings.TrimSpace(Run(t, "losetup", append(args, image)...))
	hold, err := os.Open(dev)
	t.Cleanup(func() { detach(t, dev, hold) })
	if err != nil {
		t.Fatalf("open loop device of %s: %v", image, err)
	}
	// While hold is open this only marks the device as one to detach with its
	// last user, so that it does not outlive even a process that is killed.
	Run(t, "losetup", "--detach", dev)
	return dev
}

// MkfsHost makes a file system of kind "xfs" (with reflink), "btrfs" or "ext4"
// with size bytes in a new file, mounts it and returns the mount point: a host
// that can reflink, or one that is soon full. Needs about 300 MiB for xfs and
// 110 MiB for btrfs; the file is sparse.
func MkfsHost(t testing.TB, kind string, size int64) (dir string) {
	t.Helper()
	Root(t)
	maker, ok := hostMakers[kind]
	if !ok {
		t.Fatalf("oracle: no host file system %q", kind)
	}
	image := filepath.Join(t.TempDir(), kind+".host")
	if err := createSparse(image, size); err != nil {
		t.Fatal(err)
	}
	Run(t, maker[0], append(slices.Clone(maker[1:]), image)...)
	return mount(t, kind, image, nil)
}

// hostMakers has the program and arguments that make each kind.
var hostMakers = map[string][]string{
	"xfs":   {"mkfs.xfs", "-q", "-m", "reflink=1"},
	"btrfs": {"mkfs.btrfs", "-q"},
	"ext4":  {"mke2fs", "-q", "-F", "-t", "ext4"},
}

func createSparse(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(size)
}

// mount mounts image at a new folder and sees to its end.
func mount(t testing.TB, kind, image string, opts []string) string {
	t.Helper()
	Root(t)
	Need(t, "umount")
	if info, err := os.Stat(image); err == nil && info.Mode().IsRegular() {
		opts = append([]string{"loop"}, opts...)
	}
	args := []string{"-t", kind, image, t.TempDir()}
	if len(opts) > 0 {
		args = append([]string{"-o", strings.Join(opts, ",")}, args...)
	}
	dir := args[len(args)-1]
	release, err := guard(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	Run(t, "mount", args...)
	t.Cleanup(func() {
		if err := unmount(dir, true); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// busyTries and busyPause bound the wait for users that are about to leave,
// such as a program that looks at every new mount.
const (
	busyTries = 20
	busyPause = 50 * time.Millisecond
)

// unmount unmounts dir if it is a mount point. With force a mount that stays
// busy is at least taken out of the tree, so that nothing is left behind.
func unmount(dir string, force bool) error {
	var out string
	var err error
	for range busyTries {
		if !mounted(dir) {
			return nil
		}
		if _, out, err = execute("umount", dir); err == nil {
			return nil
		}
		time.Sleep(busyPause)
	}
	err = fmt.Errorf("umount %s: %w: %s", dir, err, strings.TrimSpace(out))
	if force {
		execute("umount", "--lazy", dir)
	}
	return err
}

// mounted reports whether dir is a mount point of this process.
func mounted(dir string) bool {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return true // no table to ask: let umount decide
	}
	target, err := filepath.EvalSymlinks(dir)
	if err != nil {
		target = dir
	}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && unescapeMount(fields[4]) == target {
			return true
		}
	}
	return false
}

// unescapeMount undoes the octal escapes of /proc/self/mountinfo.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace

// detach frees a loop device: by closing the last user, or by losetup when it
// could not be held.
func detach(t testing.TB, dev string, hold *os.File) {
	if hold != nil {
		hold.Close()
	}
	for range busyTries {
		if !attached(dev) {
			return
		}
		execute("losetup", "--detach", dev)
		time.Sleep(busyPause)
	}
	t.Errorf("loop device %s is still attached: something has it open or mounted", dev)
}

// attached reports whether a loop device has a file behind it.
func attached(dev string) bool {
	_, err := os.Stat(filepath.Join("/sys/block", filepath.Base(dev), "loop/backing_file"))
	return err == nil
}
