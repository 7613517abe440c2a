package build

import (
	"encoding/binary"
	"unsafe"

	"drydock/internal/mkfs"
)

// slabBits is the binary logarithm of the elements in one chunk of a slab.
const slabBits = 14

// slab is a list of values without pointers that grows without ever being
// copied: it is made of chunks of 1<<slabBits elements that lie outside the
// heap where the host allows it. So growth leaves no garbage, and flatten hands
// each chunk back as soon as it is copied: the peak is one list, not two.
type slab[T any] struct {
	chunks [][]T
	n      uint32
}

// add appends v and returns its index.
func (s *slab[T]) add(v T) uint32 {
	i := s.n
	if int(i>>slabBits) == len(s.chunks) {
		s.chunks = append(s.chunks, pagesOf[T](1<<slabBits))
	}
	s.n++
	*s.at(i) = v
	return i
}

func (s *slab[T]) at(i uint32) *T {
	return &s.chunks[i>>slabBits][i&(1<<slabBits-1)]
}

// flatten returns the first n elements in one slice with room for spare more,
// and empties the slab.
func (s *slab[T]) flatten(n uint32, spare int) []T {
	flat := make([]T, 0, int(n)+spare)
	for i, chunk := range s.chunks {
		if left := int(n) - len(flat); left > 0 {
			flat = append(flat, chunk[:min(left, len(chunk))]...)
		}
		freePagesOf(chunk)
		s.chunks[i] = nil
	}
	*s = slab[T]{}
	return flat
}

func (s *slab[T]) free() {
	for _, chunk := range s.chunks {
		freePagesOf(chunk)
	}
	*s = slab[T]{}
}

// pagesOf returns n zero values of a type without pointers.
func pagesOf[T any](n int) []T {
	var v T
	b := allocPages(n * int(unsafe.Sizeof(v)))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// freePagesOf gives back what pagesOf returned. Nothing may refer to it.
func freePagesOf[T any](p []T) {
	var v T
	n := len(p) * int(unsafe.Sizeof(v))
	freePages(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(p))), n))
}

// nameChunk is the size of a chunk of names; a name lies in one chunk.
const nameChunk = 1 << 20

const (
	nameHeader = 2         // bytes of the length in front of a name, see mkfs.Names
	maxString  = 1<<16 - 1 // bytes of a string that Names holds
	maxNames   = 1<<32 - nameChunk
)

// nameSlab is mkfs.Names in the making: references stay what they are when
// it is flattened, and strings can still be read through it then.
type nameSlab struct {
	chunks [][]byte
	n      uint64 // bytes, with the gaps at the ends of chunks
	flat   mkfs.Names
}

// add appends s of at most maxString bytes and returns its place. It is false
// when there is no room for more.
func (s *nameSlab) add(name []byte) (mkfs.NameRef, bool) {
	need := uint64(nameHeader + len(name))
	if s.n%nameChunk+need > nameChunk {
		s.n = (s.n + nameChunk - 1) &^ (nameChunk - 1)
	}
	if s.n+need > maxNames {
		return 0, false
	}
	if int(s.n/nameChunk) == len(s.chunks) {
		s.chunks = append(s.chunks, allocPages(nameChunk))
	}
	ref := s.n
	b := s.chunks[ref/nameChunk][ref%nameChunk:]
	binary.LittleEndian.PutUint16(b, uint16(len(name)))
	copy(b[nameHeader:], name)
	s.n += need
	return mkfs.NameRef(ref), true
}

// get returns the string at ref. It is valid until the slab is flattened or freed.
func (s *nameSlab) get(ref mkfs.NameRef) []byte {
	if s.flat != nil {
		return s.flat.Get(ref)
	}
	return mkfs.Names(s.chunks[ref/nameChunk]).Get(ref % nameChunk)
}

// flatten moves the names into one slice with room for spare bytes more.
func (s *nameSlab) flatten(spare int) mkfs.Names {
	flat := make(mkfs.Names, 0, s.n+uint64(spare))
	for i, chunk := range s.chunks {
		flat = append(flat, chunk[:min(s.n-uint64(len(flat)), nameChunk)]...)
		freePages(chunk)
		s.chunks[i] = nil
	}
	s.chunks = nil
	s.flat = flat
	return flat
}

func (s *nameSlab) free() {
	for _, chunk := range s.chunks {
		freePages(chunk)
	}
	s.chunks = nil
}
