package build

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Warning says that something of the source is not in the image as it was.
type Warning struct {
	What  string `json:"what"`  // such as "time outside of 1901 to 2446: the nearest is used"
	Path  string `json:"path"`  // the first, in bytewise order, that it happened to
	Count int    `json:"count"` // how many it happened to
}

func (w Warning) String() string {
	if w.Count == 1 {
		return fmt.Sprintf("%s: %q", w.What, w.Path)
	}
	return fmt.Sprintf("%s: %q and %d more", w.What, w.Path, w.Count-1)
}

// warnings counts warnings by what they say.
type warnings map[string]*Warning

func (ws warnings) add(what, path string) {
	w := ws[what]
	if w == nil {
		w = &Warning{What: what, Path: path}
		ws[what] = w
	}
	w.Count++
	w.Path = min(w.Path, path)
}

func (ws warnings) list() []Warning {
	list := make([]Warning, 0, len(ws))
	for _, w := range ws {
		list = append(list, *w)
	}
	slices.SortFunc(list, func(a, b Warning) int { return strings.Compare(a.What, b.What) })
	return list
}

// Unreadable is something of the source that could not be read.
type Unreadable struct {
	Path string // within the source
	What string // "data", "directory", "target", "attributes", or the name of an xattr
	Err  error
}

func (u Unreadable) String() string {
	return fmt.Sprintf("%s: %s: %v", quotePath(u.Path), u.What, u.Err)
}

// MarshalJSON writes the error as its text.
func (u Unreadable) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Path  string `json:"path"`
		What  string `json:"what"`
		Error string `json:"error"`
	}{u.Path, u.What, fmt.Sprint(u.Err)})
}

func compareUnreadable(a, b Unreadable) int {
	return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.What, b.What))
}

// UnreadableError lists everything that could not be read, ordered by path.
type UnreadableError struct{ Files []Unreadable }

func (e *UnreadableError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of the source's files cannot be read:", len(e.Files))
	for _, u := range e.Files {
		b.WriteString("\n  ")
		b.WriteString(u.String())
	}
	return b.String()
}

// Hint says what to do about it.
func (e *UnreadableError) Hint() string {
	return "run as a user who may read them, make the image from a tar, leave them out with --exclude, or go on without them with --skip-unreadable"
}

// Unwrap returns the causes, for errors.Is.
func (e *UnreadableError) Unwrap() []error {
	causes := make([]error, len(e.Files))
	for i, u := range e.Files {
		causes[i] = u.Err
	}
	return causes
}

// LimitError is something of the source that is larger than ext4 can hold.
type LimitError struct {
	Path  string
	What  string // such as "name"
	Unit  string // such as "bytes"
	Value uint64
	Limit uint64
	Hint  string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: %s of %d %s, at most %d are possible", quotePath(e.Path), e.What, e.Value, e.Unit, e.Limit)
}

// maxListed is the largest number of limit errors that are listed.
const maxListed = 20

// limitErrors collects what is too large, to tell all of it at once.
type limitErrors struct {
	list  []error
	count int
}

func (l *limitErrors) add(e *LimitError) {
	l.count++
	if len(l.list) < maxListed {
		l.list = append(l.list, e)
	}
}

func (l *limitErrors) err() error {
	switch {
	case l.count == 0:
		return nil
	case l.count == 1:
		return l.list[0]
	case l.count > len(l.list):
		return errors.Join(append(l.list, fmt.Errorf("and %d more", l.count-len(l.list)))...)
	}
	return errors.Join(l.list...)
}

// maxShown is the number of bytes of a path that a message shows.
const maxShown = 1024

// quotePath quotes a path of any bytes, shortened where it is very long.
func quotePath(path string) string {
	if len(path) > maxShown {
		return fmt.Sprintf("%q...", path[:maxShown])
	}
	return fmt.Sprintf("%q", path)
}

// joinPath returns name in the directory at dir, "" being the root.
func joinPath(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
