package ext4

import (
	"io/fs"
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
	r := resolver{reader: rd, steps: []*inode{root}}
	for name != "" {
		if name, err = r.step(name, follow); err != nil {
			return nil, err
		}
	}
	return r.here(), nil
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
	return &fs.PathError{Op: op, Path: name, Err: err}
}
