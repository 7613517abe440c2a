package main

import (
	"io/fs"
	"strconv"
	"strings"

	"drydock/internal/cli"
)

// modeChange is what a MODE argument of chmod asks for.
type modeChange struct {
	octal   *fs.FileMode
	clauses []modeClause
}

// modeClause is one step of a symbolic mode: u+rw.
type modeClause struct {
	who  fs.FileMode // permission bits of the classes named: 0700, 0070, 0007; all if none is
	op   byte        // '+', '-', '='
	what string      // letters of rwxXst, or one of u, g, o
}

// parseMode reads an octal mode or a list of symbolic ones as chmod has them.
func parseMode(text string) (modeChange, error) {
	if text != "" && strings.Trim(text, "01234567") == "" {
		n, err := strconv.ParseUint(text, 8, 32)
		if err != nil || n > 0o7777 {
			return modeChange{}, cli.Usagef("mode %q: want at most 7777", text)
		}
		mode := modeBits(uint32(n))
		return modeChange{octal: &mode}, nil
	}
	var c modeChange
	for part := range strings.SplitSeq(text, ",") {
		if !c.parseClauses(part) {
			return modeChange{}, cli.Usagef("mode %q: want octal digits, or something like u=rwx,g+x,o-w", text)
		}
	}
	return c, nil
}

// parseClauses reads one part, such as ug+rw-x.
func (c *modeChange) parseClauses(part string) bool {
	classes := map[byte]fs.FileMode{'u': 0o700, 'g': 0o070, 'o': 0o007, 'a': 0o777}
	var who fs.FileMode
	i := 0
	for ; i < len(part) && classes[part[i]] != 0; i++ {
		who |= classes[part[i]]
	}
	if i == len(part) {
		return false
	}
	if who == 0 {
		who = 0o777
	}
	for i < len(part) {
		op := part[i]
		if op != '+' && op != '-' && op != '=' {
			return false
		}
		end := i + 1
		for end < len(part) && !strings.ContainsRune("+-=", rune(part[end])) {
			end++
		}
		what := part[i+1 : end]
		if strings.Trim(what, "rwxXst") != "" && what != "u" && what != "g" && what != "o" {
			return false
		}
		c.clauses = append(c.clauses, modeClause{who, op, what})
		i = end
	}
	return true
}

// apply returns what becomes of a mode; the type stays.
func (c modeChange) apply(mode fs.FileMode, dir bool) fs.FileMode {
	const special = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	if c.octal != nil {
		return mode&^(fs.ModePerm|special) | *c.octal
	}
	for _, clause := range c.clauses {
		bits := clause.bits(mode, dir)
		switch clause.op {
		case '+':
			mode |= bits
		case '-':
			mode &^= bits
		case '=':
			mode = mode&^(clause.who|clause.specials(dir)) | bits
		}
	}
	return mode
}

// specials are the bits beside rwx that "=" clears: setuid goes with u, setgid
// with g, sticky with o, and directories keep the first two.
func (c modeClause) specials(dir bool) (bits fs.FileMode) {
	if c.who&0o700 != 0 && !dir {
		bits |= fs.ModeSetuid
	}
	if c.who&0o070 != 0 && !dir {
		bits |= fs.ModeSetgid
	}
	if c.who&0o007 != 0 {
		bits |= fs.ModeSticky
	}
	return bits
}

// bits are the bits that a clause names, given the mode so far.
func (c modeClause) bits(mode fs.FileMode, dir bool) (bits fs.FileMode) {
	var three fs.FileMode // rwx
	for _, letter := range c.what {
		switch letter {
		case 'r':
			three |= 4
		case 'w':
			three |= 2
		case 'x':
			three |= 1
		case 'X':
			if dir || mode&0o111 != 0 {
				three |= 1
			}
		case 'u':
			three = mode >> 6 & 7
		case 'g':
			three = mode >> 3 & 7
		case 'o':
			three = mode & 7
		case 's':
			if c.who&0o700 != 0 {
				bits |= fs.ModeSetuid
			}
			if c.who&0o070 != 0 {
				bits |= fs.ModeSetgid
			}
		case 't':
			if c.who&0o007 != 0 {
				bits |= fs.ModeSticky
			}
		}
	}
	return bits | (three<<6|three<<3|three)&c.who
}
