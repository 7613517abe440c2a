//go:build race

package cache

// underRace says that the race detector is at work, under which everything takes
// ten times as long: tests with one goroutine do a part of their cases.
const underRace = true
