// Package oracle lets tests ask programs that are not ours whether an image is
// right: e2fsprogs, the kernel's own file systems through loop mounts, and
// whatever else a test names.
//
//	func TestFormat(t *testing.T) {
//		oracle.Fsck(t, image)                // e2fsck -fn finds nothing
//		dir := oracle.Mount(t, image)        // the kernel takes it, read-write
//		... write below dir ...
//		oracle.Unmount(t, dir)
//		oracle.Fsck(t, image)
//	}
//
// Contract: plain `go test ./...` passes where only Go is installed, so what a
// machine lacks skips the test with a line that names it. With
// DRYDOCK_ORACLES=require in the environment the same lack fails the test, so
// that no test can be skipped unnoticed where the oracles are meant to be.
// DRYDOCK_ORACLES=skip asks none, as for the race detector, under which the
// rest takes long enough.
//
// Everything attached or mounted is undone when the test ends, however it
// ends, even by kill -9.
package oracle
