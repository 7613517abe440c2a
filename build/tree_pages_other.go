//go:build !unix

package build

// allocPages returns n zero bytes.
func allocPages(n int) []byte { return make([]byte, n) }

// freePages ends the use of what allocPages returned.
func freePages([]byte) {}
