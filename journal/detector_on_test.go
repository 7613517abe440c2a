//go:build race

package journal_test

// slowdown divides the number of random cases under the race detector, which
// makes each of them take that much longer.
const slowdown = 10
