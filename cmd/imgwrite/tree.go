package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path"

	"github.com/spf13/pflag"
)

var treeVerb = verb{
	use: "tree [PATH]", short: "draw the tree below a directory", min: 0, max: 1,
	example: "rootfs.img /etc\n",
	new:     func() operation { return &treeOp{} },
}

type treeOp struct {
	depth int
	json  bool
}

func (o *treeOp) flags(f *pflag.FlagSet) {
	f.IntVarP(&o.depth, "depth", "L", 0, "at most `N` levels (0: all)")
	f.BoolVar(&o.json, "json", false, "print one JSON document")
}

func (o *treeOp) changes([]string) bool { return false }

// treeNode is a name in JSON with what lies below it.
type treeNode struct {
	facts
	Entries []*treeNode `json:"entries,omitempty"`
}

func (o *treeOp) run(ctx context.Context, s *session, args []string) error {
	root := "/"
	if len(args) > 0 {
		root = args[0]
	}
	info, err := s.edit.Lstat(root)
	if err != nil {
		return err
	}
	top := &treeNode{}
	if top.facts, err = s.describe(root, info); err != nil {
		return err
	}
	dirs, files, err := o.grow(ctx, s, top, 1)
	if err != nil {
		return err
	}
	if o.json {
		return s.env.JSON(top)
	}
	out := bufio.NewWriter(s.env.Stdout)
	fmt.Fprintf(out, "%s%s\n", printable(root), top.arrow())
	draw(out, top, "")
	fmt.Fprintf(out, "\n%d directories, %d files\n", dirs, files)
	return out.Flush()
}

// grow reads what lies below a node and counts it.
func (o *treeOp) grow(ctx context.Context, s *session, n *treeNode, level int) (dirs, files int, err error) {
	if !n.mode.IsDir() || (o.depth > 0 && level > o.depth) {
		return 0, 0, ctx.Err()
	}
	entries, err := s.edit.ReadDir(n.Path)
	if err != nil {
		return 0, 0, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return 0, 0, err
		}
		child := &treeNode{}
		if child.facts, err = s.describe(path.Join(n.Path, e.Name()), info); err != nil {
			return 0, 0, err
		}
		n.Entries = append(n.Entries, child)
		if !info.IsDir() {
			files++
			continue
		}
		d, f, err := o.grow(ctx, s, child, level+1)
		if err != nil {
			return 0, 0, err
		}
		dirs, files = dirs+d+1, files+f
	}
	return dirs, files, nil
}

// draw prints what lies below a node; each line begins with indent.
func draw(w io.Writer, n *treeNode, indent string) {
	for i, child := range n.Entries {
		branch, below := "├── ", "│   "
		if i == len(n.Entries)-1 {
			branch, below = "└── ", "    "
		}
		fmt.Fprintf(w, "%s%s%s%s\n", indent, branch, printable(path.Base(child.Path)), child.arrow())
		draw(w, child, indent+below)
	}
}
