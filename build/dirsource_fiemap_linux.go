package build

import (
	"cmp"
	"encoding/binary"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"drydock/internal/mkfs"
)

// dataRanges returns where a file has data or space that was allocated for it
// in advance; all of it if the host cannot say.
//
// SEEK_DATA alone is not enough: it takes space that was never written for a
// hole or not, depending on what the page cache happens to hold. FIEMAP alone
// is not either: it may not know of data that has no place yet.
func dataRanges(fd int, size uint64) []mkfs.Range {
	written := seekRanges(fd, size)
	if !isSparse(written, size) {
		return written
	}
	return joinRanges(append(written, allocatedRanges(fd, size)...))
}

// seekRanges returns where a file has data.
func seekRanges(fd int, size uint64) (ranges []mkfs.Range) {
	for off := int64(0); uint64(off) < size; {
		data, err := unix.Seek(fd, off, unix.SEEK_DATA)
		if err == unix.ENXIO {
			break
		}
		if err != nil || data < off {
			return addRange(ranges, uint64(off), size-uint64(off))
		}
		hole, err := unix.Seek(fd, data, unix.SEEK_HOLE)
		if err != nil || hole <= data || uint64(hole) > size {
			hole = int64(size)
		}
		if uint64(data) >= size {
			break
		}
		ranges = addRange(ranges, uint64(data), uint64(hole-data))
		off = hole
	}
	return ranges
}

// joinRanges orders ranges and joins those that touch or overlap.
func joinRanges(ranges []mkfs.Range) (joined []mkfs.Range) {
	slices.SortFunc(ranges, func(a, b mkfs.Range) int { return cmp.Compare(a.Off, b.Off) })
	for _, r := range ranges {
		i := len(joined) - 1
		if i < 0 || joined[i].Off+joined[i].Len < r.Off {
			joined = append(joined, r)
			continue
		}
		joined[i].Len = max(joined[i].Len, r.Off+r.Len-joined[i].Off)
	}
	return joined
}

// The FIEMAP call: offsets in bytes in struct fiemap and, after it, in each
// struct fiemap_extent; numbers in the host's byte order. Source:
// include/uapi/linux/fiemap.h.
const (
	fsIocFiemap = 0xC020660B

	fmLength  = 8  // u64, bytes to look at
	fmMapped  = 20 // u32, extents returned
	fmCount   = 24 // u32, room for extents
	fmSize    = 32
	feLogical = 0  // u64, bytes
	feLength  = 16 // u64, bytes
	feFlags   = 40 // u32
	feSize    = 56
	feLast    = 1 // of the file

	fiemapExtents = 128 // asked for at once
)

// allocatedRanges returns which parts of a file have space of their own, none
// if the host does not say.
func allocatedRanges(fd int, size uint64) (ranges []mkfs.Range) {
	ne := binary.NativeEndian
	buf := make([]byte, fmSize+fiemapExtents*feSize)
	for off := uint64(0); off < size; {
		clear(buf[:fmSize])
		ne.PutUint64(buf, off)
		ne.PutUint64(buf[fmLength:], size-off)
		ne.PutUint32(buf[fmCount:], fiemapExtents)
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fsIocFiemap, uintptr(unsafe.Pointer(&buf[0]))); errno != 0 {
			return ranges
		}
		n := min(int(ne.Uint32(buf[fmMapped:])), fiemapExtents)
		before := off
		for i := range n {
			e := buf[fmSize+i*feSize:]
			start, length := ne.Uint64(e[feLogical:]), ne.Uint64(e[feLength:])
			end := min(start+length, size)
			if start < end {
				ranges = append(ranges, mkfs.Range{Off: start, Len: end - start})
			}
			off = max(off, start+length)
			if ne.Uint32(e[feFlags:])&feLast != 0 {
				return ranges
			}
		}
		if off == before {
			break
		}
	}
	return ranges
}
