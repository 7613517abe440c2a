package build

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/google/uuid"

	"drydock/format"
	"drydock/internal/mkfs"
)

// attributeDigest is a digest of everything but the files' data: names, types,
// modes, owners, times, sizes, xattrs, targets, and which names are one file.
// It depends on the tree alone, not on the order in which it was found.
func attributeDigest(c *mkfs.Content) [32]byte {
	d := digester{c: c, hash: sha256.New(), seen: make([]uint32, len(c.Nodes))}
	d.node(0)
	stack := []uint32{0}
	for len(stack) > 0 {
		dir := &c.Nodes[stack[len(stack)-1]]
		stack = stack[:len(stack)-1]
		for _, e := range c.Entries[dir.First : dir.First+dir.Count] {
			d.bytes(c.Names.Get(e.Name))
			if d.node(e.Node) && c.Nodes[e.Node].Mode&format.ModeType == format.ModeDir {
				stack = append(stack, e.Node)
			}
		}
	}
	d.flush()
	return [32]byte(d.hash.Sum(nil))
}

// digester gathers bytes for the hash, which is fast only on larger pieces.
type digester struct {
	c     *mkfs.Content
	hash  hash.Hash
	buf   []byte
	seen  []uint32 // the place of each node in the order of the walk
	count uint32
}

// node adds a node, or which earlier one it is.
func (d *digester) node(i uint32) (fresh bool) {
	d.number(uint64(d.seen[i]))
	if d.seen[i] != 0 {
		return false
	}
	d.count++
	d.seen[i] = d.count
	n := &d.c.Nodes[i]
	for _, v := range []uint64{
		uint64(n.Mode), uint64(n.UID), uint64(n.GID), uint64(n.Mtime.Sec), uint64(n.Mtime.Nsec), n.Size,
	} {
		d.number(v)
	}
	d.special(n)
	d.xattrs(n)
	return true
}

// special adds what a node of its type has besides.
func (d *digester) special(n *mkfs.Node) {
	switch n.Mode & format.ModeType {
	case format.ModeSymlink:
		d.bytes(d.c.Names.Get(mkfs.NameRef(n.First)))
	case format.ModeChar, format.ModeBlock:
		d.number(uint64(n.First)<<32 | uint64(n.Count))
	case format.ModeDir:
		d.number(uint64(n.Count))
	case format.ModeRegular:
		if n.Sparse {
			d.number(uint64(n.Count))
			for _, r := range d.c.Ranges[n.First : n.First+n.Count] {
				d.number(r.Off)
				d.number(r.Len)
			}
		}
	}
}

func (d *digester) xattrs(n *mkfs.Node) {
	if n.Xattrs == 0 {
		return
	}
	for _, x := range d.c.Xattrs[n.Xattrs-1] {
		d.number(uint64(x.Index))
		d.bytes([]byte(x.Name))
		d.bytes(x.Value)
	}
}

func (d *digester) number(v uint64) {
	d.buf = binary.AppendUvarint(d.buf, v)
	if len(d.buf) >= 32<<10 {
		d.flush()
	}
}

func (d *digester) bytes(b []byte) {
	d.number(uint64(len(b)))
	d.buf = append(d.buf, b...)
}

func (d *digester) flush() {
	d.hash.Write(d.buf)
	d.buf = d.buf[:0]
}

// deriveUUID makes a UUID (version 8) of what the content is.
func deriveUUID(attributes, data [32]byte) [16]byte {
	h := sha256.New()
	h.Write(attributes[:])
	h.Write(data[:])
	u := [16]byte(h.Sum(nil))
	setVersion(&u, 8)
	return u
}

func uuidString(u [16]byte) string { return uuid.UUID(u).String() }

// newestTime is the latest time of any file: a time for the file system that
// depends on the content alone.
func newestTime(c *mkfs.Content) format.Time {
	newest := format.Time{}
	for i := range c.Nodes {
		if t := c.Nodes[i].Mtime; newest.Before(t) {
			newest = t
		}
	}
	return newest
}
