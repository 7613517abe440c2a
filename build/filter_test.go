package build

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

func TestExclude(t *testing.T) {
	for _, x := range []struct {
		pattern, path string
		dir, want     bool
	}{
		{"a", "a", false, true}, {"/a", "a", false, true}, {"a", "b/a", false, false}, {"a/b", "a/b", false, true},
		{"*.o", "x.o", false, true}, {"*.o", "d/x.o", false, false}, {"**/*.o", "d/e/x.o", false, true}, {"**/*.o", "x.o", false, true},
		{"cache/", "cache", true, true}, {"cache/", "cache", false, false}, {"**/cache/", "a/b/cache", true, true},
		{"a/**", "a", true, false}, {"a/**", "a/b", false, true}, {"a/**", "a/b/c", false, true}, {"a/**/c", "a/c", false, true}, {"a/**/c", "a/b/b/c", false, true},
		{"a/**/c", "a/bc", false, false}, {"a**c", "a/b/c", false, true}, {"a**/c", "ac", false, false}, {"a**/c", "axx/c", false, true},
		{"?", "x", false, true}, {"?", "ü", false, true}, {"?", "\xff", false, true}, {"a?b", "a/b", false, false}, {"?", "xy", false, false},
		{"[a-c]x", "bx", false, true}, {"[!a-c]x", "bx", false, false}, {"[^a-c]x", "dx", false, true}, {"[]]", "]", false, true}, {"[!]]", "]", false, false},
		{"[ü-ÿ]", "ü", false, true}, {"[a\\]]", "]", false, true}, {"a[!x]b", "a/b", false, false}, {"[a-]", "-", false, true},
		{"\\*", "*", false, true}, {"\\*", "x", false, false}, {"a\\[b", "a[b", false, true},
		{"*", "any", true, true}, {"**", "a/b/c", false, true}, {"*/*", "a/b", false, true}, {"*/*", "a", false, false},
		{"*a*b*c", "xxaxxbxxc", false, true}, {"*a*b*c", "xxaxxbxxcx", false, false}, {"***", "a/b", false, true},
	} {
		e, err := NewExclude([]string{"none", x.pattern})
		require.NoError(t, err, x.pattern)
		require.Equal(t, x.want, e.Match([]byte(x.path), x.dir), "%q of %q", x.path, x.pattern)
	}
	for _, bad := range []string{"", "/", "[a", "a\\", "[!", "[]", "a/[x/b"} {
		_, err := NewExclude([]string{bad})
		require.Error(t, err, bad)
	}
	none, err := NewExclude(nil)
	require.NoError(t, err)
	require.False(t, none.Match([]byte("a"), false))
}

// TestGlobAgainstRegexp compares random patterns with regular expressions.
func TestGlobAgainstRegexp(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 5))
	random := func(alphabet string, n int) string {
		var b strings.Builder
		for range r.IntN(n) {
			b.WriteByte(alphabet[r.IntN(len(alphabet))])
		}
		return b.String()
	}
	for range 50_000 {
		glob, s := "a"+random("ab/**?", 9), "a"+random("aab//", 12)
		if r.IntN(2) == 0 {
			glob, s = glob[1:]+"*", s[1:]
		}
		want := globRegexp(glob).MatchString(s)
		require.Equal(t, want, globMatch(glob, []byte(s), '/'), "%q of %q", s, glob)
	}
}

func globRegexp(glob string) *regexp.Regexp {
	var b strings.Builder
	for i := 0; i < len(glob); {
		stars := len(glob[i:]) - len(strings.TrimLeft(glob[i:], "*"))
		switch {
		case stars > 1 && strings.HasPrefix(glob[i+stars:], "/") && (i == 0 || glob[i-1] == '/'):
			b.WriteString("(?:[^/]*/)*")
			i += stars + 1
		case stars > 1:
			b.WriteString(".*")
			i += stars
		case stars == 1:
			b.WriteString("[^/]*")
			i++
		case glob[i] == '?':
			b.WriteString("[^/]")
			i++
		default:
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
			i++
		}
	}
	return regexp.MustCompile("(?s)^" + b.String() + "$")
}

// TestGlobIsNotExponential has patterns that naive matchers choke on.
func TestGlobIsNotExponential(t *testing.T) {
	s := []byte(strings.Repeat("a/", 500) + "b")
	require.False(t, globMatch(strings.Repeat("**/*a*", 50)+"c", s, '/'))
	require.False(t, globMatch(strings.Repeat("**a", 50)+"c", s, '/'))
	require.False(t, globMatch(strings.Repeat("*a", 50)+"c", []byte(strings.Repeat("a", 2000)), '/'))
}

func FuzzGlob(f *testing.F) {
	f.Add("**/[a-z]?*\\x", []byte("a/b/c"))
	f.Add("[!\xff-ü]", []byte("\xfe"))
	f.Fuzz(func(t *testing.T, glob string, s []byte) {
		if len(glob) > 100 || len(s) > 1000 || checkGlob(glob) != nil {
			return
		}
		globMatch(glob, s, '/')
		globMatch(glob, s, 0)
	})
}

