package format

import (
	"bytes"
	"encoding/binary"
)

// The types below are byte offsets of fields within a structure; the type says
// how wide the field is and in which byte order it is stored. A constant such as
//
//	sbInodesCount le32 = 0x00
//
// is all that the package knows about a field, and SPEC.md is held to it. get and
// put panic when the field lies outside the slice, so lengths are checked once,
// when a structure is cut out of its block.
type (
	u8   int // one byte
	le16 int // 2 bytes, little-endian: everything but the journal
	le32 int // 4 bytes, little-endian
	le64 int // 8 bytes, little-endian
	be16 int // 2 bytes, big-endian: the journal
	be32 int // 4 bytes, big-endian
	be64 int // 8 bytes, big-endian
)

// Fields that are arrays of bytes or of smaller fields, named by their length.
type (
	bytes4  int
	bytes8  int
	bytes16 int
	bytes32 int
	bytes60 int
	bytes64 int
	bytes68 int
)

func (o u8) get(b []byte) uint8    { return b[o] }
func (o u8) put(b []byte, v uint8) { b[o] = v }

func (o le16) get(b []byte) uint16    { return binary.LittleEndian.Uint16(b[o:]) }
func (o le16) put(b []byte, v uint16) { binary.LittleEndian.PutUint16(b[o:], v) }

func (o le32) get(b []byte) uint32    { return binary.LittleEndian.Uint32(b[o:]) }
func (o le32) put(b []byte, v uint32) { binary.LittleEndian.PutUint32(b[o:], v) }

func (o le64) get(b []byte) uint64    { return binary.LittleEndian.Uint64(b[o:]) }
func (o le64) put(b []byte, v uint64) { binary.LittleEndian.PutUint64(b[o:], v) }

func (o be16) get(b []byte) uint16    { return binary.BigEndian.Uint16(b[o:]) }
func (o be16) put(b []byte, v uint16) { binary.BigEndian.PutUint16(b[o:], v) }

func (o be32) get(b []byte) uint32    { return binary.BigEndian.Uint32(b[o:]) }
func (o be32) put(b []byte, v uint32) { binary.BigEndian.PutUint32(b[o:], v) }

func (o be64) get(b []byte) uint64    { return binary.BigEndian.Uint64(b[o:]) }
func (o be64) put(b []byte, v uint64) { binary.BigEndian.PutUint64(b[o:], v) }

func (o bytes4) get(b []byte) [4]byte    { return [4]byte(b[o:]) }
func (o bytes4) put(b []byte, v [4]byte) { copy(b[o:o+4], v[:]) }

func (o bytes16) get(b []byte) [16]byte    { return [16]byte(b[o:]) }
func (o bytes16) put(b []byte, v [16]byte) { copy(b[o:o+16], v[:]) }

func (o bytes8) of(b []byte) []byte  { return b[o : o+8 : o+8] }
func (o bytes16) of(b []byte) []byte { return b[o : o+16 : o+16] }
func (o bytes32) of(b []byte) []byte { return b[o : o+32 : o+32] }
func (o bytes60) of(b []byte) []byte { return b[o : o+60 : o+60] }
func (o bytes64) of(b []byte) []byte { return b[o : o+64 : o+64] }
func (o bytes68) of(b []byte) []byte { return b[o : o+68 : o+68] }

// join16 puts the two halves of a 32-bit value together.
func join16(lo, hi uint16) uint32 { return uint32(hi)<<16 | uint32(lo) }

// join32 puts the two halves of a 64-bit value together.
func join32(lo, hi uint32) uint64 { return uint64(hi)<<32 | uint64(lo) }

// text is the NUL-padded string in b.
func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// putText stores s in b, cut off where b ends and padded with NULs.
func putText(b []byte, s string) { clear(b[copy(b, s):]) }
