package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/internal/oracle"
)

func TestSplitWords(t *testing.T) {
	for line, want := range map[string][]string{
		"":                       nil,
		"  \t":                   nil,
		"# comment":              nil,
		"put a /b":               {"put", "a", "/b"},
		"put 'a b' /c # comment": {"put", "a b", "/c"},
		`put "a\"b\\\$\x" c\ d`:  {"put", `a"b\$\x`, "c d"},
		"a#b '' \"\"":            {"a#b", "", ""},
		"x'y'\"z\"w":             {"xyzw"},
		"'ü\x00\xff'":            {"ü\x00\xff"},
	} {
		got, err := splitWords(line)
		require.NoError(t, err, line)
		require.Equal(t, want, got, line)
	}
	for _, line := range []string{"'", `"`, `\`, `a "b\`, "a 'b\" "} {
		_, err := splitWords(line)
		require.Error(t, err, line)
	}
}

// TestSplitWordsAsShell compares with a POSIX shell on random lines.
func TestSplitWordsAsShell(t *testing.T) {
	oracle.Need(t, "sh")
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	const letters = "ab# \t'\"\\\\'\"-=/,"
	var lines []string
	var script strings.Builder
	for len(lines) < 2000 {
		line := make([]byte, rng.IntN(14))
		for i := range line {
			line[i] = letters[rng.IntN(len(letters))]
		}
		if _, err := splitWords(string(line)); err != nil {
			continue // the shell would want more lines
		}
		lines = append(lines, string(line))
		script.WriteString("set -- " + string(line) + "\nprintf '<%s>' \"$@\"; echo \" $#\"\n")
	}
	name := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(name, []byte(script.String()), 0o600))
	output, err := exec.Command("sh", name).Output()
	require.NoError(t, err)
	results := strings.Split(string(output), "\n")
	for i, line := range lines {
		words, err := splitWords(line)
		require.NoError(t, err)
		want := results[i]
		if len(words) == 0 {
			require.Equal(t, "<> 0", want, "seed %d: %q", seed, line)
			continue
		}
		got := "<" + strings.Join(words, "><") + "> "
		require.Equal(t, got, want[:strings.LastIndex(want, " ")+1], "seed %d: %q", seed, line)
	}
}

func FuzzSplitWords(f *testing.F) {
	f.Add(`put "a b" 'c' \d # e`)
	f.Fuzz(func(t *testing.T, line string) {
		words, err := splitWords(line)
		if err == nil {
			require.LessOrEqual(t, len(strings.Join(words, "")), len(line))
		}
	})
}
