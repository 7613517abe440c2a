package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// options are the flags.
type options struct {
	rows    string
	json    bool
	write   bool
	list    bool
	dir     string
	minbase string
	rounds  int
}

func parseOptions(args []string) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.rows, "row", "", "`NAMES` of rows to measure, with commas between (default: all)")
	f.BoolVar(&o.json, "json", false, "print JSON instead of tables")
	f.BoolVar(&o.write, "write", false, "write BENCHMARKS.md even if not all rows were measured")
	f.BoolVar(&o.list, "list", false, "print the rows and end")
	f.StringVar(&o.dir, "dir", "", "`DIR` for trees and images; kept (default: a temporary one here)")
	f.StringVar(&o.minbase, "minbase", "", "`DIR` with a Debian tree made by debootstrap --variant=minbase")
	f.IntVar(&o.rounds, "n", 5, "rounds")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.rounds < 1 {
		return o, errors.New("want flags only, and at least one round")
	}
	return o, nil
}

// bench is the program: it measures, prints, and writes BENCHMARKS.md.
func bench(ctx context.Context, args []string) error {
	o, err := parseOptions(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.list {
		return printRows(os.Stdout)
	}
	selected, err := o.selected()
	if err != nil {
		return err
	}
	results, err := measureAll(ctx, o, selected)
	if err != nil {
		return err
	}
	return o.report(results)
}

// selected returns the rows that the flags name.
func (o options) selected() ([]row, error) {
	if o.rows == "" {
		return rows, nil
	}
	var selected []row
	for _, name := range strings.Split(o.rows, ",") {
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no row %q; -list prints them", name)
		}
		selected = append(selected, rows[i])
	}
	return selected, nil
}

// measureAll measures rows, in a place of their own.
func measureAll(ctx context.Context, o options, selected []row) (results []result, err error) {
	b, err := newRunner(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	for _, r := range selected {
		result, err := b.measure(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		results = append(results, result)
	}
	return results, nil
}

// report prints results and, if asked or if all rows are there, writes BENCHMARKS.md.
func (o options) report(results []result) error {
	if o.json {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		if err := e.Encode(results); err != nil {
			return err
		}
	} else if _, err := io.WriteString(os.Stdout, tables(results)); err != nil {
		return err
	}
	if !o.write && o.rows != "" {
		return nil
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "BENCHMARKS.md"), []byte(document(results, cmp.Or(o.dir, "."))), 0o644)
}

// moduleRoot is the folder of the project's source.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	return strings.TrimSpace(string(out)), err
}
