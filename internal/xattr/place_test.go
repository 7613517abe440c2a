package xattr

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"drydock/format"
)

// user returns an attribute that takes size bytes in all.
func user(name string, size int) format.Xattr {
	x := format.Xattr{Index: format.XattrUser, Name: name}
	x.Value = make([]byte, size-format.XattrSize(x))
	return x
}

func names(attrs []format.Xattr) string {
	var list []string
	for _, x := range attrs {
		list = append(list, x.FullName())
	}
	return strings.Join(list, " ")
}

// An inode of 256 bytes has room for 88 bytes, a block of 1 KiB for 988.
func TestPlace(t *testing.T) {
	label := format.Xattr{Index: format.XattrSecurity, Name: "selinux", Value: make([]byte, 33)} // 60 bytes
	acl := format.Xattr{Index: format.XattrACLAccess, Value: make([]byte, 28)}                   // 44 bytes
	for _, c := range []struct {
		name           string
		attrs          []format.Xattr
		inode, inBlock string
	}{
		{"none", nil, "", ""},
		{"inode", []format.Xattr{user("b", 40), user("a", 48)}, "user.a user.b", ""},
		{"block", []format.Xattr{user("a", 92)}, "", "user.a"},
		{"order of the block", []format.Xattr{user("b", 44), user("a", 48)}, "user.a", "user.b"},
		{"label first", []format.Xattr{user("a", 80), label}, "security.selinux", "user.a"},
		{"ACL before the label", []format.Xattr{label, acl, user("a", 44)}, "user.a system.posix_acl_access", "security.selinux"},
		{"no room for the label", []format.Xattr{user("a", 44), user("b", 44), {Index: 6, Name: "x", Value: make([]byte, 100)}}, "user.a user.b", "security.x"},
		{"best fill", []format.Xattr{user("a", 40), user("b", 88), user("c", 980)}, "user.b", ""},
	} {
		inode, block, err := Place(c.attrs, 256, 32, 1024)
		if c.name == "best fill" {
			require.Error(t, err) // 1108 of 1076 bytes
			continue
		}
		require.NoError(t, err, c.name)
		require.Equal(t, c.inode, names(inode), c.name)
		require.Equal(t, c.inBlock, names(block), c.name)
	}
}

// Taking what fits first would leave too much for the block.
func TestPlaceFullest(t *testing.T) {
	attrs := []format.Xattr{user("a", 32), user("b", 40), user("c", 48), user("d", 944)}
	inode, block, err := Place(attrs, 256, 32, 1024)
	require.NoError(t, err)
	require.Equal(t, "user.b user.c", names(inode))
	require.Equal(t, "user.a user.d", names(block))
}

func TestPlaceSmallInode(t *testing.T) {
	inode, block, err := Place([]format.Xattr{user("a", 24)}, 128, 0, 1024)
	require.NoError(t, err)
	require.Empty(t, inode)
	require.Equal(t, "user.a", names(block))
}

func TestPlaceErrors(t *testing.T) {
	long := strings.Repeat("n", 256)
	for _, c := range []struct {
		name  string
		attrs []format.Xattr
		want  string
	}{
		{"large", []format.Xattr{{Index: 1, Name: "big", Value: make([]byte, 5000)}}, "extended attribute user.big: value of 5000 bytes, want at most 4040"},
		{"together", []format.Xattr{user("a", 3000), user("b", 1400)}, "extended attribute user.a: no room for 2980 bytes beside the others: all take 4400 bytes of 4148"},
		{"no split", []format.Xattr{user("a", 2200), user("b", 1900)}, "extended attribute user.a: no room for 2180 bytes beside the others: all take 4100 bytes of 4148"},
		{"twice", []format.Xattr{user("a", 30), user("a", 40)}, `extended attribute "user.a": given twice`},
		{"long name", []format.Xattr{{Index: 1, Name: long}}, `extended attribute "user.` + long + `": name of 256 bytes, want at most 255 without its prefix`},
		{"inline data", []format.Xattr{{Index: 7, Name: "data"}}, `extended attribute "system.data": name reserved for inline data`},
		{"no namespace", []format.Xattr{{Name: "x"}}, `extended attribute "index0.x": no namespace`},
		{"value inode", []format.Xattr{{Index: 1, Name: "x", ValueInum: 12}}, `extended attribute "user.x": its value lies in an inode of its own, which is not written`},
	} {
		_, _, err := Place(c.attrs, 256, 32, 4096)
		require.EqualError(t, err, c.want, c.name)
	}
	_, _, err := Place([]format.Xattr{{Index: 1, Name: "big", Value: make([]byte, 5000)}}, 256, 32, 4096)
	var space *SpaceError
	require.True(t, errors.As(err, &space))
	require.Equal(t, SpaceError{Name: "user.big", Size: 5000, Limit: 4040}, *space)
	_, _, err = Place([]format.Xattr{{Index: 1, Name: "v", Value: make([]byte, 65536)}}, 256, 32, 65536)
	require.ErrorContains(t, err, "value of 65536 bytes, want at most 65480")
}

