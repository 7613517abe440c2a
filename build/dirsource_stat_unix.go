//go:build !linux && unix

package build

import (
	"io/fs"
	"syscall"
)

// statOf returns the owner of a file and, if it has several names, what it is
// known by.
func statOf(info fs.FileInfo) (uid, gid uint32, id hostID) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, id
	}
	if st.Nlink > 1 && !info.IsDir() {
		id = hostID{uint64(st.Dev), uint64(st.Ino)}
	}
	return st.Uid, st.Gid, id
}
