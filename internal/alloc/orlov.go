package alloc

import (
	"drydock/format"
)

// maxSets is how many sets of groups a search for a directory's place looks at.
const maxSets = 512

// set is the groups of a flex group, or a single group without flex_bg: the
// unit over which directories are spread.
type set struct {
	first, end format.Group
	inodes     int64
	blocks     int64
	dirs       int64
}

func (a *Allocator) setSize() int {
	return int(min(uint64(a.geo.FlexGroups()), uint64(len(a.groups))))
}

func (a *Allocator) sets() int { return (len(a.groups) + a.setSize() - 1) / a.setSize() }

// setAt sums up set i.
func (a *Allocator) setAt(i int) set {
	size := a.setSize()
	s := set{first: format.Group(i * size), end: format.Group(min((i+1)*size, len(a.groups)))}
	for g := s.first; g < s.end; g++ {
		s.inodes += int64(a.inodes.get(int(g)))
		s.blocks += int64(a.groups[g].free)
		s.dirs += int64(a.groups[g].dirs)
	}
	return s
}

// groupForInode chooses the group of a new inode; false if there is no inode.
func (a *Allocator) groupForInode(parent format.Ino, dir bool) (format.Group, bool) {
	a.mu.Lock()
	defer a.unlock()
	near := format.Group(0)
	if a.geo.ValidIno(parent) {
		near, _ = a.geo.InodeLocation(parent)
	}
	if dir {
		if g, ok := a.groupForDir(near, parent == format.RootIno); ok {
			return g, true
		}
	}
	return a.groupNear(near)
}

// groupNear finds a group with a free inode: the given one, one of the same set,
// one behind it, any. One with free blocks is better, if it is in the set.
func (a *Allocator) groupNear(near format.Group) (format.Group, bool) {
	if a.inodes.get(int(near)) > 0 && a.groups[near].free > 0 {
		return near, true
	}
	size := a.setSize()
	first := int(near) / size * size
	end := min(first+size, len(a.groups))
	for g := first; g < end; g++ {
		if a.inodes.get(g) > 0 && a.groups[g].free > 0 {
			return format.Group(g), true
		}
	}
	for _, r := range [][2]int{{int(near), end}, {first, int(near)}, {end, len(a.groups)}, {0, first}} {
		if g := a.inodes.next(r[0], r[1], 1); g >= 0 {
			return format.Group(g), true
		}
	}
	return 0, false
}

// groupForDir chooses the group of a new directory as Orlov's rule has it.
// Directories below the root are unrelated: each goes to the set with the
// fewest directories among those with average room. Others stay near their
// parent while that is not crowded.
func (a *Allocator) groupForDir(near format.Group, top bool) (format.Group, bool) {
	_, _, _, inodes := a.Totals()
	n := int64(a.sets())
	average := set{inodes: int64(inodes) / n, blocks: a.space.now() / n, dirs: int64(a.Sums().Dirs) / n}
	if top {
		// A set with a backup of the descriptors is not short of room.
		return a.emptiestSet(set{inodes: average.inodes * 15 / 16, blocks: average.blocks * 15 / 16})
	}
	groups := int64(a.setSize())
	least := set{
		inodes: max(1, average.inodes-int64(a.geo.InodesPerGroup)*groups/4),
		blocks: max(1, average.blocks-int64(a.geo.BlocksPerGroup)*groups/4),
		dirs:   average.dirs + int64(a.geo.InodesPerGroup)*groups/16,
	}
	first := int(near) / a.setSize()
	for k := range min(a.sets(), maxSets) {
		s := a.setAt((first + k) % a.sets())
		if s.inodes >= least.inodes && s.blocks >= least.blocks && s.dirs <= least.dirs {
			return a.groupIn(s, near)
		}
	}
	return 0, false
}

// emptiestSet chooses the set for a directory below the root; of equal ones, the
// first behind the last choice.
func (a *Allocator) emptiestSet(least set) (format.Group, bool) {
	best, found := set{}, -1
	for k := range min(a.sets(), maxSets) {
		i := (int(a.rotor) + k) % a.sets()
		s := a.setAt(i)
		if s.inodes < max(1, least.inodes) || s.blocks < least.blocks {
			continue
		}
		if found < 0 || s.dirs < best.dirs {
			best, found = s, i
		}
	}
	if found < 0 {
		return 0, false
	}
	a.rotor = format.Group((found + 1) % a.sets())
	return a.groupIn(best, best.first)
}

// groupIn chooses the group within a set: the given one, or the first with a
// free inode.
func (a *Allocator) groupIn(s set, near format.Group) (format.Group, bool) {
	if near >= s.first && near < s.end && a.inodes.get(int(near)) > 0 {
		return near, true
	}
	g := a.inodes.next(int(s.first), int(s.end), 1)
	return format.Group(g), g >= 0
}

// GoalFor returns where to look for the first block of an inode: its group,
// behind what was picked there last. Not to be called within View.
func (a *Allocator) GoalFor(ino format.Ino) format.Block {
	if !a.geo.ValidIno(ino) {
		return a.geo.FirstDataBlock
	}
	g, _ := a.geo.InodeLocation(ino)
	a.mu.Lock()
	defer a.unlock()
	if m := a.maps[g]; m != nil {
		return a.blockAt(m, m.rotor)
	}
	return a.geo.GroupFirst(g)
}
