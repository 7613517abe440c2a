package ext4

import "drydock/format"

// Statfs is what statfs(2) tells about a file system.
type Statfs struct {
	BlockSize int    // bytes
	Blocks    uint64 // blocks that files can have: all but the groups' metadata and the journal
	Free      uint64 // free blocks
	Avail     uint64 // free blocks that are not reserved for root
	Inodes    uint64
	FreeNodes uint64 // free inodes
}

// Statfs sums up what the group descriptors say is free, and nobody was promised.
func (fsys *FS) Statfs() (Statfs, error) {
	st := Statfs{BlockSize: fsys.geo.BlockSize, Inodes: uint64(fsys.geo.InodesCount)}
	err := fsys.view(func(r reader) error {
		for g := range fsys.geo.Groups() {
			desc, err := r.groupDesc(format.Group(g))
			if err != nil {
				return err
			}
			st.Free += uint64(desc.FreeBlocksCount()) << fsys.geo.ClusterBits
			st.FreeNodes += uint64(desc.FreeInodesCount())
		}
		st.Blocks = uint64(fsys.geo.BlocksCount) - min(r.overhead(), uint64(fsys.geo.BlocksCount))
		return nil
	})
	if err != nil {
		return Statfs{}, pathError("statfs", "/", err)
	}
	if fsys.alloc != nil { // what is promised to data that is not written yet is not free
		_, reserved, _, _ := fsys.alloc.Totals()
		st.Free -= min(reserved, st.Free)
	}
	st.Avail = st.Free - min(fsys.super.RBlocksCount(), st.Free)
	return st, nil
}

// overhead is the number of blocks that files never get. mke2fs writes it down;
// for images of its older versions it is counted, as Linux does.
func (r reader) overhead() uint64 {
	if n := r.fs.super.OverheadBlocks(); n != 0 {
		return uint64(n) << r.fs.geo.ClusterBits
	}
	return uint64(r.fs.geo.Overhead()) + r.journalBlocks()
}

// journalBlocks is the size of the journal in this file system.
func (r reader) journalBlocks() uint64 {
	ino := format.Ino(r.fs.super.JournalInum())
	if !r.fs.geo.Features.HasCompat(format.CompatHasJournal) || ino == 0 {
		return 0
	}
	in, err := r.inode(ino)
	if err != nil {
		return 0
	}
	return in.size() / uint64(r.fs.geo.BlockSize)
}
