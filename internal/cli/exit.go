package cli

import (
	"context"
	"errors"
	"fmt"
)

// ExitCodes are the exit codes of a command for an error that carries none itself.
type ExitCodes struct {
	Failed, Usage, Cancelled int
}

// StandardExit is the exit codes of mkimg and imgwrite; 0 is done.
var StandardExit = ExitCodes{Failed: 1, Usage: 2, Cancelled: 1}

// UsageError is a command line that makes no sense.
type UsageError struct {
	Err error
}

// Error returns what is wrong with the command line.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...)}
}

// ExitError ends a command with a code of its own. Without Err nothing is printed.
type ExitError struct {
	Code int
	Err  error
}

// Error returns the cause, or the code.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// Of returns the exit code for err; nil is 0.
func (c ExitCodes) Of(err error) int {
	var exit *ExitError
	var usage *UsageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &usage):
		return c.Usage
	case errors.Is(err, context.Canceled):
		return c.Cancelled
	default:
		return c.Failed
	}
}
