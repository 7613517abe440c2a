// Package partition reads the partition tables of disks, GPT and MBR, with
// go-diskfs, and lends devices to go-diskfs as the files that it works on.
//
//	Read(disk)      what partitions there are, whatever the disk holds
//	NewFile(disk)   a device as go-diskfs's backend.WritableFile
//
// A table is never trusted: one that asks for much memory is refused before
// go-diskfs sees it, and whoever opens a partition still has to check that it
// lies on the disk (device.NewWindow does).
package partition
