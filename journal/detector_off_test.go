//go:build !race

package journal_test

// slowdown divides the number of random cases; see the other file.
const slowdown = 1
