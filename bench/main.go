package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(os.Args)(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// command is what the program is to be: a part of itself, for a measurement, or
// the whole.
func command(args []string) func(context.Context, []string) error {
	switch {
	case len(args) > 1 && args[1] == floorCommand:
		return floor
	case len(args) > 1 && args[1] == launchCommand:
		return launcher
	}
	return bench
}
