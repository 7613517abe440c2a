package build

import (
	"golang.org/x/sys/unix"
)

// readRights tells whether this process may read a file, mostly from its mode
// alone.
type readRights struct {
	uid    uint32
	groups map[uint32]bool
}

func newReadRights() readRights {
	r := readRights{uid: uint32(unix.Geteuid()), groups: map[uint32]bool{uint32(unix.Getegid()): true}}
	more, _ := unix.Getgroups()
	for _, g := range more {
		r.groups[uint32(g)] = true
	}
	return r
}

// check asks the kernel about a file in a directory if its mode does not say
// that it can be read. Where an ACL or a security module forbids what the mode
// allows, only opening the file shows it.
func (r *readRights) check(dir int, name string, st *unix.Stat_t) error {
	if st.Mode&r.bit(st) != 0 {
		return nil
	}
	return unix.Faccessat(dir, name, unix.R_OK, unix.AT_EACCESS)
}

// bit is the bit of the mode that is about this process.
func (r *readRights) bit(st *unix.Stat_t) uint32 {
	switch {
	case st.Uid == r.uid:
		return unix.S_IRUSR
	case r.groups[st.Gid]:
		return unix.S_IRGRP
	}
	return unix.S_IROTH
}
