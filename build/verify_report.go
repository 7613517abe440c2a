package build

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// maxDifferences is how many differences a VerifyError lists.
const maxDifferences = 20

// wholePath stands for the file system as a whole.
const wholePath = "/"

// Difference is one thing in which an image and its source differ.
type Difference struct {
	Path string // "" is the root directory, "/" the file system as a whole
	Err  error
}

func (d Difference) String() string {
	switch d.Path {
	case "":
		return fmt.Sprintf("root directory: %v", d.Err)
	case wholePath:
		return fmt.Sprintf("file system: %v", d.Err)
	}
	return fmt.Sprintf("%s: %v", quotePath(d.Path), d.Err)
}

// VerifyError lists the first differences between an image and its source.
type VerifyError struct {
	List  []Difference // at most 20, sorted by path
	Total int
}

func (e *VerifyError) Error() string {
	lines := make([]string, 0, len(e.List)+1)
	for _, d := range e.List {
		lines = append(lines, d.String())
	}
	if more := e.Total - len(e.List); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the causes to errors.Is and errors.As.
func (e *VerifyError) Unwrap() []error {
	list := make([]error, len(e.List))
	for i, d := range e.List {
		list[i] = d.Err
	}
	return list
}

// differences keeps the first ones by path, whatever the order they come in.
type differences struct {
	mu    sync.Mutex
	list  []Difference // sorted
	total int
}

// add takes a difference; format may have %w.
func (r *differences) add(path, format string, args ...any) {
	err := errors.New(format)
	if len(args) > 0 {
		err = fmt.Errorf(format, args...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total++
	d := Difference{path, err}
	at, _ := slices.BinarySearchFunc(r.list, d, func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Err.Error(), b.Err.Error()))
	})
	r.list = slices.Insert(r.list, at, d)
	r.list = r.list[:min(len(r.list), maxDifferences)]
}

// err is nil if nothing was added.
func (r *differences) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.total == 0 {
		return nil
	}
	return &VerifyError{List: r.list, Total: r.total}
}
