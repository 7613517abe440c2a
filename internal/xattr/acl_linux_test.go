package xattr

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/format"
	"drydock/internal/oracle"
)

const (
	accessName  = "system.posix_acl_access"
	defaultName = "system.posix_acl_default"
)

// randomACL returns an ACL in the form of programs: owner, some users, group,
// some groups, perhaps a mask, others.
func randomACL(r *rand.Rand) []byte {
	b := []byte{2, 0, 0, 0}
	add := func(tag uint16, id uint32) {
		b = binary.LittleEndian.AppendUint16(b, tag)
		b = binary.LittleEndian.AppendUint16(b, uint16(r.IntN(8)))
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	const nobody = 0xFFFFFFFF
	users, groups := r.IntN(3), r.IntN(3)
	add(aclUserObj, nobody)
	for i := range users {
		add(2, uint32(1000+i))
	}
	add(aclGroupObj, nobody)
	for i := range groups {
		add(8, uint32(2000+i))
	}
	if users+groups > 0 || r.IntN(3) == 0 {
		add(aclMask, nobody)
	}
	add(aclOther, nobody)
	return b
}

// hostState is what the kernel says of a file, ACLs in disk form.
type hostState struct {
	mode        uint16
	access, def []byte
}

func stateOf(t *testing.T, path string) (s hostState) {
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(path, &st))
	s.mode = uint16(st.Mode)
	for name, to := range map[string]*[]byte{accessName: &s.access, defaultName: &s.def} {
		if value, ok := getAttrs(t, path)[name]; ok {
			disk, err := format.ACLToDisk([]byte(value))
			require.NoError(t, err)
			*to = disk
		}
	}
	return s
}

// The kernel gives new files and directories the mode and the ACLs that
// InheritACL says, after setxattr the mode of ModeOfACL, and after chmod the ACL
// of ChmodACL.
func TestKernelACLs(t *testing.T) {
	oracle.Need(t, "mke2fs", "e2fsck")
	path := t.TempDir() + "/fs.img"
	oracle.Run(t, "mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", path, "16M")
	dir := oracle.Mount(t, path)
	r := rand.New(rand.NewPCG(1, 8))
	for i := range 300 {
		parent := filepath.Join(dir, fmt.Sprint(i))
		require.NoError(t, os.Mkdir(parent, 0755))
		acl := randomACL(r)
		require.NoError(t, unix.Setxattr(parent, defaultName, acl, 0))
		disk, err := format.ACLToDisk(acl)
		require.NoError(t, err)
		checkChildren(t, r, parent, disk)
		checkAccess(t, r, filepath.Join(parent, "file"))
	}
	oracle.Unmount(t, dir)
	oracle.Fsck(t, path)
}

// checkChildren makes a file, a directory and a symlink.
func checkChildren(t *testing.T, r *rand.Rand, parent string, acl []byte) {
	perm := uint16(r.IntN(0o1000))
	for name, kind := range map[string]uint16{"file": format.ModeRegular, "dir": format.ModeDir, "link": format.ModeSymlink, "fifo": format.ModeFifo} {
		path := filepath.Join(parent, name)
		mode := kind | perm
		switch kind {
		case format.ModeDir:
			require.NoError(t, unix.Mkdir(path, uint32(perm)))
		case format.ModeSymlink:
			mode = kind | 0777
			require.NoError(t, unix.Symlink("to", path))
		default:
			require.NoError(t, unix.Mknod(path, uint32(mode), 0))
		}
		var want hostState
		var err error
		want.mode, want.access, want.def, err = InheritACL(acl, mode)
		require.NoError(t, err)
		require.Equal(t, want, stateOf(t, path), "%s of mode %o below %v", name, mode, acl)
	}
}

// checkAccess sets an access ACL on a file and changes its mode.
func checkAccess(t *testing.T, r *rand.Rand, path string) {
	acl := randomACL(r)
	before := stateOf(t, path)
	require.NoError(t, unix.Setxattr(path, accessName, acl, 0))
	disk, err := format.ACLToDisk(acl)
	require.NoError(t, err)
	mode, store, err := ModeOfACL(disk, before.mode)
	require.NoError(t, err)
	want := hostState{mode: mode, access: disk}
	if !store {
		want.access = nil
	}
	require.Equal(t, want, stateOf(t, path), "%v", acl)

	perm := uint16(r.IntN(0o1000))
	require.NoError(t, unix.Chmod(path, uint32(perm)))
	want.mode = format.ModeRegular | perm
	if store {
		want.access, err = ChmodACL(disk, want.mode)
		require.NoError(t, err)
	}
	require.Equal(t, want, stateOf(t, path), "%v, %o", acl, perm)
}
