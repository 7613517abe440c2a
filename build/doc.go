// Package build makes ext4 images from what a host has: a directory, or tar
// archives in layers.
//
//	DirSource ──┐                                              ┌─> data:     Source.Open, copied in parallel
//	TarSource ──┼─ Scan ─> Tree ─ Finish ─> mkfs.Content ─> plan
//	(another) ──┘                                              └─> metadata: written by the plan
//
// A Source tells everything but the data of files before the first byte is
// written: so the plan is exact, and an image that cannot be made fails while
// there is nothing to clean up. What the image holds depends on the source and
// the options alone, never on the number of workers, on the order in which the
// host lists names, or on the clock.
//
// A Tree takes nodes and names in any order and from several goroutines. It
// costs about 110 bytes a file, outside the heap while it grows: 300,000 files
// are 35 MB, 5 million 575 MB. Finish sorts and counts, leaves out what is
// excluded, changes owners and times as the options say, and refuses what ext4
// cannot hold: each with its path, its value and the limit.
//
// Errors of a source name the path in the source or, of an archive, the member
// and the byte. Those that many files can share are collected: an
// UnreadableError lists all files that cannot be read.
package build
