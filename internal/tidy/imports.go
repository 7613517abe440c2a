package tidy

import (
	"slices"
	"strconv"
	"strings"
)

// filePackages are the packages that hold the parts of one file system each;
// siblings never import each other.
var filePackages = []string{"internal/alloc", "internal/extent", "internal/dir", "internal/xattr"}

// allowedImports says which packages of the project a package may import,
// tests aside. A package that is not listed breaks the rule, but for commands
// (see mayImport).
var allowedImports = map[string][]string{
	"format":             {},
	"device":             {},
	"cache":              {"device", "format"},
	"journal":            {"cache", "device", "format"},
	"internal/alloc":     {"journal", "cache", "format"},
	"internal/extent":    {"journal", "cache", "format"},
	"internal/dir":       {"journal", "cache", "format"},
	"internal/xattr":     {"journal", "cache", "format"},
	"internal/mkfs":      append([]string{"format", "device"}, filePackages...),
	"ext4":               append([]string{"format", "device", "cache", "journal", "internal/mkfs"}, filePackages...),
	"build":              {"ext4", "device", "format", "internal/mkfs", "internal/partition"},
	"check":              {"device", "format", "journal"}, // no writer: a writer's bug cannot hide from the checker
	"crash":              {"device"},
	"internal/cli":       {"device", "internal/partition"},
	"internal/oracle":    {},
	"internal/partition": {"device"},
	"internal/tidy":      {},
}

// checkImports holds the imports inside the project to the table. Tests import
// what they like; internal/oracle is for tests only.
func checkImports(t *tree, report report) {
	for _, s := range t.code() {
		for _, spec := range s.syntax.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			imported, inside := strings.CutPrefix(name, modulePath+"/")
			if inside && !mayImport(s.dir, imported) {
				report(s.path, t.line(spec.Pos()), "package %s may not import %s", s.dir, imported)
			}
		}
		if _, listed := allowedImports[s.dir]; !listed && !isCommand(s.dir) {
			report(s.path, 0, "package %s is not in the table of allowed imports", s.dir)
		}
	}
}

// mayImport tells whether the package in dir may import another of the project.
func mayImport(dir, imported string) bool {
	if isCommand(dir) {
		return imported == "internal/cli" || !strings.HasPrefix(imported, "internal/")
	}
	return slices.Contains(allowedImports[dir], imported)
}

// isCommand tells whether dir holds a program: programs use what is public, and internal/cli.
func isCommand(dir string) bool { return strings.HasPrefix(dir, "cmd/") || dir == "bench" }

// libraries says which modules from outside are used, and by which packages;
// "test" is every test, "cmd" every program.
var libraries = map[string][]string{
	"github.com/diskfs/go-diskfs":                 {"device", "build", "ext4", "internal/partition", "test"},
	"github.com/spf13/cobra":                      {"internal/cli", "cmd", "test"},
	"github.com/spf13/pflag":                      {"internal/cli", "cmd", "test"}, // cobra's flags
	"github.com/schollz/progressbar":              {"internal/cli"},
	"github.com/docker/go-units":                  {"internal/cli"},
	"github.com/google/uuid":                      {"build", "ext4", "cmd", "test"},
	"github.com/klauspost/compress":               {"build", "cmd", "test"},
	"golang.org/x/sys":                            {"device", "build", "ext4", "internal/cli", "internal/oracle", "cmd", "test"},
	"golang.org/x/sync":                           {"device", "cache", "journal", "ext4", "build", "check", "crash", "internal/mkfs", "cmd", "test"},
	"golang.org/x/term":                           {"internal/cli", "test"},
	"github.com/stretchr/testify":                 {"internal/oracle", "test"},
	"github.com/rogpeppe/go-internal":             {"test"},
	"pgregory.net/rapid":                          {"test"},
	"github.com/diskfs/go-diskfs/disk":            {}, // heavy
	"github.com/diskfs/go-diskfs/filesystem/ext4": {},
}

// checkLibraries holds the imports from outside to the list, and format to the
// parts of the standard library that do no I/O.
func checkLibraries(t *tree, report report) {
	for _, s := range t.sources {
		for _, spec := range s.syntax.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if !mayUse(s, name) {
				report(s.path, t.line(spec.Pos()), "package %s may not use %s", s.dir, name)
			}
		}
	}
}

// mayUse tells whether s may import a package from outside the project.
func mayUse(s *source, name string) bool {
	first, _, _ := strings.Cut(name, "/")
	switch {
	case first == modulePath:
		return true
	case strings.Contains(first, "."):
		users := libraries[moduleOf(name)]
		return slices.Contains(users, s.dir) || s.test && slices.Contains(users, "test") || isCommand(s.dir) && slices.Contains(users, "cmd")
	case s.dir == "format" && !s.test:
		return first != "os" && first != "net" && first != "syscall" && name != "io/fs" && name != "io/ioutil"
	}
	return true
}

// moduleOf returns the longest listed path that name is, or lies below.
func moduleOf(name string) string {
	module := ""
	for listed := range libraries {
		if (name == listed || strings.HasPrefix(name, listed+"/")) && len(listed) > len(module) {
			module = listed
		}
	}
	return module
}
