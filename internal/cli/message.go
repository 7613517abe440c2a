package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Env is what a command has around it: its name, its streams and how much it
// says. The zero value of Quiet says everything.
type Env struct {
	Name   string
	Stdin  io.Reader
	Stdout io.Writer // results
	Stderr io.Writer // messages and progress
	Quiet  bool      // errors only: no notes, no progress, no summary
	Exit   ExitCodes

	progress *Progress // the latest; nil: none
}

// Notef prints "name: what happened" on stderr, unless quiet.
func (e *Env) Notef(format string, args ...any) {
	if !e.Quiet {
		e.message(fmt.Sprintf(format, args...))
	}
}

// Warnf prints "name: warning: what happened" on stderr, also when quiet: what
// it says changes what the result is worth.
func (e *Env) Warnf(format string, args ...any) {
	e.message("warning: " + fmt.Sprintf(format, args...))
}

// Fail prints an error on stderr, a line "name: what happened" for each of its
// lines, and then the hints that it carries.
func (e *Env) Fail(err error) {
	var exit *ExitError
	if err == nil || errors.As(err, &exit) && exit.Err == nil {
		return
	}
	e.message(failureText(err))
	for _, hint := range Hints(err) {
		fmt.Fprintf(e.Stderr, "hint: %s\n", clean(hint))
	}
}

// failureText is the error's own text; an interruption is said in one word,
// whatever it interrupted.
func failureText(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return err.Error()
}

// message prints text on stderr, each line with the command's name in front.
func (e *Env) message(text string) {
	e.progress.Print(func() {
		for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
			fmt.Fprintf(e.Stderr, "%s: %s\n", e.Name, clean(line))
		}
	})
}

// clean replaces the control characters of a line: names of files come from
// outside and may hold what would steer a terminal.
func clean(line string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, line)
}

// JSON prints v on stdout as one indented document.
func (e *Env) JSON(v any) error {
	encoder := json.NewEncoder(e.Stdout)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// Printf prints a result on stdout, unless quiet.
func (e *Env) Printf(format string, args ...any) error {
	if e.Quiet {
		return nil
	}
	_, err := fmt.Fprintf(e.Stdout, format, args...)
	return err
}

// hinted is an error that knows what helps against it.
type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }

// Hint returns what helps.
func (h *hinted) Hint() string { return h.hint }

// WithHint adds a hint to an error. Any error type with a method Hint() string
// is as good.
func WithHint(err error, hint string) error { return &hinted{err, hint} }

// Hints returns the hints in err's tree from the outside in, each once.
func Hints(err error) []string {
	var hints []string
	if h, ok := err.(interface{ Hint() string }); ok && h.Hint() != "" {
		hints = append(hints, h.Hint())
	}
	for _, cause := range causes(err) {
		for _, hint := range Hints(cause) {
			if !slices.Contains(hints, hint) {
				hints = append(hints, hint)
			}
		}
	}
	return hints
}

// causes returns the errors that err wraps.
func causes(err error) []error {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if cause := e.Unwrap(); cause != nil {
			return []error{cause}
		}
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	}
	return nil
}
