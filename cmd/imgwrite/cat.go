package main

import (
	"context"
	"io"

	"github.com/spf13/pflag"
)

var catVerb = verb{
	use: "cat PATH...", short: "print the content of files", min: 1, max: -1,
	example: "rootfs.img /etc/hostname\n",
	new:     func() operation { return catOp{} },
}

type catOp struct{}

func (catOp) flags(*pflag.FlagSet)  {}
func (catOp) changes([]string) bool { return false }

func (catOp) run(ctx context.Context, s *session, args []string) error {
	names, err := s.expand(args)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.cat(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// cat prints one file.
func (s *session) cat(ctx context.Context, name string) error {
	f, err := s.fs.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(ctxWriter{ctx, s.env.Stdout}, f)
	return err
}

// ctxWriter is a writer that fails when the context is done.
type ctxWriter struct {
	ctx context.Context
	w   io.Writer
}

func (w ctxWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.w.Write(p)
}
