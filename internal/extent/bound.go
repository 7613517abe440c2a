package extent

import (
	"drydock/format"
)

// NodesFor returns how many nodes, at most, a tree of existing extents takes
// when n extents are added by Insert, in any order and whatever the tree looks
// like. It grows with both numbers. Any number that is not less than the
// extents there are does for existing, such as that of the file's blocks.
//
// Inserting a run of k blocks adds up to k extents if it is written block by
// block, Convert of one range up to two, three if it makes a long written extent
// unwritten, and Remove from the middle of an extent one.
//
// A reservation that is NodesFor at one time stays enough, less what was taken
// of it, while what it was made for is inserted, so it may be lowered to the
// NodesFor of a later time but need not be raised. After Remove or Settle it has
// to be taken anew.
func NodesFor(existing int, n uint64, blockSize int) int {
	return nodesFor(uint64(max(existing, 0)), n, uint64(format.ExtentBlockMax(blockSize)), format.MaxExtentDepth)
}

// NodesForTree is NodesFor for the tree whose root is iblock, of a file with
// data blocks: lower, because the depth is known.
func NodesForTree(iblock []byte, data, n uint64, blockSize int) int {
	depth := format.MaxExtentDepth
	if h, err := format.ReadExtentHeader(iblock); err == nil {
		depth = min(depth, int(h.Depth))
	}
	return nodesFor(MaxExtents(iblock, blockSize, data), n, uint64(format.ExtentBlockMax(blockSize)), depth)
}

// A node is full, and so has to be split, only if it was full before
// or has taken half of its entries since: a split leaves both parts half full
// but at the ends of the file, where one part is small. So, with half a little
// less than half of a node and added the entries that come to a level,
//
//	splits <= min(added, full before + added/half + 1 at each end)
//
// and every split adds an entry to the level above. A node is full before only
// if there is a node's worth of extents below it, and only on the levels that
// there are. The root grows by one level when it is full, at most once a level;
// the node that this makes begins nearly empty.
func nodesFor(existing, n, room uint64, depth int) int {
	if existing+n <= format.ExtentRootMax {
		return 0
	}
	half := room/2 - 2
	total, added := uint64(0), n
	for level := 0; level < format.MaxExtentDepth && added > 0; level++ {
		splits := added / half
		if level < depth {
			splits = min(added, existing/room+splits+3)
		}
		if existing+n <= room {
			splits = 0
		}
		total += splits + 1
		added = splits
	}
	return int(total)
}

// MaxExtents returns a number that the extents of a tree do not exceed, from
// i_block alone; data is the number of blocks that they hold.
func MaxExtents(iblock []byte, blockSize int, data uint64) uint64 {
	h, err := format.ReadExtentHeader(iblock)
	if err != nil {
		return data
	}
	n := uint64(h.Entries)
	for d := uint16(0); d < h.Depth && n < data; d++ {
		n *= uint64(format.ExtentBlockMax(blockSize))
	}
	return min(n, data)
}
