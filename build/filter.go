package build

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Exclude is a list of patterns for paths to leave out.
//
// A pattern stands for whole paths relative to the root of the source; a
// leading slash changes nothing. `*` is any run of bytes without a slash, `**`
// any run with slashes, `?` one character but a slash, `[a-z]` and `[!a-z]` one
// of a set, a backslash makes the next character plain. `**/` as a component
// of its own stands for any number of directories, so that `**/*.o` takes in
// `a.o`. A pattern that ends in a slash is
// for directories only. What lies below an excluded directory is out as well.
type Exclude struct{ patterns []pathPattern }

type pathPattern struct {
	glob    string
	dirOnly bool
}

// NewExclude reads patterns. Without any it returns nil, which excludes nothing.
func NewExclude(patterns []string) (*Exclude, error) {
	x := &Exclude{}
	for _, p := range patterns {
		glob := strings.TrimPrefix(p, "/")
		dir := strings.HasSuffix(glob, "/")
		glob = strings.TrimRight(glob, "/")
		if glob == "" {
			return nil, fmt.Errorf("exclude pattern %q: names no path", p)
		}
		if err := checkGlob(glob); err != nil {
			return nil, fmt.Errorf("exclude pattern %q: %w", p, err)
		}
		x.patterns = append(x.patterns, pathPattern{glob, dir})
	}
	if len(x.patterns) == 0 {
		return nil, nil
	}
	return x, nil
}

// Match reports whether the path, which has no leading slash, is excluded by a
// pattern that stands for it. It does not look at the directories above it.
func (x *Exclude) Match(path []byte, dir bool) bool {
	if x == nil {
		return false
	}
	for _, p := range x.patterns {
		if (dir || !p.dirOnly) && globMatch(p.glob, path, '/') {
			return true
		}
	}
	return false
}

// XattrFilter says which xattrs to keep, by their full names.
type XattrFilter struct {
	rules []xattrRule
}

type xattrRule struct {
	glob string
	drop bool
}

// NewXattrFilter reads "keep", "none" or a list of patterns separated by
// commas, such as "user.*,security.capability" or "!security.selinux". A
// pattern with `!` in front drops what it stands for. The last pattern that
// stands for a name decides; a name that none stands for is kept if the first
// pattern has a `!`. A nil filter keeps everything.
func NewXattrFilter(spec string) (*XattrFilter, error) {
	switch spec {
	case "", "keep":
		return nil, nil
	case "none":
		return &XattrFilter{}, nil
	}
	f := &XattrFilter{}
	for _, p := range strings.Split(spec, ",") {
		glob, drop := strings.CutPrefix(strings.TrimSpace(p), "!")
		if err := checkGlob(glob); err != nil {
			return nil, fmt.Errorf("xattr pattern %q: %w", p, err)
		}
		if drop && len(f.rules) == 0 {
			f.rules = append(f.rules, xattrRule{glob: "*"})
		}
		f.rules = append(f.rules, xattrRule{glob, drop})
	}
	return f, nil
}

// Keep reports whether to keep an xattr.
func (f *XattrFilter) Keep(name string) bool {
	if f == nil {
		return true
	}
	for _, r := range slices.Backward(f.rules) {
		if globMatch(r.glob, []byte(name), 0) {
			return !r.drop
		}
	}
	return false
}

// None reports whether no xattr at all is kept.
func (f *XattrFilter) None() bool { return f != nil && len(f.rules) == 0 }

var errGlob = errors.New("syntax error in pattern")

// checkGlob refuses patterns that globMatch would not understand.
func checkGlob(glob string) error {
	if glob == "" {
		return fmt.Errorf("%w: empty", errGlob)
	}
	for i := 0; i < len(glob); {
		switch glob[i] {
		case '\\':
			if i+1 == len(glob) {
				return fmt.Errorf("%w: nothing after \\", errGlob)
			}
			i += 2
		case '[':
			n := setLen(glob[i:])
			if n == 0 {
				return fmt.Errorf("%w: [ without ]", errGlob)
			}
			i += n
		default:
			i++
		}
	}
	return nil
}

