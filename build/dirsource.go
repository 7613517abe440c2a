package build

import (
	"fmt"
	"os"

	"drydock/format"
	"drydock/internal/mkfs"
)

// HoleMode says which parts of a file are left without blocks.
type HoleMode string

// The modes of holes. The empty mode is HolesPreserve.
const (
	HolesPreserve HoleMode = "preserve" // the source's holes, and no others
	HolesDig      HoleMode = "dig"      // every whole block of zeros
	HolesFill     HoleMode = "fill"     // nothing
)

// ParseHoleMode reads the name of a mode.
func ParseHoleMode(s string) (HoleMode, error) {
	switch m := HoleMode(s); m {
	case "":
		return HolesPreserve, nil
	case HolesPreserve, HolesDig, HolesFill:
		return m, nil
	}
	return "", fmt.Errorf("holes %q: want %s, %s or %s", s, HolesPreserve, HolesDig, HolesFill)
}

// DirOptions says how a directory is read.
type DirOptions struct {
	Workers        int           // goroutines that read; 0: one a CPU. The result does not depend on it.
	Holes          HoleMode      //
	SkipUnreadable bool          // go on without what cannot be read; Tree.Skipped tells what that is
	Skip           []os.FileInfo // regular files that are left out wherever they are, such as the image itself

	shuffle func(n int, swap func(i, j int)) // changes the order of names, for tests
}

// rootName is how messages call the source's root.
const rootName = "."

// sparseCheck is the size in bytes from which a file is asked for holes even
// if it has as many blocks as its size needs: those may lie behind its end.
const sparseCheck = 1 << 20

// fileRec is where a file was found: a directory's number and a name in it.
type fileRec struct {
	dir  uint32
	name mkfs.NameRef
}

// hostID names an inode of the host.
type hostID struct{ dev, ino uint64 }

// The handle of a file of a directory is the index of its fileRec in the low
// and a stamp in the high half. The stamp tells whether the file is still what
// it was when it was scanned.
func dirHandle(index, stamp uint32) uint64 { return uint64(stamp)<<32 | uint64(index) }

func splitHandle(handle uint64) (index, stamp uint32) { return uint32(handle), uint32(handle >> 32) }

// stampOf mixes numbers that change when a file does. Two states of a file
// that differ have the same stamp once in 2^32 times.
func stampOf(numbers ...uint64) uint32 {
	h := uint64(0x9E3779B97F4A7C15)
	for _, n := range numbers {
		h ^= n
		h *= 0xBF58476D1CE4E5B9
		h ^= h >> 27
		h *= 0x94D049BB133111EB
		h ^= h >> 31
	}
	return uint32(h)
}

// changedError says that a file is not the one that was scanned.
func changedError(path string) error {
	return fmt.Errorf("%s: %w", quotePath(path), ErrChanged)
}

// storable reports whether ext4 has the namespace for any program to use.
// Others are the host file system's own, such as btrfs.compression, or have a
// meaning inside ext4, such as system.data.
func storable(index uint8) bool {
	switch index {
	case format.XattrUser, format.XattrTrusted, format.XattrSecurity, format.XattrHurd,
		format.XattrACLAccess, format.XattrACLDefault:
		return true
	}
	return false
}

// newXattr makes an attribute from its full name and its value as getxattr
// returns it. It is false for a namespace that ext4 does not have.
func newXattr(name string, value []byte) (x format.Xattr, ok bool, err error) {
	index, short, ok := format.SplitXattrName(name)
	switch {
	case len(short) > format.MaxXattrName:
		return x, false, fmt.Errorf("name of %d bytes after its namespace, at most %d are possible", len(short), format.MaxXattrName)
	case len(value) > format.MaxXattrValueSize:
		return x, false, fmt.Errorf("value of %d bytes, at most %d are possible", len(value), format.MaxXattrValueSize)
	case !ok || !storable(index):
		return x, false, nil
	}
	if isACL(index) {
		if value, err = format.ACLToDisk(value); err != nil {
			return x, false, err
		}
	}
	return format.Xattr{Index: index, Name: short, Value: value}, true, nil
}

func warnXattr(name string) string {
	return fmt.Sprintf("xattr %q is left out, ext4 has no such namespace", name)
}
