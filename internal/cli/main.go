package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Main runs the command on the process's arguments and streams, and returns
// the exit code. SIGINT, SIGTERM and SIGHUP cancel the command's context; a
// second signal has its usual effect, so that a command that hangs can be ended.
func Main(name string, newCommand func(*Env) *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)
	env := &Env{Name: name, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Exit: StandardExit}
	return env.Run(ctx, newCommand(env), os.Args[1:])
}

// Run executes the command with args, prints its error and returns the exit code.
func (e *Env) Run(ctx context.Context, command *cobra.Command, args []string) int {
	e.prepare(command)
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	e.Fail(err)
	return e.Exit.Of(err)
}

// prepare gives the command what all have in common: streams, --quiet,
// --version, and usage errors of one kind.
func (e *Env) prepare(command *cobra.Command) {
	command.SetIn(e.Stdin)
	command.SetOut(e.Stdout)
	command.SetErr(e.Stderr)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.DisableSuggestions = false
	command.Version = Version()
	command.SetVersionTemplate(e.Name + " {{.Version}}\n")
	command.PersistentFlags().BoolVarP(&e.Quiet, "quiet", "q", false, "print errors only")
	command.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return e.usageError(c, flagError(err)) })
	for _, c := range append(command.Commands(), command) {
		e.wrapArgs(c)
	}
}

// wrapArgs makes a usage error of what the command's check of its arguments says.
func (e *Env) wrapArgs(command *cobra.Command) {
	check := command.Args
	if check == nil {
		return
	}
	command.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return e.usageError(c, err)
		}
		return nil
	}
}

// usageError is err as a usage error that points at the command's help.
func (e *Env) usageError(command *cobra.Command, err error) error {
	return WithHint(&UsageError{Err: err}, command.CommandPath()+" --help shows the usage")
}

// flagError says what is wrong with a flag's value in our own words; of other
// errors the parser's text is kept.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, invalid.Unwrap())
	}
	return err
}

// Version describes the program that runs: module version or commit, the Go
// version and the platform.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return fmt.Sprintf("%s %s %s/%s", moduleVersion(info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// moduleVersion returns the module's version, with the commit where it is known.
func moduleVersion(info *debug.BuildInfo) string {
	version := info.Main.Version
	if version == "" {
		version = "(devel)"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && !strings.Contains(version, setting.Value[:min(12, len(setting.Value))]) {
			version += " " + setting.Value
		}
	}
	return version
}
