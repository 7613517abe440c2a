package mkfs

import (
	"fmt"

	"drydock/format"
	"drydock/internal/extent"
)

// inodeTables writes the used part of the inode tables of groups from..to-1.
func (w *writer) inodeTables(out *blockWriter, from, to int) error {
	for g := from; g < to; g++ {
		used := w.inodesIn(g)
		per := w.Options.BlockSize / w.Options.InodeSize
		for i := 0; i < used; i += per {
			first := format.Ino(g)*format.Ino(w.groups.InodesPerGroup) + format.Ino(i) + 1
			n := min(per, used-i)
			if err := w.inodeBlock(out, w.groups.tables[g]+format.Block(i/per), first, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// inodesIn is the number of inodes of group g in use; they are its first.
func (p *Plan) inodesIn(g int) int {
	before := uint64(g) * uint64(p.groups.InodesPerGroup)
	used := p.usedInodes()
	if used <= before {
		return 0
	}
	return int(min(used-before, uint64(p.groups.InodesPerGroup)))
}

// inodeBlock writes one block of an inode table. Extent nodes go first: they
// would break up the run of blocks.
func (w *writer) inodeBlock(out *blockWriter, at format.Block, first format.Ino, n int) error {
	nodes := &nodeList{size: w.Options.BlockSize}
	block, err := out.grow(at, 1)
	if err != nil {
		return err
	}
	size := w.Options.InodeSize
	for i := range n {
		if err := w.inode(out, nodes, first+format.Ino(i), block[i*size:(i+1)*size]); err != nil {
			return err
		}
	}
	return nodes.write(w)
}

// nodeList holds the extent nodes of one block of inodes.
type nodeList struct {
	size  int
	nodes []extent.Node
}

func (l *nodeList) write(w *writer) error {
	for _, n := range l.nodes {
		if _, err := w.dev.WriteAt(n.Bytes, int64(n.Block)*int64(l.size)); err != nil {
			return err
		}
	}
	return nil
}

// inode fills in the inode ino. Reserved inodes that have no use stay zero.
func (w *writer) inode(out *blockWriter, nodes *nodeList, ino format.Ino, n format.Inode) error {
	var err error
	switch {
	case ino == format.RootIno:
		err = w.nodeInode(out, nodes, ino, 0, n)
	case ino == format.JournalIno && w.journal > 0:
		err = w.hiddenFile(out, nodes, ino, n, w.journalAt, w.journal)
	case ino == format.ResizeIno && w.hasResizeInode():
		w.resizeInode(out, n)
	case w.hasOrphanFile() && ino == w.orphanIno():
		err = w.hiddenFile(out, nodes, ino, n, w.orphanAt, w.orphanBlocks())
	case ino >= w.walk.first:
		node := w.walk.order[ino-w.walk.first]
		if err = w.nodeInode(out, nodes, ino, node, n); err != nil {
			err = fmt.Errorf("%s: %w", w.Content.Path(node), err)
		}
	default:
		return nil
	}
	w.sums.SealInode(ino, n)
	return err
}

// common fills in what every inode has.
func (w *writer) common(n format.Inode, mode uint16, links uint32, t format.Time) {
	n.SetMode(mode)
	n.SetLinksCount(uint16(links))
	if size := w.extraIsize(); size > 0 {
		n.SetExtraIsize(uint16(size))
	}
	n.SetAtime(t)
	n.SetCtime(t)
	n.SetMtime(t)
	n.SetCrtime(t)
}

// hiddenFile fills in an inode that no name leads to: journal, orphan file.
func (w *writer) hiddenFile(out *blockWriter, nodes *nodeList, ino format.Ino, n format.Inode, pos, blocks uint64) error {
	w.common(n, format.ModeRegular|0o600, 1, w.Options.Time)
	n.SetSize(blocks * uint64(w.Options.BlockSize))
	out.exts = out.stream.extents(out.exts[:0], 0, pos, blocks)
	return w.mapped(out, nodes, ino, n, pos+blocks, blocks)
}

// nodeInode fills in the inode of a node of the content.
func (w *writer) nodeInode(out *blockWriter, nodes *nodeList, ino format.Ino, node uint32, n format.Inode) error {
	c := &w.Content.Nodes[node]
	w.common(n, c.Mode, c.Links, c.Mtime)
	n.SetUID(c.UID)
	n.SetGID(c.GID)
	xblocks, err := w.putXattrs(out, node, n)
	if err != nil {
		return err
	}
	switch c.Mode & format.ModeType {
	case format.ModeDir:
		return w.dirInode(out, nodes, ino, node, n, xblocks)
	case format.ModeRegular:
		n.SetSize(c.Size)
		blocks := w.fileExtents(out, node)
		return w.mapped(out, nodes, ino, n, w.at[node]+blocks, blocks+xblocks)
	case format.ModeSymlink:
		return w.symlinkInode(out, nodes, ino, node, n, xblocks)
	case format.ModeChar, format.ModeBlock:
		n.SetDevice(c.First, c.Count)
	}
	return w.count(n, xblocks)
}

// fileExtents puts the extents of a regular file into out.exts and returns
// the number of blocks.
func (w *writer) fileExtents(out *blockWriter, node uint32) uint64 {
	out.exts = out.exts[:0]
	pos := w.at[node]
	w.eachRange(node, func(lb format.LBlock, n uint64) {
		out.exts = out.stream.extents(out.exts, lb, pos, n)
		pos += n
	})
	return pos - w.at[node]
}

func (w *writer) dirInode(out *blockWriter, nodes *nodeList, ino format.Ino, node uint32, n format.Inode, xblocks uint64) error {
	i := w.at[node]
	blocks := uint64(w.needs.dirBlocks[i])
	links := w.walk.subdirs[i] + 2
	if links > maxLinks {
		links = 1
	}
	n.SetLinksCount(uint16(links))
	n.SetSize(blocks * uint64(w.Options.BlockSize))
	if w.indexed[i] {
		n.SetFlags(format.InodeIndex)
	}
	out.exts = out.stream.extents(out.exts[:0], 0, w.dirAt[i], blocks)
	return w.mapped(out, nodes, ino, n, w.dirAt[i]+blocks, blocks+xblocks)
}

func (w *writer) symlinkInode(out *blockWriter, nodes *nodeList, ino format.Ino, node uint32, n format.Inode, xblocks uint64) error {
	target := w.target(node)
	n.SetSize(uint64(len(target)))
	if len(target) < fastTarget {
		copy(n.IBlock(), target)
		return w.count(n, xblocks)
	}
	out.exts = out.stream.extents(out.exts[:0], 0, w.at[node], 1)
	return w.mapped(out, nodes, ino, n, 0, 1+xblocks)
}

// mapped gives the inode an extent tree over out.exts, whose nodes lie at the
// positions from nodeAt on, and counts its blocks.
func (w *writer) mapped(out *blockWriter, nodes *nodeList, ino format.Ino, n format.Inode, nodeAt, blocks uint64) error {
	n.SetFlags(n.Flags() | format.InodeExtents)
	if len(out.exts) <= format.ExtentRootMax {
		putExtentRoot(n.IBlock(), out.exts)
		return w.count(n, blocks)
	}
	alloc := make([]format.Block, extent.NodesNeeded(len(out.exts), w.Options.BlockSize))
	for i := range alloc {
		alloc[i] = out.stream.block(nodeAt + uint64(i))
	}
	root, tree := extent.Build(w.Options.BlockSize, out.exts, alloc)
	copy(n.IBlock(), root[:])
	for _, t := range tree {
		w.sums.SealExtentBlock(ino, 0, t.Bytes)
	}
	nodes.nodes = append(nodes.nodes, tree...)
	return w.count(n, blocks+uint64(len(tree)))
}

// putExtentRoot writes a tree without nodes.
func putExtentRoot(iblock []byte, exts []format.Extent) {
	format.PutExtentHeader(iblock, format.ExtentHeader{Entries: uint16(len(exts)), Max: format.ExtentRootMax})
	for i, e := range exts {
		format.PutExtent(iblock, i, e)
	}
}

// count stores the number of blocks that the inode takes.
func (w *writer) count(n format.Inode, blocks uint64) error {
	sectors := blocks * uint64(w.Options.BlockSize/512)
	if !n.SetSectors(w.groups.Features, w.Options.BlockSize, sectors) {
		return fmt.Errorf("%d blocks: more than an inode can count without the feature huge_file", blocks)
	}
	return nil
}

// putXattrs stores the xattrs of a node and returns how many blocks they take.
func (w *writer) putXattrs(out *blockWriter, node uint32, n format.Inode) (uint64, error) {
	index := w.Content.Nodes[node].Xattrs
	if index == 0 {
		return 0, nil
	}
	set := &w.needs.sets[index-1]
	if len(set.inInode) > 0 {
		if err := format.EncodeInodeXattrs(n[format.GoodOldInodeSize+w.extraIsize():], set.inInode); err != nil {
			return 0, err
		}
	}
	if len(set.inBlock) == 0 {
		return 0, nil
	}
	n.SetFileACL(out.stream.block(w.xattrAt + uint64(w.needs.xblockOf[node]-1)))
	return 1, nil
}
