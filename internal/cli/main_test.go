package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// tool is a command under test with its output.
type tool struct {
	env            *Env
	stdout, stderr bytes.Buffer
}

// runTool runs a small command whose work is what work does.
func runTool(ctx context.Context, work func(*Env) error, args ...string) (code int, stdout, stderr string) {
	var t tool
	t.env = &Env{Name: "tool", Stdout: &t.stdout, Stderr: &t.stderr, Exit: StandardExit}
	var size Size
	command := &cobra.Command{Use: "tool OUT", Args: cobra.ExactArgs(1), RunE: func(*cobra.Command, []string) error {
		return work(t.env)
	}}
	command.Flags().Var(&size, "size", "size")
	code = t.env.Run(ctx, command, args)
	return code, t.stdout.String(), t.stderr.String()
}

func TestRun(t *testing.T) {
	fine := func(e *Env) error { e.Notef("working"); return e.Printf("done\n") }
	fails := func(err error) func(*Env) error { return func(*Env) error { return err } }
	for _, c := range []struct {
		name           string
		work           func(*Env) error
		args           []string
		code           int
		stdout, stderr string
	}{
		{"done", fine, []string{"out"}, 0, "done\n", "tool: working\n"},
		{"quiet", fine, []string{"out", "--quiet"}, 0, "", ""},
		{"failed", fails(errors.New("no space")), []string{"out"}, 1, "", "tool: no space\n"},
		{"failed, quiet", fails(errors.New("no space")), []string{"out", "-q"}, 1, "", "tool: no space\n"},
		{"hint", fails(fmt.Errorf("out: %w", WithHint(errors.New("exists"), "--force replaces it"))), []string{"out"}, 1, "", "tool: out: exists\nhint: --force replaces it\n"},
		{"many lines", fails(errors.Join(errors.New("a: unreadable"), errors.New("b: unreadable"))), []string{"out"}, 1, "", "tool: a: unreadable\ntool: b: unreadable\n"},
		{"own code", fails(&ExitError{Code: 32, Err: errors.New("cancelled")}), []string{"out"}, 32, "", "tool: cancelled\n"},
		{"own code, nothing to say", fails(&ExitError{Code: 4}), []string{"out"}, 4, "", ""},
		{"interrupted", fails(fmt.Errorf("copying a: %w", context.Canceled)), []string{"out"}, 1, "", "tool: interrupted\n"},
		{"usage", fails(Usagef("--offset and --partition exclude each other")), []string{"out"}, 2, "", "tool: --offset and --partition exclude each other\n"},
		{"no argument", fine, nil, 2, "", "tool: accepts 1 arg(s), received 0\nhint: tool --help shows the usage\n"},
		{"unknown flag", fine, []string{"out", "--sise", "1"}, 2, "", "tool: unknown flag: --sise\nhint: tool --help shows the usage\n"},
		{"bad value", fine, []string{"out", "--size", "12X"}, 2, "", "tool: --size: \"12X\" is not a size; sizes look like 4096, 512M or 1.5G\nhint: tool --help shows the usage\n"},
		{"terminal codes", fails(errors.New("a\x1b[2J\x7fb\u009bc")), []string{"out"}, 1, "", "tool: a?[2J?b?c\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := runTool(t.Context(), c.work, c.args...)
			require.Equal(t, c.code, code)
			require.Equal(t, c.stdout, stdout)
			require.Equal(t, c.stderr, stderr)
		})
	}
}

func TestSubcommandsSayWhichUsage(t *testing.T) {
	var stderr bytes.Buffer
	env := &Env{Name: "tool", Stdout: &stderr, Stderr: &stderr, Exit: ExitCodes{Failed: 8, Usage: 16, Cancelled: 32}}
	root := &cobra.Command{Use: "tool"}
	root.AddCommand(&cobra.Command{Use: "verb IMG", Args: cobra.ExactArgs(1), RunE: func(*cobra.Command, []string) error { return nil }})
	require.Equal(t, 16, env.Run(t.Context(), root, []string{"verb"}))
	require.Contains(t, stderr.String(), "hint: tool verb --help shows the usage\n")
}

func TestHintsOnceAndFromTheOutside(t *testing.T) {
	inner := WithHint(errors.New("x"), "inner")
	err := WithHint(errors.Join(inner, fmt.Errorf("y: %w", WithHint(errors.New("z"), "inner")), WithHint(errors.New("w"), "other")), "outer")
	require.Equal(t, []string{"outer", "inner", "other"}, Hints(err))
	require.Empty(t, Hints(errors.New("none")))
	require.Empty(t, Hints(nil))
}