// anySplit reports whether some split of sizes fits, by trying all of them.
func anySplit(sizes []int, inode, block int) bool {
	for mask := range 1 << len(sizes) {
		in, out := 0, 0
		for i, n := range sizes {
			if mask>>i&1 != 0 {
				in += n
			} else {
				out += n
			}
		}
		if in <= inode && out <= block {
			return true
		}
	}
	return false
}

// Place fails only where no split fits, loses nothing, does not depend on the
// order, and what it returns can be encoded.
func TestPlaceModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inodeSize := rapid.SampledFrom([]int{128, 256, 512, 1024}).Draw(t, "inode")
		extra := rapid.SampledFrom([]int{0, 32}).Draw(t, "extra")
		if inodeSize == 128 {
			extra = 0
		}
		attrs := drawAttrs(t)
		inode, block, err := Place(attrs, inodeSize, extra, 1024)
		var sizes []int
		for _, x := range attrs {
			sizes = append(sizes, format.XattrSize(x))
		}
		fits := anySplit(sizes, format.InodeXattrSpace(inodeSize, extra), format.BlockXattrSpace(1024))
		require.Equal(t, fits, err == nil, "%v: %v", sizes, err)
		if err != nil {
			return
		}
		require.ElementsMatch(t, attrs, slices.Concat(inode, block))
		require.NoError(t, format.EncodeInodeXattrs(make([]byte, inodeSize-128-extra), inode))
		require.NoError(t, format.EncodeXattrBlock(make([]byte, 1024), block, 1))

		shuffled := slices.Clone(attrs)
		seed := rapid.Uint64().Draw(t, "shuffle")
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		inode2, block2, err := Place(shuffled, inodeSize, extra, 1024)
		require.NoError(t, err)
		require.Equal(t, inode, inode2)
		require.Equal(t, block, block2)
	})
}

// drawAttrs draws up to ten attributes, often just about as large as fits.
func drawAttrs(t *rapid.T) []format.Xattr {
	n := rapid.IntRange(1, 10).Draw(t, "n")
	limit := rapid.SampledFrom([]int{40, 150, 300, 900}).Draw(t, "limit")
	attrs := make([]format.Xattr, n)
	for i := range attrs {
		attrs[i] = format.Xattr{
			Index: rapid.SampledFrom([]uint8{1, 2, 3, 4, 6}).Draw(t, "index"),
			Name:  fmt.Sprint("n", i),
			Value: make([]byte, rapid.IntRange(0, limit).Draw(t, "size")),
		}
	}
	return attrs
}

// The largest inode and block, full of small attributes that leave four bytes
// too little: time and memory stay small.
func TestPlaceMany(t *testing.T) {
	var attrs []format.Xattr
	for i := range 5000 {
		attrs = append(attrs, user(fmt.Sprintf("n%04d", i), 28))
	}
	_, _, err := Place(attrs, 65536, 32, 65536)
	require.ErrorContains(t, err, "all take 140000 bytes of 130868")
	inode, block, err := Place(attrs[:4600], 65536, 32, 65536)
	require.NoError(t, err)
	require.Len(t, slices.Concat(inode, block), 4600)
}
