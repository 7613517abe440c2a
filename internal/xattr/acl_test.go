package xattr

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// diskACLWithMask is `u::rwx,u:1000:rwx,g::r-x,m::rwx,o::r-x` on the disk.
var diskACLWithMask = []byte{1, 0, 0, 0, 1, 0, 7, 0, 2, 0, 7, 0, 0xe8, 3, 0, 0, 4, 0, 5, 0, 16, 0, 7, 0, 32, 0, 5, 0}

// diskACLPlain is `u::rwx,g::r-x,o::r-x` on the disk.
var diskACLPlain = []byte{1, 0, 0, 0, 1, 0, 7, 0, 4, 0, 5, 0, 32, 0, 5, 0}

func TestInheritACL(t *testing.T) {
	masked := []byte{1, 0, 0, 0, 1, 0, 6, 0, 2, 0, 7, 0, 0xe8, 3, 0, 0, 4, 0, 5, 0, 16, 0, 4, 0, 32, 0, 0, 0}
	for _, c := range []struct {
		name        string
		parent      []byte
		mode        uint16
		want        uint16
		access, def []byte
	}{
		{"none", nil, format.ModeRegular | 0666, format.ModeRegular | 0666, nil, nil},
		{"empty", diskACL[:4], format.ModeDir | 0777, format.ModeDir | 0777, nil, nil},
		{"symlink", diskACLWithMask, format.ModeSymlink | 0777, format.ModeSymlink | 0777, nil, nil},
		{"file", diskACLWithMask, format.ModeRegular | 0640, format.ModeRegular | 0640, masked, nil},
		{"dir", diskACLWithMask, format.ModeDir | format.ModeSetGID | 0640, format.ModeDir | format.ModeSetGID | 0640, masked, diskACLWithMask},
		{"plain file", diskACLPlain, format.ModeRegular | 0666, format.ModeRegular | 0644, nil, nil},
		{"plain dir", diskACLPlain, format.ModeDir | 0777, format.ModeDir | 0755, nil, diskACLPlain},
	} {
		mode, access, def, err := InheritACL(c.parent, c.mode)
		require.NoError(t, err, c.name)
		require.Equal(t, []any{c.want, c.access, c.def}, []any{mode, access, def}, c.name)
	}
	_, _, _, err := InheritACL([]byte{1, 0, 0, 0, 1, 0, 7, 0}, format.ModeRegular)
	require.ErrorIs(t, err, format.ErrDamaged)
	require.Equal(t, byte(7), diskACLWithMask[6], "the parent's own was changed")
}

func TestChmodACL(t *testing.T) {
	got, err := ChmodACL(diskACLWithMask, 0421)
	require.NoError(t, err)
	require.Equal(t, []byte{1, 0, 0, 0, 1, 0, 4, 0, 2, 0, 7, 0, 0xe8, 3, 0, 0, 4, 0, 5, 0, 16, 0, 2, 0, 32, 0, 1, 0}, got)
	got, err = ChmodACL(diskACLPlain, 0421)
	require.NoError(t, err)
	require.Equal(t, []byte{1, 0, 0, 0, 1, 0, 4, 0, 4, 0, 2, 0, 32, 0, 1, 0}, got)
	got, err = ChmodACL(diskACL[:4], 0777)
	require.NoError(t, err)
	require.Equal(t, diskACL[:4], got)
	_, err = ChmodACL([]byte{2, 0, 0, 0, 1, 0, 7, 0}, 0777)
	require.ErrorIs(t, err, format.ErrDamaged)
}

func TestModeOfACL(t *testing.T) {
	mode, store, err := ModeOfACL(diskACLWithMask, format.ModeRegular|format.ModeSetUID|0600)
	require.NoError(t, err)
	require.True(t, store)
	require.EqualValues(t, format.ModeRegular|format.ModeSetUID|0775, mode)
	mode, store, err = ModeOfACL(diskACLPlain, format.ModeDir)
	require.NoError(t, err)
	require.False(t, store)
	require.EqualValues(t, format.ModeDir|0755, mode)
	_, _, err = ModeOfACL(nil, 0)
	require.ErrorIs(t, err, format.ErrDamaged)
}
