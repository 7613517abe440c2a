package main

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"drydock/build"
	"drydock/internal/cli"
)

const long = `mkimg makes an ext4 image from a directory, a tar, or nothing.

OUT is an image file, which appears whole or not at all, or a block device.
Without --size the image is the smallest that holds the tree and what is to
stay free; a block device is filled.

Sizes are bytes, or K, M, G, T (powers of 1024): 4096, 512M, 1.5G.`

const example = `  mkimg rootfs.img --from DIR
  mkimg rootfs.img --from rootfs.tar.zst --free 20% --label root
  tar -c DIR | mkimg rootfs.img --from - --size 2G
  mkimg disk.img --from DIR --partition gpt --reproducible
  mkimg rootfs.img --from DIR --dry-run`

// newCommand is the command line of mkimg.
func newCommand(env *cli.Env) *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:     "mkimg OUT [--from DIR|TAR|-]",
		Short:   "make an ext4 image",
		Long:    long,
		Example: example,
		Args:    oneOut,
		RunE: func(c *cobra.Command, args []string) error {
			o.out = args[0]
			return run(c.Context(), env, o)
		},
	}
	o.flags(command.Flags())
	return command
}

// oneOut checks that there is one argument, the image to be.
func oneOut(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return errors.New("OUT is missing: the image to make")
	case len(args) > 1:
		return errors.New("one OUT only; the tree comes from --from")
	case args[0] == "":
		return errors.New("OUT is empty")
	}
	return nil
}

// flags declares all flags.
func (o *options) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringArrayVar(&o.from, "from", nil, "`DIR|TAR|-`: a directory, a tar (plain, gzip or zstd), a tar on stdin; tars may repeat, as layers")
	f.Var(&o.size, "size", "size of the file system, with --partition of the disk")
	f.Var(&o.free, "free", "space to stay free")
	f.Uint64Var(&o.freeInodes, "free-inodes", 0, "`N` inodes to stay free")
	f.Var(&o.blockSize, "block-size", "1K to 64K (default 4K)")
	f.Var(&o.inodeSize, "inode-size", "128 to the block size (default 256)")
	f.Uint64Var(&o.inodes, "inodes", 0, "`N` inodes in all (default: as needed)")
	f.Var(&o.journal, "journal", "size of the journal, or none (default: by the image's size)")
	f.StringVar(&o.label, "label", "", "volume label, at most 16 bytes of `TEXT`")
	f.Var(&o.uuid, "uuid", "UUID of the file system (default: random)")
	f.Var(&o.hashSeed, "hash-seed", "UUID that seeds directory hashes (default: random)")
	f.Var(&o.epoch, "epoch", "seconds since 1970: time of the image, and the latest of any file (default: $SOURCE_DATE_EPOCH)")
	f.BoolVar(&o.reproducible, "reproducible", false, "derive UUID, hash seed and time from the content")
	f.Var(&o.reserved, "reserved", "share of the blocks that only root may use")
	f.StringVar(&o.profile, "profile", "default", "`NAME` of a set of features: default, compat, minimal, modern, meta_bg")
	f.StringVar(&o.features, "features", "", "changes to the features, `+x,-y`")
	f.StringVar(&o.owner, "owner", "", "numeric `U:G` that owns everything")
	f.StringArrayVar(&o.mapOwner, "map-owner", nil, "`[u:|g:]FROM:TO[:COUNT]` changes owners; may repeat")
	f.StringVar(&o.xattrs, "xattrs", "keep", "keep, none or `PATTERNS`: user.*,!user.tmp")
	f.StringArrayVar(&o.exclude, "exclude", nil, "`PATTERN` of paths to leave out; may repeat")
	f.StringVar(&o.holes, "holes", "preserve", "`MODE` preserve, dig or fill: what becomes of holes and zeros")
	f.StringVar(&o.whiteouts, "whiteouts", "", "`MODE` apply, overlay or keep: what becomes of .wh. files in tars")
	f.StringVar(&o.partition, "partition", "none", "`KIND` none, gpt or mbr: partition table to put the file system into")
	f.Var(&o.offset, "offset", "byte of OUT at which the file system starts")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "print the plan, write nothing")
	f.BoolVar(&o.json, "json", false, "print the result as JSON")
	f.BoolVarP(&o.force, "force", "f", false, "replace what is at OUT")
	f.BoolVar(&o.verify, "verify", false, "read the image back and compare it with the source")
	f.BoolVar(&o.sync, "sync", false, "end only when the image is durable")
	f.BoolVar(&o.skipUnreadable, "skip-unreadable", false, "leave out what cannot be read, and say so")
	f.IntVar(&o.workers, "workers", 0, "`N` files copied at a time (default: one a CPU)")
	for _, plain := range []string{"size", "free", "block-size", "inode-size", "offset", "reserved", "journal"} {
		f.Lookup(plain).DefValue = "" // said in words where it matters
	}
}

// run makes the image and prints what was made.
func run(ctx context.Context, env *cli.Env, o options) error {
	opts, err := o.build(os.LookupEnv)
	if err != nil {
		return &cli.UsageError{Err: err}
	}
	bar := env.Progress("scanning")
	defer bar.Close()
	if slices.Contains(o.from, "-") {
		opts.Stdin = cli.Input(ctx, env.Stdin, bar)
	}
	if bar != nil {
		opts.Progress = func(p build.Progress) { show(bar, p) }
	}
	result, err := build.Run(ctx, opts)
	bar.Close()
	if err != nil {
		return withHints(err)
	}
	return printResult(env, o, result)
}

// show puts the engine's progress on the bar.
func show(bar *cli.Progress, p build.Progress) {
	words := map[string]string{"scan": "scanning", "copy": "copying", "write": "writing metadata", "verify": "verifying"}
	bar.Stage(words[p.Phase])
	bar.Total(p.TotalBytes, p.TotalFiles)
	bar.Set(p.Bytes, p.Files)
}
