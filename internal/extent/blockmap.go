package extent

import (
	"drydock/format"
)

// FromBlockMap makes extents of an ext2 map: the data stays where it is, the
// indirect blocks are freed, and the inode gets the flag Extents. Afterwards the
// editor can do everything. An inode that has extents already stays as it is.
func (e *Editor) FromBlockMap() error {
	if e.inode.HasFlags(format.InodeExtents) {
		return nil
	}
	if !e.g.Features.HasIncompat(format.IncompatExtents) {
		return e.file.wrap(&format.UnsupportedError{Detail: "writing to a file with a block map on a file system without the feature extent"})
	}
	old := *e.file
	old.inode = append(format.Inode(nil), e.inode...)
	indirect, err := old.indirect()
	if err != nil {
		return err
	}
	e.inode.SetFlags(e.inode.Flags() | format.InodeExtents)
	clear(e.inode.IBlock())
	putHeader(e.inode.IBlock(), 0, format.ExtentRootMax, 0)
	for x, err := range old.Map() {
		if err != nil {
			return err
		}
		if err := e.Insert(x); err != nil {
			return err
		}
	}
	for _, b := range indirect {
		if err := e.free(b); err != nil {
			return err
		}
	}
	return nil
}

// indirect returns the indirect blocks of a block map.
func (f *File) indirect() (list []format.Block, err error) {
	for b, err := range f.Nodes() {
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, nil
}
