package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// printRows prints the rows that there are.
func printRows(w io.Writer) error {
	for _, r := range rows {
		if _, err := fmt.Fprintf(w, "%-14s %s\n", r.name, r.title); err != nil {
			return err
		}
	}
	return nil
}

// document is BENCHMARKS.md.
func document(results []result, dir string) string {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\nMeasured by `go run ./bench`, which writes this page. Each table is one row: its programs run in\n")
	b.WriteString("turn, round after round, with the source in the page cache. Time is of the whole process: median, least and most\n")
	b.WriteString("of the rounds. `mkimg /` and `mkimg --sync /` are the time of those divided by the program's: below 1, mkimg is faster.\n\n")
	for _, line := range machine(dir) {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	b.WriteString("\nThe floor is two threads that open, read and pwrite the same files, one after the other, and do nothing else.\n" +
		"mke2fs waits for the disk at its end (fsync), mkimg does that with `--sync`; so both are here both ways. mke2fs is\n" +
		"given its inodes and a quarter more space than is needed, and leaves inode tables as holes, as mkimg does. Memory is\n" +
		"the peak of the process (RSS); a little above what it really is for small programs.\n\n" +
		"In rows about writing, contestants measure themselves: the first figure is median, least and most of the rounds, the\n" +
		"others are medians, and the last column says how many times better ours is by the first figure. Linux is an ext4 file\n" +
		"system on a loop device whose file lies where the image of ours does.\n\n")
	b.WriteString(tables(results))
	return b.String()
}

// tables are the results for people.
func tables(results []result) string {
	var b strings.Builder
	for _, r := range results {
		fmt.Fprintf(&b, "## %s: %s\n\n", r.Row, r.Title)
		if r.Goals != "" {
			fmt.Fprintf(&b, "Goal: %s.\n", r.Goals)
		}
		if r.Skipped != "" {
			fmt.Fprintf(&b, "Skipped: %s.\n\n", r.Skipped)
			continue
		}
		if r.Published != "" {
			fmt.Fprintf(&b, "Published: %s.\n", r.Published)
		}
		if r.Contest != nil {
			fmt.Fprintf(&b, "Work: %s.\n\n", r.What)
			r.contestTable(&b)
			continue
		}
		fmt.Fprintf(&b, "Source: %s.\n\n", r.What)
		r.table(&b)
	}
	return b.String()
}

// table writes the table of a row and the command lines.
func (r result) table(b *strings.Builder) {
	b.WriteString("| program | runs | median | min | max | mkimg / | mkimg --sync / | CPU | memory | disk |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range r.Programs {
		if s.Runs == 0 {
			fmt.Fprintf(b, "| %s | skipped: %s |\n", s.Name, s.Skipped)
			continue
		}
		fmt.Fprintf(b, "| %s | %d | %s | %s | %s | %s | %s | %s | %s | %s |\n", s.Name, s.Runs,
			seconds(s.Median), seconds(s.Min), seconds(s.Max), r.ratio("mkimg", s), r.ratio("mkimg --sync", s),
			seconds(s.CPU), megabytes(s.RSS), megabytes(s.Disk))
	}
	b.WriteString("\n")
	for _, s := range r.Programs {
		if s.Runs > 0 {
			fmt.Fprintf(b, "    %s\n", strings.Join(s.Command, " "))
		}
	}
	b.WriteString("\n")
}

// ratio is how long the program of that name takes, in times of s.
func (r result) ratio(name string, s stats) string {
	for _, ours := range r.Programs {
		if ours.Name == name && ours.Runs > 0 && s.Median > 0 && !strings.HasPrefix(s.Name, "mkimg") {
			return fmt.Sprintf("%.3f", ours.Median/s.Median)
		}
	}
	return ""
}

// seconds shows a time with three digits.
func seconds(s float64) string {
	switch {
	case s < 1:
		return fmt.Sprintf("%.3g ms", s*1e3)
	case s < 100:
		return fmt.Sprintf("%.3g s", s)
	}
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
