package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// machine describes what the figures were measured on, in dir, a line each.
func machine(dir string) []string {
	return []string{
		fmt.Sprintf("%d x %s, %s of memory", runtime.NumCPU(), procField("/proc/cpuinfo", "model name"), procField("/proc/meminfo", "MemTotal")),
		fmt.Sprintf("%s %s, images and trees on %s", runtime.GOOS, kernel(), fileSystemOf(dir)),
		runtime.Version() + "; " + strings.Join(versions(), "; "),
	}
}

// procField returns a field of a file of /proc, "unknown" where there is none.
func procField(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func kernel() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// versions says which peers there are.
func versions() []string {
	var found []string
	for _, args := range [][]string{{"mke2fs", "-V"}, {"genext2fs", "--version"}, {"mkfs.xfs", "-V"}, {"mkfs.btrfs", "--version"}} {
		if path := find(args[0]); path != "" {
			out, _ := exec.Command(path, args[1:]...).CombinedOutput()
			found = append(found, versionLine(filepath.Base(path), string(out)))
		}
	}
	return found
}

// versionLine is the first line that a program prints, with its name.
func versionLine(name, out string) string {
	line := firstLine(out)
	if !strings.Contains(line, name) {
		line = name + " " + line
	}
	return line
}