func TestXattrFilter(t *testing.T) {
	names := []string{"user.a", "user.b", "security.selinux", "system.posix_acl_access", "trusted.overlay.opaque"}
	for spec, want := range map[string]string{
		"":                         "11111",
		"keep":                     "11111",
		"none":                     "00000",
		"user.*":                   "11000",
		"!security.*":              "11011",
		"user.*, !user.b":          "10000",
		"!user.*,user.b":           "01111",
		"security.*,trusted.*.*":   "00101",
		"*acl*":                    "00010",
		"!user.[a],!trusted.**que": "01110",
	} {
		f, err := NewXattrFilter(spec)
		require.NoError(t, err)
		got := ""
		for _, n := range names {
			got += map[bool]string{true: "1", false: "0"}[f.Keep(n)]
		}
		require.Equal(t, want, got, spec)
		require.Equal(t, spec == "none", f.None())
	}
	for _, bad := range []string{"user.[", "a,,b", "!"} {
		_, err := NewXattrFilter(bad)
		require.Error(t, err, bad)
	}
}

func TestOwnerMap(t *testing.T) {
	type owner struct{ uid, gid uint32 }
	for _, x := range []struct {
		owner    string
		mappings []string
		from, to owner
	}{
		{"", nil, owner{5, 6}, owner{5, 6}},
		{"0:0", nil, owner{5, 6}, owner{0, 0}},
		{"7:", nil, owner{5, 6}, owner{7, 6}},
		{":4294967294", nil, owner{5, 6}, owner{5, 4294967294}},
		{"", []string{"5:100"}, owner{5, 5}, owner{100, 100}},
		{"", []string{"u:5:100"}, owner{5, 5}, owner{100, 5}},
		{"", []string{"g:5:100"}, owner{5, 5}, owner{5, 100}},
		{"", []string{"0:100000:65536"}, owner{0, 65535}, owner{100000, 165535}},
		{"", []string{"0:100000:65536"}, owner{65536, 70000}, owner{65536, 70000}},
		{"", []string{"100000:0:65536"}, owner{101000, 99999}, owner{1000, 99999}},
		{"", []string{"u:1:2", "u:1:3", "1:4"}, owner{1, 1}, owner{2, 4}},
		{"1:", []string{"g:6:7"}, owner{5, 6}, owner{1, 7}},
		{"", []string{"4294967294:0:1"}, owner{4294967294, 1}, owner{0, 1}},
	} {
		m, err := NewOwnerMap(x.owner, x.mappings)
		require.NoError(t, err)
		uid, gid := m.Map(x.from.uid, x.from.gid)
		require.Equal(t, x.to, owner{uid, gid}, "%v", x)
	}
	for _, bad := range []string{"5", "a:b", "-1:0", "4294967295:0", "0:4294967296", "root:root"} {
		_, err := NewOwnerMap(bad, nil)
		require.ErrorContains(t, err, "owner "+quotePath(bad))
	}
	for _, bad := range []string{"", "5", "5:6:0", "5:6:7:8", "x:5:6", "u:5", "0:4294967290:10", "4294967294:0:2", "u:", "0:0:-1"} {
		_, err := NewOwnerMap("", []string{bad})
		require.ErrorContains(t, err, "owner mapping", bad)
	}
}

// TestOwnerMapOfACLs moves the numbers in ACLs as well; a new owner for
// everything does not touch them.
func TestOwnerMapOfACLs(t *testing.T) {
	acl := func(user, group byte) []byte {
		form := []byte{2, 0, 0, 0}
		for _, e := range [][]byte{{1, 0, 7, 0, 255, 255, 255, 255}, {2, 0, 7, 0, user, 0, 0, 0}, {4, 0, 7, 0, 255, 255, 255, 255}, {8, 0, 7, 0, group, 0, 0, 0}, {16, 0, 7, 0, 255, 255, 255, 255}, {32, 0, 7, 0, 255, 255, 255, 255}} {
			form = append(form, e...)
		}
		disk, err := format.ACLToDisk(form)
		require.NoError(t, err)
		return disk
	}
	attrs := []format.Xattr{{Index: format.XattrUser, Name: "x", Value: acl(5, 5)}, {Index: format.XattrACLAccess, Value: acl(5, 6)}}
	m, err := NewOwnerMap("9:9", []string{"u:5:50", "g:6:60"})
	require.NoError(t, err)
	got := m.mapACLs(attrs)
	require.Equal(t, acl(5, 5), got[0].Value)
	require.Equal(t, acl(50, 60), got[1].Value)
	require.Equal(t, acl(5, 6), attrs[1].Value)
	all, err := NewOwnerMap("9:9", nil)
	require.NoError(t, err)
	require.Equal(t, attrs, all.mapACLs(attrs))
	require.NotPanics(t, func() { m.mapACL([]byte{1, 0}); m.mapACL([]byte{1, 0, 0, 0, 2, 0, 7, 0, 1}) })
}
