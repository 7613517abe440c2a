// Command imgwrite changes and reads ext4 images and block devices, without
// root, mount or kernel.
//
//	imgwrite put rootfs.img hostname /etc/    copies a file in
//	imgwrite run rootfs.img script            many changes in one opening
//	imgwrite --help                           all the rest
//
// Every verb is an operation, which the command line opens an image for and
// which run calls for the lines of a script:
//
//	imgwrite.go    command line ─┐
//	                             ├─> operation.run(session, args) ──> package ext4
//	run.go         script lines ─┘
//
// What changes an image goes through its journal: a crash, a kill or a power cut
// leaves the state before or after an operation, never something between. Verbs
// that only read change no byte; a journal that needs replay is replayed in
// memory for them.
package main
