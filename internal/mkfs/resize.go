package mkfs

import (
	"encoding/binary"

	"drydock/format"
)

// The resize inode (7) owns the blocks that are kept for more descriptors. Its
// double indirect block points at those of group 0, and each of these lists
// its counterparts in the groups with a backup.
// Source: kernel doc ext4, "The contents of the resize inode"; e2fsck checks it.

const dindSlot = 13 // of i_block

// backups lists the groups other than 0 that hold a superblock.
func (p *Plan) backupGroups() []format.Group {
	var list []format.Group
	for g := format.Group(1); uint32(g) < p.groups.Groups(); g++ {
		if p.groups.HasSuper(g) {
			list = append(list, g)
		}
	}
	return list
}

// resizeBlocks writes the double indirect block and the reserved blocks of
// group 0.
func (w *writer) resizeBlocks(out *blockWriter) error {
	if !w.hasResizeInode() {
		return nil
	}
	first, n := w.groups.ReservedGDT(0)
	dind, err := out.grow(out.stream.block(w.resizeAt), 1)
	if err != nil {
		return err
	}
	per := w.Options.BlockSize / 4
	for i := range n {
		slot := (w.groups.DescBlocks() + i) % per
		binary.LittleEndian.PutUint32(dind[4*slot:], uint32(first)+uint32(i))
	}
	groups := w.backupGroups()
	for i := range n {
		block, err := out.grow(first+format.Block(i), 1)
		if err != nil {
			return err
		}
		for k, g := range groups {
			binary.LittleEndian.PutUint32(block[4*k:], uint32(w.groups.GroupFirst(g)+first-w.groups.GroupFirst(0))+uint32(i))
		}
	}
	return nil
}

func (w *writer) resizeInode(out *blockWriter, n format.Inode) {
	w.common(n, format.ModeRegular|0o600, 1, w.Options.Time)
	binary.LittleEndian.PutUint32(n.IBlock()[4*dindSlot:], uint32(out.stream.block(w.resizeAt)))
	per := uint64(w.Options.BlockSize / 4)
	n.SetSize((per*per + per + 12) * uint64(w.Options.BlockSize))
	_, reserved := w.groups.ReservedGDT(0)
	blocks := 1 + uint64(reserved)*uint64(1+len(w.backupGroups()))
	n.SetBlocksRaw(blocks * uint64(w.Options.BlockSize/512))
}
