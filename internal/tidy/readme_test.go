package tidy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// TestReadme runs README's sh and console blocks, one after the other in one
// folder that holds a small tree; of a console block the output has to be what
// README says. The two commands of the set-up, which are about the project
// itself, are not run again: mkimg has a script for the first, and the second is
// what runs this test.
func TestReadme(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the blocks are for a POSIX shell")
	}
	blocks := readmeBlocks(t, "sh", "console")
	require.Greater(t, len(blocks), 2)
	require.Equal(t, "go run ./cmd/mkimg rootfs.img --from .\ngo test ./...\n", blocks[0].text)
	script, files := "", ""
	for i, b := range blocks[1:] {
		if b.kind == "sh" {
			script += fmt.Sprintf("exec sh -eu block%d.sh\n", i)
			files += fmt.Sprintf("-- block%d.sh --\n%s", i, b.text)
			continue
		}
		for j, session := range strings.Split("\n"+b.text, "\n$ ")[1:] {
			command, output, _ := strings.Cut(session, "\n")
			if output = strings.TrimRight(output, "\n"); output != "" {
				output += "\n"
			}
			name := fmt.Sprintf("session%d-%d", i, j)
			script += fmt.Sprintf("exec sh %s.sh\ncmp stdout %s.txt\n", name, name)
			files += fmt.Sprintf("-- %s.sh --\n{ %s; } 2>&1 || true\n-- %s.txt --\n%s", name, command, name, output)
		}
	}
	script += "[exec:e2fsck] exec sh -c 'for i in small roomy fixed tar stdin a c box; do e2fsck -fn $i.img || exit 1; done'\n"
	name := filepath.Join(t.TempDir(), "readme.txt")
	require.NoError(t, os.WriteFile(name, []byte(script+files+readmeTree), 0o644))
	bin := buildCommands(t)
	testscript.Run(t, testscript.Params{Files: []string{name}, Setup: func(env *testscript.Env) error {
		env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH")+":/usr/sbin:/sbin")
		return nil
	}})
}

// buildCommands builds all commands and returns their folder.
func buildCommands(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	output, err := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "drydock/cmd/...").CombinedOutput()
	require.NoError(t, err, string(output))
	return bin
}

// readmeTree is what README's blocks find in their folder.
const readmeTree = `-- rootfs/etc/hostname --
box
-- rootfs/bin/tool.o --
code
`

// TestReadmeLibrary builds README's programs and runs them, one after the other
// in one folder.
func TestReadmeLibrary(t *testing.T) {
	blocks := readmeBlocks(t, "go")
	require.Len(t, blocks, len(libraryOutput))
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "rootfs", "etc"), 0o755))
	for i, b := range blocks {
		source, program := filepath.Join(dir, fmt.Sprintf("main%d.go", i)), filepath.Join(dir, "program.exe")
		require.NoError(t, os.WriteFile(source, []byte(b.text), 0o644))
		output, err := exec.Command("go", "build", "-o", program, source).CombinedOutput()
		require.NoError(t, err, string(output))
		run := exec.Command(program)
		run.Dir = dir
		output, err = run.CombinedOutput()
		require.NoError(t, err, string(output))
		require.Regexp(t, libraryOutput[i], string(output))
	}
}

// libraryOutput is what README's programs print.
var libraryOutput = []string{
	`^rootfs.img \d+ [0-9a-f-]{36}\n$`,
	`^hello\n$`,
}

// block is a fenced block of a Markdown text.
type block struct{ kind, text string }

// readmeBlocks returns README's blocks of some kinds, in order.
func readmeBlocks(t *testing.T, kinds ...string) []block {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	var blocks []block
	parts := strings.Split("\n"+string(text), "\n```")
	for i := 1; i < len(parts); i += 2 {
		kind, body, _ := strings.Cut(parts[i], "\n")
		if slices.Contains(kinds, kind) {
			blocks = append(blocks, block{kind, body + "\n"})
		}
	}
	return blocks
}
