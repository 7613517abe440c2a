package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"drydock/build"
	"drydock/device"
	"drydock/format"
	"drydock/internal/cli"
)

// printResult prints what was made, or would be.
func printResult(env *cli.Env, o options, r *build.Result) error {
	for _, w := range r.Warnings {
		env.Warnf("%s", w)
	}
	for _, u := range r.Skipped {
		env.Warnf("left out: %s", u)
	}
	switch {
	case o.json:
		return env.JSON(document(o, r))
	case env.Quiet:
		return nil
	case o.dryRun:
		return printPlan(env.Stdout, r)
	}
	return printSummary(env.Stdout, o, r)
}

// printSummary says in three lines what was made.
func printSummary(w io.Writer, o options, r *build.Result) error {
	verified := ""
	if o.verify {
		verified = ", verified"
	}
	_, err := fmt.Fprintf(w, "%s: %s, %s blocks of %d bytes (%s free), %s inodes (%s free)\n"+
		"%s with %s of data in %.2f s%s\nUUID %s\n",
		r.Out, cli.HumanSize(r.Size), cli.FormatCount(r.Blocks), r.BlockSize, cli.FormatCount(r.FreeBlocks),
		cli.FormatCount(r.Inodes), cli.FormatCount(r.FreeInodes),
		content(r), cli.HumanSize(r.DataBytes), r.Seconds, verified, r.UUID)
	return err
}

// printPlan prints where everything would lie: the figures, then a line a group.
func printPlan(w io.Writer, r *build.Result) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s would have %s bytes; nothing was written\n", r.Out, cli.FormatCount(r.Size))
	for _, line := range planFigures(r) {
		fmt.Fprintf(out, "%-20s %s\n", line[0], line[1])
	}
	const row = "%7v %22v %5v %20v %20v %12v %12v %20v %12v %12v\n"
	fmt.Fprintf(out, row, "group", "blocks", "super", "descriptors", "reserved", "block bitmap", "inode bitmap", "inode table", "free blocks", "free inodes")
	for g := range r.Plan.Groups {
		fmt.Fprintf(out, row, g.Group, span(g.First, uint64(g.Blocks)), yes(g.Super),
			span(g.Descs, uint64(g.DescBlocks)), span(g.Reserved, uint64(g.ReservedCount)),
			g.BlockBitmap, g.InodeBitmap, span(g.InodeTable, uint64(g.TableBlocks)), g.FreeBlocks, g.FreeInodes)
	}
	return out.Flush()
}

// planFigures are the plan's figures, each with its name.
func planFigures(r *build.Result) [][2]string {
	return [][2]string{
		{"file system", fmt.Sprintf("at byte %d, partition table %s", r.Offset, r.Partition)},
		{"blocks", fmt.Sprintf("%s of %d bytes, %s free (%s to users), %s reserved", cli.FormatCount(r.Blocks), r.BlockSize,
			cli.FormatCount(r.FreeBlocks), cli.FormatCount(r.AvailableBlocks), cli.FormatCount(r.ReservedBlocks))},
		{"inodes", fmt.Sprintf("%s of %d bytes, %s free", cli.FormatCount(r.Inodes), r.InodeSize, cli.FormatCount(r.FreeInodes))},
		{"content", fmt.Sprintf("%s with %s of data", content(r), cli.HumanSize(r.DataBytes))},
		{"data", count(r.DataBlocks, "block", "blocks")},
		{"directories", count(r.DirectoryBlocks, "block", "blocks")},
		{"journal", count(r.JournalBlocks, "block", "blocks")},
		{"groups' metadata", count(r.MetadataBlocks, "block", "blocks")},
		{"groups", fmt.Sprintf("%s of %s blocks and %s inodes", cli.FormatCount(r.Groups), cli.FormatCount(r.BlocksPerGroup), cli.FormatCount(r.InodesPerGroup))},
		{"superblock backups", backupList(r.Backups)},
		{"features", strings.Join(r.Features, " ")},
	}
}

// content counts what lies in the image; the root and lost+found are directories, too.
func content(r *build.Result) string {
	return count(uint64(r.Files), "file", "files") + " and " + count(uint64(r.Directories), "directory", "directories")
}

// count is a number and its noun.
func count(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return cli.FormatCount(n) + " " + many
}

// backupList lists group numbers, or says that there are none.
func backupList(groups []format.Group) string {
	if len(groups) == 0 {
		return "none"
	}
	return "in groups " + strings.Trim(fmt.Sprint(groups), "[]")
}

// span is a run of n blocks as "first-last"; an empty one is a dash.
func span(first format.Block, n uint64) string {
	switch n {
	case 0:
		return "-"
	case 1:
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, uint64(first)+n-1)
}

// yes is a flag as a word.
func yes(set bool) string {
	if set {
		return "yes"
	}
	return "-"
}

// resultJSON is the document that --json prints. Its names are a contract.
type resultJSON struct {
	*build.Result
	DryRun   bool `json:"dry_run"`
	Verified bool `json:"verified"`
	Plan     any  `json:"plan,omitempty"` // dry run: one object a group
}

// document is the result as a JSON document; empty lists are lists.
func document(o options, r *build.Result) resultJSON {
	r.Warnings = append([]build.Warning{}, r.Warnings...)
	r.Skipped = append([]build.Unreadable{}, r.Skipped...)
	d := resultJSON{Result: r, DryRun: o.dryRun, Verified: o.verify && !o.dryRun}
	if o.dryRun {
		d.Plan = slices.Collect(r.Plan.Groups)
	}
	return d
}

// withHints adds what helps, as flags of mkimg, to errors of the engine.
func withHints(err error) error {
	var small interface{ Smallest() uint64 }
	switch {
	case errors.Is(err, fs.ErrExist):
		return cli.WithHint(err, "--force replaces it")
	case errors.As(err, &small):
		return cli.WithHint(err, "without --size the image is as large as it has to be")
	case errors.Is(err, device.ErrMounted):
		return cli.WithHint(err, "unmount it first")
	}
	for _, limit := range limits(err) {
		if limit.Hint != "" {
			err = cli.WithHint(err, limit.Hint)
		}
	}
	return err
}

// limits returns the limit errors in err's tree.
func limits(err error) []*build.LimitError {
	var found []*build.LimitError
	switch e := err.(type) {
	case *build.LimitError:
		return []*build.LimitError{e}
	case interface{ Unwrap() error }:
		return limits(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, cause := range e.Unwrap() {
			found = append(found, limits(cause)...)
		}
	}
	return found
}
