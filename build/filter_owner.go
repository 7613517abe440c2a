package build

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"drydock/format"
)

// OwnerMap changes owners. A nil map changes nothing.
type OwnerMap struct {
	uid, gid idMap
}

// idMap changes numbers of users or of groups.
type idMap struct {
	all   *uint32 // every number becomes this one
	rules []idRange
}

// idRange moves count numbers from on to those from to on.
type idRange struct{ from, to, count uint32 }

// NewOwnerMap reads an owner for everything, "UID:GID" with either part empty
// ("" or ":": none), and mappings "FROM:TO[:COUNT]" of users and groups alike, "u:..."
// of users, "g:..." of groups. The first mapping that holds a number decides; a
// number that none holds stays. Named entries of ACLs follow the mappings.
func NewOwnerMap(owner string, mappings []string) (*OwnerMap, error) {
	m := &OwnerMap{}
	if err := m.setAll(owner); err != nil {
		return nil, err
	}
	for _, s := range mappings {
		if err := m.addMapping(s); err != nil {
			return nil, err
		}
	}
	if m.empty() {
		return nil, nil
	}
	return m, nil
}

func (m *OwnerMap) empty() bool {
	return m.uid.all == nil && m.gid.all == nil && len(m.uid.rules) == 0 && len(m.gid.rules) == 0
}

func (m *OwnerMap) setAll(owner string) (err error) {
	if owner == "" {
		return nil
	}
	u, g, ok := strings.Cut(owner, ":")
	if !ok {
		return fmt.Errorf("owner %q: want UID:GID", owner)
	}
	if m.uid.all, err = optionalID(u); err == nil {
		m.gid.all, err = optionalID(g)
	}
	if err != nil {
		return fmt.Errorf("owner %q: %w", owner, err)
	}
	return nil
}

func optionalID(s string) (*uint32, error) {
	if s == "" {
		return nil, nil
	}
	id, err := parseID(s)
	return &id, err
}

// parseID reads a number of a user or a group, 0 to 4294967294: the one number
// above means nobody at all to Linux.
func parseID(s string) (uint32, error) {
	id, err := strconv.ParseUint(s, 10, 32)
	if err != nil || id == noID {
		return 0, fmt.Errorf("%q is no number from 0 to %d", s, uint32(noID-1))
	}
	return uint32(id), nil
}

const noID = 1<<32 - 1

func (m *OwnerMap) addMapping(s string) error {
	kind, rest := "", s
	if k, r, ok := strings.Cut(s, ":"); ok && (k == "u" || k == "g") {
		kind, rest = k, r
	}
	r, err := parseRange(rest)
	if err != nil {
		return fmt.Errorf("owner mapping %q: %w", s, err)
	}
	if kind != "g" {
		m.uid.rules = append(m.uid.rules, r)
	}
	if kind != "u" {
		m.gid.rules = append(m.gid.rules, r)
	}
	return nil
}

func parseRange(s string) (r idRange, err error) {
	parts := strings.Split(s, ":")
	if len(parts) != 2 && len(parts) != 3 {
		return r, fmt.Errorf("want FROM:TO or FROM:TO:COUNT")
	}
	if r.from, err = parseID(parts[0]); err != nil {
		return r, err
	}
	if r.to, err = parseID(parts[1]); err != nil {
		return r, err
	}
	r.count = 1
	if len(parts) == 3 {
		if r.count, err = parseID(parts[2]); err != nil {
			return r, err
		}
	}
	if r.count == 0 || uint64(max(r.from, r.to))+uint64(r.count) > noID {
		return r, fmt.Errorf("a count of %d leaves the numbers 0 to %d", r.count, uint32(noID-1))
	}
	return r, nil
}

// Map returns the owner that uid and gid become.
func (m *OwnerMap) Map(uid, gid uint32) (uint32, uint32) {
	if m == nil {
		return uid, gid
	}
	return m.uid.owner(uid), m.gid.owner(gid)
}

func (m *idMap) owner(id uint32) uint32 {
	if m.all != nil {
		return *m.all
	}
	return m.moved(id)
}

// moved applies the mappings alone.
func (m *idMap) moved(id uint32) uint32 {
	for _, r := range m.rules {
		if id >= r.from && id-r.from < r.count {
			return id - r.from + r.to
		}
	}
	return id
}

// POSIX ACLs on the disk: a header of 4 bytes, then entries of a tag and
// permissions (2 bytes each, little-endian), followed by a number of 4 bytes
// where the tag names a user or a group (kernel: fs/ext4/acl.h).
const (
	aclHeader   = 4
	aclShort    = 4
	aclLong     = 8
	aclTagUser  = 0x02
	aclTagGroup = 0x08
)

// mapACLs returns attrs with the mappings applied to the ACLs among them. It
// does not change attrs.
func (m *OwnerMap) mapACLs(attrs []format.Xattr) []format.Xattr {
	if m == nil || len(m.uid.rules) == 0 && len(m.gid.rules) == 0 {
		return attrs
	}
	attrs = slices.Clone(attrs)
	for i := range attrs {
		if isACL(attrs[i].Index) {
			attrs[i].Value = m.mapACL(slices.Clone(attrs[i].Value))
		}
	}
	return attrs
}

func isACL(index uint8) bool {
	return index == format.XattrACLAccess || index == format.XattrACLDefault
}

// mapACL changes the numbers in an ACL in disk form, in place.
func (m *OwnerMap) mapACL(acl []byte) []byte {
	for e := acl[min(aclHeader, len(acl)):]; len(e) >= aclShort; {
		n := aclShort
		tag := binary.LittleEndian.Uint16(e)
		if tag == aclTagUser || tag == aclTagGroup {
			n = aclLong
		}
		if len(e) < n {
			break
		}
		if n == aclLong {
			rules := &m.uid
			if tag == aclTagGroup {
				rules = &m.gid
			}
			id := e[aclShort:]
			binary.LittleEndian.PutUint32(id, rules.moved(binary.LittleEndian.Uint32(id)))
		}
		e = e[n:]
	}
	return acl
}