func TestWarningsAreNeverQuiet(t *testing.T) {
	_, _, stderr := runTool(t.Context(), func(e *Env) error { e.Warnf("2 files left out"); return nil }, "out", "-q")
	require.Equal(t, "tool: warning: 2 files left out\n", stderr)
}

func TestJSONKeepsNamesReadable(t *testing.T) {
	_, stdout, _ := runTool(t.Context(), func(e *Env) error {
		return e.JSON(struct {
			Path string `json:"path"`
		}{"<a&b>"})
	}, "out")
	require.Equal(t, "{\n  \"path\": \"<a&b>\"\n}\n", stdout)
}

func TestVersion(t *testing.T) {
	code, stdout, stderr := runTool(t.Context(), nil, "--version")
	require.Zero(t, code)
	require.Empty(t, stderr)
	require.Regexp(t, `^tool .* go1\.\S+ \w+/\w+\n$`, stdout)

	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}}}
	require.Equal(t, "(devel) 0123456789abcdef", moduleVersion(info))
	info.Main.Version = "v0.0.0-20250101000000-0123456789ab"
	require.Equal(t, info.Main.Version, moduleVersion(info), "the version names the commit already")
}

// TestMain runs the program that the signal test starts when it is asked for.
func TestMain(m *testing.M) {
	if os.Getenv("DRYDOCK_CLI_WAIT") == "" {
		os.Exit(m.Run())
	}
	os.Args = []string{"tool", "out"}
	os.Exit(Main("tool", func(env *Env) *cobra.Command {
		return &cobra.Command{Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, _ []string) error {
			fmt.Println("ready")
			<-c.Context().Done()
			return fmt.Errorf("waiting: %w", c.Context().Err())
		}}
	}))
}

func TestInterruptCancels(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("windows cannot send an interrupt to another process")
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "DRYDOCK_CLI_WAIT=1")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	_, err = stdout.Read(make([]byte, 16))
	require.NoError(t, err)
	require.NoError(t, command.Process.Signal(os.Interrupt))
	var exit *exec.ExitError
	require.ErrorAs(t, command.Wait(), &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Equal(t, "tool: interrupted\n", stderr.String())
}

func TestProgressNeedsATerminal(t *testing.T) {
	env := &Env{Name: "tool", Stderr: &bytes.Buffer{}}
	p := env.Progress("copying")
	require.Nil(t, p)
	p.Total(1, 1)
	p.Done(1, 1)
	p.Set(1, 1)
	p.Stage("x")
	p.Close()
}

func TestProgressDraws(t *testing.T) {
	var screen syncBuffer
	p := startProgress(&screen, "copying", 0, time.Millisecond)
	require.Eventually(t, func() bool { return screen.has("copying") }, 5*time.Second, time.Millisecond)
	p.Total(1<<20, 1200)
	p.Done(1<<19, 600)
	require.Eventually(t, func() bool { return screen.has("copying 600/1,200 files") && screen.has("512") && screen.has(" 50%") }, 5*time.Second, time.Millisecond)
	p.Set(1<<20, 1200)
	p.Stage("flushing")
	require.Eventually(t, func() bool { return screen.has("flushing 1,200/1,200 files") }, 5*time.Second, time.Millisecond)
	p.Print(func() { fmt.Fprint(&screen, "message\n") })
	require.True(t, screen.has("\rmessage\n"), "the bar is wiped off first")
	p.Close()
	p.Close()
	require.Regexp(t, `\r +\r$`, screen.String())
}

func TestProgressWithoutATotalCountsBytes(t *testing.T) {
	var screen syncBuffer
	p := startProgress(&screen, "scanning", 0, time.Millisecond)
	require.Eventually(t, func() bool { return screen.has("scanning") }, 5*time.Second, time.Millisecond)
	require.False(t, screen.has(" B"), "nothing is counted yet")
	p.Done(3<<20, 7)
	require.Eventually(t, func() bool { return screen.has("scanning 7 files") && screen.has("3.0 MiB") }, 5*time.Second, time.Millisecond)
	p.Close()
}

func TestProgressWaitsASecond(t *testing.T) {
	var screen syncBuffer
	p := startProgress(&screen, "copying", time.Hour, time.Millisecond)
	p.Total(100, 1)
	p.Done(50, 0)
	time.Sleep(20 * time.Millisecond)
	p.Close()
	require.Empty(t, screen.String())
}
