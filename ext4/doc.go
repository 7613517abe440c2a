// Package ext4 opens file systems of the ext2, ext3 and ext4 family on a
// device.Device, in user space, with the vocabulary of os.Root.
//
//	      name            ino             LBlock             Block
//	Open ─────► resolve ──────► inode ──┬────────► extents ───────► device
//	            (path.go)    (inode.go) ├► inline data (in the inode)
//	               ▲                    └► xattrs  (in the inode, a block, EA inodes)
//	               └── directories (dir.go)
//
// Contract.
//
// A name is a list of names separated by slashes, of any bytes but the slash;
// it is resolved inside the image only. A slash in front, and a symbolic link
// whose target has one, lead to the root of the image; dot-dot in the root is
// the root. After 40 symbolic links a name fails with syscall.ELOOP.
//
// Errors are *fs.PathError. What they wrap is a syscall.Errno for what a
// kernel would say (ENOENT, ENOTDIR, EISDIR, ELOOP, ENAMETOOLONG, EINVAL,
// EFBIG), format.ErrDamaged for bytes that cannot be right, with inode and
// block, format.ErrUnsupported for what this package does not read, or the
// device's own error.
//
// An image may hold anything: no bytes on it make this package panic, loop
// without end, or take memory out of proportion to what is stored. Everything
// that is sealed with a checksum is verified when it is read.
//
// An FS and a File may be used by many goroutines at once.
package ext4
