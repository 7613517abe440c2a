package format

import (
	"errors"
	"fmt"
	"strings"
)

// ErrDamaged is what errors.Is finds in every error about bytes that break the
// rules of the format.
var ErrDamaged = errors.New("file system is damaged")

// ErrUnsupported is what errors.Is finds in every error about bytes that are
// valid but of a kind that is not handled.
var ErrUnsupported = errors.New("not supported")

// DamagedError says which structure breaks a rule, where, and which rule.
type DamagedError struct {
	Structure string // such as "extent node"
	Block     Block  // block that holds it; 0 when not known or when it is the superblock's
	Offset    int    // byte offset within the block or structure; negative when not known
	Detail    string // such as "depth 7, want at most 5"
}

// Error is of the form "extent node in block 812 at 0x1c: depth 7, want at most 5".
func (e *DamagedError) Error() string {
	var s strings.Builder
	s.WriteString(e.Structure)
	if e.Block != 0 {
		fmt.Fprintf(&s, " in block %d", e.Block)
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&s, " at %#x", e.Offset)
	}
	s.WriteString(": " + e.Detail)
	return s.String()
}

// Is makes errors.Is(err, ErrDamaged) true.
func (e *DamagedError) Is(target error) bool { return target == ErrDamaged }

// UnsupportedError names what is not handled: feature bits, or something else
// in Detail, or both.
type UnsupportedError struct {
	Features Features
	Detail   string
}

// Error is of the form "not supported: features encrypt FEATURE_I30: Detail".
func (e *UnsupportedError) Error() string {
	parts := []string{ErrUnsupported.Error()}
	if e.Features != (Features{}) {
		parts = append(parts, "features "+e.Features.String())
	}
	if e.Detail != "" {
		parts = append(parts, e.Detail)
	}
	return strings.Join(parts, ": ")
}

// Is makes errors.Is(err, ErrUnsupported) true.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }
