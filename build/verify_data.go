package build

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"drydock/device"
	"drydock/internal/mkfs"
)

// verifyBytes is the size of each of a worker's two buffers.
const verifyBytes = 512 << 10

// errStopped ends a comparison whose context is done.
var errStopped = errors.New("stopped")

// dataComparer compares the data of one file after the other.
type dataComparer struct {
	*verifier
	image, source []byte
}

func newDataComparer(v *verifier) *dataComparer {
	return &dataComparer{v, make([]byte, verifyBytes), make([]byte, verifyBytes)}
}

// compare compares the blocks that are mapped, then the bytes. The error says
// what differs, or is errStopped.
func (d *dataComparer) compare(c *nodeCheck) error {
	if err := d.blocks(c); err != nil || c.n.Size == 0 {
		return err
	}
	data, err := d.src.Open(c.n.Source)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	err = d.bytes(c, data)
	if closed := data.Close(); err == nil && closed != nil {
		err = fmt.Errorf("source: %w", closed)
	}
	return err
}

// blocks compares the runs of blocks that the image has mapped with those that
// hold data.
func (d *dataComparer) blocks(c *nodeCheck) error {
	bs := uint64(d.geo.BlockSize)
	runs := runChecker{want: mergeRanges(d.dataRanges(c.n), bs)}
	for x, err := range c.f.Extents() {
		switch {
		case err != nil:
			return err
		case x.Unwritten:
			return fmt.Errorf("blocks %d+%d are not written", x.LBlock, x.Len)
		}
		if err := runs.add(mkfs.Range{Off: uint64(x.LBlock) * bs, Len: uint64(x.Len) * bs}); err != nil {
			return err
		}
	}
	return runs.finish()
}

// runChecker joins ranges that touch and compares them with those wanted.
type runChecker struct {
	want []mkfs.Range
	run  mkfs.Range
}

func (r *runChecker) add(next mkfs.Range) error {
	if r.run.Len > 0 && r.run.Off+r.run.Len == next.Off {
		r.run.Len += next.Len
		return nil
	}
	err := r.check()
	r.run = next
	return err
}

func (r *runChecker) check() error {
	switch {
	case r.run.Len == 0:
		return nil
	case len(r.want) == 0:
		return fmt.Errorf("bytes %d+%d have blocks, want a hole", r.run.Off, r.run.Len)
	case r.want[0] != r.run:
		return fmt.Errorf("bytes %d+%d have blocks, want %d+%d", r.run.Off, r.run.Len, r.want[0].Off, r.want[0].Len)
	}
	r.want = r.want[1:]
	return nil
}

func (r *runChecker) finish() error {
	if err := r.check(); err != nil {
		return err
	}
	if len(r.want) > 0 {
		return fmt.Errorf("bytes %d+%d have no blocks", r.want[0].Off, r.want[0].Len)
	}
	return nil
}

// mergeRanges widens sorted ranges to whole units, and joins those that touch.
func mergeRanges(list []mkfs.Range, unit uint64) []mkfs.Range {
	merged := make([]mkfs.Range, 0, len(list))
	for _, r := range list {
		first, end := r.Off/unit*unit, (r.Off+r.Len+unit-1)/unit*unit
		if k := len(merged) - 1; k >= 0 && first <= merged[k].Off+merged[k].Len {
			merged[k].Len = max(merged[k].Off+merged[k].Len, end) - merged[k].Off
			continue
		}
		merged = append(merged, mkfs.Range{Off: first, Len: end - first})
	}
	return merged
}

// dataRanges returns the bytes of a file that are no hole.
func (d *dataComparer) dataRanges(n *mkfs.Node) []mkfs.Range {
	switch {
	case n.Sparse:
		return d.c.Ranges[n.First : n.First+n.Count]
	case n.Size == 0:
		return nil
	}
	return []mkfs.Range{{Off: 0, Len: n.Size}}
}

// bytes compares data, all of it but for what is a hole for the content and
// for the host.
func (d *dataComparer) bytes(c *nodeCheck, data Data) error {
	ranges := []mkfs.Range{{Off: 0, Len: c.n.Size}}
	if host, ok := data.(FileRanger); ok && c.n.Sparse {
		var err error
		if ranges, err = d.hostRanges(c.n, host); err != nil {
			return fmt.Errorf("source: %w", err)
		}
	}
	for _, r := range ranges {
		if err := d.span(c, data, r); err != nil {
			return err
		}
	}
	return nil
}

// hostRanges returns the data ranges of the content and of the host together,
// or everything if the host cannot tell.
func (d *dataComparer) hostRanges(n *mkfs.Node, data FileRanger) ([]mkfs.Range, error) {
	f, off := data.FileRange()
	if f == nil {
		return []mkfs.Range{{Off: 0, Len: n.Size}}, nil
	}
	list := slices.Clone(d.dataRanges(n))
	for s, err := range device.FileSegments(f, off, int64(n.Size)) {
		if err != nil {
			return nil, err
		}
		list = append(list, mkfs.Range{Off: uint64(s.Off - off), Len: uint64(s.Len)})
	}
	slices.SortFunc(list, func(a, b mkfs.Range) int { return cmp.Compare(a.Off, b.Off) })
	return mergeRanges(list, 1), nil
}

// span compares one run of bytes.
func (d *dataComparer) span(c *nodeCheck, data Data, r mkfs.Range) error {
	for off, end := int64(r.Off), int64(r.Off+r.Len); off < end; {
		if d.ctx.Err() != nil {
			return errStopped
		}
		n := int(min(end-off, verifyBytes))
		got, want := d.image[:n], d.source[:n]
		if _, err := c.f.ReadAt(got, off); err != nil && err != io.EOF {
			return err
		}
		if err := readFull(data, want, off); err != nil {
			return fmt.Errorf("source: byte %d: %w", off, err)
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("differs from byte %d on", off+int64(firstDifference(got, want)))
		}
		d.Progress(int64(n), 0)
		off += int64(n)
	}
	return nil
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}
