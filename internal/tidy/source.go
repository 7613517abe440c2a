package tidy

import (
	"go/ast"
	"go/format"
	"regexp"
	"slices"
	"strings"
)

// maxFunctionLines is how long a function may be, from its first line to its closing brace.
const maxFunctionLines = 70

// checkFunctionLength looks for functions that do not fit a screen; those of tests may be longer.
func checkFunctionLength(t *tree, report report) {
	for _, s := range t.code() {
		for _, decl := range s.syntax.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := t.line(f.End()) - t.line(f.Pos()) + 1; lines > maxFunctionLines {
				report(s.path, t.line(f.Pos()), "function %s has %d lines, limit %d", f.Name.Name, lines, maxFunctionLines)
			}
		}
	}
}

// checkGofmt looks for files that gofmt would change.
func checkGofmt(t *tree, report report) {
	for _, s := range t.sources {
		formatted, err := format.Source([]byte(t.files[s.path]))
		if err != nil || string(formatted) != t.files[s.path] {
			report(s.path, 0, "gofmt would change this file")
		}
	}
}

// meansItself are the methods whose meaning the language or the library fixes.
var meansItself = map[string]bool{"Error": true, "String": true, "Unwrap": true, "Is": true, "As": true}

// checkDocstrings looks for exported names without a comment. One comment on a
// group of constants or variables, or one behind the value, is enough.
func checkDocstrings(t *tree, report report) {
	for _, s := range t.code() {
		for _, decl := range s.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Doc == nil && needsDoc(d) {
					report(s.path, t.line(d.Pos()), "%s has no docstring", d.Name.Name)
				}
			case *ast.GenDecl:
				for _, name := range undocumented(d) {
					report(s.path, t.line(name.Pos()), "%s has no docstring", name.Name)
				}
			}
		}
	}
}

// needsDoc tells whether others can see a function and cannot guess what it does.
func needsDoc(f *ast.FuncDecl) bool {
	obvious := f.Recv != nil && meansItself[f.Name.Name]
	return f.Name.IsExported() && hasExportedReceiver(f) && !obvious
}

// hasExportedReceiver tells whether f is a function, or a method that others can see.
func hasExportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	base := f.Recv.List[0].Type
	for {
		switch e := base.(type) {
		case *ast.StarExpr:
			base = e.X
		case *ast.IndexExpr:
			base = e.X
		case *ast.IndexListExpr:
			base = e.X
		case *ast.Ident:
			return e.IsExported()
		default:
			return true
		}
	}
}

// undocumented returns the exported names of a declaration that no comment is about.
func undocumented(d *ast.GenDecl) []*ast.Ident {
	var names []*ast.Ident
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if d.Doc == nil && s.Doc == nil && s.Comment == nil {
				names = append(names, s.Name)
			}
		case *ast.ValueSpec:
			if d.Doc == nil && s.Doc == nil && s.Comment == nil {
				names = append(names, s.Names...)
			}
		}
	}
	exported := names[:0]
	for _, name := range names {
		if name.IsExported() {
			exported = append(exported, name)
		}
	}
	return exported
}

// badWords are what no file holds: work left open, and paths that exist on one
// machine only. The words are cut in two here, so that this file holds none.
var badWords = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b|/work/` + `(main|shared)|/tmp/` + `work\b|/root/` + `go\b|not ` + `implemented yet`)

// checkWords looks for bad words in all text.
func checkWords(t *tree, report report) {
	for _, name := range sortedKeys(t.files) {
		number := 0
		for line := range strings.SplitSeq(t.files[name], "\n") {
			number++
			if word := badWords.FindString(line); word != "" {
				report(name, number, "%q does not belong here", word)
			}
		}
	}
}

// checkSkips looks for tests that skip without saying why.
func checkSkips(t *tree, report report) {
	for _, s := range t.sources {
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) > 0 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if ok && (method.Sel.Name == "Skip" || method.Sel.Name == "SkipNow") {
				report(s.path, t.line(call.Pos()), "a test skips without a reason")
			}
			return true
		})
	}
}

// mayUseChance says which packages or files may depend on more than their
// input, and in what way: elsewhere below the commands, clock and chance are
// parameters.
var mayUseChance = map[string][]string{
	"build/build.go":  {"time", "crypto/rand"}, // what the options leave open; how long it took
	"build/report.go": {"time"},                // how often progress is told
	"device":          {"crypto/rand"},         // names of temporary files
	"ext4/open.go":    {"time"},                // what Options.Now leaves open
	"internal/cli":    {"time"},
	"internal/oracle": {"time"},
}

// chance are the functions that make a result depend on more than its input.
var chance = map[string]func(function string) bool{
	"time":                   func(f string) bool { return f == "Now" || f == "Since" || f == "Until" },
	"math/rand":              isDice,
	"math/rand/v2":           isDice,
	"crypto/rand":            func(string) bool { return true },
	"github.com/google/uuid": func(f string) bool { return f == "New" || f == "NewString" || f == "NewUUID" || f == "NewRandom" },
}

// isDice tells whether a function of math/rand draws from the common source;
// generators that are made from a seed are fine.
func isDice(function string) bool { return !strings.HasPrefix(function, "New") }

// checkDeterminism looks for the clock and for chance below the commands.
func checkDeterminism(t *tree, report report) {
	for _, s := range t.code() {
		if isCommand(s.dir) {
			continue
		}
		packages, allowed := importNames(s.syntax), slices.Concat(mayUseChance[s.dir], mayUseChance[s.path])
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			path, function := callee(packages, call)
			if chance[path] != nil && chance[path](function) && !slices.Contains(allowed, path) {
				report(s.path, t.line(call.Pos()), "%s.%s makes the result depend on more than its input", path, function)
			}
			return true
		})
	}
}

// importNames returns the path behind each package name of a file.
func importNames(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range f.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		name := strings.TrimSuffix(path, "/v2")
		name = name[strings.LastIndexByte(name, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
	}
	return names
}

// callee returns package path and name of a function called by its full name.
func callee(packages map[string]string, call *ast.CallExpr) (path, function string) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	name, ok := selector.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	return packages[name.Name], selector.Sel.Name
}

// checkPackageDoc looks for packages without a doc.go that says what the package is.
func checkPackageDoc(t *tree, report report) {
	documented := map[string]bool{}
	for _, s := range t.code() {
		documented[s.dir] = documented[s.dir] || strings.HasSuffix("/"+s.path, "/doc.go") && s.syntax.Doc.Text() != ""
	}
	for _, dir := range sortedKeys(documented) {
		if !documented[dir] {
			report(dir, 0, "package has no doc.go with a package comment")
		}
	}
}
