package build

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"strconv"
	"strings"

	"drydock/format"
)

// paxRecords is what extended headers say. A nil field is not said. Source:
// POSIX.1 pax, "pax Extended Header"; GNU tar manual, "Storing Sparse Files".
type paxRecords struct {
	path, link         *string
	size, uid, gid     *int64
	devMajor, devMinor *int64
	mtime              *format.Time

	xattrs                map[string]string // SCHILY.xattr, as getxattr returns them
	xattrs64              map[string]string // LIBARCHIVE.xattr: names in URL form, values in base64
	selinux               *string           // RHT.security.selinux
	aclAccess, aclDefault *string           // text
	aclNFS4               bool

	sparse paxSparse
}

// paxSparse is what GNU tar says of a sparse file in versions 0.0, 0.1 and 1.0.
type paxSparse struct {
	major, minor int64
	name         *string
	size         *int64 // of the file: GNU.sparse.realsize, GNU.sparse.size
	numbers      []int64
	inHeader     bool // the map is in numbers
}

const (
	keyXattr   = "SCHILY.xattr."
	keyXattr64 = "LIBARCHIVE.xattr."
)

var errPax = errors.New("damaged extended header")

// clone returns a copy without what is true of one member only.
func (p *paxRecords) clone() *paxRecords {
	c := *p
	c.xattrs = maps.Clone(p.xattrs)
	c.xattrs64 = maps.Clone(p.xattrs64)
	c.sparse = paxSparse{}
	return &c
}

// parse adds the records in b: each is its own length in bytes, in decimal, a
// blank, key=value and a newline.
func (p *paxRecords) parse(b []byte) error {
	for len(b) > 0 && b[0] != 0 {
		digits, _, ok := bytes.Cut(b, []byte{' '})
		n, err := strconv.ParseUint(string(digits), 10, 31)
		if !ok || err != nil || int(n) > len(b) || int(n) < len(digits)+2 || b[n-1] != '\n' {
			return fmt.Errorf("%w: a record begins with %q", errPax, b[:min(len(b), 32)])
		}
		key, value, ok := strings.Cut(string(b[len(digits)+1:n-1]), "=")
		if !ok || key == "" {
			return fmt.Errorf("%w: a record without a key", errPax)
		}
		if err := p.set(key, value); err != nil {
			return fmt.Errorf("%w: %s=%q: %w", errPax, key, value[:min(len(value), 64)], err)
		}
		b = b[n:]
	}
	return nil
}

// set takes up one record. An empty value takes a record back.
func (p *paxRecords) set(key, value string) (err error) {
	switch key {
	case "path":
		p.path, err = paxText(value)
	case "linkpath":
		p.link, err = paxText(value)
	case "size":
		p.size, err = paxNumber(value)
	case "uid":
		p.uid, err = paxNumber(value)
	case "gid":
		p.gid, err = paxNumber(value)
	case "mtime":
		p.mtime, err = paxTime(value)
	case "SCHILY.devmajor":
		p.devMajor, err = paxNumber(value)
	case "SCHILY.devminor":
		p.devMinor, err = paxNumber(value)
	case "SCHILY.acl.access":
		p.aclAccess = &value
	case "SCHILY.acl.default":
		p.aclDefault = &value
	case "SCHILY.acl.ace":
		p.aclNFS4 = value != ""
	case "RHT.security.selinux":
		p.selinux = &value
	default:
		return p.setOther(key, value)
	}
	return err
}

// setOther takes up records whose keys begin alike.
func (p *paxRecords) setOther(key, value string) error {
	if name, ok := strings.CutPrefix(key, keyXattr); ok {
		if p.xattrs == nil {
			p.xattrs = make(map[string]string)
		}
		p.xattrs[name] = value
		return nil
	}
	if name, ok := strings.CutPrefix(key, keyXattr64); ok {
		if p.xattrs64 == nil {
			p.xattrs64 = make(map[string]string)
		}
		p.xattrs64[name] = value
		return nil
	}
	return p.sparse.set(key, value)
}

