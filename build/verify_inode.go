package build

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"drydock/ext4"
	"drydock/format"
	"drydock/internal/mkfs"
)

// nodeCheck compares one inode with its node.
type nodeCheck struct {
	*verifier
	path string
	n    *mkfs.Node
	f    *ext4.File
	st   *ext4.Stat
}

// compare compares an inode with its node in everything but names.
func (v *verifier) compare(data *dataComparer, job verifyJob) {
	f, err := v.fs.OpenInode(job.ino)
	if err != nil {
		v.report.add(job.path, "cannot be opened: %w", err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		v.report.add(job.path, "%w", err)
		return
	}
	c := nodeCheck{verifier: v, path: job.path, n: &v.c.Nodes[job.node], f: f, st: ext4.StatOf(info)}
	if c.st.Mode&format.ModeType != c.n.Mode&format.ModeType {
		c.differ("is of type %v, want %v", ext4.FileMode(c.st.Mode).Type(), ext4.FileMode(c.n.Mode).Type())
		return
	}
	c.attributes()
	c.times()
	c.xattrs()
	c.content(data)
}

func (c *nodeCheck) differ(format string, args ...any) { c.report.add(c.path, format, args...) }

// equal reports a number that is not as it should be.
func (c *nodeCheck) equal(what string, got, want uint64) {
	if got != want {
		c.differ("%s is %d, want %d", what, got, want)
	}
}

func (c *nodeCheck) attributes() {
	if c.st.Mode != c.n.Mode {
		c.differ("mode is %#o, want %#o", c.st.Mode, c.n.Mode)
	}
	c.equal("uid", uint64(c.st.UID), uint64(c.n.UID))
	c.equal("gid", uint64(c.st.GID), uint64(c.n.GID))
	c.equal("link count", uint64(c.st.Nlink), uint64(c.links()))
}

// links is the link count that the inode must have: its names, or for a
// directory its name, its dot, and the dot-dot of each directory in it.
func (c *nodeCheck) links() uint32 {
	if !isDir(c.n) {
		return c.n.Links
	}
	count := uint32(2)
	for _, e := range c.c.Entries[c.n.First : c.n.First+c.n.Count] {
		if isDir(&c.c.Nodes[e.Node]) {
			count++
		}
	}
	if c.path == "" && c.addedLostFound() {
		count++
	}
	if count > format.LinkMax {
		return 1 // dir_nlink: too many to count
	}
	return count
}

// addedLostFound reports whether the image's root has a lost+found of its own.
func (c *nodeCheck) addedLostFound() bool {
	for _, e := range c.c.Entries[c.n.First : c.n.First+c.n.Count] {
		if string(c.c.Names.Get(e.Name)) == lostFound {
			return false
		}
	}
	_, err := c.fs.Lstat(lostFound)
	return err == nil
}

// times compares all times with the one that the node has. Inodes of 128
// bytes hold whole seconds up to 2038, and no time of creation.
func (c *nodeCheck) times() {
	want := c.n.Mtime.Clamp()
	all := []struct {
		what string
		got  format.Time
	}{{"mtime", c.st.Mtime}, {"atime", c.st.Atime}, {"ctime", c.st.Ctime}, {"crtime", c.st.Crtime}}
	if c.geo.InodeSize == format.GoodOldInodeSize {
		want = format.Time{Sec: min(want.Sec, math.MaxInt32)}
		all = all[:3]
	}
	for _, t := range all {
		if t.got != want {
			c.differ("%s is %v, want %v", t.what, t.got.Time(), want.Time())
		}
	}
}

func (c *nodeCheck) xattrs() {
	got, err := c.f.Xattrs()
	if err != nil {
		c.differ("attributes cannot be read: %w", err)
		return
	}
	want, err := c.wantXattrs()
	if err != nil {
		c.differ("attributes of the source: %w", err)
		return
	}
	for len(want) > 0 || len(got) > 0 {
		switch order := orderXattrs(got, want); {
		case order < 0:
			c.differ("attribute %s should not be there", got[0].Name)
			got = got[1:]
		case order > 0:
			c.differ("attribute %s is missing", want[0].Name)
			want = want[1:]
		default:
			if !bytes.Equal(got[0].Value, want[0].Value) {
				c.differ("attribute %s is %s, want %s", want[0].Name, shortValue(got[0].Value), shortValue(want[0].Value))
			}
			got, want = got[1:], want[1:]
		}
	}
}

// wantXattrs returns the node's attributes in the form of getxattr, sorted.
func (c *nodeCheck) wantXattrs() ([]ext4.Xattr, error) {
	if c.n.Xattrs == 0 {
		return nil, nil
	}
	var list []ext4.Xattr
	for _, x := range c.c.Xattrs[c.n.Xattrs-1] {
		value := x.Value
		if isACL(x.Index) {
			var err error
			if value, err = format.ACLFromDisk(value); err != nil {
				return nil, fmt.Errorf("%s: %w", x.FullName(), err)
			}
		}
		list = append(list, ext4.Xattr{Name: x.FullName(), Value: value})
	}
	slices.SortFunc(list, func(a, b ext4.Xattr) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func orderXattrs(got, want []ext4.Xattr) int {
	switch {
	case len(got) == 0:
		return 1
	case len(want) == 0:
		return -1
	}
	return strings.Compare(got[0].Name, want[0].Name)
}

// shortValue quotes a value for a message.
func shortValue(v []byte) string {
	const most = 32
	if len(v) > most {
		return fmt.Sprintf("%q... (%d bytes)", v[:most], len(v))
	}
	return fmt.Sprintf("%q", v)
}

// content compares what the type of file holds.
func (c *nodeCheck) content(data *dataComparer) {
	switch c.n.Mode & format.ModeType {
	case format.ModeRegular:
		if uint64(c.st.Size) != c.n.Size {
			c.differ("size is %d, want %d", c.st.Size, c.n.Size)
			return
		}
		if err := data.compare(c); err != nil && err != errStopped {
			c.differ("%w", err)
		}
		c.Progress(0, 1)
	case format.ModeSymlink:
		target, err := c.f.Readlink()
		if want := c.c.Names.Get(mkfs.NameRef(c.n.First)); err != nil || target != string(want) {
			c.differ("target is %s (error: %v), want %s", quotePath(target), err, quotePath(string(want)))
		}
	case format.ModeChar, format.ModeBlock:
		c.equal("major number", uint64(c.st.Major), uint64(c.n.First))
		c.equal("minor number", uint64(c.st.Minor), uint64(c.n.Count))
	}
}
