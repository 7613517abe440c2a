package tidy

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// modulePath is the path of the module in go.mod and in imports.
const modulePath = "drydock"

// Finding is a place where the tree breaks a rule.
type Finding struct {
	Rule string
	File string // path from the root of the tree
	Line int    // 0: the whole file
	Text string
}

// String returns the finding in the form of a compiler's message.
func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s (%s)", f.File, f.Text, f.Rule)
	}
	return fmt.Sprintf("%s:%d: %s (%s)", f.File, f.Line, f.Text, f.Rule)
}

// rule is one rule of the project.
type rule struct {
	name  string
	check func(*tree, report)
}

// report takes down a finding.
type report func(file string, line int, format string, args ...any)

// rules are all rules.
var rules = []rule{
	{"imports", checkImports},
	{"libraries", checkLibraries},
	{"determinism", checkDeterminism},
	{"function length", checkFunctionLength},
	{"gofmt", checkGofmt},
	{"package documentation", checkPackageDoc},
	{"docstrings", checkDocstrings},
	{"words", checkWords},
	{"skips", checkSkips},
	{"files", checkFiles},
	{"go.mod", checkGoMod},
	{"links", checkLinks},
	{"readme", checkReadme},
}

// tree is the project's text, read once.
type tree struct {
	files   map[string]string // path -> contents: text files only
	sources []*source         // Go files, sorted by path
	fset    *token.FileSet
}

// source is one Go file.
type source struct {
	path, dir string
	test      bool
	syntax    *ast.File
}

// Check returns what in the tree breaks a rule. The error is one of reading or parsing.
func Check(root fs.FS) ([]Finding, error) {
	t, err := load(root)
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, r := range rules {
		r.check(t, func(file string, line int, format string, args ...any) {
			findings = append(findings, Finding{r.name, file, line, fmt.Sprintf(format, args...)})
		})
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return findings, nil
}

// load reads the tree's text files. Hidden folders but .ci are left out, and
// of testdata everything but scripts.
func load(root fs.FS) (*tree, error) {
	t := &tree{files: map[string]string{}, fset: token.NewFileSet()}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && isHidden(name):
			return fs.SkipDir
		case !entry.Type().IsRegular() || !isText(name):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		t.files[name] = string(text)
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, t.parse()
}

// isHidden tells whether a folder is none of the project's.
func isHidden(name string) bool {
	base := path.Base(name)
	return name != "." && base != ".ci" && strings.HasPrefix(base, ".")
}

// isText tells whether a file is text that the rules are about.
func isText(name string) bool {
	if strings.Contains("/"+name, "/testdata/") {
		return path.Ext(name) == ".txt" || path.Ext(name) == ".txtar"
	}
	return slices.Contains([]string{".go", ".md", ".mod", ".sh"}, path.Ext(name)) || name == ".ci/run"
}

// parse parses the Go files.
func (t *tree) parse() error {
	for _, name := range sortedKeys(t.files) {
		if path.Ext(name) != ".go" {
			continue
		}
		syntax, err := parser.ParseFile(t.fset, name, t.files[name], parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		t.sources = append(t.sources, &source{name, path.Dir(name), strings.HasSuffix(name, "_test.go"), syntax})
	}
	return nil
}

// line returns the line of a position.
func (t *tree) line(pos token.Pos) int { return t.fset.Position(pos).Line }

// code returns the Go files that are not tests.
func (t *tree) code() []*source {
	return slices.DeleteFunc(slices.Clone(t.sources), func(s *source) bool { return s.test })
}

// has tells whether the tree has a file of this path, or one below it.
func (t *tree) has(name string) bool {
	for file := range t.files {
		if file == name || strings.HasPrefix(file, name+"/") {
			return true
		}
	}
	return false
}

// sortedKeys returns m's keys in order.
func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
