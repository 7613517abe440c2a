package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// contestant is one that measures itself, in this program, and returns figures
// of its own. The first contestant of a race is ours.
type contestant struct {
	name string
	skip string // why it does not run
	run  func(ctx context.Context) ([]figure, error)
}

// figure is something measured. The first figure of a run is the one that
// contestants are compared by.
type figure struct {
	name  string
	value float64
	unit  string
	less  bool // less is better
}

// rate is a figure of which more is better.
func rate(name string, value float64, unit string) figure { return figure{name, value, unit, false} }

// cost is a figure of which less is better.
func cost(name string, value float64, unit string) figure { return figure{name, value, unit, true} }

// entry is what came of one contestant's runs. The JSON names are stable.
type entry struct {
	Name    string     `json:"name"`
	Skipped string     `json:"skipped,omitempty"`
	Runs    int        `json:"runs"`
	Ratio   float64    `json:"ratio,omitempty"` // how many times better ours is, by the first figure's medians
	Figures []measured `json:"figures,omitempty"`
}

// measured is one figure over all runs.
type measured struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`

	less bool
}

// contest runs all contestants in turn, round after round. One that fails is not
// run again, unless it is the first, whose failure ends all.
func (b *runner) contest(all []contestant) ([]entry, error) {
	runs := make([][][]figure, len(all))
	for round := range b.o.rounds {
		for i := range all {
			c := &all[i]
			if c.skip != "" {
				continue
			}
			figures, err := c.run(b.ctx)
			switch {
			case b.ctx.Err() != nil:
				return nil, b.ctx.Err()
			case err != nil && i == 0:
				return nil, fmt.Errorf("%s: %w", c.name, err)
			case err != nil:
				c.skip = "failed: " + err.Error()
				b.say("  %s: %s", c.name, c.skip)
				continue
			}
			b.say("  round %d, %s: %s", round+1, c.name, figures[0].text())
			runs[i] = append(runs[i], figures)
		}
	}
	entries := make([]entry, len(all))
	for i, c := range all {
		entries[i] = newEntry(c, runs[i])
		entries[i].Ratio = entries[i].against(entries[0])
	}
	return entries, nil
}

// newEntry sums up a contestant's runs.
func newEntry(c contestant, runs [][]figure) entry {
	e := entry{Name: c.name, Skipped: c.skip, Runs: len(runs)}
	if len(runs) == 0 {
		return e
	}
	for i, f := range runs[0] {
		var values []float64
		for _, run := range runs {
			values = append(values, run[i].value)
		}
		e.Figures = append(e.Figures, measured{f.name, f.unit, median(values), slices.Min(values), slices.Max(values), f.less})
	}
	return e
}

// against returns how many times better ours is; 0 where there is nothing to compare.
func (e entry) against(ours entry) float64 {
	if e.Runs == 0 || ours.Runs == 0 || e.Name == ours.Name {
		return 0
	}
	mine, theirs := ours.Figures[0].Median, e.Figures[0].Median
	if e.Figures[0].less {
		mine, theirs = theirs, mine
	}
	if theirs == 0 {
		return 0
	}
	return mine / theirs
}

// text is a figure for people.
func (f figure) text() string { return amount(f.value) + " " + f.unit }

// amount is a number with three digits that count.
func amount(v float64) string {
	if v >= 1000 || v == float64(int64(v)) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// contestTable writes the table of a row whose contestants measure themselves.
func (r result) contestTable(b *strings.Builder) {
	var head []measured
	for _, e := range r.Contest {
		if len(e.Figures) > len(head) {
			head = e.Figures
		}
	}
	b.WriteString("| | runs |")
	for _, m := range head {
		fmt.Fprintf(b, " %s |", strings.TrimSuffix(m.Name+", "+m.Unit, ", "))
	}
	b.WriteString(" ours is better, times |\n|---|---|" + strings.Repeat("---|", len(head)+1) + "\n")
	for _, e := range r.Contest {
		if e.Runs == 0 {
			fmt.Fprintf(b, "| %s | skipped: %s |\n", e.Name, e.Skipped)
			continue
		}
		fmt.Fprintf(b, "| %s | %d |", e.Name, e.Runs)
		for i, m := range e.Figures {
			if i == 0 {
				fmt.Fprintf(b, " %s (%s to %s) |", amount(m.Median), amount(m.Min), amount(m.Max))
				continue
			}
			fmt.Fprintf(b, " %s |", amount(m.Median))
		}
		b.WriteString(strings.Repeat(" |", len(head)-len(e.Figures)))
		if e.Ratio > 0 {
			fmt.Fprintf(b, " %.2f |\n", e.Ratio)
		} else {
			b.WriteString(" |\n")
		}
	}
	b.WriteString("\n")
}
