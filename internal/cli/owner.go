package cli

import (
	"fmt"
	"strconv"
	"strings"
)

// Owner is a flag value "U:G", "U" or ":G" of numeric user and group. Names
// are not looked up: the host's accounts say nothing about those in an image.
type Owner struct {
	UID, GID       uint32
	HasUID, HasGID bool
}

// String returns the owner in the form that Set reads.
func (o *Owner) String() string {
	text := ""
	if o.HasUID {
		text = fmt.Sprint(o.UID)
	}
	if o.HasGID {
		text += fmt.Sprint(":", o.GID)
	}
	return text
}

// Set parses "U:G", "U" or ":G".
func (o *Owner) Set(text string) error {
	user, group, _ := strings.Cut(text, ":")
	parsed := Owner{HasUID: user != "", HasGID: group != ""}
	if !parsed.HasUID && !parsed.HasGID {
		return fmt.Errorf("%q names no owner; owners look like 0:0", text)
	}
	var err error
	if parsed.UID, err = optionalID(user); err != nil {
		return err
	}
	if parsed.GID, err = optionalID(group); err != nil {
		return err
	}
	*o = parsed
	return nil
}

// Type names the value in a usage text.
func (o *Owner) Type() string { return "U:G" }

// optionalID is ParseID that takes no text for 0.
func optionalID(text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	return ParseID(text)
}

// ParseID reads a numeric user or group: 0 to 4294967294. The largest 32-bit
// number means "no owner" to Linux and is refused.
func ParseID(text string) (uint32, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || id == 1<<32-1 {
		return 0, fmt.Errorf("%q is not a numeric user or group (0 to 4294967294)", text)
	}
	return uint32(id), nil
}

// IDMap is one rule of a mapping of owners: Count numbers from From on become
// those from To on.
type IDMap struct {
	From, To, Count uint32
	Users, Groups   bool // what the rule is for
}

// Map returns what id becomes, and whether the rule covers it.
func (m IDMap) Map(id uint32) (uint32, bool) {
	if id < m.From || id-m.From >= m.Count {
		return id, false
	}
	return m.To + (id - m.From), true
}

// IDMaps is a repeatable flag value of rules "[u:|g:]FROM:TO[:COUNT]"; without
// u: or g: a rule is for users and groups alike.
type IDMaps []IDMap

// String returns the rules in the form that Set reads.
func (m *IDMaps) String() string {
	var rules []string
	for _, r := range *m {
		prefix := ""
		switch {
		case !r.Groups:
			prefix = "u:"
		case !r.Users:
			prefix = "g:"
		}
		rules = append(rules, fmt.Sprintf("%s%d:%d:%d", prefix, r.From, r.To, r.Count))
	}
	return strings.Join(rules, ",")
}

// Set parses one or more rules, with commas between them, and adds them.
func (m *IDMaps) Set(text string) error {
	for rule := range strings.SplitSeq(text, ",") {
		parsed, err := parseIDMap(rule)
		if err != nil {
			return err
		}
		*m = append(*m, parsed)
	}
	return nil
}

// Type names the value in a usage text.
func (m *IDMaps) Type() string { return "[u:|g:]FROM:TO[:COUNT]" }

// parseIDMap reads one rule.
func parseIDMap(rule string) (IDMap, error) {
	numbers, users := strings.CutPrefix(rule, "u:")
	groups := false
	if !users {
		numbers, groups = strings.CutPrefix(rule, "g:")
	}
	m := IDMap{Users: !groups, Groups: !users}
	fields := strings.Split(numbers, ":")
	if len(fields) < 2 || len(fields) > 3 {
		return m, fmt.Errorf("%q is not a mapping; mappings look like 1000:0, u:1000:0 or g:100000:0:65536", rule)
	}
	if len(fields) == 2 {
		fields = append(fields, "1")
	}
	return m, m.setNumbers(fields)
}

// setNumbers fills From, To and Count, and checks that no number leaves the range of owners.
func (m *IDMap) setNumbers(fields []string) error {
	for i, field := range []*uint32{&m.From, &m.To, &m.Count} {
		var err error
		if *field, err = ParseID(fields[i]); err != nil {
			return err
		}
	}
	last := uint64(max(m.From, m.To)) + uint64(m.Count)
	if m.Count == 0 || last > 1<<32-1 {
		return fmt.Errorf("a mapping of %d numbers from %d to %d leaves the range 0 to 4294967294", m.Count, m.From, m.To)
	}
	return nil
}
