package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/internal/cli"
)

// runMkimg runs the command in this process.
func runMkimg(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	env := &cli.Env{Name: "mkimg", Stdin: bytes.NewReader(nil), Stdout: &out, Stderr: &errs, Exit: cli.StandardExit}
	code = env.Run(t.Context(), newCommand(env), args)
	return code, out.String(), errs.String()
}

// resultFields and groupFields are the names in the documents of --json. They
// are a contract: a name may be added, none taken away or renamed.
var (
	resultFields = []string{
		"out", "offset", "size", "partition", "uuid", "hash_seed", "label", "data_bytes", "seconds", "warnings", "skipped",
		"dry_run", "verified", "bytes", "block_size", "blocks", "free_blocks", "available_blocks", "reserved_blocks", "inodes", "free_inodes",
		"inode_size", "groups", "blocks_per_group", "inodes_per_group", "journal_blocks", "reserved_gdt_blocks",
		"metadata_blocks", "directory_blocks", "data_blocks", "directories", "files", "features", "backups",
	}
	groupFields = []string{
		"group", "first_block", "blocks", "superblock", "descriptors", "descriptor_blocks", "reserved_gdt",
		"reserved_gdt_blocks", "block_bitmap", "inode_bitmap", "inode_table", "inode_table_blocks", "free_blocks", "free_inodes",
	}
)

func TestJSONNames(t *testing.T) {
	out := filepath.Join(t.TempDir(), "a.img")
	code, stdout, stderr := runMkimg(t, out, "--json", "--size", "8M", "--label", "x<y", "--quiet")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	result := parseJSON(t, stdout)
	require.Subset(t, keys(result), resultFields)
	require.Equal(t, out, result["out"])
	require.Equal(t, "x<y", result["label"])
	require.Equal(t, float64(8<<20), result["bytes"])
	require.Equal(t, []any{}, result["warnings"])
	require.Equal(t, []any{}, result["skipped"])
	require.Equal(t, "none", result["partition"])
	require.Equal(t, false, result["dry_run"])
	info, err := os.Stat(out)
	require.NoError(t, err)
	require.Equal(t, float64(info.Size()), result["size"])
}

func TestDryRunJSONNames(t *testing.T) {
	out := filepath.Join(t.TempDir(), "a.img")
	code, stdout, stderr := runMkimg(t, out, "--json", "--dry-run", "--size", "600M", "--partition", "gpt")
	require.Zero(t, code, stderr)
	result := parseJSON(t, stdout)
	require.Subset(t, keys(result), append([]string{"plan"}, resultFields...))
	require.Equal(t, float64(1<<20), result["offset"])
	groups := result["plan"].([]any)
	require.Len(t, groups, int(result["groups"].(float64)))
	for i, group := range groups {
		require.Subset(t, keys(group.(map[string]any)), groupFields)
		require.Equal(t, float64(i), group.(map[string]any)["group"])
	}
	require.NoFileExists(t, out)
}

// parseJSON parses the one document in text.
func parseJSON(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

func keys(m map[string]any) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	return names
}
