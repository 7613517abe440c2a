package oracle

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// requireEnv makes a missing oracle a failure when it is set to "require".
const requireEnv = "DRYDOCK_ORACLES"

// runLimit bounds one run of a program, so that an endless loop in it does not
// outlive the test.
const runLimit = 10 * time.Minute

// packages maps a tool to the Debian package that has it. A tool that is not
// here is in the package of its own name.
var packages = map[string]string{
	"badblocks": "e2fsprogs", "chattr": "e2fsprogs", "debugfs": "e2fsprogs", "dumpe2fs": "e2fsprogs",
	"e2fsck": "e2fsprogs", "e2image": "e2fsprogs", "e2undo": "e2fsprogs", "filefrag": "e2fsprogs",
	"lsattr": "e2fsprogs", "mke2fs": "e2fsprogs", "resize2fs": "e2fsprogs", "tune2fs": "e2fsprogs",
	"losetup": "mount", "umount": "mount", "blkid": "util-linux", "fallocate": "util-linux",
	"mkfs.xfs": "xfsprogs", "xfs_io": "xfsprogs", "mkfs.btrfs": "btrfs-progs",
	"getfattr": "attr", "setfattr": "attr", "getfacl": "acl", "setfacl": "acl",
	"sfdisk": "fdisk", "fdisk": "fdisk", "sgdisk": "gdisk", "gdisk": "gdisk",
}

// Need goes on only if every one of tools is installed; see the package
// comment for what happens otherwise.
func Need(t testing.TB, tools ...string) {
	t.Helper()
	skipUnwanted(t)
	for _, tool := range tools {
		if find(tool) == "" {
			lack(t, fmt.Sprintf("needs %s (Debian package %s)", tool, packageOf(tool)))
		}
	}
}

// Root goes on only if the test may attach loop devices and mount them.
func Root(t testing.TB) {
	t.Helper()
	skipUnwanted(t)
	if reason := canMount(); reason != "" {
		lack(t, reason)
	}
}

// Run runs a program and returns what it writes to standard output. The test
// fails, showing all output, unless it exits with 0.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	stdout, stderr, err := command(t, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout
}

// Fsck fails the test unless `e2fsck -fn` finds the image clean (exit 0). It
// also takes a block device.
func Fsck(t testing.TB, path string) {
	t.Helper()
	Run(t, "e2fsck", "-fn", path)
}

// Debugfs runs one command of debugfs on the image, which is not changed, and
// returns what it prints: its result, then its error messages, if any (debugfs
// exits with 0 when a command fails).
func Debugfs(t testing.TB, image, cmd string) string {
	t.Helper()
	stdout, stderr, err := command(t, "debugfs", "-R", cmd, image)
	if err != nil {
		t.Fatalf("debugfs -R %q %s: %v\n%s%s", cmd, image, err, stdout, stderr)
	}
	return stdout + withoutBanner(stderr)
}

// Shared returns the path of rel in the folder `shared` that lies beside the
// module's own folder, or beside a folder above it. Where there is none the
// test is skipped, whatever DRYDOCK_ORACLES says: the folder is not part of
// the repository.
func Shared(t testing.TB, rel string) string {
	t.Helper()
	for dir := moduleRoot(t); ; dir = filepath.Dir(dir) {
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Skipf("skipped: needs %s beside the repository", filepath.Join("shared", rel))
		}
		path := filepath.Join(parent, "shared", rel)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
}

// skipUnwanted ends the test where oracles shall not be asked.
func skipUnwanted(t testing.TB) {
	t.Helper()
	if os.Getenv(requireEnv) == "skip" {
		t.Skipf("skipped: %s=skip", requireEnv)
	}
}

// lack ends the test: it is skipped, or fails when oracles are required.
func lack(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv(requireEnv) == "require" {
		t.Fatalf("%s=require, but the test %s", requireEnv, reason)
	}
	t.Skipf("skipped: %s", reason)
}

func packageOf(tool string) string {
	if p := packages[tool]; p != "" {
		return p
	}
	return tool
}

// find returns the path of a tool, "" if there is none. System folders are
// searched even when PATH lacks them, as it does for ordinary users.
func find(tool string) string {
	if path, err := exec.LookPath(tool); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, tool)); err == nil {
			return path
		}
	}
	return ""
}

// command runs a program in the C locale and in UTC, so that its output does
// not depend on the machine.
func command(t testing.TB, name string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	Need(t, name)
	return execute(name, args...)
}

func execute(name string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, find(name), args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("killed after %v: %w", runLimit, err)
	}
	return out.String(), errs.String(), err
}

// withoutBanner drops the line with the version that debugfs prints first.
func withoutBanner(stderr string) string {
	if line, rest, _ := strings.Cut(stderr, "\n"); strings.HasPrefix(line, "debugfs ") {
		return rest
	}
	return stderr
}

// moduleRoot is the nearest folder at or above the working directory (a test's
// own package) that has a go.mod.
func moduleRoot(t testing.TB) string {
	t.Helper()
	start, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("no go.mod at or above %s", start)
		}
	}
}

// canMount is empty if loop mounts work here, else says what they lack.
var canMount = sync.OnceValue(func() string {
	switch {
	case os.Geteuid() != 0:
		return "needs root for loop mounts"
	case !hasCapability("/proc/self/status", capSysAdmin):
		return "needs CAP_SYS_ADMIN for loop mounts"
	}
	f, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "needs loop devices: " + err.Error()
	}
	f.Close()
	return ""
})

// capSysAdmin is the number of the capability that mount(2) asks for.
const capSysAdmin = 21

// hasCapability reads the effective set from a file such as /proc/self/status.
func hasCapability(status string, capability int) bool {
	b, _ := os.ReadFile(status)
	for line := range strings.Lines(string(b)) {
		if set, ok := strings.CutPrefix(line, "CapEff:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
			return err == nil && bits>>capability&1 == 1
		}
	}
	return false
}

// Long skips a test that takes minutes, unless DRYDOCK_LONG is set.
func Long(t testing.TB) {
	t.Helper()
	if !IsLong() {
		t.Skip("skipped: takes minutes; set DRYDOCK_LONG=1 to run it")
	}
}

// IsLong reports whether tests may take minutes.
func IsLong() bool { return os.Getenv("DRYDOCK_LONG") != "" }
