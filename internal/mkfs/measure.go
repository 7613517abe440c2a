package mkfs

import (
	"fmt"

	"drydock/format"
	"drydock/internal/dir"
	"drydock/internal/xattr"
)

// needs is what the content takes whatever the groups look like.
type needs struct {
	dirBlocks []uint32 // of each directory in walk order
	links     []uint32 // symlinks with a block, in walk order
	files     []uint32 // regular files with data, in walk order
	sets      []xattrSet
	shared    xattr.Table // xattr blocks
	xblockOf  []uint32    // index of a node's in shared.Blocks plus 1; nil where there are none
	least     uint64      // blocks of all these, extent nodes not counted
}

// xattrSet is one of the content's xattr sets, split over inode and block.
type xattrSet struct {
	inInode, inBlock []format.Xattr
	block            xattr.Set // of inBlock
}

// measure fills in the needs. Errors name the path of what ext4 cannot hold.
func (p *Plan) measure() error {
	p.needs = needs{sets: make([]xattrSet, len(p.Content.Xattrs))}
	if err := p.measureDirs(); err != nil {
		return err
	}
	for i := -1; i < len(p.walk.order); i++ {
		node := uint32(0)
		if i >= 0 {
			node = p.walk.order[i]
		}
		if err := p.measureNode(node); err != nil {
			return fmt.Errorf("%s: %w", p.Content.Path(node), err)
		}
		if err := p.measureXattrs(node); err != nil {
			return fmt.Errorf("%s: %w", p.Content.Path(node), err)
		}
	}
	p.needs.least += uint64(len(p.needs.shared.Blocks()))
	return nil
}

func (p *Plan) measureNode(node uint32) error {
	n := &p.Content.Nodes[node]
	bs := uint64(p.Options.BlockSize)
	switch n.Mode & format.ModeType {
	case format.ModeRegular:
		if limit := uint64(1<<32-1) * bs; n.Size > limit {
			return fmt.Errorf("size of %d bytes: a file has at most %d with blocks of %d", n.Size, limit, bs)
		}
		if n.Size > 0 && !(n.Sparse && n.Count == 0) {
			p.needs.files = append(p.needs.files, node)
			p.eachRange(node, func(_ format.LBlock, n uint64) { p.needs.least += n })
		}
	case format.ModeSymlink:
		limit := min(maxTarget, p.Options.BlockSize-1)
		switch size := len(p.target(node)); {
		case size > limit:
			return fmt.Errorf("symlink target of %d bytes: at most %d fit with blocks of %d", size, limit, bs)
		case size == 0:
			return fmt.Errorf("symlink target is empty")
		case size >= fastTarget:
			p.needs.links = append(p.needs.links, node)
			p.needs.least++
		}
	}
	if n.Links > maxLinks {
		return fmt.Errorf("%d hard links: a file has at most %d", n.Links, maxLinks)
	}
	return nil
}

func (p *Plan) target(node uint32) []byte {
	return p.Content.Names.Get(NameRef(p.Content.Nodes[node].First))
}

// measureXattrs splits the node's set the first time it is seen, and gives the
// node a place in one of the set's blocks.
func (p *Plan) measureXattrs(node uint32) error {
	index := p.Content.Nodes[node].Xattrs
	if index == 0 {
		return nil
	}
	set := &p.needs.sets[index-1]
	if set.inInode == nil && set.inBlock == nil {
		if err := p.splitXattrs(set, p.Content.Xattrs[index-1]); err != nil {
			return err
		}
	}
	if len(set.inBlock) == 0 {
		return nil
	}
	if p.needs.xblockOf == nil {
		p.needs.xblockOf = make([]uint32, len(p.Content.Nodes))
	}
	p.needs.xblockOf[node] = uint32(p.needs.shared.Use(set.block)) + 1
	return nil
}

func (p *Plan) splitXattrs(set *xattrSet, attrs []format.Xattr) (err error) {
	set.inInode, set.inBlock, err = xattr.Place(attrs, p.Options.InodeSize, p.extraIsize(), p.Options.BlockSize)
	if len(set.inBlock) > 0 {
		set.block = p.needs.shared.Intern(set.inBlock)
	}
	return err
}

func (p *Plan) extraIsize() int {
	if p.Options.InodeSize == format.GoodOldInodeSize {
		return 0
	}
	return extraIsize
}

// measureDirs counts the blocks of every directory.
func (p *Plan) measureDirs() error {
	p.needs.dirBlocks = make([]uint32, len(p.walk.dirs))
	b := dir.NewBuilder(p.dirOptions())
	for i, node := range p.walk.dirs {
		n, err := b.Blocks(p.dirEntries(node), p.minBlocks(node))
		if err != nil {
			return fmt.Errorf("%s: %w", p.Content.Path(node), err)
		}
		p.needs.dirBlocks[i] = uint32(n)
		p.needs.least += uint64(n)
		if subs := p.walk.subdirs[i]; subs+2 > maxLinks && p.Options.Features.ROCompat&format.ROCompatDirNlink == 0 {
			return fmt.Errorf("%s: %d subdirectories: at most %d without the feature dir_nlink", p.Content.Path(node), subs, maxLinks-2)
		}
	}
	return nil
}

// dirOptions is how directories are written.
func (p *Plan) dirOptions() dir.Options {
	f := p.Options.Features
	return dir.Options{
		BlockSize:   p.Options.BlockSize,
		Csum:        f.ROCompat&format.ROCompatMetadataCsum != 0,
		Filetype:    true,
		HashVersion: format.HashHalfMD4,
		HashSeed:    p.Options.HashSeed,
		Index:       f.Compat&format.CompatDirIndex != 0,
		LargeDir:    f.Incompat&format.IncompatLargeDir != 0,
	}
}

// dirEntries is a directory of the plan as package dir sees it.
type dirEntries struct {
	*Plan
	list []Entry
}

func (p *Plan) dirEntries(node uint32) dirEntries { return dirEntries{p, p.Content.entries(node)} }

func (d dirEntries) Len() int { return len(d.list) }

func (d dirEntries) Name(i int) []byte { return d.Content.Names.Get(d.list[i].Name) }

func (d dirEntries) Target(i int) (format.Ino, format.FileType) {
	node := d.list[i].Node
	return d.walk.inos[node], format.FileTypeOf(d.Content.Nodes[node].Mode)
}

// minBlocks is how many blocks a directory has at least.
func (p *Plan) minBlocks(node uint32) int {
	if p.Options.NoLostFound || node == 0 || node != p.walk.lost {
		return 0
	}
	return lostFoundBlocks(p.Options.BlockSize)
}

// lostFoundBlocks is how far mke2fs grows lost+found.
func lostFoundBlocks(blockSize int) int {
	return min(12, max(2, lostFoundBytes/blockSize))
}
