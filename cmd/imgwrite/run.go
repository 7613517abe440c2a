package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"drydock/ext4"
	"drydock/internal/cli"
)

// runVerb is a function, since the verbs that a script may use include those of
// the list that runVerb is in.
func runVerb() verb {
	return verb{
		use: "run SCRIPT|-", short: "carry out the lines of a script in one opening", min: 1, max: 1, alone: true,
		example: "rootfs.img changes.txt\nrootfs.img - --record trace < changes.txt\n",
		new:     func() operation { return &runOp{} },
	}
}

// runOp carries out a script: a verb a line without the image. Lines of its own
// are "sync" (all before it is durable when it is over), "fsync PATH" (that file
// is), and "begin" and "commit", between which all changes happen in one
// transaction: all or none, also when the power goes. The first failure ends the
// script; what came before it stays, what a transaction began does not.
type runOp struct{}

func (*runOp) flags(*pflag.FlagSet)  {}
func (*runOp) changes([]string) bool { return true }

// line is a line of a script.
type line struct {
	number int
	words  []string
}

// lineError says in which line of a script something failed.
type lineError struct {
	script string
	number int
	err    error
}

func (e *lineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.script, e.number, e.err) }
func (e *lineError) Unwrap() error { return e.err }

func (o *runOp) run(ctx context.Context, s *session, args []string) error {
	var in io.Reader
	name := args[0]
	if name == "-" {
		in, name = cli.Input(ctx, s.env.Stdin, nil), "stdin"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	r := &script{s: s, name: name, in: bufio.NewReader(in)}
	for {
		l, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = r.do(ctx, l)
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return &lineError{name, r.number, err}
		}
	}
}

// script is a script that is being read.
type script struct {
	s      *session
	name   string
	in     *bufio.Reader
	number int // of the line read last
}

const maxLine = 1 << 20

// next returns the next line that has words; io.EOF at the end.
func (r *script) next() (line, error) {
	for {
		text, err := readLine(r.in)
		if text == "" && err != nil {
			return line{}, err
		}
		r.number++
		words, err := splitWords(strings.TrimRight(text, "\r\n"))
		if err != nil {
			return line{}, err
		}
		if len(words) > 0 {
			return line{r.number, words}, nil
		}
	}
}

// readLine reads a line of bounded length.
func readLine(in *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		part, err := in.ReadSlice('\n')
		b.Write(part)
		switch {
		case b.Len() > maxLine:
			return "", fmt.Errorf("a line of more than %d bytes", maxLine)
		case !errors.Is(err, bufio.ErrBufferFull):
			return b.String(), err
		}
	}
}

// do carries out one line.
func (r *script) do(ctx context.Context, l line) error {
	switch l.words[0] {
	case "sync":
		return r.sync(l)
	case "fsync":
		return r.fsync(l)
	case "begin":
		return r.transaction(ctx, l)
	case "commit":
		return errors.New("commit without begin")
	}
	op, args, err := parseLine(l)
	if err != nil {
		return err
	}
	return op.run(ctx, r.s, args)
}

// parseLine returns the operation of a line and its arguments.
func parseLine(l line) (operation, []string, error) {
	v, err := verbNamed(l.words[0])
	if err != nil {
		return nil, nil, err
	}
	op := v.new()
	flags := pflag.NewFlagSet(v.name(), pflag.ContinueOnError)
	flags.Usage = func() {}
	op.flags(flags)
	if err := flags.Parse(l.words[1:]); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", v.name(), err)
	}
	args := flags.Args()
	if err := v.checkCount(len(args)); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", v.name(), err)
	}
	if check, ok := op.(interface{ check(args []string) error }); ok {
		if err := check.check(args); err != nil {
			return nil, nil, err
		}
	}
	return op, args, nil
}

// sync makes all that came before durable.
func (r *script) sync(l line) error {
	if len(l.words) != 1 {
		return errors.New("sync has no arguments")
	}
	if err := r.s.fs.Sync(); err != nil {
		return err
	}
	r.s.record.mark(promise{Sync: "all", Line: l.number})
	return nil
}

// fsync makes one file durable.
func (r *script) fsync(l line) error {
	if len(l.words) != 2 {
		return errors.New("fsync has one argument, the file")
	}
	f, err := r.s.fs.Open(l.words[1])
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil || r.s.record == nil {
		return err
	}
	p, err := filePromise(f, l.words[1], l.number)
	if err != nil {
		return err
	}
	r.s.record.mark(p)
	return nil
}

// inTransaction are the verbs that a transaction may hold: those that change
// names and attributes, and put, whose data is brought in before.
var inTransaction = map[string]bool{"put": true, "mkdir": true, "rm": true, "mv": true, "ln": true, "touch": true,
	"chmod": true, "chown": true, "xattr": true, "mknod": true, "stat": true, "ls": true, "tree": true}

// step is a line of a transaction.
type step struct {
	line line
	op   operation
	args []string
}

// transaction carries out the lines up to "commit" in one transaction.
func (r *script) transaction(ctx context.Context, begin line) error {
	if len(begin.words) != 1 {
		return errors.New("begin has no arguments")
	}
	steps, err := r.steps()
	if err != nil {
		return err
	}
	end := r.number
	staged, err := stage(ctx, r, steps)
	if err != nil {
		return err
	}
	defer staged.close()
	err = r.s.fs.Update(func(tx *ext4.Tx) error {
		r.s.edit, r.s.staged = tx, staged
		defer func() { r.s.edit, r.s.staged = r.s.fs, nil }()
		for _, st := range steps {
			r.number = st.line.number
			if err := errors.Join(ctx.Err(), st.op.run(ctx, r.s, st.args)); err != nil {
				return err
			}
		}
		r.number = end
		return nil
	})
	return err
}

// steps reads the lines up to "commit".
func (r *script) steps() ([]step, error) {
	var steps []step
	for {
		l, err := r.next()
		switch {
		case err == io.EOF:
			return nil, errors.New("begin without commit")
		case err != nil:
			return nil, err
		case l.words[0] == "commit" && len(l.words) == 1:
			return steps, nil
		case !inTransaction[l.words[0]]:
			return nil, fmt.Errorf("%s cannot be part of a transaction", l.words[0])
		}
		op, args, err := parseLine(l)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step{l, op, args})
	}
}

// staging holds the files of a transaction whose data was brought in before it.
type staging struct {
	files map[string][]*ext4.File // by the path on the host, in the order of their use
}

// stager is an operation that brings in data before its transaction.
type stager interface {
	stage(ctx context.Context, s *session, args []string, to *staging) error
}

// stage brings in the data of all steps and makes it durable on its own, so that
// the transaction has nothing left to write but names and attributes.
func stage(ctx context.Context, r *script, steps []step) (*staging, error) {
	staged := &staging{files: map[string][]*ext4.File{}}
	for _, st := range steps {
		op, ok := st.op.(stager)
		if !ok {
			continue
		}
		r.number = st.line.number
		if err := op.stage(ctx, r.s, st.args, staged); err != nil {
			staged.close()
			return nil, err
		}
	}
	return staged, nil
}

// take hands out the next file prepared under a key.
func (st *staging) take(key string) (*ext4.File, error) {
	files := st.files[key]
	if len(files) == 0 {
		return nil, &fs.PathError{Op: "put", Path: key, Err: errors.New("appeared while the transaction was being prepared")}
	}
	st.files[key] = files[1:]
	return files[0], nil
}

// close gives up what was not used.
func (st *staging) close() {
	for _, files := range st.files {
		for _, f := range files {
			f.Close() // without a name: nothing to lose
		}
	}
}