// setLen returns the length of the set [...] that glob starts with, 0 if it
// does not end. A ] right after [ or [! is a member.
func setLen(glob string) int {
	i := 1
	if i < len(glob) && (glob[i] == '!' || glob[i] == '^') {
		i++
	}
	for first := true; i < len(glob); first = false {
		switch {
		case glob[i] == ']' && !first:
			return i + 1
		case glob[i] == '\\':
			i++
		}
		i++
	}
	return 0
}

// globMatch reports whether the whole of s is what glob stands for. `*`, `?`
// and sets never stand for sep; sep 0 is none. The time is at most
// len(glob)*len(s)*len(s): it goes back to the last `*` and the last `**` only.
func globMatch(glob string, s []byte, sep byte) bool {
	var star, deep retry
	whole := glob
	for len(glob) > 0 || len(s) > 0 {
		if strings.HasPrefix(glob, "**") && sep != 0 {
			first := len(glob) == len(whole) || whole[len(whole)-len(glob)-1] == '/'
			glob = strings.TrimLeft(glob, "*")
			after, dirs := strings.CutPrefix(glob, "/")
			if dirs = dirs && first; dirs {
				glob = after
			}
			deep, star = retry{glob: glob, s: s, set: true, dirs: dirs}, retry{}
			continue
		}
		if len(glob) > 0 && glob[0] == '*' {
			glob = strings.TrimLeft(glob, "*")
			star = retry{glob: glob, s: s, set: true}
			continue
		}
		if g, n := matchOne(glob, s, sep); n > 0 {
			glob, s = g, s[n:]
			continue
		}
		switch {
		case star.again(&glob, &s, sep):
		case deep.again(&glob, &s, 0):
			star = retry{}
		default:
			return false
		}
	}
	return true
}

// retry is a place to which the matcher comes back to let a `*` or `**` take
// in one byte more.
type retry struct {
	glob string // what follows the star
	s    []byte // what the star has not taken in yet
	set  bool
	dirs bool // the star is a `**/` that takes in whole components
}

// again lets the star take in more. It is false if it cannot.
func (r *retry) again(glob *string, s *[]byte, sep byte) bool {
	if !r.set || len(r.s) == 0 || sep != 0 && r.s[0] == sep {
		return false
	}
	n := 1
	if r.dirs {
		n = 1 + bytes.IndexByte(r.s, '/')
		if n == 0 {
			return false
		}
	}
	r.s = r.s[n:]
	*glob, *s = r.glob, r.s
	return true
}

// matchOne matches the first element of glob, which is no star, with the first
// character of s. It returns the rest of glob and the bytes it took, 0 for none.
func matchOne(glob string, s []byte, sep byte) (rest string, n int) {
	if len(glob) == 0 || len(s) == 0 {
		return glob, 0
	}
	r, size := utf8.DecodeRune(s)
	switch glob[0] {
	case '?':
		if sep != 0 && s[0] == sep {
			return glob, 0
		}
		return glob[1:], size
	case '[':
		set := setLen(glob)
		if sep != 0 && s[0] == sep || !inSet(glob[1:set-1], r) {
			return glob, 0
		}
		return glob[set:], size
	case '\\':
		glob = glob[1:]
	}
	if glob[0] != s[0] {
		return glob, 0
	}
	return glob[1:], 1
}

// inSet reports whether r is in the set between [ and ].
func inSet(set string, r rune) bool {
	negated := set[0] == '!' || set[0] == '^'
	if negated {
		set = set[1:]
	}
	found := false
	for set != "" {
		lo := setRune(&set)
		hi := lo
		if len(set) > 1 && set[0] == '-' {
			set = set[1:]
			hi = setRune(&set)
		}
		found = found || lo <= r && r <= hi
	}
	return found != negated
}

// setRune takes the first character of a set, without its backslash.
func setRune(set *string) rune {
	if (*set)[0] == '\\' {
		*set = (*set)[1:]
	}
	r, n := utf8.DecodeRuneInString(*set)
	*set = (*set)[n:]
	return r
}
