package main

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/internal/cli"
	"drydock/internal/oracle"
)

func TestParseModeErrors(t *testing.T) {
	for _, text := range []string{"", "8", "10000", "u", "+", "u+q", "u+rg", "u,g", "rwx", "u=rw,", "u=rw;g=r"} {
		_, err := parseMode(text)
		if text == "+" {
			require.NoError(t, err, "an empty change, as with chmod")
			continue
		}
		var usage *cli.UsageError
		require.ErrorAs(t, err, &usage, text)
	}
}

// TestModeAsChmod compares with chmod on random modes.
func TestModeAsChmod(t *testing.T) {
	oracle.Need(t, "chmod")
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	file, sub := filepath.Join(dir, "file"), filepath.Join(dir, "dir")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Mkdir(sub, 0o700))
	for range 300 {
		text := randomMode(rng)
		change, err := parseMode(text)
		require.NoError(t, err, text)
		for _, name := range []string{file, sub} {
			before := fs.FileMode(rng.IntN(0o1000)) | 0o700
			for _, bit := range []fs.FileMode{fs.ModeSetuid, fs.ModeSetgid, fs.ModeSticky} {
				if rng.IntN(3) == 0 {
					before |= bit
				}
			}
			require.NoError(t, os.Chmod(name, before))
			require.NoError(t, exec.Command("chmod", "--", text, name).Run(), text)
			info, err := os.Stat(name)
			require.NoError(t, err)
			got := change.apply(before|info.Mode().Type(), info.IsDir())
			require.Equal(t, info.Mode().String(), got.String(), "seed %d: chmod %s, was %v, dir %v", seed, text, before, info.IsDir())
		}
	}
}

// randomMode returns a symbolic mode with its classes named, since what stands
// for all of them depends on the umask.
func randomMode(rng *rand.Rand) string {
	var parts []string
	for range rng.IntN(3) + 1 {
		part := []string{"u", "g", "o", "a", "ug", "go", "uo", "ugo"}[rng.IntN(8)]
		for range rng.IntN(2) + 1 {
			part += string("+-="[rng.IntN(3)])
			if rng.IntN(4) == 0 {
				part += string("ugo"[rng.IntN(3)])
				continue
			}
			for range rng.IntN(4) {
				part += string("rwxXst"[rng.IntN(6)])
			}
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}
