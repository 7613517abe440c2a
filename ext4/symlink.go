package ext4

import (
	"slices"
	"syscall"

	"drydock/format"
)

// Readlink returns the target of a symbolic link; links on the way to it are
// followed.
func (fsys *FS) Readlink(name string) (string, error) {
	var target string
	err := fsys.lookup(name, false, func(in *inode) (err error) {
		target, err = in.readlink()
		return err
	})
	return target, pathError("readlink", name, err)
}

// readlink returns the target, which is as long as the size says and holds no
// zero byte.
func (in *inode) readlink() (string, error) {
	switch {
	case !in.isSymlink():
		return "", syscall.EINVAL
	case in.raw.HasFlags(format.InodeEncrypt):
		return "", ErrEncrypted
	}
	size := in.size()
	if limit := min(maxTarget, in.fs.geo.BlockSize-1); size == 0 || size > uint64(limit) {
		return "", in.damaged("symbolic link of %d bytes, want 1 to %d", size, limit)
	}
	target := make([]byte, size)
	if err := in.readTarget(target); err != nil {
		return "", err
	}
	if slices.Contains(target, 0) {
		return "", in.damaged("zero byte in the target of a symbolic link")
	}
	return string(target), nil
}

// readTarget fills p with the target, whose block, if it has one, is metadata:
// its newest version may be in the journal only.
func (in *inode) readTarget(p []byte) error {
	switch {
	case in.inline():
		data, err := in.inlineData()
		copy(p, data)
		return err
	case in.raw.IsFastSymlink():
		copy(p, in.raw.IBlock())
		return nil
	}
	x, err := in.blockMap().Lookup(0)
	switch {
	case err != nil:
		return err
	case x.Start == 0 || x.Unwritten:
		return in.damaged("symbolic link without a block")
	}
	block, err := in.get(x.Start)
	copy(p, block)
	return in.wrap(err)
}

// maxTarget is the longest target of a symbolic link in bytes, PATH_MAX-1.
const maxTarget = 4095