// set takes up a record about a sparse file.
func (s *paxSparse) set(key, value string) (err error) {
	switch key {
	case "GNU.sparse.major":
		s.major, err = mustNumber(value)
	case "GNU.sparse.minor":
		s.minor, err = mustNumber(value)
	case "GNU.sparse.name":
		s.name, err = paxText(value)
	case "GNU.sparse.realsize", "GNU.sparse.size":
		s.size, err = paxNumber(value)
	case "GNU.sparse.numblocks":
		s.inHeader = true
		_, err = mustNumber(value)
	case "GNU.sparse.offset", "GNU.sparse.numbytes":
		err = s.addNumber(value, key == "GNU.sparse.offset")
	case "GNU.sparse.map":
		s.inHeader, s.numbers = true, nil
		for n := range strings.SplitSeq(value, ",") {
			if err = s.addNumber(n, len(s.numbers)%2 == 0); err != nil || value == "" {
				break
			}
		}
	}
	return err
}

// addNumber appends an offset or a length; they take turns.
func (s *paxSparse) addNumber(value string, offset bool) error {
	if value == "" && len(s.numbers) == 0 {
		return nil
	}
	n, err := mustNumber(value)
	if err != nil {
		return err
	}
	if offset != (len(s.numbers)%2 == 0) {
		return errors.New("out of turn")
	}
	if len(s.numbers) >= 2*maxSparse {
		return errSparseMany
	}
	s.inHeader = true
	s.numbers = append(s.numbers, n)
	return nil
}

func paxText(s string) (*string, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, errors.New("a zero byte")
	}
	if s == "" {
		return nil, nil
	}
	return &s, nil
}

func paxNumber(s string) (*int64, error) {
	if s == "" {
		return nil, nil
	}
	n, err := mustNumber(s)
	return &n, err
}

func mustNumber(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, errTarNumber
	}
	return n, nil
}

// paxTime reads seconds with a fraction, of which 9 digits count. Seconds that
// are out of any range become the last of that range, to be clamped later.
func paxTime(s string) (*format.Time, error) {
	if s == "" {
		return nil, nil
	}
	whole, fraction, _ := strings.Cut(s, ".")
	sec, err := strconv.ParseInt(whole, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return &format.Time{Sec: max(min(sec, math.MaxInt64-1), math.MinInt64+1)}, nil
	}
	if err != nil && (whole != "" && whole != "-" || fraction == "") {
		return nil, errTarNumber
	}
	nsec, err := paxFraction(fraction)
	if err != nil {
		return nil, err
	}
	t := format.Time{Sec: sec, Nsec: nsec}
	if nsec > 0 && whole[:min(1, len(whole))] == "-" {
		t = format.Time{Sec: sec - 1, Nsec: 1_000_000_000 - nsec}
	}
	return &t, nil
}

func paxFraction(s string) (nsec uint32, err error) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, errTarNumber
		}
	}
	digits := (s + "000000000")[:9]
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), err
}

// attributes returns the xattrs by their full names as getxattr returns them,
// without those that stand as text.
func (p *paxRecords) attributes() (map[string]string, error) {
	if len(p.xattrs64) == 0 && p.selinux == nil {
		return p.xattrs, nil
	}
	all := make(map[string]string)
	for name, value := range p.xattrs64 {
		full, err := url.PathUnescape(name)
		if err != nil {
			return nil, fmt.Errorf("%w: %s%s: %w", errPax, keyXattr64, name, err)
		}
		b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(value, "="))
		if err != nil {
			return nil, fmt.Errorf("%w: %s%s: %w", errPax, keyXattr64, name, err)
		}
		all[full] = string(b)
	}
	if p.selinux != nil && *p.selinux != "" {
		all["security.selinux"] = *p.selinux + "\x00" // as setfilecon stores it
	}
	maps.Copy(all, p.xattrs)
	return all, nil
}
