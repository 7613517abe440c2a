// Package ext4 opens file systems of the ext2, ext3 and ext4 family on a
// device.Device, in user space, with the vocabulary of os.Root, to read and to
// write.
//
//	      name            ino             LBlock             Block
//	Open ─────► resolve ──────► inode ──┬────────► extents ───────► device
//	            (path.go)    (inode.go) ├► inline data (in the inode)
//	               ▲                    └► xattrs  (in the inode, a block, EA inodes)
//	               └── directories (dir.go)
//
//	Mkdir, Rename, Chmod ... ──► Tx ──► journal ──► device      names, inodes, attributes
//	File.WriteAt ──► cache ──► writeback ──► device, then a Tx  data (delalloc.go)
//
// Contract of reading.
//
// A name is a list of names separated by slashes, of any bytes but the slash;
// it is resolved inside the image only. A slash in front, and a symbolic link
// whose target has one, lead to the root of the image; dot-dot in the root is
// the root. After 40 symbolic links a name fails with syscall.ELOOP.
//
// Errors are *fs.PathError, or *os.LinkError where there are two names. What they
// wrap is a syscall.Errno for what a kernel would say (ENOENT, ENOTDIR, ENOSPC,
// EROFS ...), format.ErrDamaged for bytes that cannot be right, with inode and
// block, format.ErrUnsupported for what this package does not read or write, or
// the device's own error.
//
// An image may hold anything: no bytes on it make this package panic, loop
// without end, or take memory out of proportion to what is stored. Everything
// that is sealed with a checksum is verified when it is read.
//
// An FS and a File may be used by many goroutines at once.
//
// Contract of writing.
//
// An operation on names, inodes or attributes is a transaction: it happens as a
// whole or not at all, also where it fails in the middle, and several can be one
// (FS.Update). It is durable after a Sync, and after a crash what is found is the
// state after one of the operations, in the order in which they were done, no older
// than the last Sync. Data written to a file is durable after a Sync, or one of
// the File; no crash shows bytes that were never written to it.
//
// Recovery (recovery.go) puts the journal's changes in place and deletes what was
// open without a name; it can be cut off anywhere and done again. For reading, the
// same happens in memory.
//
// Locks, from the outside to the inside: a file's data lock, its writeback lock,
// the transaction at work (one at a time), node.mu, the cache, a View of the
// journal. Nobody waits for a transaction inside a View.
package ext4
