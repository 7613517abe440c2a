package ext4

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"drydock/format"
)

const (
	// maxLinks is how many symbolic links one name may lead through, as in Linux.
	maxLinks = 40
	// maxName is the longest name of a directory entry, in bytes.
	maxName = 255
)

// resolver follows one name through the tree. It goes back up by its own
// steps and never by the dot-dot entries, so that a damaged one leads nowhere.
type resolver struct {
	reader
	steps []*inode // from the root to the inode reached
	links int      // symbolic links followed
}

// lookup calls fn with the inode that name leads to; follow says whether that
// may be the target of a symbolic link. fn runs inside FS.view.
func (fsys *FS) lookup(name string, follow bool, fn func(in *inode) error) error {
	return fsys.view(func(r reader) error {
		in, err := r.resolve(name, follow)
		if err != nil {
			return err
		}
		return fn(in)
	})
}

// resolve returns the inode that name leads to; follow says whether that may
// be the target of a symbolic link.
func (rd reader) resolve(name string, follow bool) (*inode, error) {
	r, err := rd.start(name)
	if err != nil {
		return nil, err
	}
	for name != "" {
		if name, err = r.step(name, follow); err != nil {
			return nil, err
		}
	}
	return r.here(), nil
}

// start begins to follow a name, at the root.
func (rd reader) start(name string) (*resolver, error) {
	if rd.fs.closed.Load() {
		return nil, fs.ErrClosed
	}
	if name == "" {
		return nil, syscall.ENOENT
	}
	root, err := rd.liveInode(format.RootIno)
	if err != nil {
		return nil, err
	}
	return &resolver{reader: rd, steps: []*inode{root}}, nil
}

// here returns the inode reached so far.
func (r *resolver) here() *inode { return r.steps[len(r.steps)-1] }

// step goes on by the first element of name and returns what is left of it.
func (r *resolver) step(name string, follow bool) (rest string, err error) {
	elem, rest := cutElement(name)
	if !r.here().isDir() {
		return "", syscall.ENOTDIR
	}
	switch elem {
	case "", ".":
		return rest, nil
	case "..":
		r.steps = r.steps[:max(len(r.steps)-1, 1)]
		return rest, nil
	}
	next, err := r.child(elem)
	if err != nil {
		return "", err
	}
	if next.isSymlink() && (follow || rest != "") {
		return r.link(next, rest)
	}
	r.steps = append(r.steps, next)
	return rest, nil
}

// child returns the inode that elem names in the directory reached.
func (r *resolver) child(elem string) (*inode, error) {
	if len(elem) > maxName {
		return nil, syscall.ENAMETOOLONG
	}
	ino, err := r.here().lookup(elem)
	if err != nil {
		return nil, err
	}
	for _, s := range r.steps {
		if s.num == ino {
			return nil, r.here().damaged("names a directory above itself, inode %d, as %q", ino, elem)
		}
	}
	return r.liveInode(ino)
}

// link returns what is left of a name after the symbolic link in before rest.
func (r *resolver) link(in *inode, rest string) (string, error) {
	if r.links++; r.links > maxLinks {
		return "", syscall.ELOOP
	}
	target, err := in.readlink()
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(target, "/") {
		r.steps = r.steps[:1]
	}
	return target + rest, nil
}

// place is where a name leads but for its last element.
type place struct {
	dir   *inode   // the directory that the last element is looked up in
	above []*inode // the directories from the root to dir
	name  string   // the last element: a name, "." or ".."; "" for the root
	slash bool     // a slash follows: a directory is meant
}

// place follows a name up to its last element, which is not looked at.
func (rd reader) place(name string) (place, error) {
	r, err := rd.start(name)
	if err != nil {
		return place{}, err
	}
	return r.place(name)
}

func (r *resolver) place(name string) (place, error) {
	for {
		elem, rest := cutElement(name)
		if strings.Trim(rest, "/") == "" {
			if !r.here().isDir() {
				return place{}, syscall.ENOTDIR
			}
			return place{dir: r.here(), above: r.steps, name: elem, slash: rest != ""}, nil
		}
		var err error
		if name, err = r.step(name, true); err != nil {
			return place{}, err
		}
	}
}

// isName reports whether the last element is one that a directory can hold.
func (p place) isName() bool { return p.name != "" && p.name != "." && p.name != ".." }

// child returns the inode that the last element names.
func (p place) child() (*inode, error) {
	r := resolver{reader: p.dir.reader, steps: p.above}
	return r.child(p.name)
}

// childOrNil is child, with nil where there is none.
func (p place) childOrNil() (*inode, error) {
	in, err := p.child()
	if err == syscall.ENOENT {
		return nil, nil
	}
	return in, err
}

// below reports whether the place lies in a directory, or deeper.
func (p place) below(ino format.Ino) bool {
	for _, in := range p.above {
		if in.num == ino {
			return true
		}
	}
	return false
}

// cutElement splits off the first element. The rest keeps its slash, so that
// a name that ends in one still asks for a directory.
func cutElement(name string) (elem, rest string) {
	name = strings.TrimLeft(name, "/")
	if i := strings.IndexByte(name, '/'); i >= 0 {
		return name[:i], name[i:]
	}
	return name, ""
}

// baseName returns the last element of name, as FileInfo.Name wants it.
func baseName(name string) string {
	trimmed := strings.TrimRight(name, "/")
	if trimmed == "" && name != "" {
		return "/"
	}
	return trimmed[strings.LastIndexByte(trimmed, '/')+1:]
}

// pathError wraps err, if any, as the API returns it.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if _, done := err.(*fs.PathError); done {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: withErrno(err)}
}

// withErrno puts ENOSPC, as an errno, in front of errors that mean it.
func withErrno(err error) error {
	var errno syscall.Errno
	if errors.Is(err, syscall.ENOSPC) && !errors.As(err, &errno) {
		return fmt.Errorf("%w: %w", syscall.ENOSPC, err)
	}
	return err
}

// linkError is pathError for an operation on two names.
func linkError(op, old, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: op, Old: old, New: name, Err: withErrno(err)}
}
