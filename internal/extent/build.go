package extent

import (
	"fmt"

	"drydock/format"
)

// Node is one block of an extent tree, complete but for its checksum (see
// format.Checksums.SealExtentBlock).
type Node struct {
	Block format.Block
	Bytes []byte
}

// NodesNeeded returns how many node blocks the tree of n extents takes when it
// is packed full, as Build packs it. Up to four extents lie in the inode.
func NodesNeeded(n, blockSize int) int {
	total := 0
	for n > format.ExtentRootMax {
		n = ceilDiv(n, format.ExtentBlockMax(blockSize))
		total += n
	}
	return total
}

// Append appends the run e of any length to list: it lengthens the last
// extent where e goes on right behind it, on the disk and in the file, and
// splits what exceeds the longest extent.
func Append(list []format.Extent, e format.Extent) []format.Extent {
	limit := maxLen(e.Unwritten)
	if n := len(list); n > 0 && follows(list[n-1], e) {
		take := min(limit-list[n-1].Len, e.Len)
		list[n-1].Len += take
		e = skip(e, take)
	}
	for e.Len > 0 {
		part := e
		part.Len = min(limit, e.Len)
		list = append(list, part)
		e = skip(e, part.Len)
	}
	return list
}

// Pieces returns the number of extents that a run of n blocks takes.
func Pieces(n uint64, unwritten bool) int {
	limit := uint64(maxLen(unwritten))
	return int((n + limit - 1) / limit)
}

func maxLen(unwritten bool) uint32 {
	if unwritten {
		return format.MaxUnwrittenLen
	}
	return format.MaxExtentLen
}

// follows reports whether b goes on where a ends.
func follows(a, b format.Extent) bool {
	return a.End() == uint64(b.LBlock) && a.Start+format.Block(a.Len) == b.Start && a.Unwritten == b.Unwritten
}

// skip returns e without its first n blocks.
func skip(e format.Extent, n uint32) format.Extent {
	e.LBlock += format.LBlock(n)
	e.Start += format.Block(n)
	e.Len -= n
	return e
}

// Build makes the tree of a file whose extents are known: sorted, apart, each
// of a length that one entry can hold (Append makes them so). The nodes are
// packed full; their blocks are taken from alloc in order, which must hold at
// least NodesNeeded of them: level by level from the top, each level in the
// order of the file, so that the leaves come last. The caller may put the
// blocks anywhere. Build panics if alloc is too short.
func Build(blockSize int, extents []format.Extent, alloc []format.Block) (root [60]byte, nodes []Node) {
	counts := levels(len(extents), blockSize)
	nodes = newNodes(blockSize, alloc, counts)
	depth := uint16(len(counts))
	start := 0
	parent := []Node{{Bytes: root[:]}}
	room := format.ExtentRootMax
	for i, n := range counts {
		level := nodes[start : start+n]
		putIndexes(parent, room, depth-uint16(i), level, firsts(extents, counts[i:], blockSize))
		parent, room, start = level, format.ExtentBlockMax(blockSize), start+n
	}
	putLeaves(parent, room, extents)
	return root, nodes
}

// levels returns the number of nodes of each level below the root, from the top.
func levels(n, blockSize int) []int {
	var counts []int
	for n > format.ExtentRootMax {
		n = ceilDiv(n, format.ExtentBlockMax(blockSize))
		counts = append([]int{n}, counts...)
	}
	return counts
}

// newNodes cuts all nodes from one piece of memory.
func newNodes(blockSize int, alloc []format.Block, counts []int) []Node {
	total := 0
	for _, n := range counts {
		total += n
	}
	if total > len(alloc) {
		panic(fmt.Sprintf("extent: %d blocks for %d nodes", len(alloc), total))
	}
	nodes := make([]Node, total)
	buf := make([]byte, total*blockSize)
	for i := range nodes {
		nodes[i] = Node{Block: alloc[i], Bytes: buf[i*blockSize : (i+1)*blockSize : (i+1)*blockSize]}
	}
	return nodes
}

// firsts returns the first file block of node k of the level whose node
// count is counts[0].
func firsts(extents []format.Extent, counts []int, blockSize int) func(k int) format.LBlock {
	span := 1 // extents below one full node of the level
	for range counts {
		span *= format.ExtentBlockMax(blockSize)
	}
	return func(k int) format.LBlock { return extents[k*span].LBlock }
}

// putIndexes fills the nodes of one level with what leads to the level below;
// first gives the first file block of a node there.
func putIndexes(level []Node, room int, depth uint16, below []Node, first func(k int) format.LBlock) {
	k := 0
	for _, p := range level {
		n := min(room, len(below)-k)
		putHeader(p.Bytes, n, room, depth)
		for i := range n {
			format.PutExtentIndex(p.Bytes, i, format.ExtentIndex{LBlock: first(k + i), Child: below[k+i].Block})
		}
		k += n
	}
}

func putLeaves(level []Node, room int, extents []format.Extent) {
	for _, p := range level {
		n := min(room, len(extents))
		putHeader(p.Bytes, n, room, 0)
		for i, e := range extents[:n] {
			format.PutExtent(p.Bytes, i, e)
		}
		extents = extents[n:]
	}
}

func putHeader(b []byte, n, room int, depth uint16) {
	format.PutExtentHeader(b, format.ExtentHeader{Entries: uint16(n), Max: uint16(room), Depth: depth})
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
