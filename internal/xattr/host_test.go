package xattr

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// An ACL of owner, group and other in both forms.
var (
	hostACL = []byte{2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 4, 0, 4, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255}
	diskACL = []byte{1, 0, 0, 0, 1, 0, 6, 0, 4, 0, 4, 0, 32, 0, 4, 0}
)

func TestFromAndToHost(t *testing.T) {
	for _, c := range []struct {
		name  string
		value []byte
		want  format.Xattr
	}{
		{"user.a", []byte("v"), format.Xattr{Index: format.XattrUser, Name: "a", Value: []byte("v")}},
		{"security.capability", []byte{1, 2}, format.Xattr{Index: format.XattrSecurity, Name: "capability", Value: []byte{1, 2}}},
		{"system.posix_acl_access", hostACL, format.Xattr{Index: format.XattrACLAccess, Value: diskACL}},
		{"system.posix_acl_default", hostACL, format.Xattr{Index: format.XattrACLDefault, Value: diskACL}},
	} {
		x, err := FromHost(c.name, c.value)
		require.NoError(t, err)
		require.Equal(t, c.want, x)
		name, value, err := ToHost(x)
		require.NoError(t, err)
		require.Equal(t, c.name, name)
		require.Equal(t, c.value, value)
	}
}

func TestFromHostRefuses(t *testing.T) {
	_, err := FromHost("com.apple.quarantine", nil)
	require.ErrorContains(t, err, `extended attribute "com.apple.quarantine": unknown namespace`)
	_, err = FromHost("system.posix_acl_access", []byte{9, 0, 0, 0})
	require.EqualError(t, err, `extended attribute "system.posix_acl_access": ACL at 0x0: version 9, want 2`)
	var name *NameError
	require.ErrorAs(t, err, &name)
	_, _, err = ToHost(format.Xattr{Index: format.XattrACLAccess, Value: []byte{7}})
	require.ErrorIs(t, err, format.ErrDamaged)
}
