package build

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"drydock/format"
)

// Tags of ACL entries, in the order in which they lie.
const (
	aclTagUserObj  = 0x01
	aclTagGroupObj = 0x04
	aclTagMask     = 0x10
	aclTagOther    = 0x20
)

const (
	aclFormVersion = 2 // of the form that getxattr returns
	aclFormEntry   = 8 // bytes: tag, permissions, number
	aclMinimal     = 3 // entries that say what the mode says
)

type aclEntry struct {
	tag, perm uint16
	id        uint32
}

var errACL = errors.New("damaged ACL")

// parseACL reads an ACL as text, as acl_to_text writes it: entries such as
// "user:1001:rw-" on lines of their own or with commas between. star adds the
// number to an entry that has a name: "user:joe:rw-:1001". It returns the form
// that getxattr returns.
func parseACL(text string) (form []byte, entries int, err error) {
	var acl []aclEntry
	for s := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == '\n' || c == ',' }) {
		s, _, _ = strings.Cut(s, "#")
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		e, err := parseACLEntry(s)
		if err != nil {
			return nil, 0, fmt.Errorf("%w: entry %q: %w", errACL, s, err)
		}
		acl = append(acl, e)
	}
	slices.SortFunc(acl, func(a, b aclEntry) int {
		return cmp.Or(cmp.Compare(a.tag, b.tag), cmp.Compare(a.id, b.id))
	})
	form = binary.LittleEndian.AppendUint32(nil, aclFormVersion)
	for _, e := range acl {
		form = binary.LittleEndian.AppendUint16(form, e.tag)
		form = binary.LittleEndian.AppendUint16(form, e.perm)
		form = binary.LittleEndian.AppendUint32(form, e.id)
	}
	return form, len(acl), nil
}

func parseACLEntry(s string) (e aclEntry, err error) {
	fields := strings.Split(s, ":")
	if len(fields) == 2 { // mask and other may be short of a field
		fields = []string{fields[0], "", fields[1]}
	}
	if len(fields) != 3 && len(fields) != 4 {
		return e, errors.New("want kind:name:permissions")
	}
	if e.tag, err = aclTagOf(fields[0], fields[1] != ""); err != nil {
		return e, err
	}
	if e.perm, err = parsePerm(strings.TrimSpace(fields[2])); err != nil {
		return e, err
	}
	e.id = noID
	if fields[1] != "" {
		e.id, err = parseID(fields[len(fields)-1])
		if len(fields) == 3 {
			e.id, err = parseNamed(fields[1])
		}
	}
	return e, err
}

// parseNamed reads who an entry is about. Names mean nothing without the users
// of the machine that the archive comes from.
func parseNamed(s string) (uint32, error) {
	if _, err := strconv.ParseUint(s, 10, 32); err != nil {
		return 0, fmt.Errorf("%q is a name; make the archive with --numeric-owner or leave ACLs out with --xattrs '!system.posix_acl_*'", s)
	}
	return parseID(s)
}

func aclTagOf(kind string, named bool) (uint16, error) {
	tags := map[string][2]uint16{
		"user": {aclTagUserObj, aclTagUser}, "u": {aclTagUserObj, aclTagUser},
		"group": {aclTagGroupObj, aclTagGroup}, "g": {aclTagGroupObj, aclTagGroup},
		"mask": {aclTagMask, 0}, "m": {aclTagMask, 0},
		"other": {aclTagOther, 0}, "o": {aclTagOther, 0},
	}
	tag := tags[strings.TrimSpace(kind)][0]
	if named {
		tag = tags[strings.TrimSpace(kind)][1]
	}
	if tag == 0 {
		return 0, errors.New("unknown kind")
	}
	return tag, nil
}

// parsePerm reads permissions such as "r-x".
func parsePerm(s string) (perm uint16, err error) {
	for _, c := range s {
		switch c {
		case 'r':
			perm |= 4
		case 'w':
			perm |= 2
		case 'x':
			perm |= 1
		case '-':
		default:
			return 0, fmt.Errorf("permissions %q", s)
		}
	}
	return perm, nil
}

// textACLs adds the ACLs that a member has as text to attrs, in disk form,
// unless attrs has them. An access ACL that says what the mode says is none,
// as in Linux.
func (m *tarMember) textACLs(attrs []format.Xattr, keep func(name string) bool) ([]format.Xattr, error) {
	for _, a := range []struct {
		name  string
		index uint8
		text  *string
	}{
		{"system.posix_acl_access", format.XattrACLAccess, m.pax.aclAccess},
		{"system.posix_acl_default", format.XattrACLDefault, m.pax.aclDefault},
	} {
		has := slices.ContainsFunc(attrs, func(x format.Xattr) bool { return x.Index == a.index })
		if a.text == nil || has || !keep(a.name) || a.index == format.XattrACLDefault && m.kind != tarDir {
			continue
		}
		form, n, err := parseACL(*a.text)
		if err != nil {
			return nil, err
		}
		if n == 0 || n == aclMinimal && a.index == format.XattrACLAccess {
			continue
		}
		x, _, err := newXattr(a.name, form)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errACL, err)
		}
		attrs = append(attrs, x)
	}
	return attrs, nil
}
