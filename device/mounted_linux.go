package device

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// checkLoops fails if a loop device that has this file behind it, or one of its
// partitions, is mounted or in another use of the kernel.
func checkLoops(file fs.FileInfo) error {
	backing, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, b := range backing {
		if !names(b, file) {
			continue
		}
		sys := filepath.Dir(filepath.Dir(b))
		if err := checkLoop(sys, "/dev/"+filepath.Base(sys)); err != nil {
			return err
		}
	}
	return nil
}

// names reports whether the path that a file of sysfs holds leads to file.
func names(sysfs string, file fs.FileInfo) bool {
	path, err := os.ReadFile(sysfs)
	if err != nil {
		return false // detached meanwhile
	}
	info, err := os.Stat(strings.TrimSuffix(string(path), "\n"))
	return err == nil && os.SameFile(info, file)
}

// checkLoop fails if the loop device with this folder in sysfs is in use. A mount
// that another mount namespace hides is found by O_EXCL, if it may be opened.
func checkLoop(sys, dev string) error {
	if point := mountPoint(blockNumbers(sys)); point != "" {
		return &MountedError{Point: point, Through: dev}
	}
	return patiently(func() error {
		f, err := os.OpenFile(dev, os.O_RDONLY|unix.O_EXCL, 0)
		if errors.Is(err, unix.EBUSY) {
			return &inUseError{dev}
		}
		if err == nil {
			f.Close()
		}
		return nil
	})
}

// inUseError is ErrInUse with the device in between.
type inUseError struct{ through string }

func (e *inUseError) Error() string { return "in use through " + e.through }

func (e *inUseError) Is(target error) bool { return target == ErrInUse }

// blockNumbers returns the names under which the mount table may show a block
// device or its partitions, given its folder in sysfs: "7:0" and "/dev/loop0".
func blockNumbers(sys string) map[string]bool {
	all := make(map[string]bool)
	if target, err := filepath.EvalSymlinks(sys); err == nil {
		sys = target
	}
	folders := []string{sys}
	parts, _ := filepath.Glob(filepath.Join(sys, "*", "partition"))
	for _, p := range parts {
		folders = append(folders, filepath.Dir(p))
	}
	for _, folder := range folders {
		if number, err := os.ReadFile(filepath.Join(folder, "dev")); err == nil {
			all[strings.TrimSpace(string(number))] = true
			all["/dev/"+filepath.Base(folder)] = true
		}
	}
	return all
}

// mountPoint is where one of the named devices is mounted, "" for nowhere.
func mountPoint(devices map[string]bool) string {
	table, _ := os.ReadFile("/proc/self/mountinfo")
	return findMount(string(table), devices)
}

// findMount looks for a device in a mount table. A line is: ID, parent, numbers,
// root, mount point, options, optional fields, "-", type, source, more options.
// The source counts because btrfs shows numbers of its own.
func findMount(table string, devices map[string]bool) string {
	for line := range strings.Lines(table) {
		before, after, ok := strings.Cut(line, " - ")
		fields, source := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(source) < 2 {
			continue
		}
		if devices[fields[2]] || devices[source[1]] {
			return unescape(fields[4])
		}
	}
	return ""
}

// unescape undoes the octal escapes of the mount table.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace
