// Command mkimg makes ext4 images from directories and tars.
//
//	mkimg rootfs.img --from DIR    the smallest image that holds the tree
//	mkimg --help                   all the rest
//
// It needs no root, no mount and no kernel. What it makes appears at its place
// as a whole or not at all.
//
//	mkimg.go     the command line
//	options.go   from flags to build.Options
//	output.go    what is printed
package main
