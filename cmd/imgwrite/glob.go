package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// expand replaces every pattern among names by the paths in the image that it
// stands for. A name that exists as it is, is no pattern. A pattern that nothing
// matches is an error.
func (s *session) expand(names []string) ([]string, error) {
	var all []string
	for _, name := range names {
		matches, err := s.glob(name)
		if err != nil {
			return nil, err
		}
		all = append(all, matches...)
	}
	return all, nil
}

// glob returns what one name stands for.
func (s *session) glob(name string) ([]string, error) {
	if !strings.ContainsAny(name, `*?[\`) {
		return []string{name}, nil
	}
	if _, err := s.edit.Lstat(name); err == nil {
		return []string{name}, nil
	}
	if _, err := path.Match(name, ""); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	found := []string{"/"}
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		var err error
		if found, err = s.globPart(found, part); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, &fs.PathError{Op: "match", Path: name, Err: syscall.ENOENT}
	}
	return found, nil
}

// globPart returns the entries of dirs that match one part of a pattern.
func (s *session) globPart(dirs []string, part string) ([]string, error) {
	var found []string
	for _, dir := range dirs {
		if !strings.ContainsAny(part, `*?[\`) {
			if ok, _ := s.exists(join(dir, part)); ok {
				found = append(found, join(dir, part))
			}
			continue
		}
		entries, err := s.edit.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && s.isDir(dir) {
			return nil, err
		}
		for _, e := range entries {
			if matches(part, e.Name()) {
				found = append(found, join(dir, e.Name()))
			}
		}
	}
	return found, nil
}

// matches tells whether a name matches one part of a pattern. A leading dot has
// to be written.
func matches(pattern, name string) bool {
	if strings.HasPrefix(name, ".") && !strings.HasPrefix(pattern, ".") {
		return false
	}
	ok, _ := path.Match(pattern, name)
	return ok
}
