//go:build unix

package build

import "golang.org/x/sys/unix"

// allocPages returns n zero bytes outside the heap, from the heap if the
// system has no more mappings. They cost memory only once they are touched.
func allocPages(n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return make([]byte, n)
	}
	return b
}

// freePages gives back what allocPages returned. Memory that came from the
// heap is no mapping: Munmap refuses it and the collector takes it.
func freePages(b []byte) { _ = unix.Munmap(b) }
