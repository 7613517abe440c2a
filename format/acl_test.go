package format

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The ACL of `setfacl -m u:1000:rwx,g:2000:r-x FILE` on a file of mode 0644,
// as `getfattr -e hex -n system.posix_acl_access FILE` shows it, and as the
// xattr area of the inode held it on ext4 (Linux 6.18).
const (
	aclGoldenXattr = "02000000" +
		"0100 0600 ffffffff" + "0200 0700 e8030000" + "0400 0400 ffffffff" +
		"0800 0500 d0070000" + "1000 0700 ffffffff" + "2000 0400 ffffffff"
	aclGoldenDisk = "01000000" +
		"0100 0600" + "0200 0700 e8030000" + "0400 0400" +
		"0800 0500 d0070000" + "1000 0700" + "2000 0400"
)

func TestACLGolden(t *testing.T) {
	disk, err := ACLToDisk(unhex(t, aclGoldenXattr))
	require.NoError(t, err)
	require.Equal(t, unhex(t, aclGoldenDisk), disk)
	back, err := ACLFromDisk(disk)
	require.NoError(t, err)
	require.Equal(t, unhex(t, aclGoldenXattr), back)
}

func TestACLToDiskRefuses(t *testing.T) {
	const owner, group, other = "0100 0600 ffffffff", "0400 0400 ffffffff", "2000 0400 ffffffff"
	const user, mask = "0200 0700 e8030000", "1000 0700 ffffffff"
	for _, c := range []struct{ name, raw, want string }{
		{"nothing", "", "ACL at 0x0: 0 bytes, want 4 and 8 an entry"},
		{"cut off", "02000000" + "0100", "ACL at 0x0: 6 bytes, want 4 and 8 an entry"},
		{"version", "01000000", "ACL at 0x0: version 1, want 2"},
		{"empty", "02000000", "ACL at 0x0: tags 0x0, want owner, group and other"},
		{"tag", "02000000" + "0300 0000 ffffffff", "ACL at 0x4: unknown tag 0x3"},
		{"permissions", "02000000" + "0100 0800 ffffffff", "ACL at 0x4: permissions 0x8, want at most 7"},
		{"order", "02000000" + group + owner + other, "ACL at 0xc: tag 0x1 after 0x4"},
		{"twice", "02000000" + owner + owner + group + other, "ACL at 0xc: tag 0x1 after 0x1"},
		{"no id", "02000000" + owner + "0200 0700 ffffffff", "ACL at 0xc: tag 0x2 without an id"},
		{"no mask", "02000000" + owner + user + group + other, "ACL at 0x0: tags 0x27, want a mask beside named users and groups"},
		{"no other", "02000000" + owner + user + group + mask, "ACL at 0x0: tags 0x17, want owner, group and other"},
	} {
		_, err := ACLToDisk(unhex(t, c.raw))
		require.EqualError(t, err, c.want, c.name)
	}
}

func TestACLFromDiskRefuses(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"nothing", "", "ACL at 0x0: 0 bytes, want at least 4"},
		{"version", "02000000", "ACL at 0x0: version 2 on the disk, want 1"},
		{"cut off", "01000000" + "0100", "ACL at 0x4: entry of 2 bytes, want 4"},
		{"tag", "01000000" + "0300 0000", "ACL at 0x4: unknown tag 0x3"},
		{"no id", "01000000" + "0100 0600" + "0200 0700", "ACL at 0x8: entry of 4 bytes, want 8"},
	} {
		_, err := ACLFromDisk(unhex(t, c.raw))
		require.EqualError(t, err, c.want, c.name)
		require.ErrorIs(t, err, ErrDamaged)
	}
}

func TestACLRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xattr := drawACL(t)
		disk, err := ACLToDisk(xattr)
		require.NoError(t, err)
		back, err := ACLFromDisk(disk)
		require.NoError(t, err)
		require.Equal(t, xattr, back)
	})
}

// drawACL draws an ACL that Linux takes.
func drawACL(t *rapid.T) []byte {
	users := rapid.SliceOfN(rapid.Uint32Max(aclNoID-1), 0, 4).Draw(t, "users")
	groups := rapid.SliceOfN(rapid.Uint32Max(aclNoID-1), 0, 4).Draw(t, "groups")
	b := []byte{aclXattrVersion, 0, 0, 0}
	add := func(tag uint16, ids ...uint32) {
		for _, id := range ids {
			var e [8]byte
			aclTag.put(e[:], tag)
			aclPerm.put(e[:], uint16(rapid.IntRange(0, 7).Draw(t, "perm")))
			aclID.put(e[:], id)
			b = append(b, e[:]...)
		}
	}
	add(aclUserObj, aclNoID)
	add(aclUser, users...)
	add(aclGroupObj, aclNoID)
	add(aclGroup, groups...)
	if len(users)+len(groups) > 0 || rapid.Bool().Draw(t, "mask") {
		add(aclMask, aclNoID)
	}
	add(aclOther, aclNoID)
	return b
}

func FuzzACL(f *testing.F) {
	f.Add(unhex(f, aclGoldenXattr))
	f.Add(unhex(f, aclGoldenDisk))
	f.Fuzz(func(t *testing.T, b []byte) {
		if disk, err := ACLToDisk(b); err == nil {
			_, err := ACLFromDisk(disk)
			require.NoError(t, err)
		}
		x, err := ACLFromDisk(b)
		if err != nil {
			return
		}
		if disk, err := ACLToDisk(x); err == nil {
			require.Equal(t, b, slices.Clip(disk))
		}
	})
}
