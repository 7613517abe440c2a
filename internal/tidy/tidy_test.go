package tidy

import (
	"maps"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// TestProject holds this project to all rules.
func TestProject(t *testing.T) {
	findings, err := Check(os.DirFS("../.."))
	require.NoError(t, err)
	for _, finding := range findings {
		t.Error(finding)
	}
}

// goodTree is a small project that breaks no rule.
func goodTree() map[string]string {
	return map[string]string{
		"go.mod":                          "module drydock\n\ngo 1.26\n\nrequire (\n\tgithub.com/spf13/cobra v1.10.2\n\tgithub.com/other/thing v1.0.0 // indirect\n)\n",
		"README.md":                       "# X\n\n```sh\n" + firstCommand + "\n" + testCommand + "   # all tests\nmkimg out --size 1M\nSOURCE_DATE_EPOCH=0 mkimg out\n```\n\nSee [the map](ARCHITECTURE.md#top), [more](format/), [a page](https://example.org/x).\n",
		"ARCHITECTURE.md":                 "# Map\n",
		"format/SPEC.md":                  "# Bytes\n",
		".ci/run":                         "#!/bin/bash\n" + testCommand + "\n",
		"format/doc.go":                   "// Package format is bytes.\npackage format\n",
		"format/block.go":                 "package format\n\nimport \"time\"\n\n// Sizes.\nconst (\n\tA = 1\n\tB = 2\n)\n\n// T is a type.\ntype T time.Time\n\n// M is a method.\nfunc (t *T) M() {}\n\nfunc (t *T) Error() string { return \"\" }\n\ntype hidden int\n\nfunc (hidden) Exported() {}\n\nvar C = 3 // C is documented behind\n",
		"format/block_test.go":            "package format\n\nimport (\n\t\"testing\"\n\t\"time\"\n\n\t\"drydock/internal/oracle\"\n\t\"github.com/stretchr/testify/require\"\n)\n\nfunc TestX(t *testing.T) {\n\toracle.Need(t)\n\trequire.NotNil(t, time.Now())\n\tt.Skip(\"needs a kernel\")\n}\n",
		"internal/oracle/doc.go":          "// Package oracle asks others.\npackage oracle\n",
		"cmd/mkimg/doc.go":                "// Command mkimg makes images.\npackage main\n",
		"cmd/mkimg/main.go":               "package main\n\nimport (\n\t\"time\"\n\n\t\"drydock/format\"\n\t\"github.com/spf13/cobra\"\n)\n\nvar _ = format.A\nvar _ cobra.Command\nvar _ = []string{\"size\", \"from\"}\nvar _ = time.Now()\n",
		"cmd/mkimg/testdata/script/a.txt": "exec mkimg out\n",
		"cmd/mkimg/testdata/broken.go":    "no Go at all",
		".git/config.go":                  "no Go at all",
	}
}

// check runs the rules over goodTree with some files changed.
func check(t *testing.T, changed map[string]string) []Finding {
	t.Helper()
	files := goodTree()
	maps.Copy(files, changed)
	tree := fstest.MapFS{}
	for name, text := range files {
		if text != gone {
			tree[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	findings, err := Check(tree)
	require.NoError(t, err)
	return findings
}

// gone marks a file that a sample takes away.
const gone = "\x00gone"

func TestGoodTreeIsTidy(t *testing.T) {
	require.Empty(t, check(t, nil))
}

// violations are trees that break one rule each: what is changed in goodTree,
// and what the only finding says.
var violations = []struct {
	rule, file, text, want string
}{
	{"imports", "format/x.go", "package format\n\nimport _ \"drydock/device\"\n", "format/x.go:3: package format may not import device (imports)"},
	{"imports", "internal/oracle/x.go", "package oracle\n\nimport _ \"drydock/format\"\n", "internal/oracle/x.go:3: package internal/oracle may not import format (imports)"},
	{"imports", "cmd/mkimg/x.go", "package main\n\nimport _ \"drydock/internal/mkfs\"\n", "cmd/mkimg/x.go:3: package cmd/mkimg may not import internal/mkfs (imports)"},
	{"imports", "util/doc.go", "// Package util is a drawer.\npackage util\n", "util/doc.go: package util is not in the table of allowed imports (imports)"},
	{"libraries", "format/x.go", "package format\n\nimport _ \"github.com/google/uuid\"\n", "format/x.go:3: package format may not use github.com/google/uuid (libraries)"},
	{"libraries", "format/x.go", "package format\n\nimport _ \"os\"\n", "format/x.go:3: package format may not use os (libraries)"},
	{"libraries", "format/x.go", "package format\n\nimport _ \"github.com/stretchr/testify/require\"\n", "format/x.go:3: package format may not use github.com/stretchr/testify/require (libraries)"},
	{"libraries", "cmd/mkimg/x.go", "package main\n\nimport _ \"github.com/sirupsen/logrus\"\n", "cmd/mkimg/x.go:3: package cmd/mkimg may not use github.com/sirupsen/logrus (libraries)"},
	{"libraries", "format/x_test.go", "package format\n\nimport _ \"github.com/diskfs/go-diskfs/filesystem/ext4\"\n", "format/x_test.go:3: package format may not use github.com/diskfs/go-diskfs/filesystem/ext4 (libraries)"},
	{"determinism", "format/x.go", "package format\n\nimport \"time\"\n\nvar now = time.Now()\n", "format/x.go:5: time.Now makes the result depend on more than its input (determinism)"},
	{"determinism", "format/x.go", "package format\n\nimport \"math/rand/v2\"\n\nvar dice = rand.IntN(6)\n", "format/x.go:5: math/rand/v2.IntN makes the result depend on more than its input (determinism)"},
	{"determinism", "format/x.go", "package format\n\nimport r \"crypto/rand\"\n\nvar dice = r.Text()\n", "format/x.go:5: crypto/rand.Text makes the result depend on more than its input (determinism)"},
	{"function length", "format/x.go", "package format\n\nfunc long() {\n" + strings.Repeat("\tlong()\n", 69) + "}\n", "format/x.go:3: function long has 71 lines, limit 70 (function length)"},
	{"gofmt", "format/x_test.go", "package format\n\nvar x  = 1\n", "format/x_test.go: gofmt would change this file (gofmt)"},
	{"package documentation", "format/doc.go", "package format\n", "format: package has no doc.go with a package comment (package documentation)"},
	{"package documentation", "cmd/mkimg/doc.go", gone, "cmd/mkimg: package has no doc.go with a package comment (package documentation)"},
	{"docstrings", "format/x.go", "package format\n\nfunc F() {}\n", "format/x.go:3: F has no docstring (docstrings)"},
	{"docstrings", "format/x.go", "package format\n\n// G is generic.\ntype G[T any] struct{}\n\nfunc (g *G[T]) M() {}\n", "format/x.go:6: M has no docstring (docstrings)"},
	{"docstrings", "format/x.go", "package format\n\ntype X int\n", "format/x.go:3: X has no docstring (docstrings)"},
	{"docstrings", "format/x.go", "package format\n\nvar x, Y = 1, 2\n", "format/x.go:3: Y has no docstring (docstrings)"},
	{"words", "format/x_test.go", "package format\n\n// TO" + "DO: finish\n", "format/x_test.go:3: \"TO" + "DO\" does not belong here (words)"},
	{"words", "ARCHITECTURE.md", "see /work/" + "shared/x\n", "ARCHITECTURE.md:1: \"/work/" + "shared\" does not belong here (words)"},
	{"words", "cmd/mkimg/testdata/script/a.txt", "# FIX" + "ME\n", "cmd/mkimg/testdata/script/a.txt:1: \"FIX" + "ME\" does not belong here (words)"},
	{"skips", "format/x_test.go", "package format\n\nfunc skip(t interface{ Skip(...any) }) {\n\tt.Sk" + "ip()\n}\n", "format/x_test.go:4: a test skips without a reason (skips)"},
	{"skips", "format/x_test.go", "package format\n\nfunc skip(t interface{ SkipNow() }) {\n\tt.SkipNow()\n}\n", "format/x_test.go:4: a test skips without a reason (skips)"},
	{"files", "format/SPEC.md", gone, "format/SPEC.md: file is missing (files)"},
	{"files", ".ci/run", "go test ./format\n", ".ci/run: does not run README's test command, go test ./... (files)"},
	{"go.mod", "go.mod", "module other\n", "go.mod:1: want module drydock (go.mod)"},
	{"go.mod", "go.mod", "module drydock\n\nrequire github.com/sirupsen/logrus v1.9.4\n", "go.mod:3: github.com/sirupsen/logrus is not on the list of libraries (go.mod)"},
	{"go.mod", "go.mod", "module drydock\n\nrequire (\n\tgithub.com/sirupsen/logrus v1.9.4\n)\n", "go.mod:4: github.com/sirupsen/logrus is not on the list of libraries (go.mod)"},
	{"go.mod", "go.mod", "module drydock\n\nreplace x => ../x\n", "go.mod:3: replaces a module (go.mod)"},
	{"links", "ARCHITECTURE.md", "[x](cache/doc.go)\n", "ARCHITECTURE.md:1: link to cache/doc.go leads nowhere (links)"},
	{"readme", "README.md", "```sh\ngo test ./...\n" + firstCommand + "\n```\n", "README.md: command 1 is not \"go run ./cmd/mkimg rootfs.img --from .\": set-up comes first (readme)"},
	{"readme", "README.md", "```sh\n" + firstCommand + "\ngo test ./...\nimgwrite ls x\n```\n", "README.md:4: command does not exist: imgwrite ls x (readme)"},
	{"readme", "README.md", "```sh\n" + firstCommand + "\ngo test ./...\ngo run ./bench\n```\n", "README.md:4: command does not exist: go run ./bench (readme)"},
	{"readme", "README.md", "```sh\n" + firstCommand + "\ngo test ./...\n```\nand `--frobnicate`\n", "README.md: no command has the flag --frobnicate (readme)"},
}

func TestEveryRuleCatchesItsViolation(t *testing.T) {
	caught := map[string]bool{}
	for _, v := range violations {
		findings := check(t, map[string]string{v.file: v.text})
		require.NotEmpty(t, findings, "%s: %q", v.rule, v.text)
		require.Equal(t, v.want, findings[0].String())
		for _, finding := range findings {
			require.Equal(t, v.rule, finding.Rule, finding)
		}
		caught[v.rule] = true
	}
	for _, r := range rules {
		require.True(t, caught[r.name], "no sample breaks the rule %q", r.name)
	}
}

func TestSyntaxErrorIsAnError(t *testing.T) {
	_, err := Check(fstest.MapFS{"x.go": {Data: []byte("package")}})
	require.Error(t, err)
}
