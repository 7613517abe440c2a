// Command bench measures mkimg beside the programs that do the same work, and
// beside the floor: two threads that do nothing but open, read and write the
// same files. It measures the writer library beside Linux on a loop device, and
// each of its techniques beside its absence.
//
//	go run ./bench                     all rows; writes BENCHMARKS.md
//	go run ./bench -row gotree -json   one row
//	go run ./bench -list               the rows
//
// All programs of a row run in turn, round after round, so that what else
// happens on the machine hits all alike; the table has the median of the
// rounds. The sources are in the page cache; what a run has written is removed
// before the next. Times are those of the whole process; the floor's is without
// start and without the search for files.
//
//	main.go      the command line
//	runner.go    rounds, and what is made of them
//	program.go   one run of a program: time, memory, disk
//	launch.go    the process that starts it
//	peers.go     the programs and their flags
//	floor*.go    the floor
//	tree.go      trees of files that are the same everywhere
//	row_*.go     the rows
//	figures.go   rows whose contestants measure themselves
//	write_linux.go   images and mounts for the rows about writing
//	report.go    tables and BENCHMARKS.md
//	machine.go   what the figures were measured on
package main
