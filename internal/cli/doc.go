// Package cli is what the commands share: sizes, messages, exit codes,
// JSON, progress, signals, and the window that --offset and --partition open.
//
// A command is a few lines on top of it:
//
//	func main() { os.Exit(cli.Main("mkimg", newCommand)) }
//
//	func newCommand(env *cli.Env) *cobra.Command   flags into an options struct
//	func run(ctx, env, options) error              the work, without cobra
//
// The contract with whoever runs a command:
//
//	stdin       read until the context is done, whatever the other end does
//	stdout      results, and nothing else; with --json one JSON document
//	stderr      "mkimg: what happened", then "hint: what helps"; the progress bar
//	exit code   0 done, 1 failed, 2 wrong usage (fsck has codes of its own)
//	signals     SIGINT, SIGTERM and SIGHUP cancel the context; a second one kills
package cli
