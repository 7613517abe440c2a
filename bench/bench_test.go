package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test program be the floor or the launcher, as the real one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == floorCommand || os.Args[1] == launchCommand) {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestMedian(t *testing.T) {
	require.Equal(t, 3.0, median([]float64{9, 1, 3}))
	require.Equal(t, 2.5, median([]float64{4, 1, 3, 2}))
	require.Equal(t, 7.0, median([]float64{7}))
}

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-row", "flat20k,gotree", "-n", "3"})
	require.NoError(t, err)
	selected, err := o.selected()
	require.NoError(t, err)
	require.Equal(t, "flat20k", selected[0].name)
	require.Equal(t, "gotree", selected[1].name)
	o.rows = "no such"
	_, err = o.selected()
	require.ErrorContains(t, err, `no row "no such"`)
	_, err = parseOptions([]string{"-n", "0"})
	require.Error(t, err)
}

func TestTreesAreAlwaysTheSame(t *testing.T) {
	write := func() (*tree, []byte) {
		dir := t.TempDir()
		require.NoError(t, writeSmallFiles(filepath.Join(dir, "a"), 250, 100, 2000))
		require.NoError(t, writeFlat(dir, 5, 100))
		require.NoError(t, writeLarge(dir, 1, 1))
		found, err := look(dir)
		require.NoError(t, err)
		require.NoError(t, found.warm())
		var all bytes.Buffer
		for _, f := range found.files {
			data, err := os.ReadFile(f.path)
			require.NoError(t, err)
			require.Len(t, data, int(f.size))
			all.WriteString(strings.TrimPrefix(f.path, dir))
			all.Write(data)
		}
		return found, all.Bytes()
	}
	first, data := write()
	_, again := write()
	require.True(t, bytes.Equal(data, again))
	require.Len(t, first.files, 256)
	require.Equal(t, 6, first.dirs) // the root, a, d00, e00 to e02
	require.Equal(t, 262, first.inodes())
	require.Greater(t, first.room(), first.bytes>>20)
}

func TestFloor(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "tree")
	require.NoError(t, writeSmallFiles(source, 150, 100, 2000))
	require.NoError(t, writeLarge(source, 1, 3))
	found, err := look(source)
	require.NoError(t, err)
	b := &runner{ctx: t.Context(), dir: dir}
	p, err := b.floor(found)
	require.NoError(t, err)
	out, err := exec.Command(p.args[0], p.args[1:]...).Output()
	require.NoError(t, err)
	var s sample
	require.NoError(t, s.readTime(string(out)))
	require.Positive(t, s.wall)
	image, err := os.ReadFile(p.out)
	require.NoError(t, err)
	at := 0
	for _, f := range found.files {
		data, err := os.ReadFile(f.path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, image[at:at+len(data)]), f.path)
		at += (len(data) + 4095) &^ 4095
	}
	require.Len(t, image, at)
}

// shell is a program that is a line of shell.
func shell(t *testing.T, name, line string) program {
	if find("sh") == "" {
		t.Skip("skipped: needs sh")
	}
	out := filepath.Join(t.TempDir(), "out")
	return program{name: name, args: []string{find("sh"), "-c", line, "sh", out}, out: out}
}

func TestRounds(t *testing.T) {
	works := shell(t, "mkimg", `test ! -e "$1" && printf 12345 >"$1"`)
	works.ours = true
	fails := shell(t, "fails", `echo "no space" >&2; exit 3`)
	absent := program{name: "absent", skip: "not installed"}
	b := &runner{ctx: t.Context(), o: options{rounds: 3}}
	cleaned := false
	res, err := b.measure(row{name: "row", title: "title", prepare: func(*runner) (race, error) {
		return race{what: "what", programs: []program{works, fails, absent}, done: func() error { cleaned = true; return nil }}, nil
	}})
	require.NoError(t, err)
	require.True(t, cleaned)
	require.Equal(t, 3, res.Programs[0].Runs)
	require.Positive(t, res.Programs[0].Median)
	require.Positive(t, res.Programs[0].Disk)
	require.LessOrEqual(t, res.Programs[0].Min, res.Programs[0].Max)
	require.Zero(t, res.Programs[1].Runs)
	require.Equal(t, "failed: sh: exit status 3: no space", res.Programs[1].Skipped)
	require.Equal(t, "not installed", res.Programs[2].Skipped)
	require.NoFileExists(t, works.out)
}

func TestRoundsEndWhenMkimgFails(t *testing.T) {
	fails := shell(t, "mkimg", "exit 1")
	fails.ours = true
	b := &runner{ctx: t.Context(), o: options{rounds: 3}}
	_, err := b.measure(row{prepare: func(*runner) (race, error) { return race{programs: []program{fails}}, nil }})
	require.ErrorContains(t, err, "exit status 1")
}

func TestCancelEndsProgram(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	p := shell(t, "sleeps", "exec sleep 60")
	start := time.Now()
	_, err := p.run(ctx)
	require.Error(t, err)
	require.Less(t, time.Since(start), 20*time.Second)
}

func TestTables(t *testing.T) {
	r := result{Row: "flat", Title: "Files", Goals: "fast", What: "3 files", Programs: []stats{
		{Name: "mkimg", Command: []string{"mkimg", "OUT"}, Runs: 5, Median: 0.25, Min: 0.2, Max: 1.5, CPU: 0.4, RSS: 20e6, Disk: 1e6},
		{Name: "mke2fs -d", Command: []string{"mke2fs", "OUT"}, Runs: 5, Median: 2, Min: 1, Max: 130, CPU: 1, RSS: 3e6, Disk: 2e6},
		{Name: "other", Skipped: "not installed"},
	}}
	want := `## flat: Files

Goal: fast.
Source: 3 files.

| program | runs | median | min | max | mkimg / | mkimg --sync / | CPU | memory | disk |
|---|---|---|---|---|---|---|---|---|---|
| mkimg | 5 | 250 ms | 200 ms | 1.5 s |  |  | 400 ms | 20.0 MB | 1.0 MB |
| mke2fs -d | 5 | 2 s | 1 s | 2m10s | 0.125 |  | 1 s | 3.0 MB | 2.0 MB |
| other | skipped: not installed |

    mkimg OUT
    mke2fs OUT

`
	require.Equal(t, want, tables([]result{r}))
	require.Contains(t, tables([]result{{Row: "x", Title: "y", Skipped: "needs root"}}), "Skipped: needs root.")
	require.Contains(t, document([]result{r}, "."), want)
}

func TestShownCommandHasNoPlaces(t *testing.T) {
	p := program{args: []string{"/usr/sbin/mke2fs", "-d", "/work/trees/flat", "/work/out.img", "5M"}, out: "/work/out.img",
		env: []string{"LD_PRELOAD=/work/bin/nosync.so"}}
	require.Equal(t, "LD_PRELOAD=bin/nosync.so mke2fs -d flat OUT 5M", strings.Join(p.shown(), " "))
}

func TestMissingTreeIsAnError(t *testing.T) {
	_, err := look(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
