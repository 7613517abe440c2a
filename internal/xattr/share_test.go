package xattr

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

func TestTable(t *testing.T) {
	var table Table
	a := table.Intern([]format.Xattr{user("a", 100), user("b", 100)})
	require.Equal(t, a, table.Intern([]format.Xattr{user("b", 100), user("a", 100)}))
	b := table.Intern([]format.Xattr{user("a", 100)})
	require.NotEqual(t, a, b)
	require.Equal(t, []int{0, 1, 0, 1}, []int{table.Use(a), table.Use(b), table.Use(a), table.Use(b)})
	require.Equal(t, []Shared{{a, 2}, {b, 2}}, table.Blocks())
	require.Equal(t, "user.a user.b", names(table.Attrs(a)))
}

// The bytes of one attribute cannot pass for those of another.
func TestTableKeys(t *testing.T) {
	var table Table
	seen := map[Set]bool{}
	for _, attrs := range [][]format.Xattr{
		{{Index: 1, Name: "ab"}}, {{Index: 1, Name: "a", Value: []byte("b")}}, {{Index: 2, Name: "ab"}},
		{{Index: 1, Name: "ab", Value: []byte{0}}}, {{Index: 1, Name: "ab"}, {Index: 1, Name: "ac"}},
	} {
		id := table.Intern(attrs)
		require.False(t, seen[id])
		seen[id] = true
	}
}

// After 1,024 inodes a block is full.
func TestTableLimit(t *testing.T) {
	var table Table
	id := table.Intern([]format.Xattr{user("a", 100)})
	for i := range 2500 {
		require.Equal(t, i/1024, table.Use(id))
	}
	require.Equal(t, []Shared{{id, 1024}, {id, 1024}, {id, 452}}, table.Blocks())
}

// A set whose hash is 0 is not shared, as in Linux: only an empty name with a
// value of zeros has it.
func TestTableZeroHash(t *testing.T) {
	var table Table
	id := table.Intern([]format.Xattr{{Index: format.XattrACLDefault, Value: make([]byte, 4)}})
	require.Equal(t, []int{0, 1, 2}, []int{table.Use(id), table.Use(id), table.Use(id)})
}
