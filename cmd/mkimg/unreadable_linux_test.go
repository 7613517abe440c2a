package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/internal/oracle"
)

// nobody is a user who owns nothing.
const nobody = 65534

// asNobody runs mkimg as a user who may not read everything.
func asNobody(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	self, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	program := filepath.Join(dir, "bin", "mkimg") // the program goes by its name
	require.NoError(t, os.MkdirAll(filepath.Dir(program), 0o755))
	require.NoError(t, os.WriteFile(program, self, 0o755))
	var out, errs bytes.Buffer
	command := exec.Command(program, args...)
	command.Dir, command.Stdout, command.Stderr = dir, &out, &errs
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	require.NoError(t, command.Start())
	return exitCode(t, command), out.String(), errs.String()
}

func TestUnreadable(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user, and root can read everything")
	}
	oracle.Need(t, "e2fsck")
	dir, err := os.MkdirTemp("", "mkimg")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777))
	for name, mode := range map[string]os.FileMode{"open": 0o644, "gshadow": 0, "secret": 0o600} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "tree", "etc"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tree", "etc", name), []byte(name), mode))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tree", "locked"), 0o700))

	code, _, stderr := asNobody(t, dir, "a.img", "--from", "tree")
	require.Equal(t, 1, code)
	for _, name := range []string{"etc/gshadow", "etc/secret", "locked"} {
		require.Contains(t, stderr, name, "all of them are named at once")
	}
	require.NotContains(t, stderr, "open")
	require.Contains(t, stderr, "hint: ")
	require.Contains(t, stderr, "--skip-unreadable")
	require.NoFileExists(t, filepath.Join(dir, "a.img"))

	code, stdout, stderr := asNobody(t, dir, "a.img", "--from", "tree", "--skip-unreadable", "--json", "--quiet")
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, `mkimg: warning: left out: "etc/gshadow": data: `)
	skipped := parseJSON(t, stdout)["skipped"].([]any)
	require.Len(t, skipped, 3)
	require.Equal(t, "etc/gshadow", skipped[0].(map[string]any)["path"])
	require.NotEmpty(t, skipped[0].(map[string]any)["error"])
	oracle.Fsck(t, filepath.Join(dir, "a.img"))
	listing, err := exec.Command("lsimage", filepath.Join(dir, "a.img")).CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(listing), "etc/open")
	require.NotContains(t, string(listing), "secret")
}
