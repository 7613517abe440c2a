package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"drydock/internal/cli"
)

const long = `imgwrite changes and reads ext4 images and block devices in place.

Paths in the image are absolute or relative to its root. Where a verb takes
existing paths, the patterns *, ? and [...] are expanded in the image.

Changes go through the journal: whenever it is cut off, the image holds the
state before or after an operation.`

const example = `  imgwrite put rootfs.img hostname /etc/hostname
  imgwrite put rootfs.img -r overlay/ /
  imgwrite get rootfs.img -r /etc ./etc
  imgwrite ls rootfs.img -l /etc
  imgwrite rm rootfs.img -r '/var/cache/*'
  imgwrite run rootfs.img changes.txt`

// verb is one thing that imgwrite does.
type verb struct {
	use       string // "put [-r] HOST... DST": name and arguments behind the image
	short     string
	example   string // lines without the program and the verb's name
	min, max  int    // arguments behind the image; max -1: any number
	ownOffset bool   // --offset is the verb's; the image's is --image-offset
	alone     bool   // not in a script
	new       func() operation
}

// operation is a verb with the values of its flags.
type operation interface {
	flags(*pflag.FlagSet)
	changes(args []string) bool // whether it needs the image open for writing
	run(ctx context.Context, s *session, args []string) error
}

// name is the verb's word.
func (v verb) name() string {
	name, _, _ := strings.Cut(v.use, " ")
	return name
}

// checkCount says whether n arguments behind the image make sense.
func (v verb) checkCount(n int) error {
	_, want, _ := strings.Cut(v.use, " ")
	switch {
	case n < v.min:
		return fmt.Errorf("too few arguments, want %s", want)
	case v.max >= 0 && n > v.max:
		return fmt.Errorf("too many arguments, want %s", want)
	}
	return nil
}

// verbs lists everything imgwrite does, in the order of the help.
func verbs() []verb {
	return []verb{
		putVerb, getVerb, catVerb, lsVerb, treeVerb, statVerb, mkdirVerb, rmVerb, mvVerb, lnVerb, touchVerb,
		truncateVerb, chmodVerb, chownVerb, xattrVerb, mknodVerb, writeVerb, tarInVerb, tarOutVerb,
		fallocateVerb, punchVerb, labelVerb, dfVerb, runVerb(), syncVerb,
	}
}

// verbNamed finds a verb for a script.
func verbNamed(name string) (verb, error) {
	for _, v := range verbs() {
		if v.name() == name && !v.alone {
			return v, nil
		}
	}
	return verb{}, fmt.Errorf("unknown verb %q", name)
}

// newCommand is the command line of imgwrite.
func newCommand(env *cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:     "imgwrite VERB IMG [flags] ARGS...",
		Short:   "change and read ext4 images",
		Long:    long,
		Example: example,
		Args:    cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.WithHint(cli.Usagef("VERB is missing"), "imgwrite --help lists the verbs")
			}
			return cli.WithHint(cli.Usagef("unknown verb %q", args[0]), "imgwrite --help lists the verbs")
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	for _, v := range verbs() {
		root.AddCommand(newVerb(env, v))
	}
	return root
}

// newVerb is the command line of one verb.
func newVerb(env *cli.Env, v verb) *cobra.Command {
	var o openOptions
	op := v.new()
	name, args, _ := strings.Cut(v.use, " ")
	command := &cobra.Command{
		Use:     strings.TrimSpace(name + " IMG " + args),
		Short:   v.short,
		Example: examples(name, v.example),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return fmt.Errorf("IMG is missing: the image")
			}
			return v.checkCount(len(args) - 1)
		},
		RunE: func(c *cobra.Command, args []string) error {
			return onImage(c.Context(), env, o, args[0], op, args[1:])
		},
	}
	command.Flags().SortFlags = false
	op.flags(command.Flags())
	o.flags(command.Flags(), v.ownOffset)
	return command
}

// examples puts the program and the verb in front of every line.
func examples(name, lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		fmt.Fprintf(&b, "  imgwrite %s %s", name, line)
	}
	return b.String()
}
