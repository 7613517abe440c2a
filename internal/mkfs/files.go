package mkfs

import (
	"drydock/format"
)

// Files lists the regular files that have data, in ascending order of where
// their data lies. The caller must not change it.
func (p *Plan) Files() []uint32 { return p.needs.files }

// BlockSize is the size of a block in bytes.
func (p *Plan) BlockSize() int { return p.Options.BlockSize }

// Bytes is the size of the file system.
func (p *Plan) Bytes() int64 { return int64(p.groups.BlocksCount) * int64(p.Options.BlockSize) }

// Extents appends where the data of a regular file lies, in ascending order
// of both logical and physical blocks, to buf. It is safe for concurrent use.
func (p *Plan) Extents(node uint32, buf []format.Extent) []format.Extent {
	s := p.groups.stream
	pos := p.at[node]
	p.eachRange(node, func(lb format.LBlock, n uint64) {
		buf = s.extents(buf, lb, pos, n)
		pos += n
	})
	return buf
}

// Geometry is where the groups and their fixed metadata lie.
func (p *Plan) Geometry() format.Geometry { return p.groups.Geometry }
